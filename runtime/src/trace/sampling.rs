//! Samples traces: a ratio of those that begin here, and a bounded number per second.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use opentelemetry::trace::{Link, SpanKind, TraceContextExt as _, TraceId};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{Sampler, SamplingDecision, SamplingResult, ShouldSample};

use crate::clock::Clock;

/// Sampled traces per second, own and of peers. A connect compares thousands of objects, and a peer may mark all its
/// traces as sampled.
const MOST_A_SECOND: u64 = 100;

/// Decides at the first span of a trace in this process; its children follow that decision.
#[derive(Clone, Debug)]
pub(super) struct Entrance {
    sampler: Sampler,
    budget: Arc<Budget>,
}

impl Entrance {
    /// Samples this ratio of the traces that begin here.
    pub(super) fn keeping(ratio: f64) -> Self {
        Self {
            sampler: Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(ratio))),
            budget: Arc::default(),
        }
    }
}

impl ShouldSample for Entrance {
    fn should_sample(
        &self,
        parent: Option<&Context>,
        trace: TraceId,
        name: &str,
        kind: &SpanKind,
        attributes: &[KeyValue],
        links: &[Link],
    ) -> SamplingResult {
        let sampler = &self.sampler;
        let mut result = sampler.should_sample(parent, trace, name, kind, attributes, links);
        let enters = parent.is_none_or(|around| {
            let span = around.span();
            span.span_context().is_remote() || !span.span_context().is_valid()
        });
        if result.decision == SamplingDecision::RecordAndSample
            && enters
            && !self.budget.take(second())
        {
            result.decision = SamplingDecision::Drop;
        }
        result
    }
}

fn second() -> u64 {
    u64::try_from(Clock::system().now().as_second()).unwrap_or_default()
}

/// The traces of the current second: the second in the upper bits, the count in the lower 16.
#[derive(Debug, Default)]
pub(super) struct Budget(AtomicU64);

impl Budget {
    pub(super) fn take(&self, second: u64) -> bool {
        let next = |packed: u64| {
            let (known, count) = (packed >> 16, packed & 0xffff);
            let count = if known == second { count } else { 0 };
            (count < MOST_A_SECOND).then(|| (second << 16) | count.saturating_add(1))
        };
        let order = Ordering::Relaxed;
        self.0.fetch_update(order, order, next).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_so_many_traces_and_the_next_one_as_many_again() {
        let budget = Budget::default();
        for second in [7, 8] {
            let taken = (0..1000).filter(|_| budget.take(second)).count();
            assert_eq!(taken, 100);
        }
    }
}
