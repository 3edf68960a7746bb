//! The metrics of the process: registered once, encoded on request.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::text;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry;

/// All metrics of the process; clones share one registry.
#[derive(Clone, Default)]
pub struct Registry {
    // Held while registering or encoding, never over an await.
    inner: Arc<Mutex<registry::Registry>>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").finish_non_exhaustive()
    }
}

impl Registry {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets a component register its metrics; return the struct that holds them.
    pub fn with<T>(&self, register: impl FnOnce(&mut registry::Registry) -> T) -> T {
        register(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds the metric `<prefix>_build_info` with the version and commit of this build.
    pub fn build_info(&self, prefix: &str, version: &'static str, commit: &'static str) {
        let info = Info::new(vec![("version", version), ("git_revision", commit)]);
        self.with(|registry| {
            registry.register(
                format!("{prefix}_build"),
                "The version and the commit of this program",
                info,
            );
        });
    }

    /// The `OpenMetrics` text of everything registered.
    ///
    /// # Errors
    /// A metric could not be encoded, which is a mistake of ours.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        self.with(|registry| text::encode(&mut text, registry))?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_info_carries_version_and_commit() {
        let registry = Registry::new();
        registry.build_info("argocd_agent", "1.2.3", "abc");
        let text = registry.encode().unwrap();
        assert!(
            text.contains("argocd_agent_build_info{version=\"1.2.3\",git_revision=\"abc\"} 1"),
            "{text}"
        );
    }
}
