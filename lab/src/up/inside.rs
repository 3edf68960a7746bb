//! A lab that stays, inside its namespaces.

use std::{io::IsTerminal, process::ExitCode};

use anyhow::{Context, Result};
use tokio::{
    runtime::Runtime,
    signal::unix::{SignalKind, signal},
};

use super::{Listed, Phase, Request, State};
use crate::{
    Lab,
    cluster::KUBECONFIG,
    demo::{Demo, STEPS},
    namespaces::{self, Inside},
    progress::{Progress, print},
    world,
};

/// Starts the lab, reports when it is ready, and ends it after a signal.
pub(super) fn run(request: &Request, inside: &Inside) -> Result<ExitCode> {
    world::log_to(&namespaces::scratch().join("lab.log"))?;
    let runtime = Runtime::new().context("start a runtime")?;
    runtime.block_on(async {
        let mut reply = signal(SignalKind::terminate()).context("listen for signals")?;
        let mut progress = if request.demo {
            Progress::of(STEPS)
        } else {
            Progress::new()
        };
        tokio::select! {
            biased;
            // Its programs end with the namespaces.
            _ = reply.recv() => Ok(ExitCode::from(130)),
            lab = start(request, inside, &mut progress) => match lab {
                Ok(lab) if request.demo => demo(lab, ports(inside)?, &mut reply, progress).await,
                Ok(lab) => {
                    reply.recv().await;
                    lab.stop().await;
                    Ok(ExitCode::SUCCESS)
                }
                Err(error) => {
                    write(request, inside, Phase::Failed(format!("{error:#}")))?;
                    Err(error)
                }
            }
        }
    })
}

async fn start(request: &Request, inside: &Inside, progress: &mut Progress) -> Result<Lab> {
    let lab = Lab::start(
        request.options.clone(),
        &request.dir,
        &inside.ports,
        progress,
    )
    .await?;
    write(request, inside, Phase::Ready)?;
    progress.line(format_args!(
        "ready after {:.1} s",
        progress.elapsed().as_secs_f32()
    ));
    Ok(lab)
}

/// The last port that leads inside: where it arrives, and its number outside.
fn ports(inside: &Inside) -> Result<(u16, u16)> {
    let before = inside.ports.len().saturating_sub(1);
    let arrives = namespaces::FIRST_PORT.checked_add(u16::try_from(before)?);
    let ports = arrives.zip(inside.ports.last().copied());
    ports.context("a port for a browser")
}

fn write(request: &Request, inside: &Inside, phase: Phase) -> Result<()> {
    let mut state = State::read(&request.dir)?.context("the supervisor's lab.json")?;
    state.phase = phase;
    state.clusters = (0..=request.options.spokes)
        .zip(&inside.ports)
        .map(|(index, port)| {
            let name = crate::bed::cluster_name(index);
            Listed {
                kubeconfig: request.dir.join(&name).join(KUBECONFIG),
                server: format!("https://127.0.0.1:{port}"),
                name,
            }
        })
        .collect();
    state.write(&request.dir)
}

/// Shows the main job. At a terminal the lab then stays until it is interrupted.
async fn demo(
    lab: Lab,
    ports: (u16, u16),
    reply: &mut tokio::signal::unix::Signal,
    mut progress: Progress,
) -> Result<ExitCode> {
    let mut demo = Demo::new(&lab, ports)?;
    let shown = tokio::select! {
        biased;
        _ = reply.recv() => None,
        shown = demo.run(&mut progress) => Some(shown),
    };
    progress.ends();
    let code = match shown {
        None => ExitCode::from(130),
        Some(Ok(())) => {
            if std::io::stdout().is_terminal() && std::env::var_os("DEMO_EXIT").is_none() {
                demo.look_around();
                reply.recv().await;
            }
            ExitCode::SUCCESS
        }
        Some(Err(error)) => {
            let kept = world::directory("demo");
            let seen = world::keep(&lab, &kept).await;
            print(format_args!("the demo failed: {error:#}"));
            print(format_args!("the world ({}):", kept.display()));
            print(seen.unwrap_or_else(|error| format!("it could not be kept: {error:#}")));
            ExitCode::FAILURE
        }
    };
    drop(demo);
    lab.stop().await;
    Ok(code)
}
