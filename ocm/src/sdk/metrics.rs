//! What the SDK counts.

use prometheus_client::registry::Registry;

/// The SDK's counters. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Metrics {}

impl Metrics {
    /// Makes and registers them.
    pub fn register(registry: &mut Registry) -> Self {
        todo!()
    }
}
