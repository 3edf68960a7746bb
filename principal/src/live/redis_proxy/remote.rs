//! Values of a cluster: requested from its agent, and streamed.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode, header::CONTENT_LENGTH};
use live::cache_key::CacheKey;
use runtime::error::Chain;
use tokio::{sync::OwnedSemaphorePermit, time::Instant};
use uuid::Uuid;

use super::Shared;
use crate::{
    domain::RemoteApplication,
    fleet::ClusterName,
    live::{
        dispatch,
        tunnel::{Body, NotAnswered},
    },
    metrics::Metrics,
    transport::listener::slots::Slot,
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
        let RemoteApplication {
            cluster,
            namespace,
            name,
            uid,
            namespace_here: _,
            source_uid: _,
        } = there;
        Self {
            cluster,
            uid,
            key: key.of(namespace, name),
        }
    }

    /// The key of its last known value.
    fn remembered_as(&self) -> String {
        format!("{}/{}/{}", self.cluster, self.uid, self.key)
    }
}

/// The result of a request for a value.
#[derive(Debug)]
pub(super) enum Answer {
    /// A streaming value.
    Value(Box<Value>),
    /// The last known value.
    Known(Bytes),
    /// No value.
    Nothing,
    /// Above the size limit.
    TooLarge,
    /// Too many concurrent requests.
    Busy,
}

/// A streaming value.
#[derive(Debug)]
pub(super) struct Value {
    pub(super) length: u64,
    pub(super) body: Body,
    pub(super) line: AuditLine,
    remembered_as: String,
    _permits: Permits,
}

impl Value {
    /// Stores a completed value, if it was small enough to keep.
    pub(super) fn finished(self, shared: &Shared, value: Option<Bytes>) {
        match value {
            Some(value) => shared.last_known.remember(self.remembered_as, value),
            // What was there before is out of date.
            None => shared.last_known.forget(&self.remembered_as),
        }
    }
}

/// The permits of a request, until its response is read to the end or dropped.
#[derive(Debug)]
struct Permits {
    _one: OwnedSemaphorePermit,
    _of_cluster: Slot<ClusterName>,
}

/// Gets a value. Never fails: a disconnected cluster has its last known values only.
pub(super) async fn get(shared: &Shared, remote: &Remote) -> Answer {
    let mut line = AuditLine::new(shared.live.metrics.clone(), remote);
    let one = Arc::clone(&shared.gets).try_acquire_owned();
    let of_cluster = shared.gets_of_cluster.take(remote.cluster.clone());
    let (Ok(one), Some(of_cluster)) = (one, of_cluster) else {
        line.outcome = "too_many_requests";
        return Answer::Busy;
    };
    let permits = Permits {
        _one: one,
        _of_cluster: of_cluster,
    };
    let remembered_as = remote.remembered_as();
    let response = match ask(shared, remote, false, &line.id).await {
        Ok(response) => response,
        Err(NotAnswered::TooLarge) => {
            line.outcome = "too_large";
            return Answer::TooLarge;
        }
        Err(why @ NotAnswered::Busy) => {
            line.outcome = outcome_of(&why);
            return Answer::Busy;
        }
        Err(why) => {
            line.why = Chain(&why).to_string();
            return last_known(shared, &remembered_as, line, outcome_of(&why));
        }
    };
    match (response.status(), length(&response)) {
        (StatusCode::OK, Some(length)) if length > shared.settings.largest_value => {
            line.outcome = "too_large";
            Answer::TooLarge
        }
        (StatusCode::OK, Some(length)) => {
            line.outcome = "answered";
            Answer::Value(Box::new(Value {
                length,
                body: response.into_body(),
                line,
                remembered_as,
                _permits: permits,
            }))
        }
        (StatusCode::NOT_FOUND | StatusCode::FORBIDDEN, _) => {
            shared.last_known.forget(&remembered_as);
            let is_forbidden = response.status() == StatusCode::FORBIDDEN;
            line.outcome = if is_forbidden { "forbidden" } else { "missing" };
            Answer::Nothing
        }
        (status, _) => {
            line.why = status.to_string();
            last_known(shared, &remembered_as, line, "failed")
        }
    }
}

fn last_known(shared: &Shared, key: &str, mut line: AuditLine, word: &'static str) -> Answer {
    let known = shared.last_known.recall(key);
    line.outcome = if known.is_some() { "remembered" } else { word };
    let Some((value, at)) = known else {
        return Answer::Nothing;
    };
    line.why = format!("{}; last known {:?} ago", line.why, at.elapsed());
    line.carried(value.len());
    Answer::Known(value)
}

/// Requests a value from the agent, or a stream of its changes.
pub(super) async fn ask(
    shared: &Shared,
    remote: &Remote,
    watch: bool,
    id: &str,
) -> Result<Response<Body>, NotAnswered> {
    let request = dispatch::get(&remote.key.target(watch), id);
    let response_timeout = shared.budgets.response_timeout;
    dispatch::ask(&shared.live, &remote.cluster, request, response_timeout).await
}

fn length(response: &Response<Body>) -> Option<u64> {
    let length = response.headers().get(CONTENT_LENGTH)?;
    length.to_str().ok()?.parse().ok()
}

const fn outcome_of(why: &NotAnswered) -> &'static str {
    match why {
        NotAnswered::NotConnected => "not_connected",
        NotAnswered::TimedOut(_) => "late",
        NotAnswered::Lost(_) | NotAnswered::Ended => "lost",
        NotAnswered::Busy => "too_many_requests",
        NotAnswered::TooLarge => "too_large",
        NotAnswered::Unreadable(_) | NotAnswered::Unexpected => "failed",
    }
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
    why: String,
    bytes: u64,
}

impl AuditLine {
    fn new(metrics: Metrics, remote: &Remote) -> Self {
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
        self.metrics.redis_request(self.outcome);
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
