//! Sends a log to a Go principal on a separate stream, at the pace of its reader.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use protocol::payload::LogRequest;
use protocol::wire::logstreamapi::LogStreamData;
use protocol::wire::logstreamapi::log_stream_service_client::LogStreamServiceClient;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::Status;

use super::pod::{self, Pod, on, refused, text};
use crate::live::tunnel::ApiHandler;
use crate::transport::Carrier;
use crate::transport::tokens::Shown;

/// The size of pieces, as in Go's agent.
const PIECE: usize = 64 << 10;
/// Pieces that the principal has not received yet.
const UNSENT: usize = 2;
/// How long the principal may take to confirm the end.
const LAST_MESSAGE: Duration = Duration::from_secs(10);

/// Sends a log to its end, or until its reader leaves; returns how the principal ended the stream. Without a place there are too many logs already.
pub(super) async fn send(
    api_handler: &ApiHandler,
    channel: Carrier,
    token: Shown,
    asked: &LogRequest,
    has_place: bool,
) -> Result<(), Status> {
    let (pieces, request) = pod::stream(UNSENT, token);
    let mut client = LogStreamServiceClient::new(channel);
    let arrived = client.stream_logs(request);
    tokio::pin!(arrived);
    let emitting = send_chunks(api_handler, asked, &pieces, has_place);
    tokio::select! {
        biased;
        // The principal closed the stream: its viewer left.
        ended = &mut arrived => {
            tracing::debug!(?ended, "the viewer of a log left");
            return ended.map(drop);
        }
        _sent = emitting => {}
    }
    drop(pieces);
    let Ok(ended) = timeout(LAST_MESSAGE, arrived).await else {
        return Ok(());
    };
    ended.map(drop).inspect_err(|status| {
        tracing::debug!(code = ?status.code(), "the principal did not confirm the end of a log");
    })
}

/// Sends the pieces of the log; none if the stream is closed.
async fn send_chunks(
    api_handler: &ApiHandler,
    asked: &LogRequest,
    pieces: &mpsc::Sender<LogStreamData>,
    has_place: bool,
) -> Option<()> {
    let of = |data: Bytes, eof: bool, error: &str| LogStreamData {
        request_uuid: asked.uuid.clone(),
        data,
        eof,
        error: error.to_owned(),
    };
    // The first message only identifies the log.
    pieces.send(of(Bytes::new(), false, "")).await.ok()?;
    if !has_place {
        let why = "too many concurrent logs of this cluster";
        return pieces.send(of(Bytes::new(), true, why)).await.ok();
    }
    let request = Request::get(target(asked)).header("x-request-id", asked.uuid.as_str());
    let request = request.body(Empty::<Bytes>::new()).ok()?;
    let answered = api_handler.answer(request).await;
    if !answered.status().is_success() {
        let why = refused(answered, "the log cannot be read").await;
        return pieces.send(of(Bytes::new(), true, &why)).await.ok();
    }
    let mut body = answered.into_body();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else {
            let why = "log stream read failed";
            return pieces.send(of(Bytes::new(), false, why)).await.ok();
        };
        let mut data = frame.into_data().unwrap_or_default();
        while !data.is_empty() {
            let piece = data.split_to(data.len().min(PIECE));
            pieces.send(of(piece, false, "")).await.ok()?;
        }
    }
    pieces.send(of(Bytes::new(), true, "")).await.ok()
}

/// The target of the HTTP request.
fn target(asked: &LogRequest) -> String {
    let number = |name: &str, number: Option<i64>| Some((name.to_owned(), number?.to_string()));
    let pod = Pod {
        namespace: &asked.namespace,
        name: &asked.pod_name,
        subresource: "log",
    };
    pod.target([
        text("container", &asked.container),
        on("follow", asked.follow),
        on("previous", asked.previous),
        on("timestamps", asked.timestamps),
        number("tailLines", asked.tail_lines),
        number("sinceSeconds", asked.since_seconds),
        text("sinceTime", &asked.since_time),
        number("limitBytes", asked.limit_bytes),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_request_maps_to_an_api_request() {
        let asked = LogRequest {
            namespace: "shop".to_owned(),
            pod_name: "front/../x".to_owned(),
            container: "main".to_owned(),
            follow: true,
            tail_lines: Some(10),
            ..LogRequest::default()
        };
        assert_eq!(
            target(&asked),
            "/api/v1/namespaces/shop/pods/front%2F..%2Fx/log?container=main&follow=true&tailLines=10"
        );
    }
}
