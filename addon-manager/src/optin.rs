//! Opting in by label, and the mode of every cluster.
//!
//! [`mod@plan`] decides from the [`World`](crate::hub::World), [`apply`] writes. The controller reconciles all
//! clusters after each change; it combines changes that arrive together.

pub mod apply;
pub mod plan;

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt as _, stream};
use jiff::SignedDuration;
use ocm::{
    name::{AddonName, ClusterName},
    sdk::View,
};
use runtime::clock::Clock;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use apply::Done;
pub use apply::Writer;
use plan::{Action, Step, plan};

use crate::{
    api,
    channels::Channels,
    decisions::{
        self, Records,
        store::{Store, Written},
    },
    hub::{self, Memory, Own, World},
    publish::publish,
};

/// Changes within this time are reconciled together.
const GATHER: Duration = Duration::from_millis(50);
/// The pause before a retry.
const RETRY: Duration = Duration::from_secs(5);
/// How often the Applications that block a change of mode are counted: no watch reports their removal.
const RECOUNT: Duration = Duration::from_secs(15);
/// How soon to check whether the view shows our own write, without a change that reports it; and whether the cluster of a
/// waiting removal has applied its works.
const LOOK: Duration = Duration::from_secs(5);

/// Concurrent writes. No agent connects before its cluster has a mode, so clusters do not wait for each other.
const AT_ONCE: usize = 16;

/// The controller.
#[derive(Debug)]
pub struct OptIn {
    /// The SDK's view of the hub.
    pub view: View,
    /// Our add-on's name.
    pub addon: AddonName,
    /// The identity of this hub.
    pub own: Own,
    /// Carries out the steps.
    pub writer: Writer,
    /// Records the decisions about each cluster.
    pub store: Store,
    /// How long the record of a removed cluster stays: as long as one of its certificates may be valid.
    pub keep: SignedDuration,
    /// The channels: publishes the decisions and the blocked changes of mode.
    pub channels: Channels,
}

/// The results of earlier rounds.
#[derive(Debug, Default)]
struct Past {
    memory: Memory,
    records: Arc<Records>,
    /// Refused labels that have an Event already: one Event until the cause is gone.
    refused: BTreeSet<Step>,
    /// Blocked changes of mode and waiting removals, and when they were tried last.
    waiting: BTreeMap<Step, Instant>,
    /// Clusters whose last write the view does not show yet: a decision from the old state would repeat the write.
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
            // A write that hangs must not outlast our leadership; the next leader repeats a dropped write.
            let looking = async {
                // Before the view is read: the read then includes every write that this finds.
                past.unseen.retain(|cluster| self.view.is_behind(cluster));
                let world = hub::read(&self.view, &self.addon)?;
                self.note(&mut past, &world);
                let recorded = self.record(&past, &mut written).await;
                let round = self.round(&mut past, world).await;
                recorded.into_iter().chain(round).min()
            };
            let Some(pause) = token.run_until_cancelled(looking).await else {
                return;
            };
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

    /// Waits until the recorded decisions are read: without them a revocation or a mode could change unnoticed.
    async fn begin(&self) -> (Past, Written) {
        let mut logged = None;
        loop {
            match self.store.read().await {
                Ok(written) => {
                    let records = Arc::new(written.records());
                    let past = Past {
                        memory: Memory::from_records(&records),
                        records: Arc::clone(&records),
                        ..Past::default()
                    };
                    self.channels.decisions.send_replace(Some(records));
                    return (past, written);
                }
                Err(error) => {
                    let next = api::next_step(&error).unwrap_or("it is tried again");
                    let error = runtime::error::Chain(&error).to_string();
                    if logged.as_ref() != Some(&error) {
                        warn!(
                            error,
                            next,
                            "cannot read the recorded decisions; no agent is admitted; retrying"
                        );
                    }
                    logged = Some(error);
                    sleep(RETRY).await;
                }
            }
        }
    }

    /// Takes new decisions over and publishes them.
    fn note(&self, past: &mut Past, world: &World) {
        let records = decisions::updated(&past.records, world, Clock::system().now(), self.keep);
        if *past.records != records {
            past.records = Arc::new(records);
            self.channels
                .decisions
                .send_replace(Some(Arc::clone(&past.records)));
        }
    }

    /// Records the decisions, and returns when to try again.
    async fn record(&self, past: &Past, written: &mut Written) -> Option<Duration> {
        match self.store.write(written, &past.records).await {
            Ok(pause) => pause,
            Err(error) => {
                let error = runtime::error::Chain(&error).to_string();
                warn!(error, "cannot record decisions about clusters; retrying");
                Some(RETRY)
            }
        }
    }

    /// Carries out the steps that are due, and returns when to reconcile again without a change.
    async fn round(&self, past: &mut Past, mut world: World) -> Option<Duration> {
        decisions::enforce(&past.records, &mut world);
        past.memory.recall(&mut world);
        let steps = plan(&world, &self.own);
        past.refused.retain(|step| steps.contains(step));
        past.waiting.retain(|step, _| steps.contains(step));
        let mut blocked = BTreeMap::clone(&self.channels.blocked_modes.borrow());
        let counted: BTreeSet<_> = past.waiting.keys().filter_map(changes).collect();
        blocked.retain(|cluster, _| counted.contains(cluster));
        let mut failed = false;
        let due: Vec<_> = steps
            .into_iter()
            .filter(|it| !past.is_not_due(it))
            .collect();
        let writes = due.into_iter().map(|step| async {
            let done = self.writer.apply(&step).await;
            (step, done)
        });
        let mut writes = pin!(stream::iter(writes).buffer_unordered(AT_ONCE));
        while let Some((step, done)) = writes.next().await {
            match done {
                Ok(Done::Notified) => info!(?step, "opting in"),
                Ok(Done::Wrote(version)) => {
                    info!(?step, "opting in");
                    past.wrote(&step, |cluster| self.view.wrote(cluster, version));
                }
                Ok(Done::Gone(uid)) => {
                    past.wrote(&step, |cluster| self.view.deleted(cluster, uid));
                }
                Ok(Done::Later) => {}
                Ok(Done::Blocked(applications)) => {
                    if let Some(cluster) = changes(&step) {
                        blocked.insert(cluster.to_owned(), applications);
                    }
                    past.waiting.insert(step, Instant::now());
                }
                Ok(Done::Waits) => {
                    past.waiting.insert(step, Instant::now());
                }
                Err(error) => {
                    failed = true;
                    past.refused.remove(&step);
                    let error = runtime::error::Chain(&error);
                    warn!(?step, %error, "opt-in failed; retrying");
                }
            }
        }
        publish(&self.channels.blocked_modes, Arc::new(blocked));
        past.next(failed)
    }
}

impl Past {
    /// Whether this step is not due (yet).
    fn is_not_due(&mut self, step: &Step) -> bool {
        let is_this = |unseen: &ClusterName| unseen.as_str() == step.cluster;
        if self.unseen.iter().any(is_this) {
            return true;
        }
        if let Action::Refuse { .. } = step.action {
            return !self.refused.insert(step.clone());
        }
        let tried = self.waiting.get(step);
        tried.is_some_and(|at| at.elapsed() < pause(step))
    }

    /// Makes the view watch for the write of a step.
    fn wrote(&mut self, step: &Step, expect: impl FnOnce(&ClusterName)) {
        if let Ok(cluster) = ClusterName::new(&step.cluster) {
            expect(&cluster);
            self.unseen.insert(cluster);
        }
    }

    /// When to reconcile again without a change.
    fn next(&self, failed: bool) -> Option<Duration> {
        let again = [(failed, RETRY), (!self.unseen.is_empty(), LOOK)];
        let due = again.into_iter().filter(|(is_due, _)| *is_due);
        let due = due.map(|(_, pause)| pause);
        due.chain(self.waiting.keys().map(pause)).min()
    }
}

/// How soon to try a waiting step again.
const fn pause(step: &Step) -> Duration {
    if matches!(step.action, Action::Leave(_)) {
        LOOK
    } else {
        RECOUNT
    }
}

/// The cluster whose mode a step changes.
fn changes(step: &Step) -> Option<&String> {
    matches!(step.action, Action::Change(_)).then_some(&step.cluster)
}

#[cfg(test)]
mod tests {
    use principal::Mode;

    use super::*;
    use plan::Source;

    fn record(cluster: &str, mode: Mode) -> Step {
        let (mode, former) = (Source::Known(mode), None);
        Step {
            cluster: cluster.to_owned(),
            uid: "1".to_owned(),
            action: Action::Record { mode, former },
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_second_write_before_the_view_shows_the_first() {
        let (view, mut past) = (View::new(), Past::default());
        let step = record("a", Mode::Managed);
        assert!(!past.is_not_due(&step));
        assert_eq!(past.next(false), None);

        past.wrote(&step, |cluster| view.wrote(cluster, "9"));
        // OCM may write a status meanwhile, which changes the source of the mode.
        let from_elsewhere = record("a", Mode::Autonomous);
        for _ in 0..5 {
            past.unseen.retain(|cluster| view.is_behind(cluster));
            assert!(past.is_not_due(&step) && past.is_not_due(&from_elsewhere));
            assert!(!past.is_not_due(&record("b", Mode::Managed)));
            assert_eq!(past.next(false), Some(LOOK));
            tokio::time::advance(LOOK).await;
        }
    }

    #[tokio::test]
    async fn a_visible_deletion_ends_the_wait() {
        let (view, mut past) = (View::new(), Past::default());
        let step = record("a", Mode::Managed);
        past.wrote(&step, |cluster| view.deleted(cluster, "1"));
        past.unseen.retain(|cluster| view.is_behind(cluster));
        assert!(!past.is_not_due(&step));
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_removal_is_tried_again_after_a_pause() {
        let mut past = Past::default();
        let leave = plan::Leave {
            since: None,
            reachable: true,
            installed: true,
        };
        let leaving = Step {
            action: Action::Leave(leave),
            ..record("a", Mode::Managed)
        };
        past.waiting.insert(leaving.clone(), Instant::now());
        assert!(past.is_not_due(&leaving));
        assert_eq!(past.next(false), Some(LOOK));
        tokio::time::advance(LOOK).await;
        assert!(!past.is_not_due(&leaving));
    }

    #[test]
    fn a_label_is_refused_once() {
        let mut past = Past::default();
        let refuse = Step {
            action: Action::Refuse {
                reason: "UnknownMode",
                message: String::new(),
            },
            ..record("a", Mode::Managed)
        };
        assert!(!past.is_not_due(&refuse));
        assert!(past.is_not_due(&refuse));
    }
}
