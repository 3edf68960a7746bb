//! The whole hub program.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{Api, Client};
use principal::{Fleet, Inputs, Sessions};
use runtime::{
    clock::Clock,
    credentials::{
        self, Material,
        secrets::{self, Take},
    },
    error::Chain,
    kube::{Watch, watch_trimmed},
    lease::{self, Candidate},
    parts::Spawner,
};
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{
    ProcessContext,
    leader_run::{self, LeaderRun},
};
use crate::{
    active,
    addon::argocd_install::{follow::Hub, record::Records},
    address::{
        self, Address,
        follow::{AddressTarget, follow},
    },
    config::Manager,
    decisions::Known,
    hub::Own,
    issuer::{
        self, CA_SECRET, Issuer, JWT_SECRET, PRINCIPAL_SECRET, RESOURCE_PROXY_SECRET,
        rotation::Agents,
    },
    keys,
    metrics::{self, Metrics},
    optin::BlockedModes,
    token_key,
};

/// The pause before the hub is asked again at the start.
const RETRY: Duration = Duration::from_secs(2);

/// Starts everything and returns when the principal listens.
pub(super) async fn start(
    config: Manager,
    metrics: metrics::Whole,
    basis: ProcessContext,
) -> anyhow::Result<()> {
    let ProcessContext {
        client,
        readiness,
        spawner,
    } = basis;
    let ready = readiness.register("principal");
    let metrics::Whole {
        manager: metrics,
        sdk: counters,
        principal: of_principal,
    } = metrics;
    let channels = Channels::new(&config);
    let ground = HubContext {
        config,
        client,
        spawner,
        channels,
        metrics,
    };
    let leading = ground.leading();
    ground.spawn_active_label();
    ground.spawn_issuer(leading.clone());
    ground.spawn_address();
    let own = ground.own().await.context("stopped at the start")?;
    let inputs = ground.inputs(of_principal).await?;
    let handle = principal::start(ground.config.shared.principal.clone(), inputs).await?;
    tracing::info!(address = %handle.address, "the principal listens");
    let (spawner, token) = (ground.spawner.clone(), ground.spawner.token().clone());
    spawner.spawn(
        "readiness",
        super::standalone::log_ready(handle.ready, ready, token.clone()),
    );
    let sessions = ground.channels.sessions.clone();
    spawner.spawn(
        "sessions",
        forward(handle.sessions, sessions, token.clone()),
    );
    spawner.spawn(
        "lead",
        leader_run::run(
            LeaderRun {
                ground,
                own,
                counters,
            },
            leading,
            token,
        ),
    );
    Ok(())
}

/// What every part of the hub program stands on.
pub(super) struct HubContext {
    pub(super) config: Manager,
    pub(super) client: Client,
    pub(super) spawner: Spawner,
    pub(super) channels: Channels,
    pub(super) metrics: Metrics,
}

/// Values that parts hand to each other; only the newest counts.
pub(super) struct Channels {
    /// Whether agents are served here: we lead, and know who may connect.
    pub(super) serving: watch::Sender<bool>,
    /// Who may connect: from the fleet to the principal.
    pub(super) fleet: watch::Sender<Arc<Fleet>>,
    /// The recorded decisions about clusters, from the opt-in controller to the fleet and the add-on.
    pub(super) decisions: watch::Sender<Known>,
    /// From the principal to the conditions.
    pub(super) sessions: watch::Sender<Sessions>,
    /// From the issuer to the signer and the manifests.
    pub(super) authority: watch::Sender<Option<Arc<issuer::Authority>>>,
    /// How the certificates stand, from the issuer to the conditions.
    pub(super) certificates: watch::Sender<Arc<issuer::Certificates>>,
    /// What agents trust and show, from the fleet to the issuer, while a CA takes over.
    pub(super) agents: watch::Sender<Option<Arc<Agents>>>,
    /// Where agents dial by default.
    pub(super) address: watch::Sender<Option<Address>>,
    /// Whether that is all that can be known of it now.
    pub(super) looked: watch::Sender<bool>,
    /// Where agents of single clusters dial.
    pub(super) addresses: watch::Sender<BTreeMap<String, Address>>,
    /// Which clusters get the repositories without a project, as far as it is known.
    pub(super) sharing: watch::Sender<BTreeMap<String, bool>>,
    /// The hub's own Argo CD, as far as it is known.
    pub(super) pattern: watch::Sender<Hub>,
    /// What was decided about the clusters' Argo CD, and has to be written down.
    pub(super) records: watch::Sender<Records>,
    /// From the opting in to the conditions.
    pub(super) blocked_modes: watch::Sender<BlockedModes>,
}

impl Channels {
    fn new(config: &Manager) -> Self {
        Self {
            serving: watch::Sender::new(false),
            fleet: watch::Sender::default(),
            decisions: watch::Sender::new(None),
            sessions: watch::Sender::default(),
            authority: watch::Sender::new(None),
            certificates: watch::Sender::default(),
            agents: watch::Sender::new(None),
            address: watch::Sender::new(config.principal_address.clone()),
            looked: watch::Sender::new(config.principal_address.is_some()),
            addresses: watch::Sender::default(),
            sharing: watch::Sender::default(),
            pattern: watch::Sender::default(),
            records: watch::Sender::default(),
            blocked_modes: watch::Sender::default(),
        }
    }
}

impl HubContext {
    fn leading(&self) -> watch::Receiver<bool> {
        if !self.config.leader_election {
            return super::always(&self.spawner);
        }
        let name = self.config.pod_name.as_deref().unwrap_or("addon-manager");
        let (life, process) = (Clock::system().now().as_millisecond(), std::process::id());
        let candidate = Candidate {
            namespace: self.config.own_namespace.clone(),
            name: keys::LEASE.to_owned(),
            // The process, not the pod: a restarted container is another life.
            identity: format!("{name}_{process}_{life}"),
        };
        lease::campaign(
            self.client.clone(),
            candidate,
            Clock::system(),
            &self.spawner,
        )
    }

    /// The Service sends agents to the pod that serves them.
    fn spawn_active_label(&self) {
        let Some(pod) = self.config.pod_name.clone() else {
            return;
        };
        let (client, namespace) = (self.client.clone(), self.config.own_namespace.clone());
        let serving = self.channels.serving.subscribe();
        let token = self.spawner.token().clone();
        self.spawner.spawn(
            "active label",
            active::run(client, namespace, pod, serving, token),
        );
    }

    fn spawn_address(&self) {
        if self.config.principal_address.is_some() {
            return;
        }
        let reply = AddressTarget {
            address: self.channels.address.clone(),
            looked: self.channels.looked.clone(),
        };
        let following = follow(
            self.client.clone(),
            self.config.own_namespace.clone(),
            reply,
            self.spawner.token().clone(),
        );
        self.spawner.spawn("address", following);
    }

    /// Only the leader writes certificates; every replica reads them.
    fn spawn_issuer(&self, leading: watch::Receiver<bool>) {
        let (names, wanted) = watch::channel(BTreeSet::new());
        let (address, addresses) = (
            self.channels.address.subscribe(),
            self.channels.addresses.subscribe(),
        );
        let naming = name_hosts(address, addresses, names, self.spawner.token().clone());
        self.spawner.spawn("names in certificates", naming);
        let issuer = Issuer {
            secrets: issuer::Secrets::new(self.client.clone(), &self.config.own_namespace),
            clock: Clock::system(),
            names: wanted,
            agents: self.channels.agents.subscribe(),
            written: self.written(),
            authority: self.channels.authority.clone(),
            certificates: self.channels.certificates.clone(),
            metrics: self.metrics.clone(),
        };
        let issuing =
            leader_run::while_leading(leading, self.spawner.token().clone(), move |term| {
                let issuing = issuer.clone().run();
                async move {
                    term.run_until_cancelled_owned(issuing).await;
                }
            });
        self.spawner.spawn("issuer", issuing);
    }

    /// A number that changes whenever somebody writes a Secret with a certificate of the hub.
    fn written(&self) -> watch::Receiver<u64> {
        let (send, receive) = watch::channel(0_u64);
        let namespace = &self.config.own_namespace;
        for name in [CA_SECRET, PRINCIPAL_SECRET, RESOURCE_PROXY_SECRET] {
            let send = send.clone();
            let watched = Watch::<Secret>::new(Api::namespaced(self.client.clone(), namespace))
                .fields(&format!("metadata.name={name}"));
            let following = watch_trimmed(watched, self.spawner.token().clone(), move |_| {
                send.send_modify(|times| *times = times.wrapping_add(1));
            });
            self.spawner.spawn(format!("writes of {name}"), following);
        }
        receive
    }

    /// What the principal works with; waits for the token key.
    async fn inputs(&self, metrics: principal::Metrics) -> Result<Inputs, token_key::Error> {
        let (client, namespace) = (self.client.clone(), &self.config.own_namespace);
        let jwt_key = token_key::from_secret(client, namespace, JWT_SECRET, &self.spawner).await?;
        Ok(Inputs {
            client: self.client.clone(),
            fleet: self.channels.fleet.subscribe(),
            server_tls: self.serving_tls(PRINCIPAL_SECRET),
            visitors_tls: self.serving_tls(RESOURCE_PROXY_SECRET),
            redis: None,
            jwt_key,
            active: self.channels.serving.subscribe(),
            // With OCM, its add-ons say who is enrolled.
            registrar: None,
            metrics,
            spawner: self.spawner.clone(),
        })
    }

    /// A serving certificate of ours, with the CA of those who come.
    fn serving_tls(&self, secret: &str) -> watch::Receiver<Arc<Material>> {
        let (client, namespace) = (&self.client, &self.config.own_namespace);
        let watch = |name, take| {
            let clock = Clock::system();
            secrets::watch(client.clone(), namespace, name, take, clock, &self.spawner)
        };
        let roots = watch(CA_SECRET, Take::Roots(&["ca.crt", "tls.crt"]));
        credentials::combine(watch(secret, Take::Identity), roots, &self.spawner)
    }

    /// What this hub is. Waits for the hub; none when the process is to stop before it answers.
    async fn own(&self) -> Option<Own> {
        let token = self.spawner.token();
        let namespaces = Api::<Namespace>::all(self.client.clone());
        let cluster_uid = loop {
            match token
                .run_until_cancelled(namespaces.get("kube-system"))
                .await?
            {
                Ok(namespace) => break namespace.metadata.uid,
                Err(error) => {
                    tracing::warn!(error = %Chain(&error), "cannot read the hub's identity yet");
                    token.run_until_cancelled(sleep(RETRY)).await?;
                }
            }
        };
        let settings = &self.config.shared.principal;
        Some(Own {
            argocd_namespace: settings.argocd_namespace.clone(),
            own_namespace: self.config.own_namespace.clone(),
            other_namespaces: settings.other_namespaces.clone(),
            cluster_uid,
        })
    }
}

/// Keeps the names for the principal's certificate: every host that some agent dials.
async fn name_hosts(
    mut address: watch::Receiver<Option<Address>>,
    mut addresses: watch::Receiver<BTreeMap<String, Address>>,
    names: watch::Sender<BTreeSet<String>>,
    token: CancellationToken,
) {
    loop {
        let hosts = {
            let (default, single) = (address.borrow_and_update(), addresses.borrow_and_update());
            address::hosts(default.iter().chain(single.values()))
        };
        names.send_if_modified(|known| {
            let changed = *known != hosts;
            *known = hosts;
            changed
        });
        let next = async {
            tokio::select! {
                changed = address.changed() => changed.is_ok(),
                changed = addresses.changed() => changed.is_ok(),
            }
        };
        if token.run_until_cancelled(next).await != Some(true) {
            return token.cancelled().await;
        }
    }
}

async fn forward(
    mut from: watch::Receiver<Sessions>,
    to: watch::Sender<Sessions>,
    token: CancellationToken,
) {
    loop {
        to.send_replace(Arc::clone(&from.borrow_and_update()));
        if !matches!(
            token.run_until_cancelled(from.changed()).await,
            Some(Ok(()))
        ) {
            return token.cancelled().await;
        }
    }
}
