//! Carries each call over its own WebSocket, as the library of the Go implementation does.

use std::{io, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{SinkExt as _, Stream, StreamExt as _, stream};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Empty, StreamBody};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use protocol::websocket::{Cutter, END, Frame, Malformed, SUBPROTOCOL, framed, read_metadata};
use runtime::parts::Spawner;
use tokio::time::timeout;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error as SocketError, Message,
        handshake::{client::generate_key, derive_accept_key},
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};
use tokio_util::sync::CancellationToken;
use tonic::{Status, body::Body};

use super::connector::{self, Connector, HTTP1};

/// Timeout of TCP, TLS and the upgrade together.
const OPEN: Duration = Duration::from_secs(15);
/// A peer that does not accept a message within this time has stopped reading.
const STUCK: Duration = Duration::from_secs(30);
/// The largest message of Go's library.
const LARGEST: usize = 64 << 20;
/// The most characters of a failed upgrade's answer in an error.
const MOST: usize = 300;
const USER_AGENT: &str = concat!("argocd-agent/", env!("CARGO_PKG_VERSION"));

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Connector(#[from] connector::Error),
    #[error("open a WebSocket to {to}")]
    Http { to: String, source: hyper::Error },
    #[error("open a WebSocket to {to}: {why}")]
    NotOpened { to: String, why: String },
    #[error("read from the WebSocket")]
    Socket(#[source] Box<SocketError>),
    #[error("read from the WebSocket")]
    Frame(#[from] Malformed),
    #[error("read from the WebSocket: {0}")]
    Unexpected(&'static str),
}

type Socket = WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>;
type Write = stream::SplitSink<Socket, Message>;
type Read = stream::SplitStream<Socket>;

/// Opens calls.
#[derive(Clone, Debug)]
pub(crate) struct Calls {
    pub(crate) connector: Arc<Connector>,
    /// The largest message.
    pub(crate) largest: usize,
    pub(crate) spawner: Spawner,
}

impl Calls {
    /// Opens one call, and returns when its answer begins.
    pub(crate) async fn call(self, request: Request<Body>) -> Result<Response<Body>, Error> {
        let (head, body) = request.into_parts();
        let Ok(opened) = timeout(OPEN, self.open(&head)).await else {
            let (to, why) = (
                self.connector.authority(),
                format!("timed out after {OPEN:?}"),
            );
            return Err(Error::NotOpened { to, why });
        };
        let socket = opened?;
        let (write, mut read) = socket.split();
        let over = CancellationToken::new();
        // Dropped with the answer: a caller that stops reading also stops writing.
        let guard = over.clone().drop_guard();
        self.spawner
            .spawn_short("websocket", write_all(write, body, self.largest(), over));
        let Some(Frame::Metadata(lines)) = next(&mut read).await? else {
            return Err(Error::Unexpected("the answer does not begin with headers"));
        };
        let headers = read_metadata(&lines)?;
        let body = if headers.contains_key("grpc-status") {
            Body::empty()
        } else {
            Body::new(StreamBody::new(pieces(read, guard)))
        };
        let mut response = Response::new(body);
        *response.headers_mut() = headers;
        Ok(response)
    }

    fn largest(&self) -> usize {
        self.largest.min(LARGEST)
    }

    async fn open(&self, head: &http::request::Parts) -> Result<Socket, Error> {
        let to = self.connector.authority();
        let reached = self.connector.connect(&HTTP1).await?;
        let failed = |source| Error::Http {
            to: to.clone(),
            source,
        };
        let shaking = http1::Builder::new()
            .handshake(TokioIo::new(reached.io))
            .await;
        let (mut sender, connection) = shaking.map_err(failed)?;
        self.spawner
            .spawn_short("websocket connection", async move {
                // The task that waits for the answer sees its end.
                drop(connection.with_upgrades().await);
            });
        let key = generate_key();
        let mut response = sender
            .send_request(upgrade(head, &to, &key))
            .await
            .map_err(failed)?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let status = response.status();
            let why = format!("the answer is {status}: {}", error_text(response).await);
            return Err(Error::NotOpened { to, why });
        }
        let accept = response.headers().get(header::SEC_WEBSOCKET_ACCEPT);
        let wanted = derive_accept_key(key.as_bytes());
        if accept.is_none_or(|accept| accept.as_bytes() != wanted.as_bytes()) {
            let why = "the answer does not fit the question".to_owned();
            return Err(Error::NotOpened { to, why });
        }
        let upgraded = hyper::upgrade::on(&mut response).await.map_err(failed)?;
        let mut config = WebSocketConfig::default();
        config.read_buffer_size = 16 << 10;
        config.write_buffer_size = 0;
        config.max_message_size = Some(framed(self.largest()));
        config.max_frame_size = Some(framed(self.largest()));
        let io = TokioIo::new(upgraded);
        Ok(Socket::from_raw_socket(io, Role::Client, Some(config)).await)
    }
}

/// The request that opens the socket, with the headers of the call.
fn upgrade(head: &http::request::Parts, to: &str, key: &str) -> Request<Empty<Bytes>> {
    let mut request = Request::new(Empty::new());
    *request.method_mut() = Method::GET;
    let path = head.uri.path_and_query().cloned();
    *request.uri_mut() = path.map_or_else(http::Uri::default, http::Uri::from);
    let headers = request.headers_mut();
    let call = head.headers.iter();
    headers.extend(call.map(|(name, value)| (name.clone(), value.clone())));
    for (name, value) in [
        (header::USER_AGENT, USER_AGENT),
        (header::CONNECTION, "upgrade"),
        (header::UPGRADE, "websocket"),
        (header::SEC_WEBSOCKET_VERSION, "13"),
        (header::SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.extend(HeaderValue::from_str(to).map(|to| (header::HOST, to)));
    headers.extend(HeaderValue::from_str(key).map(|key| (header::SEC_WEBSOCKET_KEY, key)));
    request
}

/// The printable beginning of a failed upgrade's answer.
async fn error_text(response: Response<Incoming>) -> String {
    let body = http_body_util::Limited::new(response.into_body(), 64 << 10);
    let bytes = body.collect().await;
    let bytes = bytes
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let printable = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    printable.take(MOST).collect::<String>().trim().to_owned()
}

/// Sends the body of the call, then closes the socket when the call is over.
async fn write_all(mut socket: Write, body: Body, largest: usize, over: CancellationToken) {
    let emitting = over.run_until_cancelled(write_body(&mut socket, body, largest));
    let code = match emitting.await {
        Some(Ok(())) => {
            // The answer may still be arriving.
            over.cancelled().await;
            CloseCode::Normal
        }
        Some(Err(error)) => {
            tracing::debug!(error = %runtime::error::Chain(&error), "a WebSocket broke off");
            CloseCode::Error
        }
        None => CloseCode::Normal,
    };
    let close = CloseFrame {
        code,
        reason: "".into(),
    };
    drop(timeout(STUCK, socket.send(Message::Close(Some(close)))).await);
}

async fn write_body(socket: &mut Write, body: Body, largest: usize) -> Result<(), io::Error> {
    let mut body = pin!(body);
    let mut cutter = Cutter::new(largest);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(io::Error::other)?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        cutter.push(&data);
        while let Some(message) = cutter.cut().map_err(io::Error::other)? {
            send(socket, message).await?;
        }
    }
    send(socket, Bytes::copy_from_slice(&END)).await
}

async fn send(socket: &mut Write, message: Bytes) -> Result<(), io::Error> {
    match timeout(STUCK, socket.send(Message::Binary(message))).await {
        Err(_elapsed) => Err(io::ErrorKind::TimedOut.into()),
        Ok(sent) => sent.map_err(io::Error::other),
    }
}

/// The next frame; none at a proper end.
async fn next(socket: &mut Read) -> Result<Option<Frame>, Error> {
    loop {
        match socket.next().await {
            None | Some(Ok(Message::Close(_))) => return Ok(None),
            Some(Err(error)) => return Err(Error::Socket(Box::new(error))),
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
            Some(Ok(Message::Text(_))) => return Err(Error::Unexpected("text instead of frames")),
            Some(Ok(Message::Binary(bytes))) => return Ok(Some(Frame::read(bytes)?)),
        }
    }
}

type Piece = Result<http_body::Frame<Bytes>, Status>;

/// The body of the answer: messages, then trailers.
fn pieces(
    read: Read,
    guard: tokio_util::sync::DropGuard,
) -> impl Stream<Item = Piece> + Send + 'static {
    stream::unfold(Some((read, guard)), |open| async move {
        let (mut read, guard) = open?;
        let last = match next(&mut read).await {
            Ok(Some(Frame::Data(data))) => {
                let data = http_body::Frame::data(data);
                return Some((Ok(data), Some((read, guard))));
            }
            Ok(Some(Frame::Metadata(lines))) => read_metadata(&lines).map_err(Error::from),
            // A stream without trailers is truncated.
            Ok(None) => Err(Error::Unexpected("it ended without a status")),
            Err(error) => Err(error),
        };
        // A local status: its source is the error.
        let last = last.map_err(|error| Status::from_error(Box::new(error)));
        Some((last.map(http_body::Frame::trailers), None))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upgrade_request_has_the_headers_of_the_call() {
        let call = Request::post("http://x/versionapi.Version/Version")
            .header("te", "trailers")
            .header("content-type", "application/grpc")
            .header("user-agent", "tonic")
            .body(())
            .unwrap();
        let request = upgrade(&call.into_parts().0, "hub:443", "key");
        assert_eq!(request.uri(), "/versionapi.Version/Version");
        let headers = request.headers().clone();
        for (name, value) in [
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", USER_AGENT),
            ("connection", "upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-protocol", "grpc-ws"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "key"),
            ("host", "hub:443"),
        ] {
            assert_eq!(headers[name], value);
        }
    }
}
