//! One audit line for each request: client, cluster, verb, object and outcome.

use http::{Request, StatusCode};
use live::request::Request as Asked;
use tokio::time::Instant;
use uuid::Uuid;

use crate::{fleet::ClusterName, metrics::Metrics};

/// The log target of audit lines.
const TARGET: &str = "audit";

/// The audit line of one request; logged when dropped.
#[derive(Debug)]
pub(super) struct AuditLine {
    metrics: Metrics,
    id: String,
    cluster: Option<ClusterName>,
    verb: &'static str,
    /// The object; for an invalid request only its method.
    subject: String,
    begun: Instant,
    code: u16,
    why: Option<String>,
    bytes: u64,
}

impl AuditLine {
    pub(super) fn new<B>(
        metrics: Metrics,
        cluster: Option<ClusterName>,
        request: &Request<B>,
    ) -> Self {
        Self {
            metrics,
            id: Uuid::new_v4().to_string(),
            cluster,
            verb: "unreadable",
            subject: request.method().as_str().chars().take(16).collect(),
            begun: Instant::now(),
            code: 0,
            why: None,
            bytes: 0,
        }
    }

    /// The request id, which the agent logs too.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn asks(&mut self, asked: &Asked) {
        self.verb = asked.verb.as_str();
        self.subject = asked.subject.to_string();
    }

    pub(super) fn answered(&mut self, code: StatusCode) {
        self.code = code.as_u16();
        self.metrics.resource_requests.count("answered");
    }

    pub(super) fn refused(&mut self, code: StatusCode, word: &'static str, why: &str) {
        self.code = code.as_u16();
        self.why = Some(why.to_owned());
        self.metrics.resource_requests.count(word);
    }

    pub(super) fn carried(&mut self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

impl Drop for AuditLine {
    fn drop(&mut self) {
        if self.code == 0 {
            self.metrics.resource_requests.count("abandoned");
        }
        tracing::info!(
            target: TARGET,
            request = %self.id,
            cluster = self.cluster.as_ref().map_or("", ClusterName::as_str),
            verb = self.verb,
            object = %self.subject,
            code = self.code,
            why = self.why.as_deref().unwrap_or_default(),
            bytes = self.bytes,
            took = ?self.begun.elapsed(),
            "resource request"
        );
    }
}
