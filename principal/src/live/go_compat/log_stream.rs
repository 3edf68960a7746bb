//! The stream of a log that an agent has opened.

use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use protocol::wire::logstreamapi::LogStreamData;
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc, mpsc::error::SendTimeoutError},
    time::sleep,
};
use tokio_util::sync::CancellationToken;
use tonic::Status;

/// Unread pieces of 64 KiB; the agent's stream waits when the buffer is full.
const UNREAD: usize = 4;
/// How long it waits for them, and how long a log may last in all. A Go agent does nothing else while it sends one that
/// is not followed, and its principal has the same bound.
const WHOLE: Pace = Pace {
    piece: Duration::from_secs(5),
    all: Duration::from_mins(3),
};
/// A log that is followed has a task of its own there, but its stream shares the session's connection.
const FOLLOWED: Pace = Pace {
    piece: Duration::from_mins(1),
    all: Duration::MAX,
};

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
    all: Duration,
}

/// The end that the agent writes.
#[derive(Debug)]
pub(crate) struct LogStream {
    pub(super) pieces: mpsc::Sender<Piece>,
    pace: Pace,
    session_ended: CancellationToken,
    /// Held as long as the stream is.
    _place: OwnedSemaphorePermit,
}

impl LogStream {
    /// A stream, and its reading end.
    pub(super) fn new(
        is_followed: bool,
        session_ended: CancellationToken,
        place: OwnedSemaphorePermit,
    ) -> (Self, mpsc::Receiver<Piece>) {
        let (pieces, read) = mpsc::channel(UNREAD);
        let stream = Self {
            pieces,
            pace: if is_followed { FOLLOWED } else { WHOLE },
            session_ended,
            _place: place,
        };
        (stream, read)
    }

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
                () = sleep(pace.all) => stopped("the log stream reached its time limit"),
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
