//! The hub program without the principal, for simulations: on a client of theirs, as one of several replicas.

use anyhow::Context as _;
use kube::Client;
use runtime::{lease::Fence, metrics::Registry, parts::Spawner};
use tokio::sync::watch;

use super::{HubContext, Vital};
use crate::{
    app::leader_run::{self, LeaderRun},
    channels::Channels,
    config::Manager,
    metrics,
};

/// The environment of one process of a replica.
#[derive(derive_more::Debug)]
pub struct Process {
    /// The client of the hub's API.
    #[debug(skip)]
    pub client: Client,
    /// The same behind the fence, for the work of the leader.
    #[debug(skip)]
    pub writer: Client,
    /// Starts the tasks.
    pub spawner: Spawner,
    /// Names the process: unique over all processes of all replicas, as its start time is.
    pub identity: String,
    /// The fence.
    pub fence: Fence,
}

/// Starts every part but the principal, and returns when the leader's parts wait for their term.
///
/// # Errors
/// The process was asked to stop.
pub async fn start(config: Manager, process: Process) -> anyhow::Result<()> {
    let metrics = metrics::whole(&Registry::new());
    let configured = &config.args.principal_address.0;
    let channels = Channels {
        address: watch::Sender::new(configured.clone()),
        looked: watch::Sender::new(configured.is_some()),
        ..Channels::default()
    };
    let vital = Vital {
        client: process.client.clone(),
        spawner: process.spawner.vital(),
        identity: process.identity,
    };
    let context = HubContext {
        config,
        writer: process.writer,
        fence: process.fence,
        client: process.client,
        spawner: process.spawner,
        channels,
        metrics: metrics.manager,
    };
    let leading = context.leading(&vital);
    context.spawn_replicas(&vital);
    context.spawn_active_label();
    context.spawn_issuer(leading.clone());
    context.spawn_backup_label(leading.clone());
    let own = context.own().await.context("stopped at the start")?;
    let (spawner, token) = (context.spawner.clone(), context.spawner.token().clone());
    let run = LeaderRun {
        context,
        own,
        counters: metrics.sdk,
    };
    spawner.spawn("lead", leader_run::run(run, leading, token));
    Ok(())
}
