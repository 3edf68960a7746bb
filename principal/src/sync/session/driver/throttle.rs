//! What waits because its object is written often enough: the newest value, in the inbox, which goes on being replaced.

use std::time::Duration;

use futures::StreamExt as _;
use protocol::{Event, Kind, Target, Verb, Verdict, Work};

use super::Driver;

impl Driver {
    /// How long this has to wait because its object is written often enough; none if it begins now.
    ///
    /// Only what shows how an object is: nothing that is done once, and no deletion. Nor what the hub waits for.
    pub(super) fn hold(&mut self, event: &Event, now: Duration) -> Option<Duration> {
        let key = event.object()?;
        let shows = event.target == Target::Object(Kind::Application)
            && (event.verb == Verb::StatusUpdate
                // What an autonomous cluster owns comes as a whole.
                || (event.verb == Verb::SpecUpdate && self.from.is_autonomous));
        if !shows {
            self.pace.release(&key);
            return None;
        }
        let wait = self.pace.hold(&key, now)?;
        if self.hub.awaits(&self.from, event) {
            self.pace.release(&key);
            return None;
        }
        Some(wait)
    }

    /// Writes what waits, and ends what was begun: nobody will say it again before the next session, if there is one.
    pub(super) async fn write_held(&mut self) {
        if !self.pace.is_holding() {
            return;
        }
        self.machine.end_backoff();
        loop {
            self.start_held(self.started.elapsed());
            let Some((id, verdict, _reason)) = self.working.next().await else {
                return;
            };
            let now = self.started.elapsed();
            self.machine.finished(id, verdict, now);
        }
    }

    /// The same when the agent has gone, who may never come back. One who does waits for us, and says it again.
    pub(super) async fn leave_word(&mut self) {
        let bound = self.sessions.limits.drain;
        let end = self.session_slot.end();
        tokio::select! {
            biased;
            _end = end => {}
            _late = tokio::time::timeout(bound, self.write_held()) => {}
        }
    }

    fn start_held(&mut self, now: Duration) {
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
