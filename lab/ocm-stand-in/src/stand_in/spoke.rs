//! The stand-in for the klusterlet: registration agent and work agent of one spoke.

mod add_ons;
mod cluster;
mod enrolment;
mod work;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result};
use kube::{Client, Config, config::AuthInfo};

use crate::{
    cache::{Cache, Watched},
    client, control,
    kinds::{
        CERTIFICATE_SIGNING_REQUEST, CLUSTER_CLAIM, MANAGED_CLUSTER, MANAGED_CLUSTER_ADD_ON,
        MANIFEST_WORK,
        words::{AGENT_NAMESPACE, CLUSTER_NAME},
    },
    klusterlet,
    spoke::SpokeConfig,
    tasks::Tasks,
};
use enrolment::Identity;

const USER_AGENT: &str = "lab-ocm-stand-in-agent";
/// The pause after a run of the agents that ended with an error.
const START_AGAIN: Duration = Duration::from_secs(1);

/// A hub that issues shorter certificates must not make the agents renew without a pause.
const SHORTEST_LIFE: Duration = Duration::from_secs(5);

/// The running agents. Dropped, they end at once.
#[derive(Debug)]
pub(crate) struct Agents {
    tasks: Tasks,
}

/// The agents' context before they have an identity of their own on the hub.
#[derive(Clone)]
struct Ground {
    cluster: String,
    /// The connection to the hub, without an identity.
    hub: Config,
    /// The bootstrap credentials, which only suffice to request better ones.
    bootstrap: AuthInfo,
    registration: Client,
    management: Client,
    work: Client,
    dir: PathBuf,
    feedback_interval: Duration,
    driver: &'static str,
}

/// The agents' context once they have an identity on the hub.
#[derive(Clone)]
struct Spoke {
    cluster: String,
    hub_url: String,
    agent: String,
    hub: Client,
    /// The kubeconfig for the hub without a user, a template for add-ons.
    hub_config: Config,
    /// The spoke as the registration agent.
    registration: Client,
    /// The cluster that the klusterlet runs on, as the registration agent: the spoke, except in hosted mode.
    management: Client,
    /// The spoke as the work agent.
    work: Client,
    on_hub: Arc<Cache>,
    claims: Arc<Cache>,
    feedback_interval: Duration,
    /// How add-ons become clients of the hub's API server: `csr` or `token`.
    driver: &'static str,
}

impl Agents {
    /// Starts the agents; they join by themselves once the hub accepts the cluster.
    pub(crate) async fn start(config: &SpokeConfig) -> Result<Self> {
        let spoke = client::config(&config.kubeconfig, USER_AGENT).await?;
        let mut hub = client::config(&config.hub_kubeconfig, USER_AGENT).await?;
        let spoke_admin = client::as_identity(&spoke, spoke.auth_info.clone())?;
        let hub_admin = client::as_identity(&hub, hub.auth_info.clone())?;
        let bootstrap = bearer(klusterlet::bootstrap_token(&hub_admin).await?);
        let as_account = async |account: &str| {
            let token = klusterlet::token(&spoke_admin, AGENT_NAMESPACE, account).await?;
            client::as_identity(&spoke, bearer(token))
        };
        hub.auth_info = AuthInfo::default();
        let registration = as_account(klusterlet::REGISTRATION).await?;
        let management = match &config.management_kubeconfig {
            Some(kubeconfig) => on_management(kubeconfig).await?,
            None => registration.clone(),
        };
        let ground = Ground {
            cluster: config.cluster.clone(),
            hub,
            bootstrap,
            registration,
            management,
            work: as_account(klusterlet::WORK).await?,
            dir: config.dir.clone(),
            feedback_interval: config.feedback_interval,
            driver: if config.tokens { "token" } else { "csr" },
        };
        let mut tasks = Tasks::default();
        tasks.spawn(lives(ground));
        Ok(Self { tasks })
    }

    /// Ends the agents and waits until they are gone.
    pub(crate) async fn stop(self) {
        self.tasks.stop().await;
    }
}

/// The cluster that the klusterlet runs on, under the rights of the klusterlet there.
async fn on_management(kubeconfig: &Path) -> Result<Client> {
    let config = client::config(kubeconfig, USER_AGENT).await?;
    let admin = client::as_identity(&config, config.auth_info.clone())?;
    let token = klusterlet::token(&admin, AGENT_NAMESPACE, klusterlet::REGISTRATION).await?;
    client::as_identity(&config, bearer(token))
}

fn bearer(token: String) -> AuthInfo {
    AuthInfo {
        token: Some(token.into()),
        ..AuthInfo::default()
    }
}

/// One run after the other: each lasts as long as its hub certificate should be used.
async fn lives(ground: Ground) {
    loop {
        if let Err(error) = live(&ground).await {
            let (cluster, error) = (&ground.cluster, client::message_of(&error));
            tracing::warn!(cluster, error, "the agents start again");
            tokio::time::sleep(START_AGAIN).await;
        }
    }
}

async fn live(ground: &Ground) -> Result<()> {
    let identity = enrolment::identity(ground).await?;
    let hub = client::as_identity(&ground.hub, identity.auth_info())?;
    enrolment::wait_accepted(&hub, &ground.cluster).await;
    let mut tasks = Tasks::default();
    let spoke = Spoke::start(ground, &identity, hub, &mut tasks).await?;
    cluster::start(&spoke, &mut tasks);
    add_ons::start(&spoke, &mut tasks);
    work::start(&spoke, &mut tasks);
    // The tasks end with this run; the next one begins with a renewed certificate.
    tokio::time::sleep(identity.renew_in().max(SHORTEST_LIFE)).await;
    enrolment::renew(ground, &identity).await
}

impl Spoke {
    async fn start(
        ground: &Ground,
        identity: &Identity,
        hub: Client,
        tasks: &mut Tasks,
    ) -> Result<Self> {
        let cluster = &ground.cluster;
        let of_cluster = format!("{CLUSTER_NAME}={cluster}");
        let on_hub = vec![
            Watched::all(MANAGED_CLUSTER).named(cluster),
            Watched::all(MANAGED_CLUSTER_ADD_ON).within(cluster),
            Watched::all(MANIFEST_WORK).within(cluster),
            Watched::all(CERTIFICATE_SIGNING_REQUEST).labelled(&of_cluster),
        ];
        let claims = vec![Watched::all(CLUSTER_CLAIM)];
        Ok(Self {
            cluster: cluster.clone(),
            hub_url: ground.hub.cluster_url.to_string(),
            agent: identity.agent.clone(),
            on_hub: Cache::fill(&hub, on_hub, tasks)
                .await
                .context("watch the hub")?,
            claims: Cache::fill(&ground.registration, claims, tasks)
                .await
                .context("watch claims")?,
            hub,
            hub_config: ground.hub.clone(),
            registration: ground.registration.clone(),
            management: ground.management.clone(),
            work: ground.work.clone(),
            feedback_interval: ground.feedback_interval,
            driver: ground.driver,
        })
    }
}

/// Keeps one controller of the agents running, woken by one set of copies.
fn keep<F>(
    tasks: &mut Tasks,
    name: &'static str,
    cache: &Arc<Cache>,
    pass: impl FnMut() -> F + Send + 'static,
) where
    F: Future<Output = Result<control::Again>> + Send + 'static,
{
    tasks.spawn(control::keep(name, Arc::clone(cache), pass));
}
