//! Throttles the writes of one object: the newest value waits in the inbox, where newer ones replace it.

use std::time::Duration;

use futures::StreamExt as _;
use protocol::{Event, Kind, Target, Verb, Verdict, Work};

use super::Driver;

impl Driver {
    /// How long a throttled event has to wait; none if it begins now.
    ///
    /// Throttles only the state of an object: no commands, no deletions, and no reports that the hub waits for.
    pub(super) fn throttle(&mut self, event: &Event, now: Duration) -> Option<Duration> {
        let key = event.object()?;
        let shows = event.target == Target::Object(Kind::Application)
            && (event.verb == Verb::StatusUpdate
                // An autonomous cluster sends the whole object.
                || (event.verb == Verb::SpecUpdate && self.from.is_autonomous));
        if !shows {
            self.pace.release(&key);
            return None;
        }
        let wait = self.pace.throttle(&key, now)?;
        if self.hub.reports.awaits(&self.from, event) {
            self.pace.release(&key);
            return None;
        }
        Some(wait)
    }

    /// Writes the throttled values and finishes the current work: the agent sends them again only in a next session, if
    /// any.
    pub(super) async fn write_throttled(&mut self) {
        if !self.pace.is_throttling() {
            return;
        }
        self.machine.end_backoff();
        loop {
            self.start_throttled(self.started.elapsed());
            let Some((id, verdict, _reason)) = self.working.next().await else {
                return;
            };
            let now = self.started.elapsed();
            self.machine.finished(id, verdict, now);
        }
    }

    /// Writes the throttled values after a disconnect, as the agent may never come back. A reconnecting agent waits for
    /// us, and sends them again.
    pub(super) async fn write_after_disconnect(&mut self) {
        let bound = self.sessions.limits.drain;
        let end = self.session_slot.end();
        tokio::select! {
            biased;
            _end = end => {}
            _late = tokio::time::timeout(bound, self.write_throttled()) => {}
        }
    }

    fn start_throttled(&mut self, now: Duration) {
        while self.working.len() < self.sessions.limits.writes_per_session {
            let Some(Work { id, event }) = self.machine.next_work(now) else {
                return;
            };
            let retained = event.object().is_some_and(|key| self.pace.release(&key));
            if retained {
                self.begin(id, event);
            } else {
                let after = Duration::MAX;
                self.machine.finished(id, Verdict::Retry { after }, now);
            }
        }
    }
}

#[cfg(test)]
mod tests;
