//! The hub program without the principal, for simulations: on a client of theirs, as one of several replicas.

use anyhow::Context as _;
use kube::Client;
use runtime::{lease::Fence, metrics::Registry, parts::Spawner};

use super::{HubContext, Vital, channels};
use crate::{config::Manager, metrics};

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
    let vital = Vital {
        client: process.client.clone(),
        spawner: process.spawner.vital(),
        identity: process.identity,
    };
    let context = HubContext {
        channels: channels(&config),
        config,
        writer: process.writer,
        fence: process.fence,
        client: process.client,
        spawner: process.spawner,
        metrics: metrics.manager,
    };
    let leading = context.spawn_before_principal(&vital);
    let own = context.own().await.context("stopped at the start")?;
    context.spawn_lead(own, metrics.sdk, leading);
    Ok(())
}
