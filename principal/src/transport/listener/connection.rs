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
use tokio::sync::watch;
use tonic::body::Body;

use super::{
    handshake::Stream,
    http::Bounds,
    shared::{PING_INTERVAL, Shared},
    websocket,
};
use crate::{admission::peer::Peer, settings::GO_STREAMS};

const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// Header bytes of an HTTP/2 request; our agent sends half a kilobyte and a token.
const HEADER_LIST: u32 = 16 << 10;
/// Unread bytes of a stream, and of a connection: live streams of a Go agent that no client reads (`GO_STREAMS`) must not
/// block its session.
const STREAM_WINDOW: u32 = 512 << 10;
const CONNECTION_WINDOW: u32 = (GO_STREAMS + 2) * STREAM_WINDOW;

/// The WebSocket of an upgraded connection.
type Upgraded = Arc<Mutex<Option<BoxFuture<'static, ()>>>>;

/// Serves a connection until it ends, is idle for too long, or the program stops.
pub(super) async fn drive(
    shared: &Arc<Shared>,
    stream: Stream,
    peer: Peer,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let (running, upgraded) = (Running::default(), Upgraded::default());
    let answer = |request: http::Request<_>| {
        let (shared, peer, one) = (Arc::clone(shared), peer.clone(), running.begin());
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
    };
    let limits = &shared.rules.limits;
    let bounds = Bounds {
        header_time: limits.handshake_time,
        header_list: HEADER_LIST,
        streams: limits.streams_per_connection,
        stream_window: STREAM_WINDOW,
        connection_window: CONNECTION_WINDOW,
        ping_interval: PING_INTERVAL,
        ping_timeout: PING_TIMEOUT,
        drain: limits.drain,
    };
    let stop = async {
        tokio::select! {
            () = shared.spawner.token().cancelled() => {}
            () = running.idle(limits.idle) => {}
        }
    };
    let ended = bounds
        .serve(stream, shared.spawner.clone(), answer, stop)
        .await;
    let socket = upgraded
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    if let Some(socket) = socket {
        socket.await;
    }
    ended
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
