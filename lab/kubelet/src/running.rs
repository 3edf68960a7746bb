//! The state of the containers of the node, for requests from outside: logs and exec.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use crate::inside::Process;

/// Every Pod that has a worker. Clones share one table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Running {
    // Locked only for one lookup or one change.
    pods: Arc<Mutex<BTreeMap<Key, Here>>>,
}

/// The Pod that currently has this name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) namespace: String,
    pub(crate) pod: String,
}

/// The Pod that has the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Here {
    pub(crate) uid: String,
    pub(crate) containers: BTreeMap<String, Turn>,
}

/// The progress of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turn {
    /// The number of runs so far.
    pub(crate) runs: u32,
    /// The last of them has not ended.
    pub(crate) alive: bool,
    /// How to run a command in it, while it runs.
    pub(crate) inside: Option<Inside>,
}

/// The data for running a command in a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inside {
    /// Its process 1.
    pub(crate) target: u32,
    /// Its program, whose environment and user the command inherits.
    pub(crate) process: Process,
}

impl Running {
    /// Sets the state of a Pod.
    pub(crate) fn set(&self, key: Key, here: Here) {
        self.lock().insert(key, here);
    }

    /// Removes a Pod, unless another has its name by now.
    pub(crate) fn forget(&self, key: &Key, uid: &str) {
        let mut pods = self.lock();
        if pods.get(key).is_some_and(|here| here.uid == uid) {
            pods.remove(key);
        }
    }

    /// The state of the Pod that has this name.
    pub(crate) fn find(&self, key: &Key) -> Option<Here> {
        self.lock().get(key).cloned()
    }

    /// Whether this run, or its whole Pod, has ended.
    pub(crate) fn is_over(&self, key: &Key, uid: &str, container: &str, run: u32) -> bool {
        let pods = self.lock();
        let here = pods.get(key).filter(|here| here.uid == uid);
        let turn = here.and_then(|here| here.containers.get(container));
        !turn.is_some_and(|turn| turn.alive && turn.runs == run + 1)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Key, Here>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        let (namespace, pod) = ("default".to_owned(), "pod".to_owned());
        Key { namespace, pod }
    }

    fn here(uid: &str, runs: u32, alive: bool) -> Here {
        let turn = Turn {
            runs,
            alive,
            inside: None,
        };
        Here {
            uid: uid.to_owned(),
            containers: BTreeMap::from([("c".to_owned(), turn)]),
        }
    }

    #[test]
    fn a_run_is_over_when_it_ended_or_another_took_its_place() {
        let running = Running::default();
        assert!(running.is_over(&key(), "a", "c", 0));
        running.set(key(), here("a", 1, true));
        assert!(!running.is_over(&key(), "a", "c", 0));
        assert!(running.is_over(&key(), "b", "c", 0));
        running.set(key(), here("a", 1, false));
        assert!(running.is_over(&key(), "a", "c", 0));
        running.set(key(), here("a", 2, true));
        assert!(running.is_over(&key(), "a", "c", 0));
        assert!(!running.is_over(&key(), "a", "c", 1));
    }

    #[test]
    fn the_end_of_a_pod_spares_the_next_of_its_name() {
        let running = Running::default();
        running.set(key(), here("b", 1, true));
        running.forget(&key(), "a");
        assert!(running.find(&key()).is_some());
        running.forget(&key(), "b");
        assert_eq!(running.find(&key()), None);
    }
}
