//! The inputs that a session waits for, and the timeouts.

use std::time::Duration;

use futures::StreamExt as _;
use protocol::{Event, Verdict, WorkId, wire::eventstreamapi::Event as Frame};
use runtime::error::Chain;
use tokio::time::{sleep, sleep_until};
use tonic::{Code, Status};

use super::{Driver, Over};
use crate::live::go_compat::GoRequestChannel;

/// The shortest pause, also when work is due: the next turn will not begin work that this one could not.
const SHORTEST: Duration = Duration::from_millis(10);
/// The shortest pause while due work waits for room on the stream or for another write.
const BLOCKED: Duration = Duration::from_millis(500);

/// The first input.
pub(super) enum Next {
    Over(Over),
    Frame(Frame),
    /// A finished piece of work, with its verdict and the reason of a refusal as a word.
    Worked(WorkId, Verdict, Option<&'static str>),
    /// The enrolments, or a user's confirmation, have changed.
    Fleet,
    /// A request of a user to the cluster of a Go agent.
    GoRequest(Event),
    /// Notes, room on the stream, or time: each turn checks all of them.
    Turn,
}

impl Driver {
    /// Waits for the first input; every arm is cancel-safe, so losing the race loses nothing.
    pub(super) async fn next(&mut self, full: bool) -> Next {
        let now = self.started.elapsed();
        let pause = self.pause(now, full);
        let room = self.machine.has_room();
        let asks = !full && self.machine.can_emit_at_once();
        let next = tokio::select! {
            biased;
            end = self.session_slot.ended() => Next::Over(Over::Hub(end)),
            () = sleep_until(self.ends.0) => Next::Over(Over::Hub(self.ends.1)),
            () = self.outbound.closed() => Next::Over(Over::Peer("the connection was lost".to_owned())),
            Some((id, verdict, reason)) = self.working.next(), if !self.working.is_empty() => {
                Next::Worked(id, verdict, reason)
            }
            Some(()) = self.releases.next(), if !self.releases.is_empty() => Next::Turn,
            frame = self.inbound.message(), if room => match frame {
                Ok(Some(frame)) => Next::Frame(frame),
                Ok(None) => Next::Over(Over::Peer("the agent closed the stream".to_owned())),
                Err(status) => Next::Over(self.lost(&status)),
            },
            Ok(()) = self.fleet.changed(), if self.resync.waiting().is_blocking() => Next::Fleet,
            () = self.subscription.mailbox.changed() => Next::Turn,
            Some(event) = next_go_request(self.go_requests.as_mut()), if asks => Next::GoRequest(event),
            _room = self.outbound.reserve(), if full => Next::Turn,
            () = sleep(pause) => Next::Turn,
        };
        if !room {
            self.pulse.unread(self.started.elapsed());
        }
        next
    }

    /// The reason why the stream ended.
    fn lost(&self, status: &Status) -> Over {
        tracing::debug!(error = %Chain(status), "the stream failed");
        // The status that tonic returns for a message it did not read; a peer cannot end its half of a stream with a
        // status.
        if status.code() == Code::OutOfRange {
            self.sessions.metrics.event_refused("too_large");
            return Over::TooLarge;
        }
        // The message of a status may come from the peer.
        let message: String = status.message().chars().take(200).collect();
        Over::Peer(format!("the stream failed: {:?}: {message}", status.code()))
    }

    /// The time until something is due without any input.
    ///
    /// Work that cannot begin, because the stream is full or all writes are busy, stays due: the end of that wakes us
    /// by itself, so the timer may be slow.
    fn pause(&self, now: Duration, full: bool) -> Duration {
        let busy = self.working.len() >= self.sessions.limits.writes_per_session;
        let least = if full || busy { BLOCKED } else { SHORTEST };
        let is_unread = !self.machine.has_room();
        let sign = self.pulse.next_sign(now).filter(|_| is_unread);
        [
            self.machine.next_timeout(now),
            self.resync.next_timeout(now),
            self.facts.next_timeout(now),
            self.response_timeout(now),
            sign,
        ]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or(self.sessions.limits.session_life)
        .max(least)
    }

    /// Times out a peer that has sent heartbeats and is silent now.
    pub(super) fn listen(&self) -> Result<(), Over> {
        if self.response_timeout(self.started.elapsed()) == Some(Duration::ZERO) {
            return Err(Over::Peer("the agent timed out".to_owned()));
        }
        Ok(())
    }

    /// How long the agent may still be silent.
    fn response_timeout(&self, now: Duration) -> Option<Duration> {
        let arrived = self.machine.stats(now).last_received;
        let least = self.sessions.limits.silence;
        self.pulse.response_timeout(least, arrived, now)
    }

    /// Sends signs of life while the inbox has no room: we do not read the agent then, and unanswered heartbeats would
    /// make it disconnect.
    pub(super) fn leave_unread(&mut self, now: Duration) {
        if !self.machine.has_room() {
            self.pulse.unread(now);
            if self.pulse.takes_sign(now) {
                self.machine.answer_again();
            }
        }
    }
}

/// The next request to a Go agent; never resolves for an agent with a tunnel. Cancel-safe.
async fn next_go_request(go_requests: Option<&mut GoRequestChannel>) -> Option<Event> {
    match go_requests {
        Some(go_requests) => go_requests.next().await,
        None => std::future::pending().await,
    }
}
