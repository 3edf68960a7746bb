use std::sync::{Mutex, PoisonError};

use opentelemetry::trace::{TraceContextExt as _, Tracer as _};
use opentelemetry_sdk::error::OTelSdkError;

use super::super::{
    Context as ObjectOwner, Notes, Span as Started, current, finish_span, is_on, within,
};
use super::*;

/// An exporter that keeps spans, or rejects them.
#[derive(Clone, Debug, Default)]
struct Kept {
    spans: Arc<Mutex<Vec<SpanData>>>,
    refuses: Arc<AtomicBool>,
}

impl SpanExporter for Kept {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        if self.refuses.load(Ordering::Relaxed) {
            return Err(OTelSdkError::InternalFailure("away".to_owned()));
        }
        self.spans.lock().unwrap().extend(batch);
        Ok(())
    }
}

fn counter() -> ByWord {
    ByWord::new("outcome", OUTCOMES)
}

/// The tracer belongs to the process, so this is one test.
#[tokio::test]
async fn one_change_is_one_trace_from_span_to_span() {
    assert!(!is_on());
    let begin = |name: &str, parent| Started::begin(name.to_owned(), parent, []);
    assert!(begin("traces are off", None).is_none());
    let (kept, counted) = (Kept::default(), counter());
    let provider = provider(kept.clone(), 1.0, "principal".to_owned(), counted.clone());
    install(&provider);
    let (first, second) = (
        begin("Application.update", None).unwrap(),
        begin("Application.update", None).unwrap(),
    );
    let notes = Notes::default();
    notes.note("app", first.context());
    notes.note("app", second.context());
    let reply = [
        ("k8s.resource.name", "app".to_owned()),
        ("k8s.resource.uid", String::new()),
    ];
    let sent = notes
        .begin(&"app", "Application.send".to_owned(), reply)
        .unwrap();
    // Over the wire and back.
    let far = ObjectOwner::read(&sent.context().parent(), None).unwrap();
    let done = begin("application.spec-update", Some(far)).unwrap();
    within(Some(done.context()), async {
        drop(begin("Application.patch", current()));
    })
    .await;
    assert_eq!(current(), None);
    let trace = second.context();
    finish_span(Some(done), Err(&"x".repeat(1000)));
    drop((first, second, sent));
    provider.force_flush().unwrap();
    let spans = kept.spans.lock().unwrap();
    let of = |name: &str| spans.iter().rfind(|span| span.name == name).unwrap();
    for [child, parent] in [
        ["Application.send", "Application.update"],
        ["application.spec-update", "Application.send"],
        ["Application.patch", "application.spec-update"],
    ] {
        let (child, parent) = (of(child), of(parent));
        assert_eq!(child.span_context.trace_id(), trace.0.trace_id());
        assert_eq!(child.parent_span_id, parent.span_context.span_id());
    }
    assert_eq!(of("Application.send").links.links.len(), 1);
    assert_eq!(
        of("Application.send").attributes.len(),
        2,
        "the name and the count"
    );
    assert_eq!(counted.counted("exported"), 5);
}

/// Logged lines.
#[derive(Clone, Debug, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_collector_that_is_away_is_one_warning() {
    let (kept, lines) = (Kept::default(), Lines::default());
    let reply = LoggedOnce {
        exporter: kept.clone(),
        waiting: Arc::default(),
        counted: counter(),
        is_away: AtomicBool::new(false),
    };
    let writer = lines.clone();
    let log = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::with_default(log, || {
        for refuses in [false, true, true, true, false, false, true] {
            kept.refuses.store(refuses, Ordering::Relaxed);
            let outcome = futures::executor::block_on(reply.export(Vec::new()));
            assert_eq!(outcome.is_err(), refuses);
        }
    });
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let count = |words: &str| text.matches(words).count();
    assert_eq!(
        (count("WARN"), count("accepts spans again")),
        (2, 1),
        "{text}"
    );
}

#[test]
fn a_collector_that_is_away_costs_a_queue_and_every_span_is_counted() {
    let (kept, counted) = (Kept::default(), counter());
    kept.refuses.store(true, Ordering::Relaxed);
    let provider = provider(kept, 1.0, "agent-managed".to_owned(), counted.clone());
    let tracer = provider.tracer("test");
    let parent = Context::new().with_span(tracer.start("the only one that enters"));
    for _ in 0..10_000 {
        drop(tracer.start_with_context("one of many", &parent));
    }
    // The result is that of the last batch only.
    drop(provider.force_flush());
    let (failed, dropped) = (counted.counted("failed"), counted.counted("dropped"));
    assert_eq!(failed + dropped, 10_000);
    assert_eq!(counted.counted("exported"), 0);
}
