//! One gRPC call over a WebSocket: the upgrade, and its frames to the routes and back.
//!
//! Everything is bounded: messages by the largest that the method takes, what waits by one message, silence by our own
//! pings. A violation is reported in the close code, and counted.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture};
use http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::{body::Incoming, upgrade::OnUpgrade};
use hyper_util::rt::TokioIo;
use protocol::websocket::{LongFrames, SUBPROTOCOL, framed};
use tokio::{sync::mpsc, time::timeout};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::protocol::{Role, WebSocketConfig},
};
use tonic::body::Body;

use super::shared::Shared;
use crate::admission::peer::Peer;

mod check;
mod closing;
mod oversize_filter;
mod reader;
mod writer;

use check::{Refused, check, plain, request};
use closing::Closing;
use oversize_filter::FilteredReader;

/// The largest message before authentication.
const SMALL: usize = 64 << 10;
/// The time limit of calls that are no streams.
const SHORT_CALL: Duration = Duration::from_secs(30);
/// Go's library takes no larger message.
const LARGEST: usize = 64 << 20;

/// Answers an HTTP/1.1 request: with an upgrade and the future that drives its socket, or with an error.
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
            shared.metrics.websockets.count(outcome);
            tracing::debug!(address = %peer.address, outcome, "refused an HTTP/1.1 request");
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

/// The whole life of one socket.
async fn run(shared: Arc<Shared>, peer: Peer, head: http::request::Parts, upgraded: OnUpgrade) {
    let Ok(upgraded) = upgraded.await else {
        return shared.metrics.websockets.count("closed");
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
    let frames = is_event_stream(head.uri.path()).then(|| {
        let frames = LongFrames::new(largest, &head.headers);
        (frames, shared.metrics.clone())
    });
    let (read, write) = tokio::io::split(TokioIo::new(upgraded));
    let io = tokio::io::join(FilteredReader::new(read, frames), write);
    let socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
    let closing = Closing::default();
    let (write, read) = socket.split();
    let (pieces, body) = mpsc::channel(1);
    let request = request(&head, body);
    let outcome = {
        let reading = reader::read_into_body(read, pieces, &closing);
        let answered = shared.answer(peer, request);
        let answering = writer::answer(answered, write, largest, &closing);
        let both = async {
            let (mut reading, mut answering) = (std::pin::pin!(reading), std::pin::pin!(answering));
            tokio::select! {
                // The close code reports the violation, after the response.
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
    shared.metrics.websockets.count(outcome);
}

/// Whether a Go agent sends responses in such a call.
fn is_event_stream(path: &str) -> bool {
    path.starts_with("/eventstreamapi.")
}

/// Whether calls of this method last: all others are small and end by themselves.
fn is_stream(path: &str) -> bool {
    !path.starts_with("/authapi.") && !path.starts_with("/versionapi.")
}
