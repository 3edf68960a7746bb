//! Which failures to log: each once when it begins and once when it ends. Pure.
//!
//! An unavailable hub makes every reconcile fail; that is one log line, not one per cluster.

use std::collections::{BTreeMap, BTreeSet};

/// The current failures, all of them logged.
#[derive(Debug)]
pub(crate) struct Troubles<K> {
    /// Keys that fail on their own, with the reason.
    own: BTreeMap<K, &'static str>,
    /// Keys that fail because the hub is unavailable.
    unanswered: BTreeSet<K>,
}

/// A change to log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transition {
    /// This key fails, fails for another reason than before, or succeeds again.
    Own,
    /// The hub became unavailable, or available again.
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
    /// Records that a key failed, and returns the change to log.
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

    /// Records that a key succeeded, and returns the change to log.
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
    fn begin_and_end_of_an_outage_are_logged_once_for_all_keys() {
        let mut troubles = Troubles::default();
        let logged = (0..100).filter_map(|key| troubles.failed(&key, "WriteFailed", true));
        assert_eq!(logged.collect::<Vec<_>>(), [Transition::Hub]);
        assert_eq!(troubles.failed(&0, "WriteFailed", true), None);
        let logged = (0..100).filter_map(|key| troubles.succeeded(&key));
        assert_eq!(logged.collect::<Vec<_>>(), [Transition::Hub]);
        assert_eq!(
            troubles.failed(&0, "WriteFailed", true),
            Some(Transition::Hub)
        );
    }

    #[test]
    fn a_failure_of_one_key_is_logged_when_it_begins_changes_and_ends() {
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
