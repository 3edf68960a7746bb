//! Comparisons of checksums, on connect and at intervals: only objects that differ are named.
//!
//! Both ends keep changing meanwhile, so a difference may be a change in flight. Sending a state again does no harm; a
//! deletion does, so between connects only objects that were unknown in two comparisons are deleted.

use std::{collections::BTreeSet, time::Duration};

use argocd::ranges::{Sums, name_of};
use protocol::{
    Event, Session, Verdict,
    payload::{Ranges, ResyncRequest, SyncedResourceList},
    resync::{RESPONSE_TIMEOUT, Unconfirmed},
};
use runtime::random;

use super::{Resync, refused};
use crate::sync::{
    hub::{Expected, Hub},
    session::inventory::{Inventory, Named},
};

/// When checksums are compared, and the unknown objects of the last comparison.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    /// None: the peer does not support checksums, and the only comparison is that of the connect.
    every: Option<Duration>,
    /// When the next comparison begins; none during one.
    pub(super) next: Option<Duration>,
    /// When the last one ended.
    pub(super) last: Option<Duration>,
    /// Checksums were requested and have not arrived yet.
    asked: bool,
    /// A comparison of this session has ended.
    later: bool,
    /// The next one is due as soon as none is running.
    requested: bool,
    suspects: BTreeSet<Named>,
}

impl Comparison {
    /// Asks for the first time.
    pub(super) fn begin(session: &mut Session, every: Option<Duration>) -> Self {
        let mut rounds = Self {
            every,
            ..Self::default()
        };
        rounds.ask(session);
        rounds
    }

    /// A peer without checksums names all its objects.
    fn ask(&mut self, session: &mut Session) {
        self.asked = self.every.is_some();
        session.emit(if self.asked {
            Event::resync_request(&ResyncRequest {
                sums: true,
                ..ResyncRequest::default()
            })
        } else {
            Event::request_resource_resync()
        });
    }

    /// A comparison is over; the next one follows after a random pause.
    pub(super) fn ended(&mut self, now: Duration) {
        self.asked = false;
        self.last = Some(now);
        let pause = self
            .every
            .map(|every| every.mul_f64(random::between(0.5, 1.5)));
        self.next = pause.map(|pause| now.saturating_add(pause));
    }

    /// The unknown objects that may be deleted.
    pub(super) fn deletion_candidates(&mut self, unknown: BTreeSet<Named>) -> BTreeSet<Named> {
        let deletion_candidates = if self.later {
            unknown.intersection(&self.suspects).cloned().collect()
        } else {
            unknown.clone()
        };
        self.later = true;
        self.suspects = unknown;
        deletion_candidates
    }
}

impl Resync {
    /// Begins a comparison when it is due; returns whether it did.
    pub(in crate::sync::session) fn begin_when_due(
        &mut self,
        session: &mut Session,
        now: Duration,
    ) -> bool {
        let is_requested = self.is_requested();
        let is_due = is_requested || self.rounds.next.is_some_and(|at| at <= now);
        if is_requested {
            // As after a connect: this one alone decides about unknown objects.
            self.rounds.requested = false;
            self.rounds.later = false;
        }
        if is_due {
            self.rounds.next = None;
            self.inventory = Inventory::default();
            self.response_timeout = Some(now.saturating_add(RESPONSE_TIMEOUT));
            self.rounds.ask(session);
        }
        is_due
    }

    /// Requests a comparison: copies may remain whose deletion was not seen. A running comparison may have begun before
    /// that.
    pub(in crate::sync::session) const fn resync_now(&mut self) {
        self.rounds.requested = true;
    }

    /// Whether a requested comparison is due, at any time.
    pub(super) const fn is_requested(&self) -> bool {
        self.rounds.requested && self.response_timeout.is_none()
    }

    /// Compares the agent's checksums with ours and asks for the differences.
    pub(super) fn compare(
        &mut self,
        session: &mut Session,
        hub: &Hub,
        list: &SyncedResourceList,
        now: Duration,
    ) -> Verdict {
        // A comparison costs us more than its request costs the peer.
        if !std::mem::take(&mut self.rounds.asked) {
            return refused("unexpected digests");
        }
        let sums = |bytes: &Option<Vec<u8>>| Sums::from_bytes(bytes.as_ref()?);
        let (Some(theirs), Some(shown)) = (sums(&list.ranges), sums(&list.statuses)) else {
            return refused("invalid digests");
        };
        let mut expected = hub.objects.expected(&self.cluster);
        expected.retain(|it| session.peer().knows(it.key.kind));
        let differing = differing(&theirs, &expected, |it| Some(it.digest.as_str()));
        let statuses = self::differing(&shown, &expected, |it| it.shown.as_deref());
        let (other, same): (Vec<_>, Vec<_>) = expected
            .into_iter()
            .partition(|it| differing.contains(&theirs.range_of(&name(it))));
        self.inventory = Inventory::default();
        for it in same {
            self.inventory.add_same(it.key.kind.as_str());
        }
        self.unconfirmed = Unconfirmed::new(other.into_iter().map(|it| it.key));
        tracing::debug!(
            ranges = differing.len(),
            statuses = statuses.len(),
            "compared sums"
        );
        if differing.is_empty() {
            self.send_the_rest(session, hub);
            self.response_timeout = None;
            self.find_deletion_candidates(hub, now);
            self.rounds.ended(now);
        } else {
            self.response_timeout = Some(now.saturating_add(RESPONSE_TIMEOUT));
        }
        let request = ResyncRequest {
            sums: false,
            ranges: these(&theirs, &differing),
            statuses: these(&shown, &statuses),
        };
        if request != ResyncRequest::default() {
            session.emit(Event::resync_request(&request));
        }
        Verdict::Done
    }
}

fn name(expected: &Expected) -> String {
    let key = &expected.key;
    name_of(key.kind.as_str(), &key.namespace, &key.name)
}

fn differing<'a>(
    theirs: &Sums,
    expected: &'a [Expected],
    what: impl Fn(&'a Expected) -> Option<&'a str>,
) -> BTreeSet<usize> {
    let mut ours = Sums::like(theirs);
    for (it, what) in expected.iter().filter_map(|it| Some((it, what(it)?))) {
        ours.add(&name(it), what);
    }
    ours.differing(theirs)
}

fn these(sums: &Sums, ranges: &BTreeSet<usize>) -> Option<Ranges> {
    let number = |it: usize| u32::try_from(it).ok();
    (!ranges.is_empty()).then(|| Ranges {
        of: number(sums.ranges()).unwrap_or_default(),
        these: ranges.iter().copied().filter_map(number).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Named {
        Named {
            kind: "Application".to_owned(),
            namespace: "argocd".to_owned(),
            name: name.to_owned(),
            uid: "uid".to_owned(),
        }
    }

    #[test]
    fn deletion_between_connects_needs_two_comparisons() {
        let mut rounds = Comparison::default();
        let set = |names: &[&str]| {
            names
                .iter()
                .map(|name| named(name))
                .collect::<BTreeSet<_>>()
        };
        assert_eq!(
            rounds.deletion_candidates(set(&["a"])),
            set(&["a"]),
            "on connect at once"
        );
        assert_eq!(rounds.deletion_candidates(set(&["b"])), set(&[]));
        assert_eq!(rounds.deletion_candidates(set(&["b", "c"])), set(&["b"]));
        assert_eq!(rounds.deletion_candidates(set(&["c"])), set(&["c"]));
    }

    #[test]
    fn comparisons_do_not_keep_step() {
        let every = Duration::from_mins(5);
        let mut rounds = Comparison {
            every: Some(every),
            ..Comparison::default()
        };
        let pauses: BTreeSet<Duration> = (0..20)
            .map(|_| {
                rounds.ended(Duration::ZERO);
                rounds.next.unwrap()
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
