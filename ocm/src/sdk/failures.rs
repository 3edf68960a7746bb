//! What is told of failures: each once when it begins and once when it is over. Pure.
//!
//! A hub that does not answer makes every reconcile fail; that is one thing to tell, not one a cluster.

use std::collections::{BTreeMap, BTreeSet};

/// What fails at the moment, and has been told.
#[derive(Debug)]
pub(crate) struct Troubles<K> {
    /// Keys that fail for a reason of their own, with the reason.
    own: BTreeMap<K, &'static str>,
    /// Keys that fail because the hub does not answer.
    unanswered: BTreeSet<K>,
}

/// A failure that is worth telling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transition {
    /// This key fails, or fails for another reason than before.
    Own,
    /// The hub does not answer any more, or answers again.
    Hub,
}

impl<K> Default for Troubles<K> {
    fn default() -> Self {
        Self {
            own: BTreeMap::new(),
            unanswered: BTreeSet::new(),
        }
    }
}

impl<K: Clone + Ord> Troubles<K> {
    /// A key has failed: whether that is news.
    pub(crate) fn failed(
        &mut self,
        key: &K,
        reason: &'static str,
        transient: bool,
    ) -> Option<Transition> {
        if transient {
            let first = self.unanswered.is_empty();
            self.unanswered.insert(key.clone());
            return first.then_some(Transition::Hub);
        }
        self.unanswered.remove(key);
        let before = self.own.insert(key.clone(), reason);
        (before != Some(reason)).then_some(Transition::Own)
    }

    /// A key has not failed: whether that ends something that was told.
    pub(crate) fn succeeded(&mut self, key: &K) -> Option<Transition> {
        let answered = self.unanswered.remove(key) && self.unanswered.is_empty();
        let own = self.own.remove(key).is_some();
        match (answered, own) {
            (true, _) => Some(Transition::Hub),
            (false, true) => Some(Transition::Own),
            (false, false) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_told_once_for_all_and_its_end_once() {
        let mut troubles = Troubles::default();
        let reply = (0..100).filter_map(|key| troubles.failed(&key, "WriteFailed", true));
        assert_eq!(reply.collect::<Vec<_>>(), [Transition::Hub]);
        assert_eq!(troubles.failed(&0, "WriteFailed", true), None);
        let reply = (0..100).filter_map(|key| troubles.succeeded(&key));
        assert_eq!(reply.collect::<Vec<_>>(), [Transition::Hub]);
        assert_eq!(
            troubles.failed(&0, "WriteFailed", true),
            Some(Transition::Hub)
        );
    }

    #[test]
    fn a_failure_of_ones_own_is_told_when_it_begins_changes_and_ends() {
        let mut troubles = Troubles::default();
        assert_eq!(
            troubles.failed(&1, "HookFailed", false),
            Some(Transition::Own)
        );
        assert_eq!(troubles.failed(&1, "HookFailed", false), None);
        assert_eq!(
            troubles.failed(&2, "HookFailed", false),
            Some(Transition::Own)
        );
        assert_eq!(
            troubles.failed(&1, "SignFailed", false),
            Some(Transition::Own)
        );
        assert_eq!(troubles.succeeded(&1), Some(Transition::Own));
        assert_eq!(troubles.succeeded(&1), None);
    }
}
