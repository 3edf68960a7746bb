//! A stand-in for a collector of traces: receives spans by OTLP over gRPC, like an OpenTelemetry Collector, and keeps them.

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Context as _, Result};
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{KeyValue, any_value::Value},
    trace::v1::{Span, status::StatusCode},
};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::task::AbortOnDropHandle;
use tonic::{
    Request, Response, Status,
    transport::{Identity, Server, ServerTlsConfig},
};

/// A received span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The service name of the sender.
    pub service: String,
    /// The name of the span.
    pub name: String,
    /// The trace ID.
    pub trace: Vec<u8>,
    /// The span ID.
    pub id: Vec<u8>,
    /// The ID of the parent span; empty for the root of a trace.
    pub parent: Vec<u8>,
    /// The attributes.
    pub attributes: BTreeMap<String, String>,
    /// Linked spans.
    pub links: usize,
    /// Whether its status is an error.
    pub failed: bool,
}

/// A collector on the loopback; it ends when it is dropped.
#[derive(Debug)]
pub struct Collector {
    address: SocketAddr,
    seen: Kept,
    _task: AbortOnDropHandle<()>,
}

#[derive(Clone, Debug, Default)]
struct Kept(Arc<Mutex<Vec<Seen>>>);

impl Collector {
    /// Starts one without TLS.
    pub async fn start() -> Result<Self> {
        Self::serve(Server::builder()).await
    }

    /// Starts one with TLS, and returns its certificate.
    pub async fn with_tls() -> Result<(Self, String)> {
        let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
        let pem = own.cert.pem();
        let identity = Identity::from_pem(&pem, own.signing_key.serialize_pem());
        let tls = ServerTlsConfig::new().identity(identity);
        let collector = Self::serve(Server::builder().tls_config(tls)?).await?;
        Ok((collector, pem))
    }

    async fn serve(mut server: Server) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.context("listen as a collector")?;
        let address = listener.local_addr()?;
        let seen = Kept::default();
        let server = server.add_service(TraceServiceServer::new(seen.clone()));
        let serve = async move {
            // The programs notice failures.
            drop(
                server
                    .serve_with_incoming(TcpListenerStream::new(listener))
                    .await,
            );
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "ends with the collector, which owns it"
        )]
        let task = AbortOnDropHandle::new(tokio::spawn(serve));
        Ok(Self {
            address,
            seen,
            _task: task,
        })
    }

    /// Its `host:port`.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// All spans until now.
    pub fn spans(&self) -> Vec<Seen> {
        let seen = self.seen.0.lock();
        seen.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The path to each span of this name from this service: the spans from the root on, as
    /// `service name`.
    pub fn ways_to(&self, service: &str, name: &str) -> Vec<Vec<String>> {
        let spans = self.spans();
        let by_id: HashMap<_, _> = spans.iter().map(|it| ((&it.trace, &it.id), it)).collect();
        let way = |last: &Seen| {
            let up = |span: &&Seen| by_id.get(&(&span.trace, &span.parent)).copied();
            let ours = by_id.get(&(&last.trace, &last.id)).copied();
            let spans = std::iter::successors(ours, up);
            let mut way: Vec<String> = spans
                .map(|span| format!("{} {}", span.service, span.name))
                .collect();
            way.reverse();
            way
        };
        let last = spans
            .iter()
            .filter(|it| it.service == service && it.name == name);
        last.map(way).collect()
    }
}

#[tonic::async_trait]
impl TraceService for Kept {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for resource in request.into_inner().resource_spans {
            let known = resource.resource.map(|it| texts(it.attributes));
            let known = known.unwrap_or_default();
            let service = known.get("service.name").cloned().unwrap_or_default();
            let spans = resource.scope_spans.into_iter().flat_map(|it| it.spans);
            seen.extend(spans.map(|span| read(service.clone(), span)));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn read(service: String, span: Span) -> Seen {
    let failed = span
        .status
        .is_some_and(|it| it.code == StatusCode::Error as i32);
    Seen {
        service,
        name: span.name,
        trace: span.trace_id,
        id: span.span_id,
        parent: span.parent_span_id,
        attributes: texts(span.attributes),
        links: span.links.len(),
        failed,
    }
}

fn texts(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    let text = |it: KeyValue| {
        let value = it.value?.value?;
        let value = if let Value::StringValue(text) = value {
            text
        } else {
            format!("{value:?}")
        };
        Some((it.key, value))
    };
    attributes.into_iter().filter_map(text).collect()
}
