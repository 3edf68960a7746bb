//! The whole hub program.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use principal::{Fleet, Inputs, Sessions};
use runtime::{
    clock::Clock,
    credentials::{self, secrets::Take},
    error::Chain,
    lease::{self, Candidate},
    parts::Spawner,
};
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{
    Basis,
    term::{self, Term},
};
use crate::{
    active, address,
    config::Manager,
    hub::Own,
    issuer::{self, CA_SECRET, JWT_SECRET, PRINCIPAL_SECRET},
    keys, load_balancer, token_key,
};

/// The pause before the hub is asked again at the start.
const RETRY: Duration = Duration::from_secs(2);

/// Starts everything and returns when the principal serves.
pub(super) async fn start(config: Manager, basis: Basis) -> anyhow::Result<()> {
    let Basis {
        client,
        registry,
        readiness,
        spawner,
    } = basis;
    let ready = readiness.register("principal");
    let leading = leading(&config, &client, &spawner);
    let channels = Channels::new(&config);
    spawn_certificates(&config, &client, &channels, leading.clone(), &spawner);
    if config.principal_address.is_none() {
        let following = load_balancer::follow(
            client.clone(),
            config.own_namespace.clone(),
            channels.address.clone(),
            channels.looked.clone(),
            spawner.token().clone(),
        );
        spawner.spawn("load balancer", following);
    }
    let token = spawner.token().clone();
    let own = own(&config, &client, &token)
        .await
        .context("stopped at the start")?;
    let namespace = &config.own_namespace;
    let inputs = Inputs {
        client: client.clone(),
        fleet: channels.fleet.subscribe(),
        server_tls: server_tls(&client, namespace, &spawner),
        jwt_key: token_key::from_secret(client.clone(), namespace, JWT_SECRET, &spawner).await?,
        active: leading.clone(),
        metrics: registry.clone(),
        spawner: spawner.clone(),
    };
    let handle = principal::start(config.shared.principal.clone(), inputs).await?;
    tracing::info!(address = %handle.address, "the principal listens");
    spawner.spawn(
        "readiness",
        super::alone::tell_ready(handle.ready, ready, token.clone()),
    );
    let sessions = channels.sessions.clone();
    spawner.spawn(
        "sessions",
        forward(handle.sessions, sessions, token.clone()),
    );
    let metrics = registry.with(ocm::sdk::Metrics::register);
    let term = Term {
        config,
        client,
        own,
        channels,
        metrics,
    };
    spawner.spawn("lead", term::run(term, leading, token));
    Ok(())
}

/// Values that parts hand to each other; only the newest counts.
pub(super) struct Channels {
    /// Who may connect: from the fleet to the principal.
    pub(super) fleet: watch::Sender<Arc<Fleet>>,
    /// From the principal to the conditions.
    pub(super) sessions: watch::Sender<Sessions>,
    /// From the issuer to the signer and the manifests.
    pub(super) authority: watch::Sender<Option<Arc<issuer::Authority>>>,
    /// Where agents dial by default.
    pub(super) address: watch::Sender<Option<address::Address>>,
    /// Whether that is all that can be known of it now.
    pub(super) looked: watch::Sender<bool>,
    /// Where agents of single clusters dial.
    pub(super) addresses: watch::Sender<BTreeMap<String, address::Address>>,
}

impl Channels {
    fn new(config: &Manager) -> Self {
        Self {
            fleet: watch::Sender::default(),
            sessions: watch::Sender::default(),
            authority: watch::Sender::new(None),
            address: watch::Sender::new(config.principal_address.clone()),
            looked: watch::Sender::new(config.principal_address.is_some()),
            addresses: watch::Sender::default(),
        }
    }
}

fn leading(config: &Manager, client: &Client, spawner: &Spawner) -> watch::Receiver<bool> {
    if !config.leader_election {
        return super::always(spawner);
    }
    let name = config
        .pod_name
        .clone()
        .unwrap_or_else(|| "addon-manager".to_owned());
    let candidate = Candidate {
        namespace: config.own_namespace.clone(),
        name: keys::LEASE.to_owned(),
        // The process, not the pod: a restarted container is another life.
        identity: format!(
            "{name}_{}_{}",
            std::process::id(),
            Clock::system().now().as_millisecond()
        ),
    };
    let leading = lease::campaign(client.clone(), candidate, Clock::system(), spawner);
    if let Some(pod) = config.pod_name.clone() {
        let (client, namespace) = (client.clone(), config.own_namespace.clone());
        let moving = active::run(
            client,
            namespace,
            pod,
            leading.clone(),
            spawner.token().clone(),
        );
        spawner.spawn("active label", moving);
    }
    leading
}

/// Only the leader writes certificates; every replica reads them.
fn spawn_certificates(
    config: &Manager,
    client: &Client,
    channels: &Channels,
    leading: watch::Receiver<bool>,
    spawner: &Spawner,
) {
    let secrets = issuer::Secrets::new(client.clone(), &config.own_namespace);
    let (names, wanted) = watch::channel(std::collections::BTreeSet::new());
    let mut address = channels.address.subscribe();
    let mut addresses = channels.addresses.subscribe();
    let token = spawner.token().clone();
    spawner.spawn("names in certificates", async move {
        loop {
            let hosts = {
                let (default, single) =
                    (address.borrow_and_update(), addresses.borrow_and_update());
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
    });
    let authority = channels.authority.clone();
    let token = spawner.token().clone();
    let issuing = term::while_leading(leading, token, move |term| {
        let issuing = issuer::run(
            secrets.clone(),
            Clock::system(),
            wanted.clone(),
            authority.clone(),
        );
        async move {
            term.run_until_cancelled_owned(issuing).await;
        }
    });
    spawner.spawn("issuer", issuing);
}

fn server_tls(
    client: &Client,
    namespace: &str,
    spawner: &Spawner,
) -> watch::Receiver<Arc<credentials::Material>> {
    let watch = |name, take| {
        credentials::secrets::watch(
            client.clone(),
            namespace,
            name,
            take,
            Clock::system(),
            spawner,
        )
    };
    let roots = watch(CA_SECRET, Take::Roots(&["ca.crt", "tls.crt"]));
    credentials::combine(watch(PRINCIPAL_SECRET, Take::Identity), roots, spawner)
}

/// What this hub is. Waits for the hub; none when the process is to stop before it answers.
async fn own(config: &Manager, client: &Client, token: &CancellationToken) -> Option<Own> {
    let namespaces = Api::<Namespace>::all(client.clone());
    let cluster_uid = loop {
        match token
            .run_until_cancelled(namespaces.get("kube-system"))
            .await?
        {
            Ok(namespace) => break namespace.metadata.uid,
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "cannot read the hub's own identity yet");
                token.run_until_cancelled(sleep(RETRY)).await?;
            }
        }
    };
    let settings = &config.shared.principal;
    Some(Own {
        argocd_namespace: settings.argocd_namespace.clone(),
        own_namespace: config.own_namespace.clone(),
        other_namespaces: settings.other_namespaces.clone(),
        cluster_uid,
    })
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
