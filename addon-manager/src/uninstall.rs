//! Removes the add-on from every cluster and waits until it is gone; the chart runs this before `helm uninstall` removes
//! the hub program.
//!
//! It deletes the `ClusterManagementAddOn` first: without it neither the manager nor OCM's Placements recreate an add-on.
//! Then it deletes the `ManagedClusterAddOns`; the manager, which still runs, ends each enrolment in the usual order.
//! [`hub`] lists and deletes, [`remaining`] describes the rest. Both repeat until nothing is left or the time is over, so
//! changes by other clients and an earlier, interrupted run do no harm.

pub mod hub;
pub mod remaining;

use std::time::Duration;

use kube::Client;
use runtime::error::Chain;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::args::UninstallArgs;
use hub::Hub;
use remaining::Rest;

/// The pause between two checks.
const PAUSE: Duration = Duration::from_secs(1);
/// Unchanged progress is logged again after this time, so that users see that the program still works.
const REPEAT: Duration = Duration::from_secs(30);

/// Why the add-on is not removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The `ClusterManagementAddOn` belongs to another add-on now.
    #[error(transparent)]
    NotOurs(Box<hub::Error>),
    /// It timed out.
    #[error("timed out after {time_limit:?}: the add-on is not removed from clusters: {clusters}")]
    Late {
        /// The time limit.
        time_limit: Duration,
        /// The number of remaining clusters.
        clusters: usize,
    },
    /// The hub did not answer before the time was over.
    #[error(
        "timed out after {time_limit:?} without an answer of the API; the state of the removal is unknown"
    )]
    Unknown {
        /// The time limit.
        time_limit: Duration,
        /// The last error.
        source: Box<hub::Error>,
    },
    /// The process stops.
    #[error("interrupted before the add-on was removed")]
    Stopped,
}

/// Removes the add-on, and logs the progress.
pub async fn run(
    settings: &UninstallArgs,
    client: Client,
    token: CancellationToken,
) -> Result<(), Error> {
    let argocd_namespace = settings.namespace.clone();
    let hub = Hub {
        client,
        argocd_namespace,
    };
    let (began, mut progress) = (Instant::now(), ProgressLog::default());
    loop {
        let last = match token.run_until_cancelled(hub.step()).await {
            None => return Err(Error::Stopped),
            Some(Err(error @ hub::Error::NotOurs)) => return Err(Error::NotOurs(Box::new(error))),
            Some(Ok(rest)) if rest.is_empty() => {
                info!("the add-on is removed from all clusters");
                return Ok(());
            }
            Some(Ok(rest)) => {
                progress.report(&rest);
                Ok(rest)
            }
            Some(Err(error)) => {
                warn!(error = %Chain(&error), "cannot read the state of the removal; retrying");
                Err(error)
            }
        };
        if began.elapsed() >= settings.timeout {
            return Err(give_up(last, settings));
        }
        token.run_until_cancelled(sleep(PAUSE)).await;
    }
}

/// Logs the rest and the next steps.
fn give_up(last: Result<Rest, hub::Error>, settings: &UninstallArgs) -> Error {
    let time_limit = settings.timeout;
    match last {
        Ok(rest) => {
            let advice = rest.advice(&settings.namespace);
            for line in rest.lines().into_iter().chain(advice) {
                error!("{line}");
            }
            Error::Late {
                time_limit,
                clusters: rest.clusters.len(),
            }
        }
        Err(source) => Error::Unknown {
            time_limit,
            source: Box::new(source),
        },
    }
}

/// Logs progress when it changes, and at intervals.
#[derive(Default)]
struct ProgressLog {
    last: Option<(Instant, Rest)>,
}

impl ProgressLog {
    fn report(&mut self, rest: &Rest) {
        let known = self
            .last
            .as_ref()
            .is_some_and(|(at, logged)| logged == rest && at.elapsed() < REPEAT);
        if known {
            return;
        }
        info!(clusters = rest.clusters.len(), "waiting");
        for line in rest.lines() {
            info!("{line}");
        }
        self.last = Some((Instant::now(), rest.clone()));
    }
}
