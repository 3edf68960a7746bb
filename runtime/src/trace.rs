//! Traces: what one change comes to, wherever it goes, told to a collector by OTLP.
//!
//! Off unless a collector is named, and then nothing of it is there: [`is_on`] is one load, and no span, context or note
//! is made. On, contexts are data beside what is done: they decide nothing, and what keeps them is bounded.
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
    /// Under what the task works at this moment.
    static UNDER: Context;
}

/// Whether somebody wants traces.
pub fn is_on() -> bool {
    TRACER.get().is_some()
}

/// The time now, as spans have it.
fn now() -> SystemTime {
    Clock::system().now().into()
}

/// A span that is about to begin.
#[derive(Debug)]
#[must_use = "it has not begun"]
pub struct Spot {
    builder: SpanBuilder,
    under: Option<Context>,
}

impl Spot {
    /// Something of this name.
    pub fn new(name: impl Into<Cow<'static, str>>) -> Self {
        Self {
            builder: SpanBuilder::from_name(name),
            under: None,
        }
    }

    /// As a part of something; without, a trace begins here.
    pub fn under(mut self, context: Option<Context>) -> Self {
        self.under = context;
        self
    }

    /// As a part of what somebody else says it is of, if that can be read.
    pub fn under_claim(self, claim: Option<(&str, Option<&str>)>) -> Self {
        self.under(claim.and_then(|(parent, state)| Context::read(parent, state)))
    }

    /// With what is known of it. No secrets, and nothing without a bound.
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

    /// Since then already.
    fn since(mut self, when: SystemTime) -> Self {
        self.builder.start_time = Some(when);
        self
    }

    /// On behalf of these, too.
    fn for_others(mut self, others: Vec<Context>) -> Self {
        let links = others
            .into_iter()
            .map(|Context(other)| Link::with_context(other));
        self.builder.links = Some(links.collect());
        self
    }

    /// A whole number that is known of it.
    fn counting(mut self, name: &'static str, count: u32) -> Self {
        let known = self.builder.attributes.get_or_insert_default();
        known.push(KeyValue::new(name, i64::from(count)));
        self
    }

    /// Begins it; none while nobody wants traces.
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

/// Something that is being done; it has ended when this is dropped.
#[derive(Debug)]
#[must_use = "it ends when this is dropped"]
pub struct Span(SdkSpan);

impl Span {
    /// As it travels: the parent of what others do for it, and what vendors say of it.
    pub fn words(&self) -> (String, Option<String>) {
        let context = self.context();
        (context.parent(), context.state())
    }

    /// By which others are made a part of it.
    pub fn context(&self) -> Context {
        Context(self.0.span_context().clone())
    }

    /// It went well.
    pub fn fine(&mut self) {
        self.0.set_status(Status::Ok);
    }

    /// It did not. The reason is cut.
    pub fn failed(&mut self, why: &str) {
        let why: String = why.chars().take(LONGEST_REASON).collect();
        self.0.set_status(Status::error(why));
    }

    /// How it went.
    pub fn ended<T, E: std::error::Error + 'static>(&mut self, outcome: &Result<T, E>) {
        match outcome {
            Ok(_) => self.fine(),
            Err(error) => self.failed(&crate::error::Chain(error).to_string()),
        }
    }
}

/// Ends a span, if there is one, with how it went: the reason where it did not go well.
pub fn finish_span(span: Option<Span>, outcome: Result<(), &str>) {
    let Some(mut span) = span else { return };
    match outcome {
        Ok(()) => span.fine(),
        Err(why) => span.failed(why),
    }
}

/// More of a reason is in the log.
const LONGEST_REASON: usize = 256;
/// Names have 253 characters and UIDs 36; what is longer is no name, or somebody's joke.
const LONGEST_VALUE: usize = 512;

/// Does something under a span: what [`current`] says while it is done. Without one it is just done.
pub async fn within<T>(context: Option<Context>, work: impl Future<Output = T>) -> T {
    match context {
        Some(context) => UNDER.scope(context, work).await,
        None => work.await,
    }
}

/// Under what we are at this moment, if under anything.
pub fn current() -> Option<Context> {
    if !is_on() {
        return None;
    }
    UNDER.try_with(Context::clone).ok()
}

#[cfg(test)]
mod tests;
