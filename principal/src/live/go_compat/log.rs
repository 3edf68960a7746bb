//! Logs of containers: requested by an event, and sent by the agent on a stream that it opens for each.

use std::{error::Error, io, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use http::{HeaderValue, Response, StatusCode, header::CACHE_CONTROL, header::CONTENT_TYPE};
use http_body::Frame;
use http_body_util::{StreamBody, combinators::UnsyncBoxBody};
use protocol::{
    Event, Target, Verb,
    event::Method,
    payload::{self, LogRequest},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};
use tokio_stream::wrappers::ReceiverStream;
use uuid::Uuid;

use super::{
    log_stream::{LogStream, Piece},
    session::GoSession,
};
use crate::live::{
    tunnel::{Body, NotAnswered},
    whole,
};

/// How long a new stream may take to report an error, before the response begins without data.
const BRIEF: Duration = Duration::from_millis(500);

/// Requests a log, and returns when the agent has opened its stream.
pub(super) async fn ask(
    session: &GoSession,
    request: LogRequest,
    response_timeout: Duration,
) -> Result<Response<Body>, NotAnswered> {
    let uuid = Uuid::new_v4().to_string();
    let stamps = request.timestamps;
    let request = LogRequest {
        uuid: uuid.clone(),
        ..request
    };
    let place = Arc::clone(&session.log_places).try_acquire_owned();
    let place = place.map_err(|_none_left| NotAnswered::Busy)?;
    let session_ended = session.session_ended.clone();
    let (log, mut pieces) = LogStream::new(request.follow, session_ended, place);
    let (open, opened) = oneshot::channel();
    let guard = session.logs.add(&uuid, (log, open))?;
    let verb = Verb::Http(Method::Get);
    let body = payload::encode(&request);
    let event = Event::live_request(Target::ContainerLog, verb, &uuid, body);
    session.send(event, opened, response_timeout).await?;
    let first = match timeout(BRIEF, pieces.recv()).await {
        Ok(Some(Piece::Failed(why))) => {
            return Ok(whole::refusal(status_of(&why), &why));
        }
        Ok(None) => return Err(NotAnswered::Ended),
        Ok(Some(first)) => Some(first),
        Err(_silent) => None,
    };
    drop(guard);
    let stripper = (!stamps).then(TimestampStripper::default);
    let mut response = Response::new(UnsyncBoxBody::new(StreamBody::new(frames(
        first, pieces, stripper,
    ))));
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(CONTENT_TYPE, kind);
    let uncached = HeaderValue::from_static("no-cache, no-transform");
    headers.insert(CACHE_CONTROL, uncached);
    Ok(response)
}

/// The status of a log that cannot be opened: the agent sends only its text.
fn status_of(why: &str) -> StatusCode {
    if why.ends_with("not found") {
        StatusCode::NOT_FOUND
    } else {
        StatusCode::BAD_REQUEST
    }
}

type Framed = Result<Frame<Bytes>, Box<dyn Error + Send + Sync>>;

/// The body of a log response.
fn frames(
    first: Option<Piece>,
    pieces: mpsc::Receiver<Piece>,
    stripper: Option<TimestampStripper>,
) -> impl Stream<Item = Framed> + Send {
    let pieces = stream::iter(first).chain(ReceiverStream::new(pieces));
    stream::unfold(Some((pieces, stripper)), |open| async move {
        let (mut pieces, mut stripper) = open?;
        let error: Box<dyn Error + Send + Sync> = match pieces.next().await {
            Some(Piece::Data(data)) => {
                let shown = match &mut stripper {
                    Some(stripper) => stripper.strip(&data),
                    None => data,
                };
                return Some((Ok(Frame::data(shown)), Some((pieces, stripper))));
            }
            Some(Piece::End) => return None,
            Some(Piece::Failed(why)) => why.into(),
            None => io::Error::from(io::ErrorKind::UnexpectedEof).into(),
        };
        Some((Err(error), None))
    })
}

/// Removes the timestamps that a Go agent always adds, unless the request has `timestamps`.
#[derive(Debug, Default)]
pub(super) struct TimestampStripper {
    /// The time of this line is over.
    in_line: bool,
}

impl TimestampStripper {
    pub(super) fn strip(&mut self, data: &[u8]) -> Bytes {
        let mut left = Vec::with_capacity(data.len());
        for &byte in data {
            if self.in_line {
                left.push(byte);
            }
            self.in_line = match byte {
                b'\n' => false,
                b' ' => true,
                _ => self.in_line,
            };
        }
        left.into()
    }
}
