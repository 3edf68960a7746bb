//! A running principal whose inputs the test controls.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
    time::Duration,
};

use principal::{
    Certificates, Enrolment, Feeds, Fleet, Handle, JwtKey, Limits, Metrics, MirrorLimits, Mode,
    RedisFeeds, Revoked, SessionReport, Settings, State, start_on,
    store::{Memory, Watched},
};
use redis_discovery::{Endpoint, Redis};
use runtime::{
    clock::Clock,
    credentials::{
        ClientTls, Material, client_config,
        login::{Login, LoginFeed},
    },
    metrics::Registry,
    parts::Parts,
};
use serde_json::{Value, json};
use tokio::{net::TcpStream, sync::watch};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::sync::CancellationToken;

use crate::authority::{Authority, Leaf, rsa_key};

/// Longer than anything takes; a wait that is over it has failed.
pub(crate) const BOUND: Duration = Duration::from_secs(20);

pub(crate) static JWT_KEY: LazyLock<JwtKey> =
    LazyLock::new(|| JwtKey::from_pem(rsa_key().as_bytes()).unwrap());

pub(crate) struct World {
    pub(crate) authority: Authority,
    pub(crate) hub: Memory,
    pub(crate) fleet: watch::Sender<Arc<Fleet>>,
    pub(crate) active: watch::Sender<bool>,
    pub(crate) material: watch::Sender<Arc<Material>>,
    pub(crate) revoked: watch::Sender<Option<Arc<Revoked>>>,
    redis: watch::Sender<Endpoint>,
    pub(crate) handle: Handle,
    metrics: Registry,
    pub(crate) state: State,
    token: CancellationToken,
}

pub(crate) fn enrolled(clusters: &[&str]) -> Arc<Fleet> {
    let enrolment = Enrolment {
        mode: Mode::Managed,
        server: None,
        since: None,
        fresh: false,
        confirm_delete: None,
        shares_unscoped: Some(false),
        certificates: Certificates::All,
    };
    let clusters = clusters
        .iter()
        .map(|name| ((*name).to_owned(), enrolment.clone()));
    Arc::new(Fleet {
        clusters: clusters.collect(),
    })
}

/// The same, of which the first owns its Applications itself.
pub(crate) fn autonomous(clusters: &[&str]) -> Arc<Fleet> {
    let mut fleet = Fleet::clone(&enrolled(clusters));
    if let Some(first) = clusters
        .first()
        .and_then(|name| fleet.clusters.get_mut(*name))
    {
        first.mode = Mode::Autonomous;
    }
    Arc::new(fleet)
}

/// The usual ones, with bounds that a test can reach.
fn settings() -> Settings {
    let limits = Limits {
        message_bytes: 64 << 10,
        mirrors: MirrorLimits {
            objects: 16,
            ..MirrorLimits::default()
        },
        ..Limits::default()
    };
    Settings {
        limits,
        ..Settings::usual(([127, 0, 0, 1], 0).into())
    }
}

impl World {
    /// A hub with an open project and these clusters.
    pub(crate) async fn with(clusters: &[&str]) -> Self {
        Self::on(Memory::new(), clusters).await
    }

    /// Puts the hub's redis at this address, with this password if it is known.
    pub(crate) fn put_redis(&self, address: &str, password: Option<&str>) {
        let login = password.map(|password| Login {
            user: None,
            password: password.to_owned(),
        });
        let (address, login) = (address.to_owned(), LoginFeed::fixed(login));
        self.redis.send_replace(Endpoint { address, login });
    }

    /// The same on a hub that was there before.
    pub(crate) async fn on(hub: Memory, clusters: &[&str]) -> Self {
        Self::set(hub, clusters, |_| {}).await
    }

    /// The same with other settings.
    pub(crate) async fn set(
        hub: Memory,
        clusters: &[&str],
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        runtime::install_crypto_provider();
        let authority = Authority::new();
        hub.put(Watched::AppProject, open_project("default"));
        let (fleet, fleet_now) = watch::channel(enrolled(clusters));
        let (active, active_now) = watch::channel(true);
        let material = Arc::new(authority.server().material(&authority));
        let (material, server_tls) = watch::channel(material);
        let (metrics, token) = (Registry::new(), CancellationToken::new());
        let counters = Metrics::register(&metrics);
        let parts = Parts::new(token.clone());
        let mut settings = settings();
        change(&mut settings);
        let (revoked, revoked_now) = watch::channel(Some(Arc::default()));
        let (address, login) = (String::new(), LoginFeed::fixed(None));
        let (redis, redis_now) = watch::channel(Endpoint { address, login });
        let has_tls = settings.redis_proxy.as_ref().is_some_and(|it| it.tls);
        let tls = has_tls.then(|| ClientTls::follow(server_tls.clone(), &parts.spawner()));
        let feeds = Feeds {
            fleet: fleet_now,
            visitors_tls: server_tls.clone(),
            redis: RedisFeeds {
                server: Redis::from(redis_now).with_tls(tls),
                serving: server_tls.clone(),
            },
            server_tls,
            jwt_key: watch::channel(Arc::new(JWT_KEY.clone())).1,
            active: active_now,
            revoked: revoked_now,
            registrar: None,
            metrics: counters.clone(),
            spawner: parts.spawner(),
            clock: Clock::system(),
        };
        let handle = start_on(Arc::new(hub.clone()), settings, feeds)
            .await
            .unwrap();
        let mut ready = handle.ready.clone();
        bounded("ready", ready.wait_for(|ready| *ready))
            .await
            .unwrap();
        Self {
            authority,
            hub,
            fleet,
            active,
            material,
            revoked,
            redis,
            handle,
            metrics,
            state: counters.state().clone(),
            token,
        }
    }

    /// What OCM would issue for the agent of this cluster.
    pub(crate) fn certificate(&self, cluster: &str) -> Leaf {
        self.authority.agent(cluster)
    }

    pub(crate) async fn tcp(&self) -> TcpStream {
        TcpStream::connect(self.handle.address).await.unwrap()
    }

    pub(crate) async fn tls(&self, leaf: &Leaf) -> std::io::Result<TlsStream<TcpStream>> {
        self.tls_with(&leaf.material(&self.authority)).await
    }

    pub(crate) async fn tls_with(&self, ours: &Material) -> std::io::Result<TlsStream<TcpStream>> {
        let config = client_config(ours).unwrap();
        let name = "localhost".try_into().unwrap();
        TlsConnector::from(config)
            .connect(name, self.tcp().await)
            .await
    }

    /// What is counted now, as Prometheus reads it.
    pub(crate) fn metrics(&self) -> String {
        self.metrics.encode().unwrap()
    }

    /// Waits until the metrics have this line.
    pub(crate) async fn counted(&self, line: &str) {
        let looking = async {
            while !self.metrics.encode().unwrap().lines().any(|it| it == line) {
                tokio::task::yield_now().await;
            }
        };
        let found = tokio::time::timeout(BOUND, looking).await;
        assert!(
            found.is_ok(),
            "no line {line:?} in\n{}",
            self.metrics.encode().unwrap()
        );
    }

    /// Waits until the reports are so.
    pub(crate) async fn reported(
        &self,
        context: &str,
        fits: impl Fn(&BTreeMap<String, Arc<SessionReport>>) -> bool,
    ) {
        let mut sessions = self.handle.sessions.clone();
        bounded(context, sessions.wait_for(|reports| fits(reports)))
            .await
            .unwrap();
    }

    /// Waits until the hub is so.
    pub(crate) async fn until(&self, context: &str, fits: impl Fn(&Memory) -> bool) {
        bounded(context, self.hub.wait_for(fits)).await;
    }

    pub(crate) fn create(&self, application: Value) {
        self.hub.put(Watched::Application, application);
    }

    /// What a user does to an Application, as a merge patch.
    pub(crate) fn edit(&self, namespace: &str, name: &str, change: &Value) {
        let mut application = self.hub.application(namespace, name).unwrap();
        argocd::patch::merge(&mut application, change);
        self.hub.put(Watched::Application, application);
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.token.cancel();
    }
}

/// Waits, but not for ever.
pub(crate) async fn bounded<T>(context: &str, future: impl Future<Output = T>) -> T {
    let ended = tokio::time::timeout(BOUND, future).await;
    assert!(ended.is_ok(), "{context}: not within {BOUND:?}");
    ended.unwrap()
}

pub(crate) fn application(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": { "namespace": namespace, "name": name },
        "spec": {
            "project": "default",
            "source": { "repoURL": "https://example.com/repo.git", "path": "." },
            "destination": { "name": "in-cluster", "namespace": "work" },
        },
    })
}

pub(crate) fn open_project(name: &str) -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": { "namespace": "argocd", "name": name },
        "spec": {
            "sourceRepos": ["*"],
            "sourceNamespaces": ["*"],
            "destinations": [{ "name": "*", "server": "*", "namespace": "*" }],
        },
    })
}
