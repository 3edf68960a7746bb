//! One direction of one call: messages in, the same messages out, later, in order, some lost, some twice.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use tokio::time::Instant;
use tonic::Status;
use tonic::body::Body;

use super::Line;
use crate::dice::Dice;
use crate::fault::{self, Fault};
use crate::witness::HEAD;

/// Messages under way before the sender has to wait.
const WINDOW: usize = 64;
/// How long a forged message takes.
const FORGER: Duration = Duration::from_secs(4);

struct Pipe {
    inner: Option<Body>,
    under_way: VecDeque<(Instant, Result<Frame<Bytes>, Status>)>,
    last: Instant,
    line: Line,
    dice: Dice,
    /// Whether messages may get lost or repeated; a call without an answer would only wait for its time-out.
    is_stream: bool,
    /// Whether the agent receives the messages, or the principal.
    to_agent: bool,
    failed: bool,
}

/// `body` as the other end of `line` receives it.
pub(super) fn pipe(body: Body, line: Line, dice: Dice, is_stream: bool, to_agent: bool) -> Body {
    let pipe = Pipe {
        inner: Some(body),
        under_way: VecDeque::new(),
        last: Instant::now(),
        line,
        dice,
        is_stream,
        to_agent,
        failed: false,
    };
    let frames = stream::unfold(pipe, |mut pipe| async move {
        let frame = pipe.next().await?;
        Some((frame, pipe))
    });
    Body::new(StreamBody::new(Box::pin(frames)))
}

impl Pipe {
    async fn next(&mut self) -> Option<Result<Frame<Bytes>, Status>> {
        if self.failed {
            return None;
        }
        loop {
            let arrives = self.under_way.front().map(|(at, _)| *at);
            let has_room = self.under_way.len() < WINDOW;
            let whole = self.inner.is_none();
            let Self { inner, line, .. } = self;
            let read = async {
                match inner {
                    Some(body) if has_room => body.frame().await,
                    Some(_) | None => std::future::pending().await,
                }
            };
            let ended = inner_ended(arrives, line);
            tokio::select! {
                biased;
                () = line.broken.cancelled() => {
                    self.failed = true;
                    return Some(Err(Line::lost()));
                }
                () = arrive(arrives, line) => {
                    let (_, frame) = self.under_way.pop_front()?;
                    self.failed = frame.is_err();
                    return Some(frame);
                }
                frame = read => match frame {
                    Some(frame) => self.send(frame),
                    None => self.inner = None,
                },
                () = ended, if whole => return None,
            }
        }
    }

    fn send(&mut self, frame: Result<Frame<Bytes>, Status>) {
        let frame = match frame {
            Ok(frame) => frame,
            Err(status) => return self.post(Err(status)),
        };
        match frame.into_data() {
            Err(trailers) => self.post(Ok(trailers)),
            Ok(data) => {
                for message in messages(data) {
                    let transient = self.line.now();
                    if self.is_stream && self.dice.probability(transient.loss) {
                        continue;
                    }
                    let times = if self.is_stream && self.dice.probability(transient.twice) {
                        2
                    } else {
                        1
                    };
                    self.carry(message, times);
                }
            }
        }
    }

    /// Sends a message so many times, or others in its place.
    fn carry(&mut self, message: Bytes, times: usize) {
        if !self.is_stream {
            return self.post(Ok(Frame::data(message)));
        }
        let network = self.line.network.clone();
        for message in network.tampered(&self.line.cluster, self.to_agent, message) {
            if self.to_agent {
                network.witness().sees(&self.line.cluster, &message);
            }
            for _ in 0..times {
                self.post(Ok(Frame::data(message.clone())));
            }
            if network.fault == Fault::ForgedCommand
                && let Some(forged) = fault::forged(&message)
            {
                self.last += FORGER;
                self.post(Ok(Frame::data(forged)));
            }
        }
    }

    fn post(&mut self, frame: Result<Frame<Bytes>, Status>) {
        let arrives = Instant::now() + self.dice.millis(self.line.now().delay);
        self.last = self.last.max(arrives);
        self.under_way.push_back((self.last, frame));
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        if let Some(body) = self.inner.take() {
            self.line.bury(body);
        }
    }
}

/// The head of the queue is there; never, if there is none.
async fn arrive(at: Option<Instant>, line: &Line) {
    match at {
        Some(at) => {
            tokio::time::sleep_until(at).await;
            line.open().await;
        }
        None => std::future::pending().await,
    }
}

/// Everything is there, and that this was all has passed too.
async fn inner_ended(left: Option<Instant>, line: &Line) {
    if left.is_some() {
        std::future::pending::<()>().await;
    }
    line.open().await;
}

/// The messages of a chunk; our encoder never splits one.
fn messages(mut data: Bytes) -> Vec<Bytes> {
    let mut messages = vec![];
    while data.len() >= HEAD {
        let length = u32::from_be_bytes([data[1], data[2], data[3], data[4]]);
        let end = HEAD + usize::try_from(length).expect("a length");
        assert!(data.len() >= end, "a message in two chunks");
        messages.push(data.split_to(end));
    }
    messages
}
