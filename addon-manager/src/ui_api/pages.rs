//! The answers about one cluster or one Application, remembered for a moment. Pure.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::snapshot::Snapshot;

/// So many are remembered.
pub const MOST: usize = 256;
/// Answers that no page asked for again are forgotten after this time.
pub const FORGET: Duration = Duration::from_mins(1);

/// The answers by the path of their request.
#[derive(Debug, Default)]
pub struct Pages(pub(super) BTreeMap<String, Arc<Snapshot>>);

impl Pages {
    /// The answer, if it need not be computed again.
    pub fn fresh(&self, path: &str) -> Option<Arc<Snapshot>> {
        let page = self.0.get(path).filter(|page| page.is_fresh());
        page.cloned()
    }

    /// Remembers an answer, unless so many are fresh.
    pub fn keep(&mut self, path: String, page: &Arc<Snapshot>) {
        if self.0.len() >= MOST {
            self.0.retain(|_, page| page.is_fresh());
        }
        if self.0.len() < MOST {
            self.0.insert(path, Arc::clone(page));
        }
    }

    /// Forgets old answers.
    pub fn forget(&mut self) {
        self.0.retain(|_, page| page.age() < FORGET);
    }
}
