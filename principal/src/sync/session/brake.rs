//! What would be taken away from a spoke because the hub does not know it, and the brake on that. Pure.
//!
//! A restored backup, a wrong filter or a mistake of ours looks like a hub that has lost most of its objects. So
//! when a large part of what a spoke holds would go, nothing goes until a person has confirmed exactly this list.

use std::{collections::BTreeMap, time::Duration};

use argocd::digest;
use serde_json::json;

use super::inventory::{Inventory, Named};
use crate::report::BlockedDeletion;

/// So many of a kind may go on any spoke.
const FEW: usize = 10;
/// One in so many may go on a large one.
const SHARE: usize = 5;
/// How many are told by name; the message has to be read by a person.
const TOLD: usize = 20;

/// What is held is looked at again so often: it may be known again by then.
const REVIEW: Duration = Duration::from_mins(1);

/// What waits to be decided about, in one session.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    pub(super) deletion_candidates: Option<DeletionCandidates>,
    /// When it is to be decided what goes.
    pub(super) decision: Option<Duration>,
}

/// What would go.
#[derive(Debug)]
pub(super) struct DeletionCandidates {
    list: Vec<Named>,
    /// How many of each kind the spoke holds.
    of: BTreeMap<String, usize>,
    digest: String,
}

/// What is done about it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// These go; there may be none.
    Go(Vec<Named>),
    /// Too many: nothing goes.
    Hold(BlockedDeletion),
}

impl Waiting {
    /// Whether something waits for a person's word.
    pub(super) const fn is_holding(&self) -> bool {
        self.deletion_candidates.is_some()
    }

    /// Who is enrolled has changed, and with it perhaps what a person has confirmed.
    pub(super) const fn look_again(&mut self, now: Duration) {
        if self.is_holding() {
            self.decision = Some(now);
        }
    }

    /// Whether it is to be decided now what goes.
    pub(super) fn is_due(&self, now: Duration) -> bool {
        self.decision.is_some_and(|at| at <= now)
    }

    /// These are too many: they are looked at again.
    pub(super) fn hold(&mut self, deletion_candidates: DeletionCandidates, now: Duration) {
        self.deletion_candidates = Some(deletion_candidates);
        self.decision = Some(now.saturating_add(REVIEW));
    }
}

impl DeletionCandidates {
    /// Those of a complete inventory that the hub does not know.
    pub(super) fn of(inventory: Inventory, is_unknown: impl Fn(&Named) -> bool) -> Self {
        let of = inventory.counts();
        let list: Vec<Named> = inventory
            .into_named()
            .into_iter()
            .filter(is_unknown)
            .collect();
        let digest = digest_of(&list);
        Self { list, of, digest }
    }

    /// Decides anew; what the hub knows by now stays. `confirmed` is the digest that a person has written.
    pub(super) fn decide(
        &mut self,
        confirmed: Option<&str>,
        is_unknown: impl Fn(&Named) -> bool,
    ) -> Decision {
        // By the digest that was told, even if some of them have come back since.
        let confirmed = confirmed == Some(self.digest.as_str());
        self.list.retain(is_unknown);
        if confirmed || !self.is_too_much() {
            return Decision::Go(std::mem::take(&mut self.list));
        }
        self.digest = digest_of(&self.list);
        let reply = self.list.iter().take(TOLD);
        Decision::Hold(BlockedDeletion {
            names: reply
                .map(|it| format!("{} {}/{}", it.kind, it.namespace, it.name))
                .collect(),
            count: self.list.len(),
            mirrors: false,
            digest: self.digest.clone(),
        })
    }

    fn is_too_much(&self) -> bool {
        let mut going: BTreeMap<&str, usize> = BTreeMap::new();
        for named in &self.list {
            *going.entry(named.kind.as_str()).or_default() += 1;
        }
        going.into_iter().any(|(kind, count)| {
            let retained = self.of.get(kind).copied().unwrap_or_default();
            count > FEW.max(retained / SHARE)
        })
    }
}

fn digest_of(list: &[Named]) -> String {
    let entries: Vec<_> = list
        .iter()
        .map(|it| json!([it.kind, it.namespace, it.name, it.uid]))
        .collect();
    digest::short(&entries.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(kind: &str, number: usize) -> Named {
        Named {
            kind: kind.to_owned(),
            namespace: "argocd".to_owned(),
            name: format!("name-{number:04}"),
            uid: format!("uid-{number}"),
        }
    }

    /// A spoke with so many Applications, of which the hub does not know the first ones.
    fn deletion_candidates(retained: usize, unknown: usize) -> DeletionCandidates {
        let mut inventory = Inventory::default();
        for number in 0..retained {
            inventory.add(named("Application", number));
        }
        inventory.add(named("AppProject", 0));
        let first: Vec<Named> = (0..unknown).map(|n| named("Application", n)).collect();
        DeletionCandidates::of(inventory, |it| first.contains(it))
    }

    fn blocked_deletion(decision: Decision) -> Option<BlockedDeletion> {
        match decision {
            Decision::Hold(retained) => Some(retained),
            Decision::Go(_) => None,
        }
    }

    #[test]
    fn ten_or_a_fifth_of_a_kind_may_go_and_one_more_may_not() {
        for (of, few) in [(10, 10), (11, 10), (50, 10), (60, 12), (1000, 200)] {
            let decision = deletion_candidates(of, few).decide(None, |_| true);
            assert!(
                matches!(&decision, Decision::Go(list) if list.len() == few),
                "{few} of {of}"
            );
            if few < of {
                let decision = deletion_candidates(of, few + 1).decide(None, |_| true);
                assert!(blocked_deletion(decision).is_some(), "{} of {of}", few + 1);
            }
        }
    }

    #[test]
    fn what_is_held_goes_only_on_the_word_for_this_very_list() {
        let mut deletion_candidates = deletion_candidates(30, 30);
        let reply =
            blocked_deletion(deletion_candidates.decide(Some("another"), |_| true)).unwrap();
        assert_eq!((reply.count, reply.names.len()), (30, TOLD));
        assert_eq!(reply.names[0], "Application argocd/name-0000");
        let back = named("Application", 3);
        let Decision::Go(going) = deletion_candidates.decide(Some(&reply.digest), |it| *it != back)
        else {
            panic!("it was confirmed");
        };
        assert_eq!(going.len(), 29);
        assert!(!going.contains(&back), "the hub has it again");
    }

    #[test]
    fn a_list_that_changes_has_another_digest() {
        let mut deletion_candidates = deletion_candidates(30, 30);
        let before = blocked_deletion(deletion_candidates.decide(None, |_| true)).unwrap();
        let back = named("Application", 3);
        let after = blocked_deletion(deletion_candidates.decide(None, |it| *it != back)).unwrap();
        assert_ne!(before.digest, after.digest);
        assert_eq!(after.count, 29);
    }
}
