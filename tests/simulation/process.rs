//! The two programs, put together as their own starts do it, on stores and a network of ours.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use agent::config::{Adoption, Hub, Method, Mismatch, Policy, Recreated, Scope};
use agent::metrics::Metrics;
use agent::session::{Link, LinkState};
use agent::sync::api;
use agent::sync::cache::Store;
use agent::sync::replica::Replica;
use agent::sync::report::Reports;
use agent::transport::Dialer;
use jiff::{SignedDuration, Timestamp};
use principal::store::Memory;
use principal::{Feeds, Fleet, Handle, JwtKey, Limits, RedisFeeds, Settings, start_unbound};
use protocol::Mode;
use protocol::version::Capabilities;
use runtime::clock::Clock;
use runtime::credentials::Material;
use runtime::parts::Parts;
use rustls_pki_types::CertificateDer;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::network::Network;
use crate::slow::Slow;

pub(crate) const ARGOCD: &str = "argocd";
/// A namespace of Applications on hub and spokes alike.
pub(crate) const TEAM: &str = "team-x";
const HEARTBEAT: Duration = Duration::from_secs(10);
/// The usual interval of comparisons in one session.
pub(crate) const COMPARE_EVERY: Duration = Duration::from_mins(5);

/// They sign tokens, one after the other; any keys will do.
static JWT_KEYS: LazyLock<[Arc<JwtKey>; 2]> = LazyLock::new(|| {
    let (kind, size) = (&rcgen::PKCS_RSA_SHA512, rcgen::RsaKeySize::_2048);
    [(); 2].map(|()| {
        let key = rcgen::KeyPair::generate_rsa_for(kind, size).expect("a key");
        Arc::new(JwtKey::from_pem(key.serialize_pem().as_bytes()).expect("a signing key"))
    })
});

/// The key that signs tokens, which outlives principals.
pub(crate) fn jwt_key() -> watch::Sender<Arc<JwtKey>> {
    watch::Sender::new(Arc::clone(&JWT_KEYS[0]))
}

/// A clock of a machine whose time is that many minutes beside the others'.
pub(crate) fn clock(minutes: i64) -> Clock {
    let begun: Timestamp = "2026-06-01T00:00:00Z".parse().expect("a time");
    let beside = begun.checked_add(SignedDuration::from_mins(minutes));
    Clock::of_runtime(beside.expect("a time"))
}

/// Replaces the key that signs tokens by the other one.
pub(crate) fn rotate(key: &watch::Sender<Arc<JwtKey>>) {
    key.send_modify(|now| {
        let is_first = Arc::ptr_eq(now, &JWT_KEYS[0]);
        *now = Arc::clone(&JWT_KEYS[usize::from(is_first)]);
    });
}

/// A certificate as OCM issues it for the agent of a cluster. It never expires: histories ignore the machine's clock.
pub(crate) fn certificate(cluster: &str) -> CertificateDer<'static> {
    let addon = "argocd-agent-addon";
    let name =
        format!("system:open-cluster-management:cluster:{cluster}:addon:{addon}:agent:{addon}");
    let mut params = rcgen::CertificateParams::default();
    let mut subject = rcgen::DistinguishedName::new();
    subject.push(rcgen::DnType::CommonName, name);
    params.distinguished_name = subject;
    params.not_after = rcgen::date_time_ymd(2090, 1, 1);
    let key = rcgen::KeyPair::generate().expect("a key");
    params
        .self_signed(&key)
        .expect("a certificate")
        .der()
        .clone()
}

/// A running principal.
pub(crate) struct Principal {
    /// The reports that the add-on manager reads.
    pub(crate) handle: Handle,
    parts: Parts,
    token: CancellationToken,
}

/// Settings and feeds of a principal that histories choose.
pub(crate) struct Inputs {
    /// The interval in which it compares both sides within a session.
    pub(crate) compare_every: Duration,
    /// The key of its tokens.
    pub(crate) jwt_key: watch::Receiver<Arc<JwtKey>>,
    /// Its clock.
    pub(crate) clock: Clock,
}

impl Inputs {
    /// One key, and a clock without a jump.
    pub(crate) fn usual() -> Self {
        Self {
            compare_every: COMPARE_EVERY,
            jwt_key: jwt_key().subscribe(),
            clock: clock(0),
        }
    }
}

impl Principal {
    pub(crate) fn start(
        capabilities: Capabilities,
        hub: &Slow<Memory>,
        fleet: watch::Receiver<Arc<Fleet>>,
        network: &Network,
        inputs: Inputs,
    ) -> Self {
        let Inputs {
            compare_every,
            jwt_key,
            clock,
        } = inputs;
        let token = CancellationToken::new();
        let parts = Parts::new(token.clone());
        let settings = Settings {
            other_namespaces: vec![TEAM.to_owned()],
            capabilities,
            limits: Limits {
                compare_every,
                ..Limits::default()
            },
            ..Settings::usual(([127, 0, 0, 1], 0).into())
        };
        let feeds = Feeds {
            fleet,
            server_tls: watch::channel(Arc::new(Material::default())).1,
            visitors_tls: watch::channel(Arc::new(Material::default())).1,
            redis: RedisFeeds::default(),
            jwt_key,
            active: watch::channel(true).1,
            revoked: watch::channel(Some(Arc::default())).1,
            registrar: None,
            metrics: principal::Metrics::default(),
            spawner: parts.spawner(),
            clock,
        };
        let (handle, services) = start_unbound(Arc::new(hub.clone()), &settings, feeds);
        network.set_services(Some(services));
        Self {
            handle,
            parts,
            token,
        }
    }

    /// As a pod that is deleted.
    pub(crate) async fn stop(self, network: &Network) {
        self.token.cancel();
        let stopped = self.parts.run_until_stopped(Duration::from_secs(10)).await;
        network.set_services(None);
        stopped.expect("no part ended early");
    }

    /// As `kill -9`.
    pub(crate) async fn crash(self, network: &Network) {
        self.parts.crash().await;
        network.set_services(None);
    }
}

/// A running agent.
pub(crate) struct Agent {
    pub(crate) metrics: Metrics,
    pub(crate) state: watch::Receiver<LinkState>,
    cluster: String,
    parts: Parts,
    token: CancellationToken,
}

impl Agent {
    pub(crate) fn start(
        capabilities: Capabilities,
        cluster: &str,
        mode: Mode,
        certificate: &CertificateDer<'static>,
        spoke: &Slow<api::Memory>,
        network: &Network,
    ) -> Self {
        let token = CancellationToken::new();
        let parts = Parts::new(token.clone());
        let spawner = parts.spawner();
        let metrics = Metrics::default();
        let scope = Scope {
            argocd_namespace: ARGOCD.to_owned(),
            further_namespaces: vec![TEAM.to_owned()],
            keep_namespaces: false,
            create_namespaces: false,
            label_selector: String::new(),
            mode,
        };
        let policy = Policy {
            mismatch: Mismatch::Upsert,
            adoption: Adoption::Always,
            recreated: Recreated::Ignore,
        };
        let store = Arc::new(Store::default());
        let reports = Arc::new(Reports::new(Arc::clone(&store)));
        let replica = Arc::new(Replica::new(
            Arc::new(spoke.clone()),
            scope,
            policy,
            store,
            Arc::clone(&reports),
            metrics.clone(),
        ));
        replica.start(&spawner);
        let (state_sender, state) = watch::channel(LinkState::Down);
        let dialer = Dialer {
            hub: hub(network),
            network: Arc::new(network.connector(cluster, vec![certificate.clone()])),
            material: watch::channel(Arc::new(Material::default())).1,
            argocd_namespace: ARGOCD.to_owned(),
            mode,
            capabilities,
        };
        let link = Link {
            dialer,
            replica,
            reports,
            api_handler: None,
            census: watch::channel(None).1,
            metrics: metrics.clone(),
            state: state_sender,
            agent_tunnel: watch::Sender::new(false),
        };
        spawner.spawn("link", link.run(token.clone()));
        Self {
            metrics,
            state,
            cluster: cluster.to_owned(),
            parts,
            token,
        }
    }

    /// As a pod that is deleted.
    pub(crate) async fn stop(self) {
        self.token.cancel();
        let stopped = self.parts.run_until_stopped(Duration::from_secs(10)).await;
        stopped.expect("no part ended early");
    }

    /// As `kill -9`.
    pub(crate) async fn crash(self, network: &Network) {
        self.parts.crash().await;
        network.break_lines(&self.cluster);
    }
}

/// Where the principal is, on this network.
fn hub(network: &Network) -> Hub {
    Hub {
        host: "principal".to_owned(),
        port: 443,
        method: Method::Mtls,
        heartbeat: Some(HEARTBEAT),
        keep_alive: None,
        max_message: 4 << 20,
        only_websockets: false,
        plaintext: false,
        proxy: agent::config::proxy::Proxy::default(),
        // A network that forges messages has to read them.
        compression: network.is_honest(),
    }
}
