//! Readiness: the process is ready when every registered thing says so.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What has to be in place before the process is ready.
#[derive(Debug, Clone, Default)]
pub struct Readiness {
    // Guards plain flags; held for a lookup, never over an await.
    things: Arc<Mutex<BTreeMap<String, bool>>>,
}

impl Readiness {
    /// Nothing registered: ready.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one thing, not ready yet.
    pub fn register(&self, name: impl Into<String>) -> Handle {
        let name = name.into();
        self.lock().insert(name.clone(), false);
        Handle {
            readiness: self.clone(),
            name,
        }
    }

    /// Whether everything registered is ready.
    pub fn is_ready(&self) -> bool {
        self.lock().values().all(|ready| *ready)
    }

    /// The names of what is not ready, in order.
    pub fn missing(&self) -> Vec<String> {
        self.lock()
            .iter()
            .filter(|(_, ready)| !**ready)
            .map(|(name, _)| name.clone())
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, bool>> {
        self.things.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to say whether one thing is ready; dropped, the thing is not ready any more.
#[derive(Debug)]
#[must_use = "dropped, it says that the thing is not ready"]
pub struct Handle {
    readiness: Readiness,
    name: String,
}

impl Handle {
    /// Says whether the thing is ready.
    pub fn set(&self, ready: bool) {
        if let Some(flag) = self.readiness.lock().get_mut(&self.name) {
            *flag = ready;
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_has_to_be_ready_and_what_is_not_is_named() {
        let readiness = Readiness::new();
        let caches = readiness.register("caches");
        let link = readiness.register("link");
        caches.set(true);
        assert_eq!(readiness.missing(), ["link"]);
        link.set(true);
        assert!(readiness.is_ready());
        drop(link);
        assert!(!readiness.is_ready());
    }
}
