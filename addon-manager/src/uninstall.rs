//! Takes the add-on off every cluster and waits until it is gone: what the chart runs before `helm uninstall` takes the
//! hub program away.
//!
//! The `ClusterManagementAddOn` goes first: without it neither the manager nor OCM's Placements make an add-on anew. Then
//! the `ManagedClusterAddOns`; the manager, which still runs, undoes each enrolment in the usual order. [`hub`] asks and
//! deletes, [`remaining`] says in words what is left. Both are done again and again until nothing is left or the time is over,
//! so it does not matter what somebody else does meanwhile, or that this was done before.

pub mod hub;
pub mod remaining;

use std::time::Duration;

use kube::Client;
use runtime::error::Chain;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::config::Uninstall;
use hub::Hub;
use remaining::Rest;

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(1);
/// What has not changed is said again after this time, so that whoever waits sees that somebody is at it.
const REPEAT: Duration = Duration::from_secs(30);

/// Why the add-on is not gone.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The `ClusterManagementAddOn` belongs to somebody else now.
    #[error(
        "the ClusterManagementAddOn {name} uses AddOnTemplates, so it no longer belongs to this add-on; nothing \
        was removed, and `helm uninstall --no-hooks` would delete it"
    )]
    NotOurs {
        /// Its name.
        name: &'static str,
    },
    /// The time is over.
    #[error("timed out after {time_limit:?}: the add-on is not removed from clusters: {clusters}")]
    Late {
        /// How long it could have taken.
        time_limit: Duration,
        /// How many are left.
        clusters: usize,
    },
    /// The hub did not say what is left.
    #[error(
        "timed out after {time_limit:?} without an answer of the API; the state of the removal is unknown"
    )]
    Unknown {
        /// How long it could have taken.
        time_limit: Duration,
        /// What was wrong last.
        source: Box<hub::Error>,
    },
    /// The process is to stop.
    #[error("interrupted before the add-on was removed")]
    Stopped,
}

/// Removes the add-on, and says what it waits for.
pub async fn run(
    settings: &Uninstall,
    client: Client,
    token: CancellationToken,
) -> Result<(), Error> {
    let hub = Hub::new(client, &settings.argocd_namespace);
    let (began, mut teller) = (Instant::now(), Teller::default());
    loop {
        let last = match token.run_until_cancelled(step(&hub)).await {
            None => return Err(Error::Stopped),
            Some(Err(hub::Error::NotOurs { name })) => return Err(Error::NotOurs { name }),
            Some(Ok(rest)) if rest.is_empty() => {
                info!("the add-on is removed from all clusters");
                return Ok(());
            }
            Some(Ok(rest)) => {
                teller.report_progress(&rest);
                Ok(rest)
            }
            Some(Err(error)) => {
                warn!(error = %Chain(&error), "cannot read the state of the removal; retrying");
                Err(error)
            }
        };
        if began.elapsed() >= settings.time_limit {
            return Err(give_up(last, settings));
        }
        token.run_until_cancelled(sleep(PAUSE)).await;
    }
}

/// Removes what is there, and returns it.
async fn step(hub: &Hub) -> Result<Rest, hub::Error> {
    let version = hub.version().await?;
    hub.remove_offer(version).await?;
    hub.remove_addons(version).await?;
    hub.rest(version).await
}

/// Says for the last time what is left, and what to do about it.
fn give_up(last: Result<Rest, hub::Error>, settings: &Uninstall) -> Error {
    let time_limit = settings.time_limit;
    match last {
        Ok(rest) => {
            for line in rest
                .lines()
                .into_iter()
                .chain(rest.advice(&settings.argocd_namespace))
            {
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

/// Says what changed, and now and then what did not.
#[derive(Default)]
struct Teller {
    reply: Option<(Instant, Rest)>,
}

impl Teller {
    fn report_progress(&mut self, rest: &Rest) {
        let known = self
            .reply
            .as_ref()
            .is_some_and(|(at, reply)| reply == rest && at.elapsed() < REPEAT);
        if known {
            return;
        }
        info!(clusters = rest.clusters.len(), "waiting");
        for line in rest.lines() {
            info!("{line}");
        }
        self.reply = Some((Instant::now(), rest.clone()));
    }
}
