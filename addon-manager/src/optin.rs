//! Opting in by label, and the mode of every cluster.
//!
//! [`mod@plan`] decides from the [`World`](crate::hub::World), [`apply`] writes. The controller looks at
//! everything whenever something changed; changes that come together are looked at once.

pub mod apply;
pub mod plan;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use ocm::{name::AddonName, sdk::View};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub use apply::Writer;
use apply::{Done, Error};
use plan::{Step, plan};

use crate::hub::{self, Memory, Own};

/// Changes within this time are looked at together.
const GATHER: Duration = Duration::from_millis(50);
/// The pause before what failed is tried again.
const RETRY: Duration = Duration::from_secs(5);
/// How often Applications are counted that hold a change of mode: nothing tells when they are gone.
const RECOUNT: Duration = Duration::from_secs(15);

/// Clusters whose mode cannot change yet, with the number of Applications that are in the way.
pub type HeldModes = Arc<BTreeMap<String, usize>>;

/// The controller.
#[derive(Debug)]
pub struct OptIn {
    /// The SDK's window on the hub.
    pub view: View,
    /// Our add-on's name.
    pub addon: AddonName,
    /// What this hub is.
    pub own: Own,
    /// Writes.
    pub writer: Writer,
    /// Where changes of mode that have to wait are told.
    pub held: watch::Sender<HeldModes>,
}

/// What was done in rounds before.
#[derive(Debug, Default)]
struct Past {
    memory: Memory,
    /// Labels that people were told of; once, until the reason is gone.
    told: BTreeSet<Step>,
    /// Changes of mode that were found held, and when.
    counted: BTreeMap<Step, Instant>,
}

impl OptIn {
    /// Runs until the token is cancelled.
    pub async fn run(self, token: CancellationToken) {
        let mut revision = self.view.revision();
        let mut past = Past::default();
        loop {
            revision.mark_unchanged();
            let pause = self.round(&mut past).await;
            let next = async {
                tokio::select! {
                    changed = revision.changed() => changed.is_ok(),
                    () = sleep(pause.unwrap_or_default()), if pause.is_some() => true,
                }
            };
            match token.run_until_cancelled(next).await {
                Some(true) => sleep(GATHER).await,
                Some(false) => token.cancelled().await,
                None => return,
            }
        }
    }

    /// Does what is to be done now, and tells when to look again without a change.
    async fn round(&self, past: &mut Past) -> Option<Duration> {
        let mut world = hub::read(&self.view, &self.addon)?;
        past.memory.recall(&mut world);
        let steps = plan(&world, &self.own);
        past.told.retain(|step| steps.contains(step));
        past.counted.retain(|step, _| steps.contains(step));
        let mut held = BTreeMap::clone(&self.held.borrow());
        held.retain(|cluster, _| {
            past.counted
                .keys()
                .any(|step| changes(step) == Some(cluster))
        });
        let mut failed = false;
        for step in steps {
            if past.is_enough(&step) {
                continue;
            }
            match self.writer.apply(&step).await {
                Ok(Done::Yes) => info!(?step, "opting in"),
                Ok(Done::Later) => {}
                Ok(Done::Held(applications)) => {
                    if let Some(cluster) = changes(&step) {
                        held.insert(cluster.to_owned(), applications);
                    }
                    past.counted.insert(step, Instant::now());
                }
                Err(error) => {
                    failed = true;
                    past.told.remove(&step);
                    complain(&step, &error);
                }
            }
        }
        self.tell(held);
        let recount = (!past.counted.is_empty()).then_some(RECOUNT);
        if failed { Some(RETRY) } else { recount }
    }

    fn tell(&self, held: BTreeMap<String, usize>) {
        self.held.send_if_modified(|known| {
            let changed = **known != held;
            if changed {
                *known = Arc::new(held);
            }
            changed
        });
    }
}

impl Past {
    /// Whether this step need not be done again for now.
    fn is_enough(&mut self, step: &Step) -> bool {
        if let Step::Refuse { .. } = step {
            return !self.told.insert(step.clone());
        }
        let counted = self.counted.get(step);
        counted.is_some_and(|at| at.elapsed() < RECOUNT)
    }
}

/// The cluster whose mode a step changes.
fn changes(step: &Step) -> Option<&String> {
    if let Step::Change { cluster, .. } = step {
        Some(cluster)
    } else {
        None
    }
}

fn complain(step: &Step, error: &Error) {
    warn!(?step, error = %runtime::error::Chain(error), "opting in failed; trying again");
}
