//! The metrics of the process: registered once, encoded on request.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry;

mod gauges;
mod process;

pub use gauges::Gauges;

/// All metrics of the process; clones share one registry.
#[derive(Clone, Default, derive_more::Debug)]
#[debug("Registry")]
pub struct Registry {
    // Locked while registering or encoding, never over an await.
    inner: Arc<Mutex<registry::Registry>>,
}

impl Registry {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets a component register its metrics and returns them.
    pub fn with<T>(&self, register: impl FnOnce(&mut registry::Registry) -> T) -> T {
        register(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds the metrics of all our programs: `<prefix>_build_info` with the version and commit of this build, the usage
    /// of the process, and the outcomes of spans.
    pub fn program(&self, prefix: &str, version: &'static str, commit: &'static str) {
        let info = Info::new(vec![("version", version), ("git_revision", commit)]);
        self.with(|registry| {
            registry.register(
                format!("{prefix}_build"),
                "The version and the commit of this program; always 1",
                info,
            );
            process::register(registry);
            crate::trace::register(prefix, registry);
        });
    }

    /// The `OpenMetrics` text of everything registered.
    ///
    /// # Errors
    /// A metric could not be encoded, which is a bug.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        self.with(|registry| text::encode(&mut text, registry))?;
        Ok(text)
    }
}

/// Counts one in a gauge until it is dropped.
#[derive(Debug)]
#[must_use = "it counts for as long as it lives"]
pub struct Open(Gauge);

impl Open {
    /// Increments the gauge.
    pub fn new(gauge: Gauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// A counter for each word of a fixed list.
///
/// All series exist from the start, at zero, so that `rate()` includes the first increment, and no peer can add a series.
/// A word that is not on the list is a bug, and counts as `other`.
#[derive(Clone, Debug)]
pub struct ByWord {
    label: &'static str,
    counters: Family<[(&'static str, &'static str); 1], Counter>,
}

impl ByWord {
    /// A counter for each of these words, as values of this label.
    pub fn new(label: &'static str, words: impl IntoIterator<Item = &'static str>) -> Self {
        let counters = Family::default();
        for word in words {
            drop(counters.get_or_create_owned(&[(label, word)]));
        }
        Self { label, counters }
    }

    /// Registers them under a name, with a help text about the meaning of a rise.
    pub fn register(&self, all: &mut registry::Registry, name: &str, help: &str) {
        all.register(name, help, self.counters.clone());
    }

    /// Increments the counter of a word.
    pub fn count(&self, word: &'static str) {
        let known = self.counters.get(&[(self.label, word)]);
        let is_known = known.map(|counter| counter.inc()).is_some();
        debug_assert!(is_known, "{word:?} is not on the list of {}", self.label);
        if !is_known {
            let other = self.counters.get_or_create_owned(&[(self.label, "other")]);
            other.inc();
        }
    }

    /// The count of a word.
    pub fn counted(&self, word: &'static str) -> u64 {
        let counter = self.counters.get(&[(self.label, word)]);
        counter.map_or(0, |counter| counter.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_info_carries_version_and_commit() {
        let registry = Registry::new();
        registry.program("argocd_agent", "1.2.3", "abc");
        let text = registry.encode().unwrap();
        assert!(
            text.contains("argocd_agent_build_info{version=\"1.2.3\",git_revision=\"abc\"} 1"),
            "{text}"
        );
    }

    #[test]
    fn every_word_is_there_before_it_is_counted() {
        let registry = Registry::new();
        let ends = ByWord::new("reason", ["asked", "lost"]);
        registry.with(|all| ends.register(all, "ends", "Ends, by why"));
        ends.count("lost");
        let text = registry.encode().unwrap();
        assert!(text.contains("ends_total{reason=\"asked\"} 0"), "{text}");
        assert!(text.contains("ends_total{reason=\"lost\"} 1"), "{text}");
        assert_eq!((ends.counted("lost"), ends.counted("asked")), (1, 0));
    }
}
