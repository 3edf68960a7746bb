//! Logs of containers: requested by an event, and sent by the agent on a stream that it opens for each.

use std::{error::Error, future::pending, io, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use http::{HeaderValue, Response, StatusCode, header::CACHE_CONTROL, header::CONTENT_TYPE};
use http_body::Frame;
use http_body_util::{StreamBody, combinators::UnsyncBoxBody};
use protocol::{
    Event, Target, Verb,
    event::Method,
    payload::{self, LogRequest},
    wire::logstreamapi::LogStreamData,
};
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc, mpsc::error::SendTimeoutError, oneshot},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use uuid::Uuid;

use super::{GoSession, Pending, PendingGuard};
use crate::live::{
    tunnel::{Body, NotAnswered},
    whole,
};

/// Unread pieces of 64 KiB; the agent's stream waits when the buffer is full.
const UNREAD: usize = 4;
/// How long it waits for them, and how long a log may last in all. A Go agent does nothing else while it sends one that
/// is not followed, and its principal has the same bound.
const WHOLE: Pace = Pace {
    piece: Duration::from_secs(5),
    all: Some(Duration::from_mins(3)),
};
/// A log that is followed has a task of its own there, but its stream shares the session's connection.
const FOLLOWED: Pace = Pace {
    piece: Duration::from_mins(1),
    all: None,
};
/// How long a new stream may take to report an error, before the response begins without data.
const BRIEF: Duration = Duration::from_millis(500);

/// A part of a log.
#[derive(Debug)]
pub(super) enum Piece {
    Data(Bytes),
    /// The error of the agent.
    Failed(String),
    End,
}

/// How slowly a log may be read.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Until the next piece is taken.
    piece: Duration,
    /// Until its end.
    all: Option<Duration>,
}

impl Pace {
    /// Resolves when it has lasted too long.
    async fn expired(self) {
        match self.all {
            Some(all) => sleep(all).await,
            None => pending().await,
        }
    }
}

/// A log that its agent has not opened.
#[derive(Debug)]
pub(super) struct PendingLog {
    waiter: oneshot::Sender<LogReader>,
    pace: Pace,
    place: OwnedSemaphorePermit,
}

impl PendingLog {
    /// The agent has opened the stream; none if the request was cancelled.
    pub(super) fn open(self, session_ended: CancellationToken) -> Option<LogStream> {
        let (pieces, read) = mpsc::channel(UNREAD);
        let Self {
            waiter,
            pace,
            place,
        } = self;
        waiter.send(LogReader(read)).ok()?;
        Some(LogStream {
            pieces,
            pace,
            session_ended,
            _guard: place,
        })
    }
}

/// The reading end of a log.
#[derive(Debug)]
pub(super) struct LogReader(mpsc::Receiver<Piece>);

/// The end that the agent writes.
#[derive(Debug)]
pub(crate) struct LogStream {
    pub(super) pieces: mpsc::Sender<Piece>,
    pace: Pace,
    session_ended: CancellationToken,
    /// Held as long as the stream is.
    _guard: OwnedSemaphorePermit,
}

impl LogStream {
    /// Forwards the log at the pace of the reader, until either end stops or the reader is too slow.
    pub(crate) async fn forward(
        self,
        mut messages: impl Stream<Item = Result<LogStreamData, Status>> + Unpin,
    ) -> Result<(), Status> {
        // A Go agent stops at this code; at any other it would reopen the log.
        let stopped = Status::cancelled;
        // The text of the Go principal.
        let gone = || stopped("client disconnected");
        let pace = self.pace;
        let ended = async {
            tokio::select! {
                biased;
                () = self.session_ended.cancelled() => stopped("the session has ended"),
                () = pace.expired() => stopped("the log stream reached its time limit"),
            }
        };
        tokio::pin!(ended);
        loop {
            let next = tokio::select! {
                biased;
                why = &mut ended => return Err(why),
                () = self.pieces.closed() => return Err(gone()),
                next = messages.next() => next,
            };
            let piece = match next {
                // Truncated: the reader gets no end marker.
                None => return Ok(()),
                Some(Err(status)) => return Err(status),
                Some(Ok(message)) => piece(message),
            };
            let Some(piece) = piece else { continue };
            let is_last = !matches!(piece, Piece::Data(_));
            let sent = tokio::select! {
                biased;
                why = &mut ended => return Err(why),
                sent = self.pieces.send_timeout(piece, pace.piece) => sent,
            };
            sent.map_err(|why| match why {
                SendTimeoutError::Timeout(_) => stopped("the viewer reads the log too slowly"),
                SendTimeoutError::Closed(_) => gone(),
            })?;
            if is_last {
                return Ok(());
            }
        }
    }
}

/// Decodes a message; none for the first one, which only has the id.
fn piece(message: LogStreamData) -> Option<Piece> {
    let LogStreamData {
        data, eof, error, ..
    } = message;
    if !error.is_empty() {
        Some(Piece::Failed(error.chars().take(1024).collect()))
    } else if eof {
        Some(Piece::End)
    } else {
        (!data.is_empty()).then_some(Piece::Data(data))
    }
}

/// Requests a log, and returns when the agent has opened its stream.
pub(super) async fn ask(
    session: &Arc<GoSession>,
    request: LogRequest,
    response_timeout: Duration,
) -> Result<Response<Body>, NotAnswered> {
    let uuid = Uuid::new_v4().to_string();
    let stamps = request.timestamps;
    let request = LogRequest {
        uuid: uuid.clone(),
        ..request
    };
    let (waiter, opened) = oneshot::channel();
    let place = Arc::clone(&session.logs).try_acquire_owned();
    let pending_log = PendingLog {
        waiter,
        pace: if request.follow { FOLLOWED } else { WHOLE },
        place: place.map_err(|_none_left| NotAnswered::Busy)?,
    };
    let remove = |pending: &mut Pending, id: &str| drop(pending.logs.remove(id));
    let place = session.register(&uuid, remove, |pending, id| {
        pending.logs.insert(id, pending_log);
        true
    })?;
    let verb = Verb::Http(Method::Get);
    session.send(Event::live_request(
        Target::ContainerLog,
        verb,
        &uuid,
        payload::encode(&request),
    ))?;
    let mut opened = timeout(response_timeout, opened)
        .await
        .map_err(|_elapsed| NotAnswered::TimedOut(response_timeout))?
        .map_err(|_dropped| NotAnswered::Ended)?;
    let first = match timeout(BRIEF, opened.0.recv()).await {
        Ok(Some(Piece::Failed(why))) => {
            let (code, reason) = status_of(&why);
            return Ok(whole::refusal(code, reason, &why));
        }
        Ok(None) => return Err(NotAnswered::Ended),
        Ok(Some(first)) => Some(first),
        Err(_silent) => None,
    };
    let log_body = LogBody {
        opened,
        stripper: (!stamps).then(TimestampStripper::default),
        _guard: place,
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
    opened: LogReader,
    stripper: Option<TimestampStripper>,
    _guard: PendingGuard,
}

type Framed = Result<Frame<Bytes>, Box<dyn Error + Send + Sync>>;

impl LogBody {
    fn frames(self, first: Option<Piece>) -> impl Stream<Item = Framed> + Send {
        stream::unfold(Some((self, first)), |log_body| async move {
            let (mut log_body, first) = log_body?;
            let piece = match first {
                Some(first) => Some(first),
                None => log_body.opened.0.recv().await,
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
