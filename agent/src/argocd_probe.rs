//! What of an Argo CD runs in its namespace on this cluster, whether the add-on has brought it, and how that fares.
//!
//! Where none runs, the hub has one brought; one that was brought and is not well is told there. The link tells the hub.

mod definitions;
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
use health::GracePeriod;
use programs::Programs;

/// The pause before another look at what is not well, or cannot be seen.
const AGAIN: Duration = Duration::from_secs(5);
/// How many Pods of one program are looked at.
const PODS: u32 = 10;

/// Looks until the process ends, and tells the replica; without a client nobody wants to know.
pub fn watch(client: Option<Client>, replica: &Arc<Replica>, spawner: &Spawner) {
    let Some(client) = client else { return };
    let (token, replica) = (spawner.token().clone(), Arc::clone(replica));
    spawner.spawn("what runs of Argo CD", async move {
        let (reply, seen) = watch::channel(Programs::default());
        let following = follow(&client, replica.argocd_namespace(), &reply, token.clone());
        let looking = token.run_until_cancelled(look(&client, &replica, seen));
        tokio::join!(following, looking);
    });
}

/// Follows what is there, as one picture.
async fn follow(
    client: &Client,
    namespace: &str,
    reply: &watch::Sender<Programs>,
    token: CancellationToken,
) {
    let deployments = Watch::<Deployment>::new(Api::namespaced(client.clone(), namespace));
    let sets = Watch::<StatefulSet>::new(Api::namespaced(client.clone(), namespace));
    tokio::join!(
        watch_trimmed(deployments, token.clone(), |event| {
            reply.send_if_modified(|programs| programs.deployment(event));
        }),
        watch_trimmed(sets, token, |event| {
            reply.send_if_modified(|programs| programs.stateful_set(event));
        }),
    );
}

/// Tells what the picture comes to, and looks closer where something is not as it should be.
async fn look(client: &Client, replica: &Replica, mut seen: watch::Receiver<Programs>) {
    let mut sync_status = replica.sync_status();
    let (mut grace_period, mut definitions) = (GracePeriod::default(), Definitions::default());
    let mut project = replica.mode() == Mode::Autonomous;
    loop {
        let programs = seen.borrow_and_update().clone();
        let serves = {
            let sync_status = sync_status.borrow_and_update();
            sync_status
                .is_complete()
                .then(|| sync_status.argocd() == ArgoCd::Installed)
        };
        let mut again = false;
        if let (Some(runs), Some(serves)) = (programs.runs(), serves) {
            let found = health_problem(client, replica.argocd_namespace(), &programs).await;
            let ails = grace_period.look(Instant::now(), found);
            again = grace_period.waits();
            match definitions.are_brought(client, runs, serves).await {
                Ok(kinds_brought) => replica.saw_running(Running {
                    runs,
                    kinds_brought,
                    ails,
                }),
                Err(error) => {
                    tracing::debug!(error = %Chain(&error), "cannot read the OpenAPI description of the API");
                    again = true;
                }
            }
            if project && runs == Runs::Ours && serves {
                project = !project::ensure(client, replica.argocd_namespace()).await;
                again |= project;
            }
        }
        tokio::select! {
            Ok(()) = seen.changed() => {}
            Ok(()) = sync_status.changed() => {}
            () = sleep(AGAIN), if again => {}
            else => return,
        }
    }
}

/// The worst that is wrong with what the add-on has brought.
async fn health_problem(
    client: &Client,
    namespace: &str,
    programs: &Programs,
) -> Option<HealthProblem> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let mut found = Vec::new();
    for (name, program) in programs.unwell() {
        // What the API server has at hand is new enough.
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
