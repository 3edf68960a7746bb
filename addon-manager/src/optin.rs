//! Opting in by label, and the mode of every cluster.
//!
//! [`mod@plan`] decides from the [`World`](crate::hub::World), [`apply`] writes. The controller looks at
//! everything whenever something changed; changes that come together are looked at once.

pub mod apply;
pub mod modes;
pub mod plan;

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt as _, stream};
use ocm::{
    name::{AddonName, ClusterName},
    sdk::View,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub use apply::Writer;
use apply::{Done, Error};
pub use modes::ModeRecords;
use modes::Written;
use plan::{Step, plan};

use crate::hub::{self, Memory, Own};

/// Changes within this time are looked at together.
const GATHER: Duration = Duration::from_millis(50);
/// The pause before what failed is tried again.
const RETRY: Duration = Duration::from_secs(5);
/// How often Applications are counted that hold a change of mode: nothing tells when they are gone.
const RECOUNT: Duration = Duration::from_secs(15);
/// How soon it is looked again whether something that we wrote can be seen, should no change tell.
const LOOK: Duration = Duration::from_secs(5);

/// So many clusters are written at a time: nobody waits for the mode of all others, without which no agent comes in.
const AT_ONCE: usize = 16;

/// Clusters whose mode cannot change yet, with the number of Applications that are in the way.
pub type BlockedModes = Arc<BTreeMap<String, usize>>;

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
    pub keeper: ModeRecords,
    /// Where changes of mode that have to wait are told.
    pub stored: watch::Sender<BlockedModes>,
}

/// What was done in rounds before.
#[derive(Debug, Default)]
struct Past {
    memory: Memory,
    /// Labels that people were told of; once, until the reason is gone.
    reply: BTreeSet<Step>,
    /// Changes of mode that were found held, and when.
    counted: BTreeMap<Step, Instant>,
    /// Clusters of which something was written that cannot be seen yet: what would be decided from what was before
    /// would be written a second time.
    unseen: BTreeSet<ClusterName>,
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
            // A write that hangs must not outlast our time as the leader; what is dropped, the next leader's round does.
            let looking = async {
                let round = self.round(&mut past).await;
                [round, self.keep(&past, &mut written).await]
            };
            let Some(pauses) = token.run_until_cancelled(looking).await else {
                return;
            };
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
        let mut reply = None;
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
                    let next = hub::next_step(&error).unwrap_or("it is tried again");
                    let error = runtime::error::Chain(&error).to_string();
                    if reply.as_ref() != Some(&error) {
                        warn!(
                            error,
                            next,
                            "cannot read the recorded modes; enrolment by label waits; retrying"
                        );
                    }
                    reply = Some(error);
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
                warn!(error, "cannot record modes of clusters; retrying");
                Some(RETRY)
            }
        }
    }

    /// Does what is to be done now, and tells when to look again without a change.
    async fn round(&self, past: &mut Past) -> Option<Duration> {
        // Before anything is read: what was seen then is in what is read.
        past.unseen.retain(|cluster| self.view.is_behind(cluster));
        let mut world = hub::read(&self.view, &self.addon)?;
        past.memory.recall(&mut world);
        let steps = plan(&world, &self.own);
        past.reply.retain(|step| steps.contains(step));
        past.counted.retain(|step, _| steps.contains(step));
        let mut stored = BTreeMap::clone(&self.stored.borrow());
        stored.retain(|cluster, _| {
            past.counted
                .keys()
                .any(|step| changes(step) == Some(cluster))
        });
        let mut failed = false;
        let due: Vec<_> = steps.into_iter().filter(|it| !past.is_enough(it)).collect();
        let writes = due.into_iter().map(|step| async {
            let done = self.writer.apply(&step).await;
            (step, done)
        });
        let mut writes = pin!(stream::iter(writes).buffer_unordered(AT_ONCE));
        while let Some((step, done)) = writes.next().await {
            match done {
                Ok(Done::Told) => info!(?step, "opting in"),
                Ok(Done::Wrote { version }) => {
                    info!(?step, "opting in");
                    past.wrote(&step, |cluster| self.view.wrote(cluster, version));
                }
                Ok(Done::Gone { uid }) => {
                    past.wrote(&step, |cluster| self.view.deleted(cluster, uid));
                }
                Ok(Done::Later) => {}
                Ok(Done::Held(applications)) => {
                    if let Some(cluster) = changes(&step) {
                        stored.insert(cluster.to_owned(), applications);
                    }
                    past.counted.insert(step, Instant::now());
                }
                Err(error) => {
                    failed = true;
                    past.reply.remove(&step);
                    complain(&step, &error);
                }
            }
        }
        self.notify(stored);
        past.next(failed)
    }

    fn notify(&self, stored: BTreeMap<String, usize>) {
        self.stored.send_if_modified(|known| {
            let changed = **known != stored;
            if changed {
                *known = Arc::new(stored);
            }
            changed
        });
    }
}

impl Past {
    /// Whether this step need not be done, or not yet.
    fn is_enough(&mut self, step: &Step) -> bool {
        let unseen = self.unseen.iter();
        if unseen
            .map(ClusterName::as_str)
            .any(|it| it == step.cluster())
        {
            return true;
        }
        if let Step::Refuse { .. } = step {
            return !self.reply.insert(step.clone());
        }
        let counted = self.counted.get(step);
        counted.is_some_and(|at| at.elapsed() < RECOUNT)
    }

    /// Has the view watch out for what a step wrote.
    fn wrote(&mut self, step: &Step, expect: impl FnOnce(&ClusterName)) {
        if let Ok(cluster) = ClusterName::new(step.cluster()) {
            expect(&cluster);
            self.unseen.insert(cluster);
        }
    }

    /// When to look again without a change.
    fn next(&self, failed: bool) -> Option<Duration> {
        let again = [
            (failed, RETRY),
            (!self.unseen.is_empty(), LOOK),
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
    warn!(?step, error = %runtime::error::Chain(error), "opt-in failed; retrying");
}

#[cfg(test)]
mod tests {
    use principal::Mode;

    use super::*;
    use plan::Source;

    fn record(cluster: &str, mode: Mode) -> Step {
        Step::Record {
            cluster: cluster.to_owned(),
            uid: "1".to_owned(),
            mode: Source::Known(mode),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_is_let_be_until_what_was_written_of_it_can_be_seen() {
        let (view, mut past) = (View::new(), Past::default());
        let step = record("a", Mode::Managed);
        assert!(!past.is_enough(&step));
        assert_eq!(past.next(false), None);

        past.wrote(&step, |cluster| view.wrote(cluster, "9"));
        // OCM may have written a status meanwhile, so that the mode would come from elsewhere.
        let from_elsewhere = record("a", Mode::Autonomous);
        for _ in 0..5 {
            past.unseen.retain(|cluster| view.is_behind(cluster));
            assert!(past.is_enough(&step) && past.is_enough(&from_elsewhere));
            assert!(!past.is_enough(&record("b", Mode::Managed)));
            assert_eq!(past.next(false), Some(LOOK));
            tokio::time::advance(LOOK).await;
        }
    }

    #[tokio::test]
    async fn what_is_seen_to_be_gone_is_not_waited_for() {
        let (view, mut past) = (View::new(), Past::default());
        let step = record("a", Mode::Managed);
        past.wrote(&step, |cluster| view.deleted(cluster, "1"));
        past.unseen.retain(|cluster| view.is_behind(cluster));
        assert!(!past.is_enough(&step));
    }

    #[test]
    fn a_label_is_refused_once() {
        let mut past = Past::default();
        let refuse = Step::Refuse {
            cluster: "a".to_owned(),
            uid: "1".to_owned(),
            reason: "UnknownMode",
            message: String::new(),
        };
        assert!(!past.is_enough(&refuse));
        assert!(past.is_enough(&refuse));
    }
}
