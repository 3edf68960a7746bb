//! HTTP on an accepted connection: both versions with their bounds, and a drain at the end.

use std::{convert::Infallible, error::Error, time::Duration};

use http::{Request, Response};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto,
};
use runtime::{parts::Spawner, tunnel::Tasks};
use tokio::time::timeout;

use super::handshake::Stream;

/// Header bytes and lines of an HTTP/1.1 request.
const HEADERS: usize = 32 << 10;
const HEADER_LINES: usize = 64;

/// The bounds of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// How long the headers of an HTTP/1.1 request may take. Without a bound a peer could send one byte each minute.
    pub(crate) header_time: Duration,
    /// Header bytes of an HTTP/2 request.
    pub(crate) header_list: u32,
    /// Requests at the same time.
    pub(crate) streams: u32,
    /// Unread bytes of a stream, and of a connection.
    pub(crate) stream_window: u32,
    pub(crate) connection_window: u32,
    /// Interval of keep-alive pings, and how long a peer may take to answer one.
    pub(crate) ping_interval: Duration,
    pub(crate) ping_timeout: Duration,
    /// How long running requests may take after the stop.
    pub(crate) drain: Duration,
}

impl Bounds {
    /// Serves a connection until it ends, or has drained after `stop`.
    pub(crate) async fn serve<F, B>(
        self,
        stream: Stream,
        spawner: Spawner,
        answer: impl Fn(Request<Incoming>) -> F,
        stop: impl Future<Output = ()>,
    ) -> Result<(), Box<dyn Error + Send + Sync>>
    where
        F: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
        B: http_body::Body<Error: Into<Box<dyn Error + Send + Sync>>, Data: Send> + Send + 'static,
    {
        let mut builder = auto::Builder::new(Tasks::new(spawner));
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(self.header_time)
            .max_headers(HEADER_LINES)
            .max_buf_size(HEADERS);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(self.streams)
            .initial_stream_window_size(self.stream_window)
            .initial_connection_window_size(self.connection_window)
            .max_header_list_size(self.header_list)
            .keep_alive_interval(self.ping_interval)
            .keep_alive_timeout(self.ping_timeout);
        let service = service_fn(answer);
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
        tokio::pin!(connection);
        tokio::select! {
            biased;
            ended = connection.as_mut() => return ended,
            () = stop => {}
        }
        connection.as_mut().graceful_shutdown();
        timeout(self.drain, connection).await.unwrap_or(Ok(()))
    }
}
