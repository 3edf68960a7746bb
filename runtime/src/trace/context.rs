//! The context of a span and its wire form: W3C Trace Context.

use std::str::FromStr as _;

use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};

/// The context of a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context(pub(super) SpanContext);

/// `00-<trace>-<span>-<flags>`; a later version may have more fields after another dash.
const LENGTH: usize = 55;
/// Longest accepted `traceparent`.
const LONGEST_PARENT: usize = 128;
/// Longest `tracestate` that is passed on: the minimum of the standard.
const LONGEST_STATE: usize = 512;

impl Context {
    /// Parses the context that a peer claims, strictly and with bounds; none if it violates the standard.
    ///
    /// An invalid state does not invalidate the parent.
    pub fn read(parent: &str, state: Option<&str>) -> Option<Self> {
        let (trace, span, flags) = parent_of(parent)?;
        let state = state.and_then(state_of).unwrap_or_default();
        let flags = TraceFlags::new(flags) & TraceFlags::SAMPLED;
        let context = SpanContext::new(trace, span, flags, true, state);
        context.is_valid().then_some(Self(context))
    }

    /// The `traceparent` for a peer.
    pub fn parent(&self) -> String {
        format!(
            "00-{}-{}-{:02x}",
            self.0.trace_id(),
            self.0.span_id(),
            self.0.trace_flags() & TraceFlags::SAMPLED
        )
    }

    /// The `tracestate` beside it, unless it is empty.
    pub fn state(&self) -> Option<String> {
        let state = self.0.trace_state().header();
        (!state.is_empty()).then_some(state)
    }

    /// Whether the trace is sampled.
    pub fn is_sampled(&self) -> bool {
        self.0.is_sampled()
    }
}

/// Trace, span and flags.
fn parent_of(text: &str) -> Option<(TraceId, SpanId, u8)> {
    let is_hex = |part: &str| part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if text.len() > LONGEST_PARENT {
        return None;
    }
    let (known, rest) = text.split_at_checked(LENGTH)?;
    let mut parts = known.split('-');
    let (version, trace, span, flags) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let lengths = [version, trace, span, flags].map(str::len);
    if lengths != [2, 32, 16, 2] || ![version, trace, span, flags].into_iter().all(is_hex) {
        return None;
    }
    let is_whole = rest.is_empty() || (version != "00" && rest.starts_with('-'));
    if version == "ff" || !is_whole {
        return None;
    }
    let trace = TraceId::from_hex(trace).ok()?;
    let span = SpanId::from_hex(span).ok()?;
    Some((trace, span, u8::from_str_radix(flags, 16).ok()?))
}

fn state_of(text: &str) -> Option<TraceState> {
    let is_plain = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if text.len() > LONGEST_STATE || !is_plain {
        return None;
    }
    TraceState::from_str(text).ok()
}
