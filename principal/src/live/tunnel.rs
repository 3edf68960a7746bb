//! Tunnels: reverse HTTP/2 connections that carry live requests to the agents, beside the sessions.
//!
//! An agent opens a tunnel on a connection of its own; the principal is the client of the HTTP/2 connection inside, so
//! each request is a stream with its own flow control, and a slow reader does not delay other requests. A tunnel needs
//! the same credentials as a session and ends when these end. A newer tunnel of a cluster takes over new requests;
//! requests on an older one finish there.

use std::{
    collections::BTreeMap,
    error::Error,
    fmt, io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use futures::StreamExt as _;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::{
    body::Incoming,
    client::conn::http2::{self, SendRequest},
};
use hyper_util::rt::{TokioIo, TokioTimer};
use protocol::{payload::Undecodable, wire::lane::Chunk};
use runtime::{
    error::Chain,
    tunnel::{self, Tasks, Tunnel},
};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tonic::Streaming;
use tracing::Instrument as _;

use crate::{
    admission::{
        gate::{Admitted, Papers},
        registry::End,
    },
    fleet::{ClusterName, Mode},
    sync::session::Sessions,
};

/// For the HTTP/2 handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// An agent that is cut off is noticed within twice this.
const PING: Duration = Duration::from_secs(5);
/// Unread bytes of one request, and of all requests of one cluster.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 32 << 20;
/// Tunnels of one cluster at a time: the newest, and those with unfinished requests.
const MAX_PER_CLUSTER: usize = 4;

/// The body of a request to an agent, and of its response.
pub(crate) type Body = UnsyncBoxBody<Bytes, Box<dyn Error + Send + Sync>>;

/// The open tunnels of all clusters; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tunnels(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// The newest last.
    open: BTreeMap<ClusterName, Vec<OpenTunnel>>,
}

struct OpenTunnel {
    id: u64,
    mode: Mode,
    papers: Arc<Papers>,
    /// Argo CD's namespace on the cluster. A claim.
    argocd_namespace: String,
    /// None if a newer tunnel has taken over.
    sender: Option<SendRequest<Body>>,
    end: CancellationToken,
}

impl fmt::Debug for OpenTunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenTunnel")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
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
        let mut sender = self.sender(cluster).ok_or(NotAnswered::NotConnected)?;
        timeout(response_timeout, sender.send_request(request))
            .await
            .map_err(|_elapsed| NotAnswered::TimedOut(response_timeout))?
            .map_err(NotAnswered::Lost)
    }

    fn sender(&self, cluster: &ClusterName) -> Option<SendRequest<Body>> {
        let state = self.lock();
        let newest = state.open.get(cluster)?.last()?;
        newest.sender.clone().filter(|it| !it.is_closed())
    }

    /// Argo CD's namespace on a cluster, if its agent has an open tunnel.
    pub(crate) fn argocd_namespace(&self, cluster: &ClusterName) -> Option<String> {
        let state = self.lock();
        let newest = state.open.get(cluster)?.last()?;
        let is_open = newest.sender.as_ref().is_some_and(|it| !it.is_closed());
        is_open.then(|| newest.argocd_namespace.clone())
    }

    /// Ends every tunnel for which `verdict` has a reason.
    pub(crate) fn end_where(&self, verdict: impl Fn(&ClusterName, Mode, &Papers) -> Option<End>) {
        for (cluster, tunnels) in &self.lock().open {
            for tunnel in tunnels {
                if verdict(cluster, tunnel.mode, &tunnel.papers).is_some() {
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
    fn register(
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
            papers: Arc::clone(&admitted.papers),
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

/// The end signals of a tunnel.
struct EndSignals {
    /// Cancelled, it ends with all requests on it.
    end: CancellationToken,
    /// Cancelled when its last request has ended or the agent is gone.
    gone: CancellationToken,
}

/// Removes a tunnel when dropped.
#[derive(Debug)]
struct Registration {
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

impl Sessions {
    /// Starts the tunnel of an admitted agent and returns the outgoing bytes.
    pub(crate) fn open_tunnel(
        self: &Arc<Self>,
        admitted: Admitted,
        inbound: Streaming<Chunk>,
    ) -> mpsc::Receiver<Bytes> {
        let end = CancellationToken::new();
        // Its end is the end of the connection inside, and so of every request on it.
        let gone = CancellationToken::new();
        let gone_guard = gone.clone().drop_guard();
        let incoming = inbound
            .map(move |chunk| {
                let _dropped_with_the_stream = &gone_guard;
                chunk.map(|it| it.data).map_err(io::Error::other)
            })
            .take_until(end.clone().cancelled_owned());
        let (send, outgoing) = tunnel::chunks();
        let tunnel = Tunnel::new(incoming, send);
        let span = tracing::info_span!("tunnel", cluster = %admitted.holder.cluster);
        let living = Arc::clone(self).run_tunnel(admitted, tunnel, EndSignals { end, gone });
        self.spawner
            .aside()
            .spawn_short("tunnel", living.instrument(span));
        outgoing
    }

    async fn run_tunnel(self: Arc<Self>, admitted: Admitted, tunnel: Tunnel, signals: EndSignals) {
        let EndSignals { end, gone } = signals;
        let handshake = http2::Builder::new(Tasks::new(self.spawner.aside()))
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .keep_alive_interval(PING)
            .keep_alive_timeout(PING)
            .keep_alive_while_idle(true)
            .handshake(TokioIo::new(tunnel));
        let Ok(Ok((sender, connection))) = timeout(HANDSHAKE, handshake).await else {
            return tracing::info!("a tunnel failed to start");
        };
        let _registration = self.tunnels.register(&admitted, sender, end.clone());
        let (holder, papers) = (&admitted.holder, &admitted.papers);
        let verdict = self
            .gate
            .verdict_at_opening(&holder.cluster, holder.mode, papers);
        if verdict.is_some() {
            return end.cancel();
        }
        let _open = self.metrics.lane();
        tracing::info!("tunnel opened");
        // Resolves when no more requests come; running ones continue until the tunnel is dropped.
        let connected = async {
            if let Err(error) = connection.await {
                tracing::info!(error = %Chain(&error), "tunnel connection failed");
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            () = self.spawner.token().cancelled() => {}
            () = end.cancelled() => {}
            () = gone.cancelled() => {}
            () = sleep(self.max_life(papers)) => {}
            () = connected => {}
        }
        end.cancel();
        tracing::info!("tunnel ended");
    }

    /// The lifetime of a session, or less if the certificate expires before.
    fn max_life(&self, papers: &Papers) -> Duration {
        let left = papers.not_after().map(|not_after| {
            let left = not_after.duration_since(self.clock.now());
            Duration::try_from(left).unwrap_or_default()
        });
        left.map_or(self.limits.session_life, |left| {
            left.min(self.limits.session_life)
        })
    }
}
