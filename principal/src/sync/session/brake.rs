//! The brake on mass deletion: blocks the deletion of many objects that the hub does not know. Pure.
//!
//! A restored backup, a wrong filter or a bug of ours looks like a hub that has lost most of its objects. So when a
//! large part of a spoke's objects would be deleted, nothing is deleted until a user has confirmed exactly this list.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use argocd::digest;
use protocol::Kind;
use serde_json::json;

use super::inventory::Named;
use crate::report::BlockedDeletion;

/// So many objects of a kind may be deleted on any spoke.
const FEW: usize = 10;
/// One in so many may be deleted on a large spoke.
const SHARE: usize = 5;
/// So many are listed by name; a user has to read the message.
const LISTED: usize = 20;

/// Blocked deletions are reviewed so often: the hub may know the objects by then.
const REVIEW: Duration = Duration::from_mins(1);

/// The deletions that wait for a decision, in one session.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    pub(super) deletion_candidates: Option<DeletionCandidates>,
    /// When to decide about the deletions.
    pub(super) decision: Option<Duration>,
}

/// The objects that would be deleted.
#[derive(Debug)]
pub(super) struct DeletionCandidates {
    list: Vec<Arc<Named>>,
    /// The number of objects of each kind on the spoke.
    of: BTreeMap<Kind, usize>,
    digest: String,
}

impl Waiting {
    /// Whether deletions wait for the confirmation of a user.
    pub(super) const fn is_blocking(&self) -> bool {
        self.deletion_candidates.is_some()
    }

    /// The enrolments have changed, and with them perhaps a confirmation.
    pub(super) const fn review(&mut self, now: Duration) {
        if self.is_blocking() {
            self.decision = Some(now);
        }
    }

    /// Whether a decision is due.
    pub(super) fn is_due(&self, now: Duration) -> bool {
        self.decision.is_some_and(|at| at <= now)
    }

    /// Blocks the candidates until the next review.
    pub(super) fn block(&mut self, deletion_candidates: DeletionCandidates, now: Duration) {
        self.deletion_candidates = Some(deletion_candidates);
        self.decision = Some(now.saturating_add(REVIEW));
    }
}

impl DeletionCandidates {
    /// The objects of a complete inventory that the hub does not know. `of`: the number of its objects of each kind.
    pub(super) fn new(
        unknown: impl IntoIterator<Item = Arc<Named>>,
        of: BTreeMap<Kind, usize>,
    ) -> Self {
        let mut list = Vec::from_iter(unknown);
        // The digest that a user confirms depends on the order: by the word for the kind.
        list.sort_by_key(|it| it.kind.as_str());
        let digest = digest_of(&list);
        Self { list, of, digest }
    }

    /// Decides again; keeps objects that the hub knows by now. `confirmed` is the digest that a user has confirmed.
    ///
    /// Returns the objects to delete; there may be none. If they are too many, nothing may be deleted.
    pub(super) fn decide(
        &mut self,
        confirmed: Option<&str>,
        is_unknown: impl Fn(&Named) -> bool,
    ) -> Result<Vec<Arc<Named>>, BlockedDeletion> {
        // By the reported digest, even if some of the objects have come back since.
        let confirmed = confirmed == Some(self.digest.as_str());
        let before = self.list.len();
        self.list.retain(|named| is_unknown(named));
        if confirmed || !self.is_too_much() {
            return Ok(std::mem::take(&mut self.list));
        }
        if self.list.len() != before {
            self.digest = digest_of(&self.list);
        }
        let listed = self.list.iter().take(LISTED);
        Err(BlockedDeletion {
            names: listed
                .map(|it| format!("{} {}/{}", it.kind, it.namespace, it.name))
                .collect(),
            count: self.list.len(),
            mirrors: false,
            digest: self.digest.clone(),
        })
    }

    fn is_too_much(&self) -> bool {
        let mut going: BTreeMap<Kind, usize> = BTreeMap::new();
        for named in &self.list {
            *going.entry(named.kind).or_default() += 1;
        }
        going.into_iter().any(|(kind, count)| {
            let all = self.of.get(&kind).copied().unwrap_or_default();
            count > FEW.max(all / SHARE)
        })
    }
}

fn digest_of(list: &[Arc<Named>]) -> String {
    let entries: Vec<_> = list
        .iter()
        .map(|it| json!([it.kind.as_str(), it.namespace, it.name, it.uid]))
        .collect();
    digest::short(&entries.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(kind: Kind, number: usize) -> Named {
        Named {
            kind,
            namespace: "argocd".to_owned(),
            name: format!("name-{number:04}"),
            uid: format!("uid-{number}"),
        }
    }

    /// A spoke with `retained` Applications, of which the hub does not know the first `unknown`.
    fn deletion_candidates(retained: usize, unknown: usize) -> DeletionCandidates {
        let first = (0..unknown).map(|n| Arc::new(named(Kind::Application, n)));
        let of = [(Kind::Application, retained), (Kind::AppProject, 1)];
        DeletionCandidates::new(first, of.into())
    }

    #[test]
    fn brake_allows_ten_or_a_fifth_of_a_kind() {
        for (of, few) in [(10, 10), (11, 10), (50, 10), (60, 12), (1000, 200)] {
            let decision = deletion_candidates(of, few).decide(None, |_| true);
            assert!(
                matches!(&decision, Ok(list) if list.len() == few),
                "{few} of {of}"
            );
            if few < of {
                let decision = deletion_candidates(of, few + 1).decide(None, |_| true);
                assert!(decision.is_err(), "{} of {of}", few + 1);
            }
        }
    }

    #[test]
    fn blocked_deletion_needs_a_confirmation_of_its_digest() {
        let mut deletion_candidates = deletion_candidates(30, 30);
        let reply = deletion_candidates
            .decide(Some("another"), |_| true)
            .unwrap_err();
        assert_eq!((reply.count, reply.names.len()), (30, LISTED));
        assert_eq!(reply.names[0], "Application argocd/name-0000");
        let back = named(Kind::Application, 3);
        let Ok(going) = deletion_candidates.decide(Some(&reply.digest), |it| *it != back) else {
            panic!("it was confirmed");
        };
        assert_eq!(going.len(), 29);
        assert!(!going.contains(&Arc::new(back)), "the hub has it again");
    }

    #[test]
    fn a_list_that_changes_has_another_digest() {
        let mut deletion_candidates = deletion_candidates(30, 30);
        let before = deletion_candidates.decide(None, |_| true).unwrap_err();
        let back = named(Kind::Application, 3);
        let after = deletion_candidates
            .decide(None, |it| *it != back)
            .unwrap_err();
        assert_ne!(before.digest, after.digest);
        assert_eq!(after.count, 29);
    }
}
