//! Builds every part, starts it, and waits. Decides nothing.

mod leader_run;
mod manager;
pub mod rotate;
mod standalone;

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use runtime::{
    admin::{Admin, AdminState, LookIn},
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

/// How long the parts may take to end by themselves; the pod has 30 seconds.
const DRAIN: Duration = Duration::from_secs(20);

/// Runs until a signal, or until a part ends early.
pub async fn run(config: Config) -> anyhow::Result<()> {
    let token = runtime::shutdown::token();
    run_until(config, token).await
}

/// Runs until the token is cancelled, until a part ends early, or until what was asked for is done.
pub async fn run_until(config: Config, token: CancellationToken) -> anyhow::Result<()> {
    match config {
        Config::Manager(manager) => {
            let (shared, registry) = (manager.shared.clone(), Registry::new());
            let metrics = metrics::whole(&registry);
            let state = metrics.principal.state().clone();
            let start = |basis| manager::start(*manager, metrics, basis);
            serve(&shared, token, Seen { registry, state }, start).await
        }
        Config::Principal(alone) => {
            let (shared, registry) = (alone.shared.clone(), Registry::new());
            let metrics = metrics::alone(&registry);
            let state = metrics.state().clone();
            let start = |basis| standalone::start(*alone, metrics, basis);
            serve(&shared, token, Seen { registry, state }, start).await
        }
        Config::Uninstall(settings) => {
            let client = kube::client(&settings.kube, "argocd-agent-addon-uninstall").await?;
            Ok(uninstall::run(&settings, client, token).await?)
        }
        Config::Ready(settings) => Ok(ready::run(&settings, token).await?),
    }
}

/// Starts what `start` starts, with what every program that stays has, and waits.
async fn serve<F>(
    shared: &Shared,
    token: CancellationToken,
    seen: Seen,
    start: impl FnOnce(ProcessContext) -> F,
) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<()>>,
{
    // The name that the Go principal gives itself; each agent is agent-MODE.
    let traces = runtime::trace::start(shared.otlp.as_ref(), "principal".to_owned())?;
    let ended = serve_until_end(shared, token, seen, start).await;
    traces.end().await;
    ended
}

async fn serve_until_end<F>(
    shared: &Shared,
    token: CancellationToken,
    seen: Seen,
    start: impl FnOnce(ProcessContext) -> F,
) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<()>>,
{
    let parts = Parts::with_background(token)?;
    let readiness = Readiness::new();
    serve_admin(shared, &readiness, seen, &parts).await?;
    let client = kube::client(&shared.kube, "argocd-agent-addon-manager").await?;
    let basis = ProcessContext {
        client,
        readiness,
        spawner: parts.spawner(),
    };
    let started = Box::pin(start(basis)).await;
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
}

/// What is seen of the program from outside.
struct Seen {
    registry: Registry,
    state: principal::State,
}

/// What every part may use.
struct ProcessContext {
    client: ::kube::Client,
    readiness: Readiness,
    spawner: Spawner,
}

/// True until the end. The sender is held as long: a channel that closes early would tell whoever
/// waits on it that the process stops.
fn always(spawner: &Spawner) -> watch::Receiver<bool> {
    let (sender, receiver) = watch::channel(true);
    let token = spawner.token().clone();
    spawner.spawn("always active", async move {
        token.cancelled().await;
        drop(sender);
    });
    receiver
}

async fn serve_admin(
    shared: &Shared,
    readiness: &Readiness,
    seen: Seen,
    parts: &Parts,
) -> anyhow::Result<()> {
    // Go's /healthz means that the caches are read; ours are when we are ready.
    let ready = readiness.clone();
    let state = AdminState {
        readiness: readiness.clone(),
        registry: seen.registry,
        healthz: Arc::new(move || ready.is_ready()),
        look_in: LookIn::new(move |page| seen.state.page(page)),
    };
    let addresses = [Some(shared.admin.health()), shared.admin.metrics()];
    for address in addresses.into_iter().flatten() {
        let admin = Admin::bind(address, state.clone()).await?;
        let token = parts.spawner().token().clone();
        parts.spawn(format!("admin {address}"), admin.serve(token));
    }
    Ok(())
}
