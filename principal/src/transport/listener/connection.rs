//! One connection's life: requests side by side, an end when it is idle, a drain when the program stops.
//!
//! Over HTTP/1.1 the one request becomes a WebSocket, which has the rest of the connection's life.

use std::{
    error::Error,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::future::BoxFuture;
use http::{Response, Version};
use http_body_util::BodyExt as _;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto,
};
use runtime::tunnel::Tasks;
use tokio::sync::watch;
use tonic::body::Body;

use super::{Peer, Shared, handshake::Stream, websocket};
use crate::settings::GO_STREAMS;

/// Keep-alive pings: a dead peer is noticed within 30 seconds.
pub(super) const PING_INTERVAL: Duration = Duration::from_secs(15);
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// Unread bytes of a stream, and of a connection: live streams of a Go agent that no client reads (`GO_STREAMS`) must not
/// block its session.
const STREAM_WINDOW: u32 = 512 << 10;
const CONNECTION_WINDOW: u32 = (GO_STREAMS + 2) * STREAM_WINDOW;
/// Header bytes of an HTTP/1.1 request; our agent sends half a kilobyte and a token.
const HEADERS: usize = 32 << 10;
const HEADER_LINES: usize = 64;

/// The WebSocket of an upgraded connection.
type Upgraded = Arc<Mutex<Option<BoxFuture<'static, ()>>>>;

/// Serves a connection until it ends, is idle for too long, or the program stops.
pub(super) async fn drive(
    shared: &Arc<Shared>,
    stream: Stream,
    peer: Peer,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let (running, upgraded) = (Running::default(), Upgraded::default());
    let service = {
        let (shared, running, upgraded) =
            (Arc::clone(shared), running.clone(), Arc::clone(&upgraded));
        service_fn(move |request: http::Request<Incoming>| {
            let (shared, peer, one) = (Arc::clone(&shared), peer.clone(), running.begin());
            let upgraded = Arc::clone(&upgraded);
            async move {
                if request.version() < Version::HTTP_2 {
                    let (response, socket) = websocket::upgrade(&shared, peer, request);
                    *upgraded.lock().unwrap_or_else(PoisonError::into_inner) = socket;
                    return Ok(response);
                }
                shared
                    .answer(peer, request)
                    .await
                    .map(|response| track_body(response, one))
            }
        })
    };
    let limits = &shared.rules.limits;
    let mut builder = auto::Builder::new(Tasks::new(shared.spawner.clone()));
    builder
        .http1()
        .timer(TokioTimer::new())
        // Without a bound a peer could send one byte of its headers each minute.
        .header_read_timeout(limits.handshake_time)
        .max_headers(HEADER_LINES)
        .max_buf_size(HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams_per_connection)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        biased;
        ended = connection.as_mut() => {
            let socket = upgraded.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(socket) = socket {
                socket.await;
            }
            return ended;
        }
        () = shared.spawner.token().cancelled() => {}
        () = running.idle(limits.idle) => {}
    }
    connection.as_mut().graceful_shutdown();
    tokio::time::timeout(limits.drain, connection)
        .await
        .unwrap_or(Ok(()))
}

/// Counts a request as running until its answer is read to the end or dropped.
fn track_body(response: Response<Body>, one: Request) -> Response<Body> {
    response.map(|body| {
        Body::new(body.map_frame(move |frame| {
            let _dropped_with_the_body = &one;
            frame
        }))
    })
}

/// How many requests are running on a connection.
#[derive(Clone, Debug)]
struct Running(Arc<watch::Sender<usize>>);

impl Default for Running {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl Running {
    fn begin(&self) -> Request {
        self.0.send_modify(|count| *count = count.saturating_add(1));
        Request(self.clone())
    }

    /// Resolves when no request was running for that long.
    async fn idle(&self, long: Duration) {
        let mut count = self.0.subscribe();
        loop {
            // The sender is alive in `self`, so no wait ends without a value.
            if count.wait_for(|running| *running == 0).await.is_err() {
                return;
            }
            if tokio::time::timeout(long, count.changed()).await.is_err() {
                return;
            }
        }
    }
}

/// One running request.
#[derive(Debug)]
struct Request(Running);

impl Drop for Request {
    fn drop(&mut self) {
        (self.0)
            .0
            .send_modify(|count| *count = count.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_only_after_its_last_request() {
        let running = Running::default();
        let one = running.begin();
        let idle = running.idle(Duration::from_secs(10));
        tokio::pin!(idle);
        assert!(
            tokio::time::timeout(Duration::from_mins(1), idle.as_mut())
                .await
                .is_err()
        );
        drop(one);
        let ended = tokio::time::Instant::now();
        idle.await;
        assert_eq!(ended.elapsed().as_secs(), 10);
    }
}
