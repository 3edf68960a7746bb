//! Whether the peer is still there.
//!
//! An agent knows its own heartbeat, which the principal acknowledges. The principal does not know an agent's settings,
//! so it learns the interval: only a peer with two heartbeats can time out, by its own interval.

use std::time::Duration;

use super::{Limits, Session};
use crate::event::Event;

/// Three heartbeats may get lost before a peer counts as gone.
const MISSED: u32 = 4;

/// An unread peer gets a sign of life no more often than this.
const SHORTEST: Duration = Duration::from_secs(1);

/// The times of received frames and heartbeats.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    /// When the last frame arrived.
    pub(super) received: Duration,
    last: Option<Duration>,
    gap: Option<Duration>,
    /// When the driver last did not read the peer, so that its frames could not arrive.
    unread: Duration,
    /// When the unread peer last got a sign of life.
    last_sign: Duration,
    /// The acknowledgement of the last heartbeat.
    answer: Option<Event>,
}

impl Liveness {
    /// A heartbeat arrived.
    pub(super) fn beat(&mut self, now: Duration, answer: Event) {
        self.gap = self.last.map(|last| now.saturating_sub(last));
        self.last = Some(now);
        self.answer = Some(answer);
    }

    /// How long the peer may be silent; none while its interval is unknown.
    ///
    /// A principal may miss two and a half of our heartbeats.
    fn silence(&self, limits: &Limits) -> Option<Duration> {
        match limits.heartbeat {
            Some(every) => Some(every.saturating_mul(5) / 2),
            None => self
                .gap
                .map(|gap| gap.saturating_mul(MISSED).max(limits.silence)),
        }
    }

    /// The time until an unread peer needs a sign of life.
    fn next_sign(&self, now: Duration) -> Option<Duration> {
        let last = self.last_sign.max(self.last?);
        // Heartbeats that were read together do not show their interval.
        let every = self.gap?.max(SHORTEST);
        Some(last.saturating_add(every).saturating_sub(now))
    }
}

impl Session {
    /// How long the peer may still be silent before it counts as gone; none if it sends no heartbeats.
    ///
    /// While the driver does not read, the peer does not count as silent: the timeout starts when it reads again.
    pub fn silence_left(&self, now: Duration) -> Option<Duration> {
        let since = self.liveness.received.max(self.liveness.unread);
        let limit = self.liveness.silence(&self.limits)?;
        Some(since.saturating_add(limit).saturating_sub(now))
    }

    /// The driver does not read the peer now, as there is no room. Acknowledges the last heartbeat again when the next
    /// one is due: the peer takes any frame as proof that we are alive.
    pub fn skip_read(&mut self, now: Duration) {
        self.liveness.unread = now;
        if self.liveness.next_sign(now) == Some(Duration::ZERO) {
            self.liveness.last_sign = now;
            if self.acks.is_empty() {
                self.acks.extend(self.liveness.answer.clone());
            }
        }
    }

    /// The next heartbeat, when it is due.
    pub(super) fn next_heartbeat(&mut self, now: Duration) -> Option<Event> {
        let (due, every) = (self.next_ping?, self.limits.heartbeat?);
        (due <= now).then(|| {
            self.next_ping = Some(now.saturating_add(every));
            // never resent: the next heartbeat replaces it
            Event::ping()
        })
    }

    /// The time until [`Self::skip_read`] has a sign of life to send; none while there is room.
    pub(super) fn next_sign(&self, now: Duration) -> Option<Duration> {
        self.liveness.next_sign(now).filter(|_| !self.has_room())
    }
}
