//! Opting in by label, and the mode of every cluster.
//!
//! [`mod@plan`] decides from the [`World`](crate::hub::World), [`apply`] writes. The controller looks at
//! everything whenever something changed; changes that come together are looked at once.

pub mod apply;
pub mod modes;
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
pub use modes::Keeper;
use modes::Written;
use plan::{Step, plan};

use crate::hub::{self, Memory, Own};

/// Changes within this time are looked at together.
const GATHER: Duration = Duration::from_millis(50);
/// The pause before what failed is tried again.
const RETRY: Duration = Duration::from_secs(5);
/// How often Applications are counted that hold a change of mode: nothing tells when they are gone.
const RECOUNT: Duration = Duration::from_secs(15);
/// How long a step that was done is given to be seen; until then it is not done a second time.
const SEEN_WITHIN: Duration = Duration::from_secs(5);

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
    /// Keeps the modes that clusters had.
    pub keeper: Keeper,
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
    /// Steps that were done, and when, until what we read of the hub no longer asks for them.
    done: BTreeMap<Deed, Instant>,
}

/// What a step came to, if it was done.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Deed {
    /// The mode of this cluster's `ManagedClusterAddOn` was written down, wherever it came from: that is known from
    /// somewhere else when OCM has written a status meanwhile.
    Recorded { cluster: String, uid: String },
    /// Anything else.
    Other(Step),
}

impl Deed {
    fn of(step: &Step) -> Self {
        if let Step::Record { cluster, uid, .. } = step {
            Self::Recorded {
                cluster: cluster.clone(),
                uid: uid.clone(),
            }
        } else {
            Self::Other(step.clone())
        }
    }
}

impl OptIn {
    /// Runs until the token is cancelled.
    pub async fn run(self, token: CancellationToken) {
        let mut revision = self.view.revision();
        let Some((mut past, mut written)) = token.run_until_cancelled(self.begin()).await else {
            return;
        };
        loop {
            revision.mark_unchanged();
            let pauses = [
                self.round(&mut past).await,
                self.keep(&past, &mut written).await,
            ];
            let pause = pauses.into_iter().flatten().min();
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

    /// Waits for what was known before: without it a mode could change unnoticed.
    async fn begin(&self) -> (Past, Written) {
        loop {
            match self.keeper.read().await {
                Ok(written) => {
                    let memory = Memory::from_modes(written.modes());
                    let past = Past {
                        memory,
                        ..Past::default()
                    };
                    return (past, written);
                }
                Err(error) => {
                    let error = runtime::error::Chain(&error).to_string();
                    warn!(error, "cannot read which modes clusters had; trying again");
                    sleep(RETRY).await;
                }
            }
        }
    }

    /// Writes down the modes that clusters have, and tells when to try that again.
    async fn keep(&self, past: &Past, written: &mut Written) -> Option<Duration> {
        match self.keeper.write(written, past.memory.modes()).await {
            Ok(pause) => pause,
            Err(error) => {
                let error = runtime::error::Chain(&error).to_string();
                warn!(
                    error,
                    "cannot write down which modes clusters have; trying again"
                );
                Some(RETRY)
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
        let asked: BTreeSet<_> = steps.iter().map(Deed::of).collect();
        past.done.retain(|deed, _| asked.contains(deed));
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
                Ok(Done::Yes) => {
                    info!(?step, "opting in");
                    past.did(&step);
                }
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
        past.next(failed)
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
        let within = |at: Option<&Instant>, time| at.is_some_and(|at| at.elapsed() < time);
        within(self.counted.get(step), RECOUNT)
            || within(self.done.get(&Deed::of(step)), SEEN_WITHIN)
    }

    /// Notes a step that was done. What was told is kept by itself, as long as its reason stays.
    fn did(&mut self, step: &Step) {
        if !matches!(step, Step::Refuse { .. }) {
            self.done.insert(Deed::of(step), Instant::now());
        }
    }

    /// When to look again without a change.
    fn next(&self, failed: bool) -> Option<Duration> {
        let again = [
            (failed, RETRY),
            (!self.done.is_empty(), SEEN_WITHIN),
            (!self.counted.is_empty(), RECOUNT),
        ];
        let due = again.into_iter().filter(|(is_due, _)| *is_due);
        due.map(|(_, pause)| pause).min()
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

#[cfg(test)]
mod tests {
    use principal::Mode;

    use super::*;
    use plan::Source;

    #[tokio::test(start_paused = true)]
    async fn what_was_done_is_not_done_again_before_it_can_be_seen() {
        let step = Step::Record {
            cluster: "a".to_owned(),
            uid: "1".to_owned(),
            mode: Source::Known(Mode::Managed),
        };
        let mut past = Past::default();
        assert!(!past.is_enough(&step));
        assert_eq!(past.next(false), None);

        past.did(&step);
        assert!(past.is_enough(&step));
        let from_elsewhere = Step::Record {
            cluster: "a".to_owned(),
            uid: "1".to_owned(),
            mode: Source::Known(Mode::Autonomous),
        };
        assert!(past.is_enough(&from_elsewhere));
        assert_eq!(past.next(false), Some(SEEN_WITHIN));

        tokio::time::advance(SEEN_WITHIN).await;
        assert!(!past.is_enough(&step), "it came to nothing");
    }
}
