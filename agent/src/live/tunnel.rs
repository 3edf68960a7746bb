//! The agent's end of the tunnel for live requests of the hub's users.
//!
//! The tunnel has its own connection, so that live traffic does not delay the session. It carries an HTTP/2 connection
//! whose server is this agent; the [`ApiHandler`] answers its requests.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt as _, TryFutureExt as _, stream};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use protocol::wire::tunnel::Chunk;
use protocol::wire::tunnel::lane_client::LaneClient;
use runtime::backoff::Backoff;
use runtime::credentials::Material;
use runtime::error::Chain;
use runtime::metrics::Open;
use runtime::parts::Spawner;
use runtime::tunnel::{self, Tasks, Tunnel};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::transport::credentials::{Renewal, Renewed};
use crate::transport::{DialError, Dialer};

mod answer;
mod handler;
mod redis_values;

pub(crate) use answer::Body;
pub use handler::ApiHandler;
pub use redis_values::Cache;

/// The hub sends chunks of 64 KiB at most.
const LARGEST_CHUNK: usize = 128 << 10;
/// Concurrent requests; the hub has smaller budgets for each cluster.
const REQUESTS: u32 = 320;
/// Memory bounds for request bodies that the handler does not read.
const STREAM_WINDOW: u32 = 256 << 10;
const TUNNEL_WINDOW: u32 = 4 << 20;
/// Memory bound for an answer that the hub does not read.
const UNSENT: usize = 64 << 10;
/// Timeout of the hub's first chunk: pings begin only after it, and a hub without one is gone or stuck behind a proxy.
const HANDSHAKE: Duration = Duration::from_secs(15);
/// Interval and timeout of pings.
const PING: Duration = Duration::from_secs(10);
/// The first and longest back-off, and the time that resets it.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
const HEALTHY: Duration = Duration::from_mins(1);

/// Keeps one tunnel open while a session is up whose principal accepts tunnels.
#[derive(Debug)]
pub struct AgentTunnel {
    /// Opens connections.
    pub dialer: Dialer,
    /// Whether a session is up whose principal accepts tunnels.
    pub wanted: watch::Receiver<bool>,
    /// The handler of live requests.
    pub api_handler: Arc<ApiHandler>,
    /// The agent's metrics.
    pub metrics: Metrics,
    /// Starts the tasks.
    pub spawner: Spawner,
}

impl AgentTunnel {
    /// Runs until `token` is cancelled.
    pub async fn run(mut self, token: CancellationToken) {
        let mut backoff = Backoff::new(PAUSES.0, PAUSES.1, HEALTHY);
        let keeping = async {
            while self.wanted.wait_for(|wanted| *wanted).await.is_ok() {
                if !self.once(&mut backoff).await {
                    tokio::time::sleep(backoff.failed(Instant::now())).await;
                }
            }
        };
        token.run_until_cancelled(keeping).await;
        token.cancelled().await;
    }

    /// Opens a tunnel and waits for its end; true if a new one has to replace it at once.
    async fn once(&mut self, backoff: &mut Backoff) -> bool {
        let used = Arc::clone(&self.dialer.material.borrow_and_update());
        let tunnel = match self.open(&used).await {
            Ok(tunnel) => tunnel,
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "cannot open a tunnel; retrying");
                return false;
            }
        };
        let ended = CancellationToken::new();
        let answerer = Answerer {
            api_handler: Arc::clone(&self.api_handler),
            metrics: self.metrics.clone(),
        };
        let serving = serve(tunnel, answerer, self.spawner.clone(), ended.clone());
        self.spawner.spawn_short("tunnel", serving);
        backoff.succeeded(Instant::now());
        let mut renewal = Renewal::new(used, self.dialer.material.clone());
        loop {
            tokio::select! {
                biased;
                () = ended.cancelled() => return false,
                renewed = renewal.renewed_credentials() => match renewed {
                    // Open requests finish on the old tunnel.
                    Renewed::Replace => return true,
                    // The session reports it.
                    Renewed::Trust => drop(renewal.trusts()),
                },
            }
        }
    }

    async fn open(&self, used: &Material) -> Result<Tunnel, DialError> {
        let opened = self.dialer.dial_beside(used).await?;
        let (send, outgoing) = tunnel::chunks();
        let chunks = ReceiverStream::new(outgoing).map(|data| Chunk { data });
        let mut request = tonic::Request::new(chunks);
        opened.tokens.show(&mut request);
        let mut client = LaneClient::new(opened.channel).max_decoding_message_size(LARGEST_CHUNK);
        let incoming = async move { client.open(request).await }
            .map_ok(tonic::Response::into_inner)
            .try_flatten_stream()
            .map(|chunk| chunk.map(|it| it.data).map_err(io::Error::other));
        Ok(Tunnel::new(begins_soon(incoming), send))
    }
}

/// Passes the chunks on, or an error if the first one times out.
fn begins_soon<S>(chunks: S) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static
where
    S: Stream<Item = io::Result<Bytes>> + Send + 'static,
{
    let begun = async move {
        let mut chunks = Box::pin(chunks);
        let first = tokio::time::timeout(HANDSHAKE, chunks.next()).await;
        let first = first.unwrap_or_else(|late| Some(Err(late.into())));
        stream::iter(first).chain(chunks)
    };
    stream::once(begun).flatten()
}

/// Answers and counts the requests of a tunnel.
#[derive(Clone)]
struct Answerer {
    api_handler: Arc<ApiHandler>,
    metrics: Metrics,
}

/// Serves a tunnel until it ends or the process stops.
async fn serve(tunnel: Tunnel, answerer: Answerer, spawner: Spawner, ended: CancellationToken) {
    let _cancels_on_drop = ended.drop_guard();
    let _counted_while_open = Open::new(answerer.metrics.agent_tunnels.clone());
    let service = service_fn(move |request| answer(answerer.clone(), request));
    let stop = spawner.token().clone();
    let connection = http2::Builder::new(Tasks::new(spawner))
        .timer(TokioTimer::new())
        .max_concurrent_streams(REQUESTS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(TUNNEL_WINDOW)
        .max_send_buf_size(UNSENT)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING)
        .serve_connection(TokioIo::new(tunnel), service);
    tracing::info!("tunnel opened");
    match stop.run_until_cancelled(connection).await {
        Some(Err(error)) => tracing::info!(error = %Chain(&error), "tunnel broke"),
        Some(Ok(())) => tracing::info!("tunnel ended"),
        None => {}
    }
}

async fn answer(
    answerer: Answerer,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let cache = answerer.api_handler.cache();
    let response = match cache.filter(|_| Cache::is_asked(&request)) {
        Some(cache) => cache.answer(request).await,
        None => answerer.api_handler.answer(request).await,
    };
    let class = class(response.status());
    answerer.metrics.tunnel_requests.count(class);
    Ok(response)
}

/// The class of a status, as a label of the metrics.
fn class(status: StatusCode) -> &'static str {
    let class = usize::from(status.as_u16() / 100);
    ["", "1xx", "2xx", "3xx", "4xx"]
        .get(class)
        .unwrap_or(&"5xx")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_tunnel_on_which_the_hub_stays_silent_times_out() {
        let begun = Instant::now();
        let answerer = || async { Ok::<_, Infallible>(Response::new(String::new())) };
        let (send, _taken) = tunnel::chunks();
        let tunnel = Tunnel::new(begins_soon(stream::pending()), send);
        let broken = http2::Builder::new(hyper_util::rt::TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(PING)
            .keep_alive_timeout(PING)
            .serve_connection(TokioIo::new(tunnel), service_fn(|_| answerer()));
        let broken = tokio::time::timeout(HANDSHAKE * 100, broken).await;
        assert!(broken.unwrap().is_err());
        assert_eq!(begun.elapsed(), HANDSHAKE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_after_the_first_chunk_does_not_time_out() {
        let (emits, stated) = tokio::sync::mpsc::channel(1);
        let mut arrived = Box::pin(begins_soon(ReceiverStream::new(stated)));
        emits.send(Ok(Bytes::from_static(b"first"))).await.unwrap();
        assert_eq!(arrived.next().await.unwrap().unwrap(), "first");
        tokio::time::sleep(HANDSHAKE * 2).await;
        emits.send(Ok(Bytes::from_static(b"second"))).await.unwrap();
        drop(emits);
        assert_eq!(arrived.next().await.unwrap().unwrap(), "second");
        assert!(arrived.next().await.is_none());
    }
}
