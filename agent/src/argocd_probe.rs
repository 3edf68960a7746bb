//! Detects an Argo CD on this cluster: in its namespace or another one, whether the add-on installed it, and its health.
//!
//! The session reports the result. The hub installs an Argo CD where none runs, and shows the problem of one that it
//! installed.

mod definitions;
mod elsewhere;
mod health;
mod programs;
mod project;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, ListParams};
use protocol::Mode;
use protocol::payload::{ArgoCd, HealthProblem, Runs};
use runtime::error::Chain;
use runtime::kube::{Watch, watch_trimmed};
use runtime::parts::Spawner;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::sync::replica::{Replica, Running};
use definitions::Definitions;
use elsewhere::Elsewhere;
use health::GracePeriod;
use programs::Programs;

/// The pause before another look at an unhealthy Argo CD, or after an error.
const AGAIN: Duration = Duration::from_secs(5);
/// How many Pods of one program the probe reads.
const PODS: u32 = 10;

/// Probes until the process ends, and passes the results to the replica; without a client it does not probe. The reader is a
/// user that may read the whole cluster, if there is one.
pub fn watch(
    client: Option<Client>,
    reader: Option<&str>,
    replica: &Arc<Replica>,
    spawner: &Spawner,
) {
    let Some(client) = client else { return };
    let elsewhere = Elsewhere::new(replica.argocd_namespace(), reader);
    let (token, replica) = (spawner.token().clone(), Arc::clone(replica));
    spawner.spawn("Argo CD probe", async move {
        let (state, seen) = watch::channel(Programs::default());
        let following = follow(&client, replica.argocd_namespace(), &state, token.clone());
        let looking = token.run_until_cancelled(look(&client, &replica, elsewhere, seen));
        tokio::join!(following, looking);
    });
}

/// Watches the Deployments and `StatefulSets` of the namespace.
async fn follow(
    client: &Client,
    namespace: &str,
    programs: &watch::Sender<Programs>,
    token: CancellationToken,
) {
    let deployments = Watch::<Deployment>::new(Api::namespaced(client.clone(), namespace));
    let sets = Watch::<StatefulSet>::new(Api::namespaced(client.clone(), namespace));
    tokio::join!(
        watch_trimmed(deployments, token.clone(), |event| {
            programs.send_if_modified(|programs| programs.take(event));
        }),
        watch_trimmed(sets, token, |event| {
            programs.send_if_modified(|programs| programs.take(event));
        }),
    );
}

/// Passes each change to the replica, and looks at the Pods of unhealthy programs.
async fn look(
    client: &Client,
    replica: &Replica,
    mut elsewhere: Elsewhere,
    mut seen: watch::Receiver<Programs>,
) {
    let mut sync_status = replica.sync_status();
    let (mut grace_period, mut definitions) = (GracePeriod::default(), Definitions::default());
    let owns_projects = replica.mode() == Mode::Autonomous;
    let mut project = owns_projects;
    loop {
        let programs = seen.borrow_and_update().clone();
        let serves = {
            let sync_status = sync_status.borrow_and_update();
            sync_status
                .is_complete()
                .then(|| sync_status.argocd() == ArgoCd::Installed)
        };
        if serves == Some(false) {
            // CRDs that were deleted took their objects along.
            project = owns_projects;
        }
        let mut again = false;
        if let (Some(runs), Some(serves)) = (programs.runs(), serves) {
            let found = health_problem(client, replica.argocd_namespace(), &programs).await;
            let health_problem = grace_period.look(Instant::now(), found);
            again = grace_period.waits();
            match observe(client, &mut definitions, &mut elsewhere, (runs, serves)).await {
                Ok((runs, kinds_installed)) => replica.set_running(Running {
                    runs,
                    kinds_installed,
                    health_problem,
                }),
                Err(error) => {
                    tracing::debug!(error = %Chain(&error), "cannot ask the API for the kinds and programs of Argo CD");
                    again = true;
                }
            }
            if project && runs == Runs::Ours && serves {
                project = !project::ensure(client, replica.argocd_namespace()).await;
                again |= project;
            }
        }
        let pause = Some(AGAIN).filter(|_| again);
        let pause = pause.or_else(|| elsewhere.recheck_after());
        tokio::select! {
            Ok(()) = seen.changed() => {}
            Ok(()) = sync_status.changed() => {}
            () = sleep(pause.unwrap_or_default()), if pause.is_some() => {}
            else => return,
        }
    }
}

/// Which Argo CD runs, and whether the add-on installed its definitions. Other namespaces matter only if this one has no
/// Argo CD and the API serves the kinds, without which none works.
async fn observe(
    client: &Client,
    definitions: &mut Definitions,
    elsewhere: &mut Elsewhere,
    (runs, serves): (Runs, bool),
) -> Result<(Runs, bool), kube::Error> {
    let kinds_installed = definitions.are_installed(client, runs, serves).await?;
    if runs != Runs::Nothing || !serves {
        elsewhere.forget();
        return Ok((runs, kinds_installed));
    }
    let is_elsewhere = elsewhere.has_argocd(client, kinds_installed).await?;
    let runs = if is_elsewhere { Runs::Elsewhere } else { runs };
    Ok((runs, kinds_installed))
}

/// The worst health problem of the Argo CD that the add-on installed.
async fn health_problem(
    client: &Client,
    namespace: &str,
    programs: &Programs,
) -> Option<HealthProblem> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let mut found = Vec::new();
    for (name, program) in programs.unwell() {
        // The API server's cache is new enough.
        let theirs = ListParams::default().match_any().limit(PODS);
        let pods = match pods.list(&theirs.labels(&program.selector)).await {
            Ok(list) => list.items,
            Err(error) => {
                tracing::debug!(error = %Chain(&error), "cannot list Pods of Argo CD");
                continue;
            }
        };
        found.push(health::health_problem(name, program, &pods));
    }
    health::worst(found)
}
