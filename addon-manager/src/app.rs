//! Builds and starts every part, and waits for the end. Contains no decisions.

mod leader_run;
mod manager;
pub mod rotate;
mod standalone;

#[cfg(feature = "testing")]
pub use manager::simulated;

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use runtime::{
    admin::{Admin, AdminState, DebugState},
    kube,
    metrics::Registry,
    parts::{Parts, Spawner},
    ready::Readiness,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    config::{Config, Shared},
    metrics, ready, uninstall,
};

/// The name of our requests to the hub.
const USER_AGENT: &str = "argocd-agent-addon-manager";
/// The time that parts have to stop; the pod has 30 seconds.
const DRAIN: Duration = Duration::from_secs(20);

/// Runs until a signal, or until a part ends early.
pub async fn run(config: Config) -> anyhow::Result<()> {
    let token = runtime::shutdown::token();
    run_until(config, token).await
}

/// Runs until the token is cancelled, a part ends early, or a one-shot command is done.
pub async fn run_until(config: Config, token: CancellationToken) -> anyhow::Result<()> {
    match config {
        Config::Manager(manager) => {
            let (shared, registry) = (manager.shared.clone(), Registry::new());
            let metrics = metrics::whole(&registry);
            let state = metrics.principal.state().clone();
            let start = |process| manager::start(*manager, metrics, process);
            serve(&shared, token, Exposed { registry, state }, start).await
        }
        Config::Principal(alone) => {
            let (shared, registry) = (alone.shared.clone(), Registry::new());
            let metrics = metrics::alone(&registry);
            let state = metrics.state().clone();
            let start = |process| standalone::start(*alone, metrics, process);
            serve(&shared, token, Exposed { registry, state }, start).await
        }
        Config::Uninstall(settings) => {
            let client = kube::client(&settings.kube, "argocd-agent-addon-uninstall").await?;
            Ok(uninstall::run(&settings, client, token).await?)
        }
        Config::Ready(settings) => Ok(ready::run(&settings, token).await?),
    }
}

/// Runs a long-running program: traces, the admin server, and the parts that `start` starts.
async fn serve(
    shared: &Shared,
    token: CancellationToken,
    exposed: Exposed,
    start: impl AsyncFnOnce(ProcessContext) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    // The service name of the Go principal; each agent is agent-MODE.
    let traces = runtime::trace::start(shared.otlp.as_ref(), "principal".to_owned())?;
    let served = async {
        let parts = Parts::with_background(token)?.with_vital()?;
        let readiness = Readiness::new();
        serve_admin(shared, &readiness, exposed, &parts.spawner().vital()).await?;
        let client = kube::client(&shared.args.kube, USER_AGENT).await?;
        let process = ProcessContext {
            client,
            readiness,
            spawner: parts.spawner(),
        };
        let started = Box::pin(start(process)).await;
        let token = parts.spawner().token().clone();
        if let Err(error) = started
            && !token.is_cancelled()
        {
            token.cancel();
            parts
                .run_until_stopped(DRAIN)
                .await
                .context("stop after a failed start")?;
            return Err(error);
        }
        tracing::info!("running");
        let ended = parts.run_until_stopped(DRAIN).await;
        tracing::info!(
            why = ended
                .as_ref()
                .map_or_else(ToString::to_string, |()| "stop requested".to_owned()),
            "stopped"
        );
        ended.map_err(Into::into)
    };
    let ended = Box::pin(served).await;
    traces.end().await;
    ended
}

/// The state that the admin server shows.
struct Exposed {
    registry: Registry,
    state: principal::State,
}

/// The resources of all parts.
struct ProcessContext {
    client: ::kube::Client,
    readiness: Readiness,
    spawner: Spawner,
}

/// A channel that is true until the process stops. The task keeps the sender, because a closed channel means to
/// receivers that the process stops.
fn always(spawner: &Spawner) -> watch::Receiver<bool> {
    let (sender, receiver) = watch::channel(true);
    let token = spawner.token().clone();
    spawner.spawn("always active", async move {
        token.cancelled().await;
        drop(sender);
    });
    receiver
}

/// Passes each value on, until the token is cancelled.
async fn forward<T: Clone>(
    mut from: watch::Receiver<T>,
    token: CancellationToken,
    mut to: impl FnMut(T),
) {
    loop {
        to(from.borrow_and_update().clone());
        let changed = token.run_until_cancelled(from.changed()).await;
        if !matches!(changed, Some(Ok(()))) {
            return token.cancelled().await;
        }
    }
}

async fn serve_admin(
    shared: &Shared,
    readiness: &Readiness,
    exposed: Exposed,
    spawner: &Spawner,
) -> anyhow::Result<()> {
    // Go's /healthz reports that the caches are synced; ours are when we are ready.
    let ready = readiness.clone();
    let state = AdminState {
        readiness: readiness.clone(),
        registry: exposed.registry,
        healthz: Arc::new(move || ready.is_ready()),
        debug_state: DebugState::new(move |page| exposed.state.page(page)),
    };
    let addresses = [
        Some(shared.args.admin.health()),
        shared.args.admin.metrics(),
    ];
    for address in addresses.into_iter().flatten() {
        let admin = Admin::bind(address, state.clone()).await?;
        let token = spawner.token().clone();
        spawner.spawn(format!("admin {address}"), admin.serve(token));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
