//! Tunnels: reverse HTTP/2 connections that carry live requests to the agents, beside the sessions.
//!
//! An agent opens a tunnel on a connection of its own; the principal is the client of the HTTP/2 connection inside, so
//! each request is a stream with its own flow control, and a slow reader does not delay other requests. A tunnel needs
//! the same credentials as a session and ends when these end. A newer tunnel of a cluster takes over new requests;
//! requests on an older one finish there.

use std::{
    collections::BTreeMap,
    error::Error,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use futures::StreamExt as _;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, Empty, StreamBody, combinators::UnsyncBoxBody};
use hyper::{body::Incoming, client::conn::http2::SendRequest};
use protocol::payload::Undecodable;
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

use crate::{
    admission::{
        admit::{Admitted, Credentials},
        registry::End,
    },
    fleet::{ClusterName, Mode},
};

/// Tunnels of one cluster at a time: the newest, and those with unfinished requests.
const MAX_PER_CLUSTER: usize = 4;

/// The body of a request to an agent, and of its response.
pub(crate) type Body = UnsyncBoxBody<Bytes, Box<dyn Error + Send + Sync>>;

/// A body without data.
pub(super) fn empty() -> Body {
    UnsyncBoxBody::new(Empty::new().map_err(|never| match never {}))
}

/// A body of chunks as they come.
pub(super) fn streamed(chunks: mpsc::Receiver<Bytes>) -> Body {
    let frames = ReceiverStream::new(chunks).map(|chunk| Ok(Frame::data(chunk)));
    UnsyncBoxBody::new(StreamBody::new(frames))
}

/// The open tunnels of all clusters; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tunnels(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// The newest last.
    open: BTreeMap<ClusterName, Vec<OpenTunnel>>,
}

#[derive(derive_more::Debug)]
#[debug("OpenTunnel({id})")]
struct OpenTunnel {
    id: u64,
    mode: Mode,
    peer_credentials: Arc<Credentials>,
    /// Argo CD's namespace on the cluster. A claim.
    argocd_namespace: String,
    /// None if a newer tunnel has taken over.
    sender: Option<SendRequest<Body>>,
    end: CancellationToken,
}

/// Why an agent did not answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotAnswered {
    /// The agent has no tunnel.
    #[error("the agent of this cluster is not connected, or does not support live requests")]
    NotConnected,
    /// The agent sent no response in time.
    #[error("timed out: the agent of this cluster did not answer within {0:?}")]
    TimedOut(Duration),
    /// The tunnel failed.
    #[error("the connection to the agent of this cluster was lost")]
    Lost(#[source] hyper::Error),
    /// The session of a Go agent ended.
    #[error("the session of this cluster's agent ended before it answered")]
    Ended,
    /// A Go agent has too many unanswered requests.
    #[error("too many concurrent requests to the agent of this cluster; retry")]
    Busy,
    /// The response of a Go agent exceeds the message size limit.
    #[error("the answer of this cluster's agent exceeds the message size limit")]
    TooLarge,
    /// The response of a Go agent cannot be decoded.
    #[error("read the answer of this cluster's agent")]
    Unreadable(#[source] Undecodable),
    /// The response of a Go agent has another type.
    #[error("the agent of this cluster sent an unexpected answer")]
    Unexpected,
}

impl Tunnels {
    /// Sends a request to the agent of a cluster.
    ///
    /// Dropping the future or the response cancels the request.
    pub(crate) async fn ask(
        &self,
        cluster: &ClusterName,
        request: Request<Body>,
        response_timeout: Duration,
    ) -> Result<Response<Incoming>, NotAnswered> {
        let sender = self.of_newest(cluster, |_, sender| sender.clone());
        let mut sender = sender.ok_or(NotAnswered::NotConnected)?;
        timeout(response_timeout, sender.send_request(request))
            .await
            .map_err(|_elapsed| NotAnswered::TimedOut(response_timeout))?
            .map_err(NotAnswered::Lost)
    }

    /// Argo CD's namespace on a cluster, if its agent has an open tunnel.
    pub(crate) fn argocd_namespace(&self, cluster: &ClusterName) -> Option<String> {
        self.of_newest(cluster, |newest, _| newest.argocd_namespace.clone())
    }

    fn of_newest<T>(
        &self,
        cluster: &ClusterName,
        take: impl FnOnce(&OpenTunnel, &SendRequest<Body>) -> T,
    ) -> Option<T> {
        let state = self.lock();
        let newest = state.open.get(cluster)?.last()?;
        let sender = newest.sender.as_ref().filter(|it| !it.is_closed())?;
        Some(take(newest, sender))
    }

    /// Ends every tunnel for which `verdict` has a reason.
    pub(crate) fn end_where(
        &self,
        verdict: impl Fn(&ClusterName, Mode, &Credentials) -> Option<End>,
    ) {
        for (cluster, tunnels) in &self.lock().open {
            for tunnel in tunnels {
                if verdict(cluster, tunnel.mode, &tunnel.peer_credentials).is_some() {
                    tunnel.end.cancel();
                }
            }
        }
    }

    /// Open tunnels by cluster.
    pub(crate) fn count(&self) -> BTreeMap<String, usize> {
        let state = self.lock();
        let open = state.open.iter();
        open.map(|(cluster, tunnels)| (cluster.to_string(), tunnels.len()))
            .collect()
    }

    /// From now on this tunnel carries the requests of its cluster.
    pub(super) fn register(
        &self,
        admitted: &Admitted,
        sender: SendRequest<Body>,
        end: CancellationToken,
    ) -> Registration {
        let cluster = admitted.holder.cluster.clone();
        let mut state = self.lock();
        let id = state.next;
        state.next = state.next.wrapping_add(1);
        let tunnels = state.open.entry(cluster.clone()).or_default();
        for older in tunnels.iter_mut() {
            older.sender = None;
        }
        if tunnels.len() >= MAX_PER_CLUSTER {
            tunnels.remove(0).end.cancel();
        }
        tunnels.push(OpenTunnel {
            id,
            mode: admitted.holder.mode,
            peer_credentials: Arc::clone(&admitted.peer_credentials),
            argocd_namespace: admitted.holder.announced.namespace.clone(),
            sender: Some(sender),
            end,
        });
        drop(state);
        Registration {
            tunnels: self.clone(),
            cluster,
            id,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a tunnel when dropped.
#[derive(Debug)]
pub(super) struct Registration {
    tunnels: Tunnels,
    cluster: ClusterName,
    id: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut state = self.tunnels.lock();
        if let Some(tunnels) = state.open.get_mut(&self.cluster) {
            tunnels.retain(|tunnel| tunnel.id != self.id);
            if tunnels.is_empty() {
                state.open.remove(&self.cluster);
            }
        }
    }
}
