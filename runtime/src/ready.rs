//! Readiness: the process is ready when all registered conditions are.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The conditions for the readiness of the process.
#[derive(Debug, Clone, Default)]
pub struct Readiness {
    // Guards plain flags; locked for a lookup, never over an await.
    things: Arc<Mutex<BTreeMap<String, bool>>>,
}

impl Readiness {
    /// Without conditions: ready.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a condition that is not ready yet.
    pub fn register(&self, name: impl Into<String>) -> Handle {
        let name = name.into();
        self.lock().insert(name.clone(), false);
        Handle {
            readiness: self.clone(),
            name,
        }
    }

    /// Whether all conditions are ready.
    pub fn is_ready(&self) -> bool {
        self.lock().values().all(|ready| *ready)
    }

    /// The names of conditions that are not ready, in order.
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

/// Sets one condition; when it is dropped, the condition is not ready.
#[derive(Debug)]
#[must_use = "dropped, it says that the thing is not ready"]
pub struct Handle {
    readiness: Readiness,
    name: String,
}

impl Handle {
    /// Sets whether the condition is ready.
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
    fn all_conditions_must_be_ready_and_missing_ones_are_named() {
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
