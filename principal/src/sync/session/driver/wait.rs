//! What a session waits for, and for how long: for nobody who says nothing and should.

use std::time::Duration;

use futures::StreamExt as _;
use protocol::{Event, Verdict, WorkId, wire::eventstreamapi::Event as Frame};
use runtime::error::Chain;
use tokio::time::{sleep, sleep_until};
use tonic::{Code, Status};

use super::{Driver, Over};
use crate::live::go_compat::GoRequestChannel;

/// The shortest pause, whatever is due: what is due and not begun after a turn will not be begun by the next one.
const SHORTEST: Duration = Duration::from_millis(10);
/// The shortest pause while something is due that has to wait for room or for a hand.
const BLOCKED: Duration = Duration::from_millis(500);

/// What came first.
pub(super) enum Next {
    Over(Over),
    Frame(Frame),
    /// A piece of work, how it ended, and why as a word if it was refused.
    Worked(WorkId, Verdict, Option<&'static str>),
    /// Who is enrolled, and what a person has confirmed.
    Fleet,
    /// What somebody at the hub asks of the cluster.
    Question(Event),
    /// Marks, room on the stream, or time: the turn of the loop looks at all of them.
    Look,
}

impl Driver {
    /// Waits for whatever comes first; every arm is cancel-safe, so losing the race loses nothing.
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
            Some(()) = self.leaving.next(), if !self.leaving.is_empty() => Next::Look,
            frame = self.inbound.message(), if room => match frame {
                Ok(Some(frame)) => Next::Frame(frame),
                Ok(None) => Next::Over(Over::Peer("the agent closed the stream".to_owned())),
                Err(status) => Next::Over(self.lost(&status)),
            },
            Ok(()) = self.fleet.changed(), if self.resync.waiting().is_holding() => Next::Fleet,
            () = self.subscription.mailbox.changed() => Next::Look,
            Some(event) = question(self.go_requests.as_mut()), if asks => Next::Question(event),
            _room = self.outbound.reserve(), if full => Next::Look,
            () = sleep(pause) => Next::Look,
        };
        if !room {
            self.pulse.unread(self.started.elapsed());
        }
        next
    }

    /// Why nothing more can be read.
    fn lost(&self, status: &Status) -> Over {
        tracing::debug!(error = %Chain(status), "the stream failed");
        // How tonic says that it has not even begun to read; a peer cannot end its half of a stream with a status.
        if status.code() == Code::OutOfRange {
            self.sessions.metrics.event_refused("too_large");
            return Over::TooLarge;
        }
        // The message of a status may come from the peer.
        let message: String = status.message().chars().take(200).collect();
        Over::Peer(format!("the stream failed: {:?}: {message}", status.code()))
    }

    /// How long there is nothing to do without any input.
    ///
    /// What is due and cannot be begun, because the stream is full or all hands are busy, stays due: what ends that
    /// wakes us by itself, so the clock may be slow.
    fn pause(&self, now: Duration, full: bool) -> Duration {
        let busy = self.working.len() >= self.sessions.limits.writes_per_session;
        let least = if full || busy { BLOCKED } else { SHORTEST };
        let is_unread = !self.machine.has_room();
        let sign = self.pulse.next_sign(now).filter(|_| is_unread);
        [
            self.machine.next_timeout(now),
            self.resync.next_timeout(now),
            self.response_timeout(now),
            sign,
        ]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or(self.sessions.limits.session_life)
        .max(least)
    }

    /// A peer that sends heartbeats and then says nothing is gone.
    pub(super) fn listen(&self) -> Result<(), Over> {
        if self.response_timeout(self.started.elapsed()) == Some(Duration::ZERO) {
            return Err(Over::Peer("the agent timed out".to_owned()));
        }
        Ok(())
    }

    /// How long the agent may yet be silent.
    fn response_timeout(&self, now: Duration) -> Option<Duration> {
        let arrived = self.machine.stats(now).last_received;
        let least = self.sessions.limits.silence;
        self.pulse.response_timeout(least, arrived, now)
    }

    /// As long as there is no room for more of what the agent says, it is not read. Its heartbeats are not answered then,
    /// and it would take us for gone.
    pub(super) fn leave_unread(&mut self, now: Duration) {
        if !self.machine.has_room() {
            self.pulse.unread(now);
            if self.pulse.takes_sign(now) {
                self.machine.answer_again();
            }
        }
    }
}

/// What is asked next; never of an agent that has a lane. Cancel-safe.
async fn question(go_requests: Option<&mut GoRequestChannel>) -> Option<Event> {
    match go_requests {
        Some(go_requests) => go_requests.next().await,
        None => std::future::pending().await,
    }
}
