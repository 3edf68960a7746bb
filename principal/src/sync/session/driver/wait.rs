//! The inputs that a session waits for, and the timeouts.

use std::time::Duration;

use futures::{StreamExt as _, future::OptionFuture};
use runtime::error::Chain;
use tokio::time::{sleep, sleep_until};
use tonic::{Code, Status};

use super::{super::end::Over, Driver, input::Next};
use crate::live::go_compat::GoRequestChannel;

/// The shortest pause, also when work is due: the next turn will not begin work that this one could not.
const SHORTEST: Duration = Duration::from_millis(10);
/// The shortest pause while due work waits for room on the stream or for another write.
const BLOCKED: Duration = Duration::from_millis(500);

impl Driver {
    /// Waits for the first input; every arm is cancel-safe, so losing the race loses nothing.
    pub(super) async fn next(&mut self, full: bool) -> Next {
        let now = self.started.elapsed();
        let pause = self.pause(now, full);
        let (may_read, is_resting) = (self.may_read(), self.budget.is_resting());
        let is_blocked = self.resync.waiting().is_blocking();
        let asks = !full && self.machine.can_emit_at_once();
        // None for an agent with a tunnel.
        let go_request = OptionFuture::from(self.go_requests.as_mut().map(GoRequestChannel::next));
        let next = tokio::select! {
            biased;
            end = self.session_slot.ended() => Next::Over(Over::Hub(end)),
            () = sleep_until(self.ends.0) => Next::Over(Over::Hub(self.ends.1)),
            () = self.outbound.closed() => Next::Over(Over::Peer("the connection was lost".to_owned())),
            Some((id, verdict, reason)) = self.working.next(), if !self.working.is_empty() => {
                Next::Worked(id, verdict, reason)
            }
            Some(()) = self.releases.next(), if !self.releases.is_empty() => Next::Turn,
            frame = self.inbound.message(), if may_read => match frame {
                Ok(Some(frame)) => Next::Frame(frame),
                Ok(None) => Next::Over(Over::Peer("the agent closed the stream".to_owned())),
                Err(status) => Next::Over(self.lost(&status)),
            },
            Ok(()) = self.fleet.changed(), if is_blocked => Next::Fleet,
            () = self.subscription.mailbox.changed() => Next::Turn,
            Some(Some(event)) = go_request, if asks => Next::GoRequest(event),
            _room = self.outbound.reserve(), if full => Next::Turn,
            () = sleep_until(self.budget.rests_until()), if is_resting => Next::Turn,
            () = sleep(pause) => Next::Turn,
        };
        if !may_read {
            self.machine.skip_read(self.started.elapsed());
        }
        next
    }

    /// Whether there is room for the next message and its cluster may send it.
    pub(super) fn may_read(&self) -> bool {
        self.machine.has_room() && !self.budget.is_resting()
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
        [
            self.machine.next_timeout(now),
            self.resync.next_timeout(now),
            self.facts.next_timeout(now),
            self.reported.next_timeout(now),
            self.machine.silence_left(now),
        ]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or(self.sessions.limits.session_life)
        .max(least)
    }

    /// Times out a peer that has sent heartbeats and is silent now.
    pub(super) fn listen(&self) -> Result<(), Over> {
        if self.machine.silence_left(self.started.elapsed()) == Some(Duration::ZERO) {
            return Err(Over::Peer("the agent timed out".to_owned()));
        }
        Ok(())
    }
}
