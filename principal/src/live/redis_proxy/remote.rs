//! Requests for the values of a cluster, and their audit lines.

use http::Response;
use live::cache_key::CacheKey;
use tokio::time::Instant;
use uuid::Uuid;

use super::shared::{RESPONSE_TIMEOUT, Shared};
use crate::{
    domain::RemoteApplication,
    fleet::ClusterName,
    live::{
        dispatch,
        tunnel::{Body, NotAnswered},
    },
    metrics::Metrics,
};

/// The log target of audit lines.
const AUDIT: &str = "audit";

/// A key on a cluster.
#[derive(Clone, Debug)]
pub(super) struct Remote {
    pub(super) cluster: ClusterName,
    /// Of the Application on the hub: another one of the same name has another tree.
    pub(super) uid: String,
    /// With the cluster's names.
    pub(super) key: CacheKey,
}

impl Remote {
    /// A key of the hub's, of an Application that is there.
    pub(super) fn new(there: RemoteApplication, key: &CacheKey) -> Self {
        Self {
            cluster: there.cluster,
            uid: there.uid,
            key: key.of(there.namespace, there.name),
        }
    }

    /// The key of its last known value.
    pub(super) fn remembered_as(&self) -> String {
        format!("{}/{}/{}", self.cluster, self.uid, self.key)
    }
}

/// Requests a value from the agent, or a stream of its changes.
pub(super) async fn ask(
    shared: &Shared,
    remote: &Remote,
    watch: bool,
    id: &str,
) -> Result<Response<Body>, NotAnswered> {
    let request = dispatch::get(&remote.key.target(watch), id);
    dispatch::ask(&shared.live, &remote.cluster, request, RESPONSE_TIMEOUT).await
}

/// The audit line of one request; logged when dropped.
#[derive(Debug)]
pub(super) struct AuditLine {
    metrics: Metrics,
    pub(super) id: String,
    cluster: ClusterName,
    object: String,
    begun: Instant,
    pub(super) outcome: &'static str,
    pub(super) why: String,
    bytes: u64,
}

impl AuditLine {
    pub(super) fn new(metrics: Metrics, remote: &Remote) -> Self {
        Self {
            metrics,
            id: Uuid::new_v4().to_string(),
            cluster: remote.cluster.clone(),
            object: remote.key.to_string(),
            begun: Instant::now(),
            outcome: "abandoned",
            why: String::new(),
            bytes: 0,
        }
    }

    pub(super) fn carried(&mut self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

impl Drop for AuditLine {
    fn drop(&mut self) {
        self.metrics.redis_requests.count(self.outcome);
        tracing::info!(
            target: AUDIT,
            request = %self.id,
            cluster = %self.cluster,
            verb = "get",
            object = %self.object,
            outcome = self.outcome,
            why = self.why,
            bytes = self.bytes,
            took = ?self.begun.elapsed(),
            "redis request"
        );
    }
}
