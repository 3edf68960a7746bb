//! The whole hub program.

#[cfg(feature = "testing")]
pub mod simulated;
mod ui;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{Api, Client};
use live::redis_service::ON_HUB;
use ocm::sdk;
use principal::{Feeds, RedisFeeds, follow_revoked};
use runtime::{
    clock::Clock,
    credentials::{
        self, Material,
        secrets::{self, Take},
    },
    error::Chain,
    kube::{Watch, watch_trimmed},
    lease::{self, Candidate, Fence},
    parts::Spawner,
};
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{
    ProcessContext, forward,
    leader_run::{self, LeaderRun},
};
use crate::{
    active,
    address::{Address, follow::follow},
    backup::Labeller,
    channels::Channels,
    config::Manager,
    hub::Own,
    issuer::{self, CA_SECRET, Issuer, JWT_SECRET, PRINCIPAL_SECRET, RESOURCE_PROXY_SECRET},
    keys,
    metrics::{self, Metrics},
    publish::publish,
    replicas, token_key,
};

/// The pause between attempts to read the hub's identity at start.
const RETRY: Duration = Duration::from_secs(2);

/// Starts everything and returns when the principal listens.
pub(super) async fn start(
    config: Manager,
    metrics: metrics::Whole,
    process: ProcessContext,
) -> anyhow::Result<()> {
    let ready = process.readiness.register("principal");
    let channels = channels(&config);
    let fence = if config.args.leader_election {
        Fence::closed()
    } else {
        Fence::open()
    };
    let context = HubContext {
        config,
        writer: fence.client(&process.client),
        fence,
        client: process.client,
        spawner: process.spawner,
        channels,
        metrics: metrics.manager,
    };
    let vital = context.vital().await?;
    let leading = context.spawn_before_principal(&vital);
    context.spawn_address();
    let own = context.own().await.context("stopped at the start")?;
    let feeds = context.feeds(metrics.principal).await?;
    let settings = context.config.shared.principal.clone();
    let handle = principal::start(context.writer.clone(), settings, feeds).await?;
    tracing::info!(address = %handle.address, "the principal listens");
    let (spawner, token) = (context.spawner.clone(), context.spawner.token().clone());
    let readiness = forward(handle.ready, token.clone(), move |is_ready| {
        ready.set(is_ready);
    });
    spawner.spawn("readiness", readiness);
    ui::start(&context, handle.inventory, &leading).await?;
    let sessions = context.channels.sessions.clone();
    let sessions = forward(handle.sessions, token, move |now| {
        sessions.send_replace(now);
    });
    spawner.spawn("sessions", sessions);
    context.spawn_lead(own, metrics.sdk, leading);
    Ok(())
}

/// The channels; the address of the principal is known at once if it is configured.
fn channels(config: &Manager) -> Channels {
    let configured = &config.args.principal_address.0;
    Channels {
        address: watch::Sender::new(configured.clone()),
        looked: watch::Sender::new(configured.is_some()),
        ..Channels::default()
    }
}

/// What renews the Leases of this process.
struct Vital {
    client: Client,
    spawner: Spawner,
    identity: String,
}

/// The dependencies of all parts of the hub program.
pub(super) struct HubContext {
    pub(super) config: Manager,
    /// For the work of every replica.
    pub(super) client: Client,
    /// For the work of the leader: its writes are refused when the lease has ended.
    pub(super) writer: Client,
    pub(super) fence: Fence,
    pub(super) spawner: Spawner,
    pub(super) channels: Channels,
    pub(super) metrics: Metrics,
}

impl HubContext {
    /// What the Leases need. No load of the other tasks delays their renewal: they have threads, connections and a request
    /// rate of their own.
    async fn vital(&self) -> anyhow::Result<Vital> {
        let spawner = self.spawner.vital();
        let kube = &self.config.shared.args.kube;
        let client = runtime::kube::client_of(kube, super::USER_AGENT, &spawner).await?;
        let pod = self.config.args.pod_name.0.as_deref();
        let name = pod.unwrap_or("addon-manager");
        let (process, started) = (std::process::id(), Clock::system().now());
        Ok(Vital {
            client,
            spawner,
            identity: Candidate::identity_of(name, process, started),
        })
    }

    /// Starts the parts that need no principal; returns whether this replica leads.
    fn spawn_before_principal(&self, vital: &Vital) -> watch::Receiver<bool> {
        let leading = self.leading(vital);
        self.spawn_replicas(vital);
        self.spawn_active_label();
        self.spawn_issuer(leading.clone());
        self.spawn_backup_label(leading.clone());
        leading
    }

    /// Starts the part that waits for the terms of this replica, and leads in them.
    fn spawn_lead(self, own: Own, counters: sdk::Metrics, leading: watch::Receiver<bool>) {
        let (spawner, token) = (self.spawner.clone(), self.spawner.token().clone());
        let run = LeaderRun {
            context: self,
            own,
            counters,
        };
        spawner.spawn("lead", leader_run::run(run, leading, token));
    }

    /// Whether this replica leads.
    fn leading(&self, vital: &Vital) -> watch::Receiver<bool> {
        if !self.config.args.leader_election {
            return super::always(&self.spawner);
        }
        let candidate = Candidate {
            namespace: self.config.args.own_namespace.clone(),
            name: keys::LEASE.to_owned(),
            identity: vital.identity.clone(),
            pod: self.config.args.pod().map(|(name, _)| name.to_owned()),
        };
        let client = vital.client.clone();
        let (clock, fence) = (Clock::system(), self.fence.clone());
        lease::campaign(client, candidate, clock, fence, &vital.spawner)
    }

    /// Keeps the Lease of this replica, and counts the live ones.
    fn spawn_replicas(&self, vital: &Vital) {
        let (client, identity) = (vital.client.clone(), vital.identity.clone());
        let joined = replicas::join(client, &self.config.args, identity, &vital.spawner);
        let Some(members) = joined else {
            return;
        };
        let (metrics, token) = (self.metrics.clone(), self.spawner.token().clone());
        let counting = forward(members, token, move |now| metrics.replicas(now.len()));
        self.spawner.spawn("replicas", counting);
    }

    /// Labels the pod that serves agents, so that the Service selects it.
    fn spawn_active_label(&self) {
        let Some(pod) = self.config.args.pod_name.0.clone() else {
            return;
        };
        let clients = active::Clients {
            leader: self.writer.clone(),
            any: self.client.clone(),
        };
        let namespace = self.config.args.own_namespace.clone();
        let serving = self.channels.serving.subscribe();
        let token = self.spawner.token().clone();
        self.spawner.spawn(
            "active label",
            active::run(clients, namespace, pod, serving, token),
        );
    }

    fn spawn_address(&self) {
        if self.config.args.principal_address.0.is_some() {
            return;
        }
        let following = follow(
            self.client.clone(),
            self.config.args.own_namespace.clone(),
            self.channels.address.clone(),
            self.channels.looked.clone(),
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
            secrets: issuer::Secrets::new(self.writer.clone(), &self.config.args.own_namespace),
            clock: Clock::system(),
            names: wanted,
            agents: self.channels.agents.subscribe(),
            written: self.written(),
            authority: self.channels.authority.clone(),
            certificates: self.channels.certificates.clone(),
            metrics: self.metrics.clone(),
        };
        self.spawn_while_leading("issuer", leading, move || issuer.clone().run());
    }

    /// While this replica leads, labels the objects that a restored hub needs, if `BACKUP_LABEL` is set.
    fn spawn_backup_label(&self, leading: watch::Receiver<bool>) {
        let args = &self.config.args;
        let Some(value) = &args.backup_label.0 else {
            return;
        };
        let argocd = &self.config.shared.principal.argocd_namespace;
        let labeller = Labeller::new(&self.writer, &args.own_namespace, argocd, value);
        self.spawn_while_leading("backup label", leading, move || labeller.clone().run());
    }

    /// Starts this in each of our terms; the end of a term drops it.
    fn spawn_while_leading<F>(
        &self,
        name: &'static str,
        leading: watch::Receiver<bool>,
        start: impl Fn() -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let work = move |term: CancellationToken| {
            let running = start();
            async move {
                term.run_until_cancelled_owned(running).await;
            }
        };
        let token = self.spawner.token().clone();
        let terms = leader_run::while_leading(leading, token, work);
        self.spawner.spawn(name, terms);
    }

    /// A counter of writes to the Secrets with certificates and keys of the hub, by any client.
    fn written(&self) -> watch::Receiver<u64> {
        let (send, receive) = watch::channel(0_u64);
        let namespace = &self.config.args.own_namespace;
        for name in [
            CA_SECRET,
            PRINCIPAL_SECRET,
            RESOURCE_PROXY_SECRET,
            JWT_SECRET,
        ] {
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

    /// Builds the inputs of the principal; waits for the token key.
    async fn feeds(&self, metrics: principal::Metrics) -> Result<Feeds, token_key::Error> {
        let (client, namespace) = (self.client.clone(), &self.config.args.own_namespace);
        let jwt_key = token_key::from_secret(client, namespace, JWT_SECRET, &self.spawner).await?;
        let (client, settings) = (self.client.clone(), &self.config.shared.principal);
        let visitors_tls = self.serving_tls(RESOURCE_PROXY_SECRET);
        Ok(Feeds {
            fleet: self.channels.fleet.subscribe(),
            server_tls: self.serving_tls(PRINCIPAL_SECRET),
            redis: self.redis(visitors_tls.clone()).await,
            visitors_tls,
            jwt_key,
            revoked: follow_revoked(client, &settings.argocd_namespace, &self.spawner),
            active: self.channels.serving.subscribe(),
            // With OCM, the ManagedClusterAddOns enrol clusters.
            registrar: None,
            metrics,
            spawner: self.spawner.clone(),
            clock: Clock::system(),
        })
    }

    /// The hub's redis, if the redis proxy is enabled.
    async fn redis(&self, serving: watch::Receiver<Arc<Material>>) -> RedisFeeds {
        let (client, principal) = (&self.client, &self.config.shared.principal);
        if principal.redis_proxy.is_none() {
            return RedisFeeds::default();
        }
        let (settings, namespace) = (self.config.redis.clone(), &principal.argocd_namespace);
        let server = redis_discovery::follow(settings, client, namespace, &ON_HUB, &self.spawner);
        RedisFeeds {
            server: server.await,
            serving,
        }
    }

    /// One of our serving certificates, with the CA of the clients.
    fn serving_tls(&self, secret: &str) -> watch::Receiver<Arc<Material>> {
        let (client, clock) = (|| self.client.clone(), Clock::system);
        let (namespace, spawner) = (&self.config.args.own_namespace, &self.spawner);
        let take = Take::Identity;
        let identity = secrets::watch(client(), namespace, secret, take, clock(), spawner);
        let roots = issuer::authority::client_roots;
        let roots = secrets::watch_roots(client(), namespace, CA_SECRET, roots, clock(), spawner);
        credentials::combine(identity, roots, spawner)
    }

    /// Reads the identity of this hub. Waits for the API server; none if the process stops first.
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
            own_namespace: self.config.args.own_namespace.clone(),
            other_namespaces: settings.other_namespaces.clone(),
            cluster_uid,
        })
    }
}

/// Publishes the names for the principal's certificate: every host that an agent dials.
async fn name_hosts(
    mut address: watch::Receiver<Option<Address>>,
    mut addresses: watch::Receiver<BTreeMap<String, Address>>,
    names: watch::Sender<BTreeSet<String>>,
    token: CancellationToken,
) {
    loop {
        let hosts = {
            let (default, single) = (address.borrow_and_update(), addresses.borrow_and_update());
            let all = default.iter().chain(single.values());
            all.map(|address| address.host.clone()).collect()
        };
        publish(&names, hosts);
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
