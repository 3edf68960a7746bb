//! The lane: on which people at the hub see this cluster, beside the session.
//!
//! It has a connection of its own, so that nothing that is carried on it delays the session. Inside begins an HTTP/2
//! connection whose server is this agent; each request on it is answered by the [`Desk`].

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
use protocol::Mode;
use protocol::version::Capabilities;
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

use crate::config::Hub;
use crate::metrics::Metrics;
use crate::transport::credentials::{Renewal, Renewed};
use crate::transport::{Connect, DialError, dial};

pub use handler::ApiHandler;
pub use redis_values::Cache;

/// The hub sends chunks of 64 KiB at most.
const LARGEST_CHUNK: usize = 128 << 10;
/// Requests at the same time; the hub has smaller budgets for each cluster.
const REQUESTS: u32 = 320;
/// What a request's body that we do not read makes us hold.
const STREAM_WINDOW: u32 = 256 << 10;
const TUNNEL_WINDOW: u32 = 4 << 20;
/// What an answer that the hub does not read makes us hold.
const UNSENT: usize = 64 << 10;
/// There are no pings before the hub has said its first words: one that has not by then is gone, or hangs behind a proxy.
const HANDSHAKE: Duration = Duration::from_secs(15);
/// A hub that is asked this often and then silent for as long is gone.
const PING: Duration = Duration::from_secs(10);
/// Pauses between attempts, and when they are forgotten.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
const HEALTHY: Duration = Duration::from_mins(1);

/// Keeps one lane open while there is a session whose principal wants one.
#[derive(Debug)]
pub struct AgentTunnel {
    /// Where the principal is.
    pub hub: Hub,
    /// Argo CD's namespace here, which the principal is told.
    pub argocd_namespace: String,
    /// Who owns the Applications, which the principal is told.
    pub mode: Mode,
    /// How to get there.
    pub network: Arc<dyn Connect>,
    /// What a connection that is dialled now shows, or something older: what is in effect, not what is to come.
    pub material: watch::Receiver<Arc<Material>>,
    /// Whether there is a session whose principal takes lanes.
    pub wanted: watch::Receiver<bool>,
    /// Who answers.
    pub api_handler: Arc<ApiHandler>,
    /// Counts.
    pub metrics: Metrics,
    /// Starts the tasks.
    pub spawner: Spawner,
}

impl AgentTunnel {
    /// Runs until `token` is cancelled.
    pub async fn run(mut self, token: CancellationToken) {
        let mut backoff = Backoff::new(PAUSES.0, PAUSES.1, HEALTHY);
        loop {
            let wanted = self.wanted.wait_for(|wanted| *wanted);
            if !matches!(token.run_until_cancelled(wanted).await, Some(Ok(_))) {
                return token.cancelled().await;
            }
            let Some(stays) = token.run_until_cancelled(self.once(&mut backoff)).await else {
                return;
            };
            if stays {
                continue;
            }
            let pause = backoff.failed(Instant::now());
            if token
                .run_until_cancelled(tokio::time::sleep(pause))
                .await
                .is_none()
            {
                return;
            }
        }
    }

    /// One lane until its end; true if another one has to take over at once.
    async fn once(&mut self, backoff: &mut Backoff) -> bool {
        let used = Arc::clone(&self.material.borrow_and_update());
        let tunnel = match self.open(&used).await {
            Ok(tunnel) => tunnel,
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "cannot open a tunnel; retrying");
                return false;
            }
        };
        let ended = CancellationToken::new();
        let serving = serve(
            tunnel,
            Answerer {
                api_handler: Arc::clone(&self.api_handler),
                metrics: self.metrics.clone(),
            },
            self.spawner.clone(),
            ended.clone(),
        );
        self.spawner.spawn_short("lane", serving);
        backoff.succeeded(Instant::now());
        let mut renewal = Renewal::new(used, self.material.clone());
        loop {
            let renewed_credentials = tokio::select! {
                biased;
                () = ended.cancelled() => return false,
                renewed_credentials = renewal.renewed_credentials() => renewed_credentials,
            };
            match renewed_credentials {
                // What still runs on this one ends there.
                Renewed::Replace => return true,
                // The session tells of it.
                Renewed::Trust => drop(renewal.trusts()),
            }
        }
    }

    async fn open(&self, used: &Material) -> Result<Tunnel, DialError> {
        let channel = self.network.connect_beside().await?;
        let caller = dial::Caller {
            hub: &self.hub,
            network: &*self.network,
            identity: used.identity.as_ref(),
            argocd_namespace: &self.argocd_namespace,
            mode: self.mode,
            capabilities: &Capabilities::ours(),
        };
        let opened = dial::introduce(caller, channel).await?;
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

/// The same chunks, or an error where the first one does not come in time.
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

/// Who answers what comes on a lane, and counts it.
#[derive(Clone)]
struct Answerer {
    api_handler: Arc<ApiHandler>,
    metrics: Metrics,
}

/// Answers what comes on a lane until it ends or the process stops.
async fn serve(tunnel: Tunnel, answerer: Answerer, spawner: Spawner, ended: CancellationToken) {
    let _told_when_dropped = ended.drop_guard();
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
    tracing::info!("lane opened");
    match stop.run_until_cancelled(connection).await {
        Some(Err(error)) => tracing::info!(error = %Chain(&error), "lane broke"),
        Some(Ok(())) => tracing::info!("lane ended"),
        None => {}
    }
}

async fn answer(
    answerer: Answerer,
    request: Request<Incoming>,
) -> Result<Response<handler::Body>, Infallible> {
    let Answerer {
        api_handler,
        metrics,
    } = answerer;
    let response = match api_handler.cache().filter(|_| Cache::is_asked(&request)) {
        Some(cache) => cache.answer(request).await,
        None => api_handler.answer(request).await,
    };
    metrics.tunnel_requests.count(class(response.status()));
    Ok(response)
}

/// The class of an answer, as a word for the metrics.
fn class(status: StatusCode) -> &'static str {
    match status.as_u16() / 100 {
        1 => "1xx",
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        _ => "5xx",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_hub_that_takes_a_lane_and_says_nothing_on_it_is_left() {
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
    async fn a_hub_that_has_begun_may_pause() {
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
pub(crate) mod handler;
mod redis_values;
