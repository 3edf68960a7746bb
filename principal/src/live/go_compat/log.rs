//! Logs of containers: requested by an event, and sent by the agent on a stream that it opens for each.

use std::{error::Error, io, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{Stream, stream};
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
            let (code, reason) = status_of(&why);
            return Ok(whole::refusal(code, reason, &why));
        }
        Ok(None) => return Err(NotAnswered::Ended),
        Ok(Some(first)) => Some(first),
        Err(_silent) => None,
    };
    drop(guard);
    let log_body = LogBody {
        pieces,
        stripper: (!stamps).then(TimestampStripper::default),
    };
    let mut response = Response::new(UnsyncBoxBody::new(StreamBody::new(log_body.frames(first))));
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(CONTENT_TYPE, kind);
    let uncached = HeaderValue::from_static("no-cache, no-transform");
    headers.insert(CACHE_CONTROL, uncached);
    Ok(response)
}

/// The status of a log that cannot be opened: the agent sends only its text.
fn status_of(why: &str) -> (StatusCode, &'static str) {
    if why.ends_with("not found") {
        (StatusCode::NOT_FOUND, "NotFound")
    } else {
        (StatusCode::BAD_REQUEST, "BadRequest")
    }
}

/// The body of a log response.
struct LogBody {
    pieces: mpsc::Receiver<Piece>,
    stripper: Option<TimestampStripper>,
}

type Framed = Result<Frame<Bytes>, Box<dyn Error + Send + Sync>>;

impl LogBody {
    fn frames(self, first: Option<Piece>) -> impl Stream<Item = Framed> + Send {
        stream::unfold(Some((self, first)), |log_body| async move {
            let (mut log_body, first) = log_body?;
            let piece = match first {
                Some(first) => Some(first),
                None => log_body.pieces.recv().await,
            };
            match piece {
                Some(Piece::Data(data)) => {
                    let shown = match &mut log_body.stripper {
                        Some(stripper) => stripper.strip(&data),
                        None => data,
                    };
                    Some((Ok(Frame::data(shown)), Some((log_body, None))))
                }
                Some(Piece::End) => None,
                Some(Piece::Failed(why)) => Some((Err(io::Error::other(why).into()), None)),
                None => Some((
                    Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                    None,
                )),
            }
        })
    }
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
