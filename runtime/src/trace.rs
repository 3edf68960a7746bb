//! Traces of changes across programs, exported to a collector by OTLP.
//!
//! Off without a collector: [`is_on`] is one load, and no span, context or note is created. On, contexts are data beside
//! the work: they influence no decision, and their storage is bounded.
//!
//! ```text
//!   a change ──begin──> Span ──context──> Notes (the newest wins) ──taken──> Span ──headers──> the wire
//!                         │ ended                                             │
//!                         └──────────────> bounded queue ──batches──> collector, or dropped and counted
//! ```

use std::future::Future;
use std::sync::OnceLock;

use opentelemetry::trace::{Span as _, SpanBuilder, Status, TraceContextExt as _, Tracer as _};
use opentelemetry::{Context as Surroundings, KeyValue};
use opentelemetry_sdk::trace::{SdkTracer, Span as SdkSpan};

mod context;
mod export;
mod notes;
mod sampling;
mod settings;

pub use context::Context;
pub(crate) use export::register;
pub use export::{Tracing, start};
pub use notes::Notes;
pub use settings::{Error, Invalid, Settings};

/// The tracer of the process, like its log.
static TRACER: OnceLock<SdkTracer> = OnceLock::new();

tokio::task_local! {
    /// The context of the task's current span.
    static UNDER: Context;
}

/// Whether traces are on.
pub fn is_on() -> bool {
    TRACER.get().is_some()
}

/// A span; it ends when it is dropped.
#[derive(Debug)]
#[must_use = "it ends when this is dropped"]
pub struct Span(SdkSpan);

impl Span {
    /// Begins a span below `parent`; without one, a new trace begins. None while traces are off.
    ///
    /// No secrets in attributes; empty ones are left out, and values are cut to a bound.
    pub fn begin(
        name: String,
        parent: Option<Context>,
        attributes: impl IntoIterator<Item = (&'static str, String)>,
    ) -> Option<Self> {
        Self::build(SpanBuilder::from_name(name), parent, attributes)
    }

    fn build(
        mut builder: SpanBuilder,
        parent: Option<Context>,
        attributes: impl IntoIterator<Item = (&'static str, String)>,
    ) -> Option<Self> {
        let tracer = TRACER.get()?;
        let attributes = attributes
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| KeyValue::new(name, cut(&value, LONGEST_VALUE)));
        let known = builder.attributes.get_or_insert_default();
        known.extend(attributes);
        let around = parent.map_or_else(Surroundings::new, |Context(parent)| {
            Surroundings::new().with_remote_span_context(parent)
        });
        Some(Self(tracer.build_with_context(builder, &around)))
    }

    /// The wire form: `traceparent` and `tracestate`.
    pub fn headers(&self) -> (String, Option<String>) {
        let context = self.context();
        (context.parent(), context.state())
    }

    /// The context for its children.
    pub fn context(&self) -> Context {
        Context(self.0.span_context().clone())
    }

    /// Sets the status of an outcome.
    pub fn ended<T, E: std::error::Error + 'static>(&mut self, outcome: &Result<T, E>) {
        let outcome = outcome.as_ref().map(drop);
        self.set_status(outcome.map_err(|error| crate::error::Chain(error).to_string()));
    }

    fn set_status(&mut self, outcome: Result<(), String>) {
        self.0.set_status(match outcome {
            Ok(()) => Status::Ok,
            Err(why) => Status::error(cut(&why, LONGEST_REASON)),
        });
    }
}

/// Ends a span, if there is one, with its outcome.
pub fn finish_span(span: Option<Span>, outcome: Result<(), &str>) {
    if let Some(mut span) = span {
        span.set_status(outcome.map_err(str::to_owned));
    }
}

fn cut(text: &str, longest: usize) -> String {
    text.chars().take(longest).collect()
}

/// The log has the whole reason.
const LONGEST_REASON: usize = 256;
/// Names have at most 253 characters and UIDs 36; no legitimate value is longer.
const LONGEST_VALUE: usize = 512;

/// Runs `work` with a context, which [`current`] returns meanwhile.
pub async fn within<T>(context: Option<Context>, work: impl Future<Output = T>) -> T {
    match context {
        Some(context) => UNDER.scope(context, work).await,
        None => work.await,
    }
}

/// The context of the current task, if any.
pub fn current() -> Option<Context> {
    if !is_on() {
        return None;
    }
    UNDER.try_with(Context::clone).ok()
}

#[cfg(test)]
mod tests;
