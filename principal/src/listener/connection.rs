//! One connection's life: requests side by side, an end when it is idle, a drain when the program stops.

use std::{error::Error, sync::Arc, time::Duration};

use http::Response;
use http_body_util::BodyExt as _;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto,
};
use runtime::parts::Spawner;
use tokio::{net::TcpStream, sync::watch};
use tokio_rustls::server::TlsStream;
use tonic::body::Body;

use super::{Peer, Shared};

/// A peer that answers no ping for this long is gone; together with the interval below the usual minute.
const PING_TIMEOUT: Duration = Duration::from_secs(20);
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// hyper lets a stream have 1 MiB unread and a connection no more: one slow stream would stop the others.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;

/// Serves a connection until it ends, is idle for too long, or the program stops.
pub(super) async fn drive(
    shared: &Arc<Shared>,
    stream: TlsStream<TcpStream>,
    peer: Peer,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let running = Running::default();
    let service = {
        let (shared, running) = (Arc::clone(shared), running.clone());
        service_fn(move |request: http::Request<Incoming>| {
            let (shared, peer, one) = (Arc::clone(&shared), peer.clone(), running.begin());
            async move {
                shared
                    .answer(peer, request)
                    .await
                    .map(|response| keep(response, one))
            }
        })
    };
    let mut builder = auto::Builder::new(Tasks(shared.spawner.clone())).http2_only();
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(shared.limits.streams_per_connection)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        biased;
        ended = connection.as_mut() => return ended,
        () = shared.spawner.token().cancelled() => {}
        () = running.idle(shared.limits.idle) => {}
    }
    connection.as_mut().graceful_shutdown();
    tokio::time::timeout(shared.limits.drain, connection)
        .await
        .unwrap_or(Ok(()))
}

/// Counts a request as running until its answer is read to the end or dropped.
fn keep(response: Response<Body>, one: Request) -> Response<Body> {
    response.map(|body| {
        Body::new(body.map_frame(move |frame| {
            let _kept_with_the_body = &one;
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

/// Runs hyper's tasks as supervised ones.
#[derive(Clone, Debug)]
struct Tasks(Spawner);

impl<F> hyper::rt::Executor<F> for Tasks
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, future: F) {
        self.0
            .spawn_short("request", async move { drop(future.await) });
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
