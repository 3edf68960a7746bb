//! Comparisons by sums, on connect and now and then: only what differs is named.
//!
//! Both ends go on changing meanwhile, so a difference may only be news on its way. Saying a state again does no harm;
//! taking something away does, so between connects only what was unknown in two comparisons is.

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

/// When sums are compared, and what the last comparison did not know.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    /// None: the peer knows no sums, and the only comparison is that of the connect.
    every: Option<Duration>,
    /// When the next comparison begins; none while one is under way.
    pub(super) next: Option<Duration>,
    /// When the last one ended.
    pub(super) last: Option<Duration>,
    /// Sums were asked for and did not come yet.
    asked: bool,
    /// Not the first one of this session.
    later: bool,
    /// The next one is due as soon as none is under way.
    hurried: bool,
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

    /// A peer that knows no sums names everything that it has.
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

    /// A comparison is over; the next one comes after a while of random length.
    pub(super) fn ended(&mut self, now: Duration) {
        self.asked = false;
        self.last = Some(now);
        let pause = self
            .every
            .map(|every| every.mul_f64(random::between(0.5, 1.5)));
        self.next = pause.map(|pause| now.saturating_add(pause));
    }

    /// What of the unknown may be taken away.
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
    /// Begins a comparison when it is time, and says whether it did.
    pub(in crate::sync::session) fn begin_when_due(
        &mut self,
        session: &mut Session,
        now: Duration,
    ) -> bool {
        let is_hurried = self.is_hurried();
        let is_due = is_hurried || self.rounds.next.is_some_and(|at| at <= now);
        if is_hurried {
            // As after a connect: what is unknown here goes, or is held, by this one alone.
            self.rounds.hurried = false;
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

    /// Something may have to go that nobody saw going. A comparison that is under way may have begun without that.
    pub(in crate::sync::session) const fn resync_now(&mut self) {
        self.rounds.hurried = true;
    }

    /// Whether the next comparison is due, whatever the time.
    pub(super) const fn is_hurried(&self) -> bool {
        self.rounds.hurried && self.response_timeout.is_none()
    }

    /// Compares the agent's sums with ours and asks for what differs.
    pub(super) fn compare(
        &mut self,
        session: &mut Session,
        hub: &Hub,
        list: &SyncedResourceList,
        now: Duration,
    ) -> Verdict {
        // Comparing costs us more than it costs whoever asks for it.
        if !std::mem::take(&mut self.rounds.asked) {
            return refused("unexpected digests");
        }
        let sums = |bytes: &Option<Vec<u8>>| Sums::from_bytes(bytes.as_ref()?);
        let (Some(theirs), Some(shown)) = (sums(&list.ranges), sums(&list.statuses)) else {
            return refused("invalid digests");
        };
        let mut expected = hub.expected(&self.cluster, &self.agent_namespace);
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
            self.condemn(hub, now);
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
