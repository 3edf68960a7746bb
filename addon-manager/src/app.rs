//! Builds every part, starts it, and waits. Decides nothing.

mod alone;
mod manager;
pub mod rotate;
mod term;

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use runtime::{
    admin::{Admin, AdminState},
    kube,
    metrics::Registry,
    parts::{Parts, Spawner},
    ready::Readiness,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    config::{Config, Shared},
    ready, uninstall,
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
            let shared = manager.shared.clone();
            serve(&shared, token, |basis| manager::start(manager, basis)).await
        }
        Config::Principal(alone) => {
            let shared = alone.shared.clone();
            serve(&shared, token, |basis| alone::start(alone, basis)).await
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
    start: impl FnOnce(Basis) -> F,
) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<()>>,
{
    let parts = Parts::new(token);
    let registry = Registry::new();
    registry.build_info(
        "argocd_agent_addon_manager",
        env!("CARGO_PKG_VERSION"),
        COMMIT,
    );
    let readiness = Readiness::new();
    serve_admin(shared, &readiness, &registry, &parts).await?;
    let client = kube::client(&shared.kube, "argocd-agent-addon-manager").await?;
    let basis = Basis {
        client,
        registry,
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
            .map_or_else(ToString::to_string, |()| "asked to stop".to_owned()),
        "stopped"
    );
    ended.map_err(Into::into)
}

/// The commit of this build, when the build was told.
const COMMIT: &str = match option_env!("GIT_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// What every part may use.
struct Basis {
    client: ::kube::Client,
    registry: Registry,
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
    registry: &Registry,
    parts: &Parts,
) -> anyhow::Result<()> {
    // Go's /healthz means that the caches are read; ours are when we are ready.
    let ready = readiness.clone();
    let state = AdminState {
        readiness: readiness.clone(),
        registry: registry.clone(),
        healthz: Arc::new(move || ready.is_ready()),
    };
    let addresses = [Some(shared.admin.health()), shared.admin.metrics()];
    for address in addresses.into_iter().flatten() {
        let admin = Admin::bind(address, state.clone()).await?;
        let token = parts.spawner().token().clone();
        parts.spawn(format!("admin {address}"), admin.serve(token));
    }
    Ok(())
}
