//! Comparisons of checksums, on connect and at intervals: only objects that differ are named.
//!
//! Both ends keep changing meanwhile, so a difference may be a change in flight. Sending a state again does no harm; a
//! deletion does, so between connects only objects that were unknown in two comparisons are deleted.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use argocd::ranges::{Sums, name_of};
use protocol::{
    Event, Session,
    payload::{Ranges, ResyncRequest},
};
use runtime::random;

use crate::sync::{hub::Expected, session::inventory::Named};

/// How long we wait for the request-updates of a Go agent: it marks no end, and sends them at once or not at all.
pub(super) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The state of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Checksums were requested, and are expected until then.
    Sums(Duration),
    /// More names are expected until then.
    Names(Duration),
    /// The comparison is over; the next one begins then, if any.
    Over(Option<Duration>),
}

/// When checksums are compared, and the unknown objects of the last comparison.
#[derive(Debug)]
pub(super) struct Comparison {
    /// None: the peer does not support checksums, and the only comparison is that of the connect.
    every: Option<Duration>,
    phase: Phase,
    /// When the last one ended.
    pub(super) last: Option<Duration>,
    /// A comparison of this session has ended.
    later: bool,
    /// The next one is due as soon as none is running.
    requested: bool,
    suspects: BTreeSet<Arc<Named>>,
}

impl Comparison {
    /// Asks for the first time.
    pub(super) fn begin(session: &mut Session, every: Option<Duration>) -> Self {
        let mut rounds = Self {
            every,
            phase: Phase::Over(None),
            last: None,
            later: false,
            requested: false,
            suspects: BTreeSet::new(),
        };
        rounds.ask(session, Duration::ZERO);
        rounds
    }

    /// A peer without checksums names all its objects.
    fn ask(&mut self, session: &mut Session, now: Duration) {
        let until = now.saturating_add(RESPONSE_TIMEOUT);
        if self.every.is_some() {
            self.phase = Phase::Sums(until);
            session.emit(Event::resync_request(&ResyncRequest {
                sums: true,
                ..ResyncRequest::default()
            }));
        } else {
            self.phase = Phase::Names(until);
            session.emit(Event::request_resource_resync());
        }
    }

    /// Asks again when it is due; returns whether it did.
    pub(super) fn ask_when_due(&mut self, session: &mut Session, now: Duration) -> bool {
        let Phase::Over(next) = self.phase else {
            return false;
        };
        if self.requested {
            // As after a connect: this one alone decides about unknown objects.
            self.requested = false;
            self.later = false;
        } else if next.is_none_or(|at| at > now) {
            return false;
        }
        self.ask(session, now);
        true
    }

    /// Requests a comparison: copies may remain whose deletion was not seen. A running comparison may have begun before
    /// that.
    pub(super) const fn request(&mut self) {
        self.requested = true;
    }

    /// The time of the next action without a message.
    pub(super) const fn next_timeout(&self, now: Duration) -> Option<Duration> {
        match self.phase {
            Phase::Sums(until) | Phase::Names(until) => Some(until),
            Phase::Over(_) if self.requested => Some(now),
            Phase::Over(next) => next,
        }
    }

    /// The agent may name more objects.
    pub(super) fn expect_more(&mut self, now: Duration) {
        let until = now.saturating_add(RESPONSE_TIMEOUT);
        self.phase = match self.phase {
            Phase::Sums(_) => Phase::Sums(until),
            Phase::Names(_) | Phase::Over(_) => Phase::Names(until),
        };
    }

    /// Whether the agent's time is over.
    pub(super) fn has_timed_out(&self, now: Duration) -> bool {
        match self.phase {
            Phase::Sums(until) | Phase::Names(until) => until <= now,
            Phase::Over(_) => false,
        }
    }

    /// Whether checksums were requested.
    pub(super) const fn expects_sums(&self) -> bool {
        matches!(self.phase, Phase::Sums(_))
    }

    /// Checksums arrived; returns whether they were requested.
    pub(super) const fn take_sums(&mut self) -> bool {
        let Phase::Sums(until) = self.phase else {
            return false;
        };
        self.phase = Phase::Names(until);
        true
    }

    /// A comparison is over; the next one follows after a random pause.
    pub(super) fn ended(&mut self, now: Duration) {
        self.last = Some(now);
        let pause = self
            .every
            .map(|every| every.mul_f64(random::between(0.5, 1.5)));
        self.phase = Phase::Over(pause.map(|pause| now.saturating_add(pause)));
    }

    /// The unknown objects that may be deleted.
    pub(super) fn deletion_candidates(&mut self, unknown: BTreeSet<Arc<Named>>) -> Vec<Arc<Named>> {
        let may_go = |named: &&Arc<Named>| !self.later || self.suspects.contains(*named);
        let deletion_candidates = unknown.iter().filter(may_go).cloned().collect();
        self.later = true;
        self.suspects = unknown;
        deletion_candidates
    }
}

/// The number of the range in which the peer's checksums have this object.
pub(super) fn range(theirs: &Sums, expected: &Expected) -> usize {
    theirs.range_of(&name(expected))
}

fn name(expected: &Expected) -> String {
    let key = &expected.key;
    name_of(key.kind.as_str(), &key.namespace, &key.name)
}

/// The ranges that differ from the expected objects, of which `sum` has the sums.
pub(super) fn differing(
    theirs: &Sums,
    expected: &[Expected],
    sum: impl Fn(&str, &Expected) -> Option<u64>,
) -> BTreeSet<usize> {
    let mut ours = Sums::like(theirs);
    for it in expected {
        let name = name(it);
        if let Some(sum) = sum(&name, it) {
            ours.add_sum(&name, sum);
        }
    }
    ours.differing(theirs)
}

/// The request for these ranges, if there are any.
pub(super) fn these(sums: &Sums, ranges: &BTreeSet<usize>) -> Option<Ranges> {
    let number = |it: usize| u32::try_from(it).ok();
    (!ranges.is_empty()).then(|| Ranges {
        of: number(sums.ranges()).unwrap_or_default(),
        these: ranges.iter().copied().filter_map(number).collect(),
    })
}

#[cfg(test)]
mod tests {
    use protocol::Kind;

    use super::*;

    fn comparison(every: Option<Duration>) -> Comparison {
        Comparison {
            every,
            phase: Phase::Over(None),
            last: None,
            later: false,
            requested: false,
            suspects: BTreeSet::new(),
        }
    }

    fn named(name: &str) -> Arc<Named> {
        Arc::new(Named {
            kind: Kind::Application,
            namespace: "argocd".to_owned(),
            name: name.to_owned(),
            uid: "uid".to_owned(),
        })
    }

    #[test]
    fn deletion_between_connects_needs_two_comparisons() {
        let mut rounds = comparison(None);
        let list = |names: &[&str]| names.iter().map(|it| named(it)).collect::<Vec<_>>();
        let mut candidates =
            |names: &[&str]| rounds.deletion_candidates(list(names).into_iter().collect());
        assert_eq!(candidates(&["a"]), list(&["a"]), "on connect at once");
        assert_eq!(candidates(&["b"]), list(&[]));
        assert_eq!(candidates(&["b", "c"]), list(&["b"]));
        assert_eq!(candidates(&["c"]), list(&["c"]));
    }

    #[test]
    fn comparisons_do_not_keep_step() {
        let every = Duration::from_mins(5);
        let mut rounds = comparison(Some(every));
        let pauses: BTreeSet<Duration> = (0..20)
            .map(|_| {
                rounds.ended(Duration::ZERO);
                rounds.next_timeout(Duration::ZERO).unwrap()
            })
            .collect();
        assert!(pauses.len() > 10);
        assert!(
            pauses
                .iter()
                .all(|it| *it >= every / 2 && *it <= every * 3 / 2)
        );
    }
}
