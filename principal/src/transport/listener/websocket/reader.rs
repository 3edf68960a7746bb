//! Reads the peer's messages into the body of the request.

use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use protocol::websocket::{Frame, Malformed};
use tokio::{sync::mpsc, time::timeout};
use tokio_tungstenite::tungstenite::{
    Error as SocketError, Message, error::ProtocolError, protocol::frame::coding::CloseCode,
};
use tonic::Status;

use super::closing::Closing;

/// Our pings make a live peer send something within this time.
const READ_TIMEOUT: Duration = Duration::from_secs(25);

/// Reads the peer's messages into the body of the request, and returns the outcome.
pub(super) async fn read_into_body(
    mut socket: impl Stream<Item = Result<Message, SocketError>> + Unpin,
    pieces: mpsc::Sender<Result<http_body::Frame<Bytes>, Status>>,
    closing: &Closing,
) -> &'static str {
    let mut pieces = Some(pieces);
    loop {
        let read = timeout(READ_TIMEOUT, socket.next()).await;
        let (outcome, code) = match read {
            Err(_elapsed) => ("silent", CloseCode::Error),
            Ok(Some(Err(error))) => classify(&error),
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

/// The outcome of a socket error, and its close code.
fn classify(error: &SocketError) -> (&'static str, CloseCode) {
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
