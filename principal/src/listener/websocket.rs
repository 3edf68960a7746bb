//! One call over a WebSocket: the upgrade, and the way of its frames to the routes and back.
//!
//! Everything is bounded: messages by the largest that the method takes, what waits by one message, silence by our own
//! pings. Whoever breaks a rule is told by the close code, and counted.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::{
    FutureExt as _, Sink, SinkExt as _, Stream, StreamExt as _, future::BoxFuture,
    stream::SplitSink,
};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header,
};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::{body::Incoming, upgrade::OnUpgrade};
use hyper_util::rt::TokioIo;
use protocol::websocket::{Cutter, Frame, Malformed, SUBPROTOCOL, framed, metadata};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error as SocketError, Message,
        error::ProtocolError,
        handshake::derive_accept_key,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};
use tonic::{Status, body::Body};

use super::{Peer, Shared, connection::PING_INTERVAL};

/// With our pings in between, a peer that is silent for so long is gone.
const SILENCE: Duration = Duration::from_secs(25);
/// Whoever does not take in a message for so long does not read any more.
const STUCK: Duration = Duration::from_secs(30);
/// Messages of methods that are called before anybody is known.
const SMALL: usize = 64 << 10;
/// Calls that end by themselves, and within this time.
const SHORT_CALL: Duration = Duration::from_secs(30);
/// Go's library takes no larger message.
const LARGEST: usize = 64 << 20;

type Socket = WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>;
type Piece = Result<http_body::Frame<Bytes>, Status>;

/// Answers a request of HTTP/1.1: with an upgrade, whose socket is to be driven then, or with why not.
pub(super) fn upgrade(
    shared: &Arc<Shared>,
    peer: Peer,
    mut request: Request<Incoming>,
) -> (Response<Body>, Option<BoxFuture<'static, ()>>) {
    let key = match check(shared.rules.websockets, &request) {
        Ok(key) => key,
        Err(Refused {
            status,
            outcome,
            text,
        }) => {
            shared.metrics.websocket(outcome);
            tracing::debug!(address = %peer.address, outcome, "a request of HTTP/1.1 was refused");
            return (plain(status, text), None);
        }
    };
    let accept = HeaderValue::try_from(key).ok();
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(
        header::SEC_WEBSOCKET_PROTOCOL,
        HeaderValue::from_static(SUBPROTOCOL),
    );
    headers.extend(accept.map(|accept| (header::SEC_WEBSOCKET_ACCEPT, accept)));
    let upgraded = hyper::upgrade::on(&mut request);
    let (head, _no_body) = request.into_parts();
    let socket = run(Arc::clone(shared), peer, head, upgraded);
    (response, Some(socket.boxed()))
}

struct Refused {
    status: StatusCode,
    outcome: &'static str,
    text: &'static str,
}

/// What the upgrade is to be accepted with, or why it is none.
fn check<B>(enabled: bool, request: &Request<B>) -> Result<String, Refused> {
    let refused = |status, outcome, text| Refused {
        status,
        outcome,
        text,
    };
    let has = |name: HeaderName, word: &str| {
        let values = request.headers().get_all(name).into_iter();
        let mut words = values
            .filter_map(|value| value.to_str().ok())
            .flat_map(|v| v.split(','));
        words.any(|it| it.trim().eq_ignore_ascii_case(word))
    };
    if !has(header::SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL) {
        let text =
            "This port speaks gRPC: over HTTP/2, or over WebSockets with the subprotocol grpc-ws\n";
        return Err(refused(StatusCode::NOT_FOUND, "not_grpc", text));
    }
    if !enabled {
        let text = "WebSockets are switched off here (--enable-websocket=false); use HTTP/2\n";
        return Err(refused(StatusCode::NOT_FOUND, "switched_off", text));
    }
    let bad = |text| refused(StatusCode::BAD_REQUEST, "bad_upgrade", text);
    if !has(header::CONNECTION, "upgrade") || !has(header::UPGRADE, "websocket") {
        return Err(bad(
            "The headers Connection: Upgrade and Upgrade: websocket are missing; \
            usually a proxy on the way has taken them away\n",
        ));
    }
    if request.method() != Method::GET || request.version() != Version::HTTP_11 {
        return Err(bad("A WebSocket begins with GET over HTTP/1.1\n"));
    }
    if !has(header::SEC_WEBSOCKET_VERSION, "13") {
        let text = "Only version 13 of WebSockets is spoken here\n";
        return Err(refused(StatusCode::UPGRADE_REQUIRED, "bad_upgrade", text));
    }
    let grpc = request.headers().get(header::CONTENT_TYPE);
    if !grpc.is_some_and(|value| value.as_bytes().starts_with(b"application/grpc")) {
        return Err(bad(
            "A call of gRPC has the content type application/grpc\n",
        ));
    }
    let key = request.headers().get(header::SEC_WEBSOCKET_KEY);
    let key = key.ok_or_else(|| bad("The header Sec-WebSocket-Key is missing\n"))?;
    Ok(derive_accept_key(key.as_bytes()))
}

fn plain(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::new(http_body_util::Full::new(Bytes::from_static(
        text.as_bytes(),
    ))));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    // The next request of this connection would be no better.
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    if status == StatusCode::UPGRADE_REQUIRED {
        headers.insert(
            header::SEC_WEBSOCKET_VERSION,
            HeaderValue::from_static("13"),
        );
    }
    response
}

/// Why the socket is closed; the first reason counts.
#[derive(Clone, Debug, Default)]
struct Closing(Arc<AtomicU16>);

impl Closing {
    fn because(&self, code: CloseCode) {
        let code = code.into();
        let _earlier = self
            .0
            .compare_exchange(0, code, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn code(&self) -> CloseCode {
        match self.0.load(Ordering::Relaxed) {
            0 => CloseCode::Normal,
            code => code.into(),
        }
    }
}

/// The whole life of one socket.
async fn run(shared: Arc<Shared>, peer: Peer, head: http::request::Parts, upgraded: OnUpgrade) {
    let Ok(upgraded) = upgraded.await else {
        return shared.metrics.websocket("closed");
    };
    let is_short = !is_stream(head.uri.path());
    let largest = if is_short {
        SMALL
    } else {
        shared.rules.limits.message_bytes.min(LARGEST)
    };
    let mut config = WebSocketConfig::default();
    config.read_buffer_size = 8 << 10;
    config.write_buffer_size = 0;
    config.max_write_buffer_size = framed(largest).saturating_mul(2).max(1 << 20);
    config.max_message_size = Some(framed(largest));
    config.max_frame_size = Some(framed(largest));
    let io = TokioIo::new(upgraded);
    let socket = Socket::from_raw_socket(io, Role::Server, Some(config)).await;
    let closing = Closing::default();
    let (write, read) = socket.split();
    let (pieces, body) = mpsc::channel(1);
    let request = request(&head, body);
    let outcome = {
        let reading = take_in(read, pieces, &closing);
        let answering = answer(&shared, peer, request, write, largest, &closing);
        let both = async {
            let (mut reading, mut answering) = (std::pin::pin!(reading), std::pin::pin!(answering));
            tokio::select! {
                // What was wrong with the peer is said by the close code, after the answer.
                outcome = reading.as_mut() => {
                    answering.await;
                    outcome
                }
                () = answering.as_mut() => "ok",
            }
        };
        if is_short {
            timeout(SHORT_CALL, both).await.unwrap_or("timeout")
        } else {
            both.await
        }
    };
    shared.metrics.websocket(outcome);
}

/// Whether calls of this method last: all others are small and end by themselves.
fn is_stream(path: &str) -> bool {
    !path.starts_with("/authapi.") && !path.starts_with("/versionapi.")
}

/// The request as it would have come over HTTP/2.
fn request(head: &http::request::Parts, body: mpsc::Receiver<Piece>) -> Request<Body> {
    let mut request = Request::new(Body::new(StreamBody::new(ReceiverStream::new(body))));
    *request.method_mut() = Method::POST;
    *request.version_mut() = Version::HTTP_2;
    let path = head.uri.path_and_query().cloned();
    *request.uri_mut() = path.map_or_else(Uri::default, Uri::from);
    let hop = |name: &HeaderName| {
        [
            header::CONNECTION,
            header::UPGRADE,
            header::CONTENT_LENGTH,
            header::HOST,
        ]
        .contains(name)
            || name.as_str().starts_with("sec-websocket-")
    };
    let kept = head.headers.iter().filter(|(name, _)| !hop(name));
    let kept: HeaderMap = kept
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    *request.headers_mut() = kept;
    request
}

/// Reads what the peer says into the request's body, and says how that ended.
async fn take_in(
    mut socket: impl Stream<Item = Result<Message, SocketError>> + Unpin,
    pieces: mpsc::Sender<Piece>,
    closing: &Closing,
) -> &'static str {
    let mut pieces = Some(pieces);
    loop {
        let read = timeout(SILENCE, socket.next()).await;
        let (outcome, code) = match read {
            Err(_elapsed) => ("silent", CloseCode::Error),
            Ok(Some(Err(error))) => wrong(&error),
            Ok(Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)))) => continue,
            Ok(None | Some(Ok(Message::Close(_)))) => return "ok",
            Ok(Some(Ok(Message::Text(_)))) => ("text", CloseCode::Unsupported),
            Ok(Some(Ok(Message::Binary(bytes)))) => match (Frame::read(bytes), &pieces) {
                (Ok(Frame::Data(data)), Some(open)) => {
                    // A call that is over reads no more; its answer is on the way.
                    drop(open.send(Ok(http_body::Frame::data(data))).await);
                    continue;
                }
                (Ok(Frame::Metadata(lines)), Some(_)) if lines.is_empty() => {
                    pieces = None;
                    continue;
                }
                (Err(Malformed::TooLong), _) => ("oversized", CloseCode::Size),
                (Ok(_) | Err(_), _) => ("malformed", CloseCode::Protocol),
            },
        };
        closing.because(code);
        if let Some(open) = &pieces {
            let status = Status::cancelled(format!("the WebSocket failed: {outcome}"));
            drop(open.send(Err(status)).await);
        }
        return outcome;
    }
}

/// What is wrong with what came, and the code that says it.
fn wrong(error: &SocketError) -> (&'static str, CloseCode) {
    match error {
        SocketError::Capacity(_) => ("oversized", CloseCode::Size),
        SocketError::Utf8(_) => ("text", CloseCode::Invalid),
        SocketError::Protocol(ProtocolError::ResetWithoutClosingHandshake)
        | SocketError::ConnectionClosed
        | SocketError::AlreadyClosed
        | SocketError::Io(_) => ("closed", CloseCode::Away),
        SocketError::Protocol(_) => ("malformed", CloseCode::Protocol),
        SocketError::Tls(_)
        | SocketError::WriteBufferFull(_)
        | SocketError::AttackAttempt
        | SocketError::Url(_)
        | SocketError::Http(_)
        | SocketError::HttpFormat(_) => ("other", CloseCode::Error),
    }
}

/// Has the request answered, and says the answer.
async fn answer(
    shared: &Shared,
    peer: Peer,
    request: Request<Body>,
    mut socket: SplitSink<Socket, Message>,
    largest: usize,
    closing: &Closing,
) {
    let (mut answered, mut pings) = (std::pin::pin!(shared.answer(peer, request)), pings());
    let response = loop {
        tokio::select! {
            biased;
            response = answered.as_mut() => break response,
            _due = pings.tick() => if say(&mut socket, Message::Ping(Bytes::new())).await.is_err() { return },
        }
    };
    let Ok(response) = response;
    let (head, body) = response.into_parts();
    if say_frame(&mut socket, metadata(&head.headers))
        .await
        .is_err()
    {
        return;
    }
    let trailers_only = head.headers.contains_key("grpc-status");
    if !trailers_only && say_body(&mut socket, body, largest).await.is_err() {
        return;
    }
    let close = CloseFrame {
        code: closing.code(),
        reason: "".into(),
    };
    drop(say(&mut socket, Message::Close(Some(close))).await);
}

/// Says messages and trailers of an answer.
async fn say_body(
    socket: &mut SplitSink<Socket, Message>,
    body: Body,
    largest: usize,
) -> Result<(), SocketError> {
    let mut body = std::pin::pin!(body);
    let (mut cutter, mut pings) = (Cutter::new(largest), pings());
    loop {
        let frame = tokio::select! {
            biased;
            frame = body.frame() => frame,
            _due = pings.tick() => {
                say(socket, Message::Ping(Bytes::new())).await?;
                continue;
            }
        };
        // An answer that breaks off has no status; the peer sees a socket that closes early.
        let Some(Ok(piece)) = frame else {
            return Ok(());
        };
        match piece.into_data() {
            Ok(data) => {
                cutter.push(&data);
                while let Ok(Some(message)) = cutter.cut() {
                    say_frame(socket, message).await?;
                }
            }
            Err(frame) => {
                if let Ok(trailers) = frame.into_trailers() {
                    return say_frame(socket, metadata(&trailers)).await;
                }
            }
        }
    }
}

async fn say_frame(
    socket: &mut SplitSink<Socket, Message>,
    frame: Bytes,
) -> Result<(), SocketError> {
    say(socket, Message::Binary(frame)).await
}

/// Says something to a peer that has to take it in within a bound.
async fn say<S>(socket: &mut S, message: Message) -> Result<(), SocketError>
where
    S: Sink<Message, Error = SocketError> + Unpin,
{
    timeout(STUCK, socket.send(message))
        .await
        .unwrap_or(Err(SocketError::AlreadyClosed))
}

fn pings() -> tokio::time::Interval {
    let first = tokio::time::Instant::now() + PING_INTERVAL;
    let mut pings = tokio::time::interval_at(first, PING_INTERVAL);
    pings.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    pings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(headers: &[(&str, &str)]) -> Request<()> {
        let request = Request::builder().uri("/versionapi.Version/Version");
        let request = headers.iter().fold(request, |request, (name, value)| {
            request.header(*name, *value)
        });
        request.body(()).unwrap()
    }

    const GOOD: [(&str, &str); 6] = [
        ("connection", "keep-alive, Upgrade"),
        ("upgrade", "WebSocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-protocol", "grpc-ws"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("content-type", "application/grpc"),
    ];

    #[test]
    fn an_upgrade_is_accepted_with_the_answer_to_its_key() {
        let accept = check(true, &asked(&GOOD)).ok().unwrap();
        assert_eq!(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn what_is_no_upgrade_is_told_why() {
        for (missing, outcome) in [
            ("connection", "bad_upgrade"),
            ("upgrade", "bad_upgrade"),
            ("sec-websocket-version", "bad_upgrade"),
            ("sec-websocket-protocol", "not_grpc"),
            ("sec-websocket-key", "bad_upgrade"),
            ("content-type", "bad_upgrade"),
        ] {
            let headers: Vec<_> = GOOD
                .into_iter()
                .filter(|(name, _)| *name != missing)
                .collect();
            let refused = check(true, &asked(&headers)).err().unwrap();
            assert_eq!(refused.outcome, outcome, "{missing}");
        }
        assert_eq!(
            check(false, &asked(&GOOD)).err().unwrap().outcome,
            "switched_off"
        );
    }

    #[test]
    fn what_belongs_to_the_socket_does_not_reach_the_call() {
        let (head, ()) = asked(
            &[
                GOOD.as_slice(),
                &[("authorization", "token"), ("te", "trailers")],
            ]
            .concat(),
        )
        .into_parts();
        let request = request(&head, mpsc::channel(1).1);
        let names: Vec<&str> = request.headers().keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["content-type", "authorization", "te"]);
        assert_eq!(request.uri().path(), "/versionapi.Version/Version");
        assert_eq!(
            (request.method(), request.version()),
            (&Method::POST, Version::HTTP_2)
        );
    }

    #[test]
    fn the_first_reason_is_the_one_that_is_told() {
        let closing = Closing::default();
        assert_eq!(closing.code(), CloseCode::Normal);
        closing.because(CloseCode::Size);
        closing.because(CloseCode::Protocol);
        assert_eq!(closing.code(), CloseCode::Size);
    }
}
