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

use std::borrow::Cow;
use std::future::Future;
use std::sync::OnceLock;
use std::time::SystemTime;

use opentelemetry::trace::{
    Link, Span as _, SpanBuilder, Status, TraceContextExt as _, Tracer as _,
};
use opentelemetry::{Context as Surroundings, KeyValue};
use opentelemetry_sdk::trace::{SdkTracer, Span as SdkSpan};

use crate::clock::Clock;

mod context;
mod export;
mod notes;
mod sampling;
mod settings;

pub use context::Context;
pub(crate) use export::register;
pub use export::{Tracing, start};
pub use notes::{Note, Notes};
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

/// The current time, as spans need it.
fn now() -> SystemTime {
    Clock::system().now().into()
}

/// A builder of a span.
#[derive(Debug)]
#[must_use = "it has not begun"]
pub struct Spot {
    builder: SpanBuilder,
    under: Option<Context>,
}

impl Spot {
    /// A span of this name.
    pub fn new(name: impl Into<Cow<'static, str>>) -> Self {
        Self {
            builder: SpanBuilder::from_name(name),
            under: None,
        }
    }

    /// Sets the parent; without one, a new trace begins.
    pub fn under(mut self, context: Option<Context>) -> Self {
        self.under = context;
        self
    }

    /// Sets the parent that a peer claims, if it is valid.
    pub fn under_claim(self, claim: Option<(&str, Option<&str>)>) -> Self {
        self.under(claim.and_then(|(parent, state)| Context::read(parent, state)))
    }

    /// Adds attributes. No secrets; values are cut to a bound.
    pub fn with(mut self, attributes: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        let attributes = attributes
            .into_iter()
            .filter(|(_, value)| !value.is_empty());
        let cut = |value: String| value.chars().take(LONGEST_VALUE).collect::<String>();
        let attributes = attributes.map(|(name, value)| KeyValue::new(name, cut(value)));
        let known = self.builder.attributes.get_or_insert_default();
        known.extend(attributes);
        self
    }

    /// Sets the start time.
    fn since(mut self, when: SystemTime) -> Self {
        self.builder.start_time = Some(when);
        self
    }

    /// Links the span to further contexts.
    fn for_others(mut self, others: Vec<Context>) -> Self {
        let links = others
            .into_iter()
            .map(|Context(other)| Link::with_context(other));
        self.builder.links = Some(links.collect());
        self
    }

    /// Adds an integer attribute.
    fn counting(mut self, name: &'static str, count: u32) -> Self {
        let known = self.builder.attributes.get_or_insert_default();
        known.push(KeyValue::new(name, i64::from(count)));
        self
    }

    /// Begins the span; none while traces are off.
    pub fn begin(self) -> Option<Span> {
        let tracer = TRACER.get()?;
        let around = Surroundings::new();
        let around = match self.under {
            Some(Context(parent)) => around.with_remote_span_context(parent),
            None => around,
        };
        Some(Span(tracer.build_with_context(self.builder, &around)))
    }
}

/// A span; it ends when it is dropped.
#[derive(Debug)]
#[must_use = "it ends when this is dropped"]
pub struct Span(SdkSpan);

impl Span {
    /// The wire form: `traceparent` and `tracestate`.
    pub fn words(&self) -> (String, Option<String>) {
        let context = self.context();
        (context.parent(), context.state())
    }

    /// The context for its children.
    pub fn context(&self) -> Context {
        Context(self.0.span_context().clone())
    }

    /// Sets the status to success.
    pub fn fine(&mut self) {
        self.0.set_status(Status::Ok);
    }

    /// Sets the status to an error. The reason is cut.
    pub fn failed(&mut self, why: &str) {
        let why: String = why.chars().take(LONGEST_REASON).collect();
        self.0.set_status(Status::error(why));
    }

    /// Sets the status of an outcome.
    pub fn ended<T, E: std::error::Error + 'static>(&mut self, outcome: &Result<T, E>) {
        match outcome {
            Ok(_) => self.fine(),
            Err(error) => self.failed(&crate::error::Chain(error).to_string()),
        }
    }
}

/// Ends a span, if there is one, with its outcome.
pub fn finish_span(span: Option<Span>, outcome: Result<(), &str>) {
    let Some(mut span) = span else { return };
    match outcome {
        Ok(()) => span.fine(),
        Err(why) => span.failed(why),
    }
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
