//! The state of labs that stay.

use std::{path::Path, process::ExitCode, time::Duration};

use anyhow::{Context, Result};
use comfy_table::Table;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::time::timeout;

use super::{Listed, Phase, State, list};
use crate::progress::print;

/// How long an API may take to report that it is ready.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Prints the state of the lab in `dir`, or of every lab that runs; succeeds if all of it is ready.
pub fn status(dir: Option<&Path>) -> Result<ExitCode> {
    let dirs = match dir {
        Some(dir) => vec![dir.to_owned()],
        None => list::running()?,
    };
    if dirs.is_empty() {
        print("no lab runs");
        return Ok(ExitCode::FAILURE);
    }
    // Fails only when a provider is installed already; this program has but one.
    let _chosen = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut all_ready = true;
    for dir in dirs {
        all_ready &= runtime.block_on(show(&dir))?;
    }
    Ok(if all_ready {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

async fn show(dir: &Path) -> Result<bool> {
    let Some(state) = State::read(dir)? else {
        print(format_args!("{}: no lab", dir.display()));
        return Ok(false);
    };
    let running = state.is_running();
    let phase = match (&state.phase, running) {
        (Phase::Failed(reason), _) => format!("failed: {reason}"),
        (Phase::Starting | Phase::Ready, false) => "ended unexpectedly".to_owned(),
        (Phase::Starting, true) => "starting".to_owned(),
        (Phase::Ready, true) => "ready".to_owned(),
    };
    print(format_args!(
        "{}: {phase} (process {})",
        dir.display(),
        state.pid
    ));
    if !running {
        return Ok(false);
    }
    let mut ready = state.phase == Phase::Ready;
    let mut table = Table::new();
    table.set_header(["CLUSTER", "API", "STATE", "KUBECONFIG"]);
    for cluster in &state.clusters {
        let answer = match timeout(TIME_LIMIT, readiness(cluster)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => format!("{error:#}"),
            Err(_) => format!("silent for {TIME_LIMIT:?}"),
        };
        ready &= answer == "ok";
        let kubeconfig = cluster.kubeconfig.display().to_string();
        table.add_row([&cluster.name, &cluster.server, &answer, &kubeconfig]);
    }
    if !state.clusters.is_empty() {
        print(table);
    }
    Ok(ready)
}

async fn readiness(cluster: &Listed) -> Result<String> {
    let kubeconfig = Kubeconfig::read_from(&cluster.kubeconfig).context("read the kubeconfig")?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let request = http::Request::get("/readyz").body(Vec::new())?;
    Ok(Client::try_from(config)?.request_text(request).await?)
}
