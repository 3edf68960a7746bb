//! Writes the response to the peer, with pings while there is none.

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use futures::{Sink, SinkExt as _};
use http::Response;
use http_body_util::BodyExt as _;
use protocol::websocket::{Cutter, metadata};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::{Error as SocketError, Message, protocol::CloseFrame};
use tonic::body::Body;

use super::closing::Closing;
use crate::transport::listener::shared::PING_INTERVAL;

/// How long a peer may take to read a message.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Sends the response when the request has been answered.
pub(super) async fn answer<S: Sink<Message, Error = SocketError> + Unpin>(
    answered: impl Future<Output = Result<Response<Body>, Infallible>>,
    mut socket: S,
    largest: usize,
    closing: &Closing,
) {
    let (mut answered, mut pings) = (std::pin::pin!(answered), pings());
    let response = loop {
        tokio::select! {
            biased;
            response = answered.as_mut() => break response,
            _due = pings.tick() => if send(&mut socket, Message::Ping(Bytes::new())).await.is_err() { return },
        }
    };
    let Ok(response) = response;
    let (head, body) = response.into_parts();
    let metadata_frame = Message::Binary(metadata(&head.headers));
    if send(&mut socket, metadata_frame).await.is_err() {
        return;
    }
    let trailers_only = head.headers.contains_key("grpc-status");
    if !trailers_only && send_body(&mut socket, body, largest).await.is_err() {
        return;
    }
    let close = CloseFrame {
        code: closing.code(),
        reason: "".into(),
    };
    drop(send(&mut socket, Message::Close(Some(close))).await);
}

/// Sends messages and trailers of a response.
async fn send_body<S: Sink<Message, Error = SocketError> + Unpin>(
    socket: &mut S,
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
                send(socket, Message::Ping(Bytes::new())).await?;
                continue;
            }
        };
        // A truncated response has no status; the peer sees a socket that closes early.
        let Some(Ok(piece)) = frame else {
            return Ok(());
        };
        match piece.into_data() {
            Ok(data) => {
                cutter.push(&data);
                while let Ok(Some(message)) = cutter.cut() {
                    send(socket, Message::Binary(message)).await?;
                }
            }
            Err(frame) => {
                if let Ok(trailers) = frame.into_trailers() {
                    return send(socket, Message::Binary(metadata(&trailers))).await;
                }
            }
        }
    }
}

/// Sends a message, with a timeout.
async fn send<S: Sink<Message, Error = SocketError> + Unpin>(
    socket: &mut S,
    message: Message,
) -> Result<(), SocketError> {
    timeout(WRITE_TIMEOUT, socket.send(message))
        .await
        .unwrap_or(Err(SocketError::AlreadyClosed))
}

fn pings() -> tokio::time::Interval {
    let first = tokio::time::Instant::now() + PING_INTERVAL;
    let mut pings = tokio::time::interval_at(first, PING_INTERVAL);
    pings.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    pings
}
