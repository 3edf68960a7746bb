//! Exports spans to the collector: without waiting, with a bounded queue, and with counters.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{Context, InstrumentationScope};
use opentelemetry_otlp::{WithExportConfig as _, WithTonicConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider, Span, SpanData, SpanExporter,
    SpanProcessor,
};

use prometheus_client::registry;

use super::sampling::Entrance;
use super::{Error, Settings, TRACER};
use crate::metrics::ByWord;

/// Spans that wait for the collector; further ones are dropped.
const QUEUE: usize = 2048;
/// How often they are sent.
const EVERY: Duration = Duration::from_secs(2);
/// Timeout of one batch.
const TRIED_FOR: Duration = Duration::from_secs(10);
/// Timeout of the last batch when the process ends.
const LAST_BATCH: Duration = Duration::from_secs(3);

/// Outcomes of spans, in the metrics.
const OUTCOMES: [&str; 3] = ["exported", "failed", "dropped"];

/// Exports traces while the process runs.
#[derive(Debug)]
#[must_use = "the last spans are sent by `end`"]
pub struct Tracing(Option<SdkTracerProvider>);

/// Counts the outcomes of the spans of this process, for its metrics.
static SPANS: LazyLock<ByWord> = LazyLock::new(|| ByWord::new("outcome", OUTCOMES));

/// Registers the outcomes of spans; all are zero while traces are off.
pub(crate) fn register(prefix: &str, all: &mut registry::Registry) {
    let help = "Spans, by outcome: exported to the collector; failed, because it rejected them; dropped, because \
    the queue was full; a rise of the last two means that traces have gaps";
    SPANS.register(all, &format!("{prefix}_trace_spans"), help);
}

/// Starts the export to a collector, if one is configured. Call it within a runtime, once.
///
/// # Errors
/// The certificates are unreadable or missing.
pub fn start(settings: Option<&Settings>, service: String) -> Result<Tracing, Error> {
    let Some(settings) = settings else {
        return Ok(Tracing(None));
    };
    let exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_tonic()
        .with_channel(settings.channel()?)
        .with_timeout(TRIED_FOR)
        .build()?;
    let provider = provider(exporter, settings.ratio(), service, SPANS.clone());
    install(&provider);
    tracing::info!(collector = settings.address(), "traces are sent");
    Ok(Tracing(Some(provider)))
}

/// Turns traces on; the first provider stays.
pub(super) fn install(provider: &SdkTracerProvider) {
    let scope = InstrumentationScope::builder("argocd-agent")
        .with_version(env!("CARGO_PKG_VERSION"))
        .build();
    drop(TRACER.set(provider.tracer_with_scope(scope)));
}

pub(super) fn provider(
    exporter: impl SpanExporter + 'static,
    ratio: f64,
    service: String,
    counted: ByWord,
) -> SdkTracerProvider {
    let waiting = Arc::new(AtomicUsize::new(0));
    let batches = BatchConfigBuilder::default()
        .with_max_queue_size(QUEUE)
        .with_scheduled_delay(EVERY)
        .build();
    let exporter = LoggedOnce {
        exporter,
        waiting: Arc::clone(&waiting),
        counted: counted.clone(),
        is_away: AtomicBool::new(false),
    };
    let queue = Queue {
        batches: BatchSpanProcessor::new(exporter, batches),
        waiting,
        counted,
    };
    SdkTracerProvider::builder()
        .with_span_processor(queue)
        .with_sampler(Entrance::keeping(ratio))
        .with_resource(Resource::builder().with_service_name(service).build())
        .build()
}

impl Tracing {
    /// Sends the remaining spans, with a timeout.
    pub async fn end(self) {
        let Some(provider) = self.0 else { return };
        // It blocks, so it must not run on a thread of the runtime.
        let ending =
            tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(LAST_BATCH));
        let ended = tokio::time::timeout(LAST_BATCH.saturating_mul(2), ending).await;
        if !matches!(ended, Ok(Ok(Ok(())))) {
            tracing::debug!("the last spans were not sent");
        }
    }
}

/// The SDK drops spans without counting them, so this counts waiting spans and drops them before it.
#[derive(Debug)]
struct Queue {
    batches: BatchSpanProcessor,
    waiting: Arc<AtomicUsize>,
    counted: ByWord,
}

impl SpanProcessor for Queue {
    fn on_start(&self, span: &mut Span, around: &Context) {
        self.batches.on_start(span, around);
    }

    fn on_end(&self, span: SpanData) {
        if self.waiting.fetch_add(1, Ordering::Relaxed) < QUEUE {
            return self.batches.on_end(span);
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        self.counted.count("dropped");
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.batches.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.batches.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.batches.set_resource(resource);
    }
}

/// Counts the outcome of a batch, and logs once that the collector is unavailable and once that it is available again.
#[derive(Debug)]
struct LoggedOnce<E> {
    exporter: E,
    waiting: Arc<AtomicUsize>,
    counted: ByWord,
    is_away: AtomicBool,
}

impl<E: SpanExporter> SpanExporter for LoggedOnce<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        self.waiting.fetch_sub(spans, Ordering::Relaxed);
        let outcome = self.exporter.export(batch).await;
        let word = outcome.as_ref().map_or("failed", |()| "exported");
        (0..spans).for_each(|_| self.counted.count(word));
        let was_away = self.is_away.swap(outcome.is_err(), Ordering::Relaxed);
        match &outcome {
            Err(error) if !was_away => {
                tracing::warn!(%error, "the trace collector rejects spans; dropping them until it accepts");
            }
            Ok(()) if was_away => tracing::info!("the trace collector accepts spans again"),
            Ok(()) | Err(_) => {}
        }
        outcome
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

#[cfg(test)]
mod tests;
