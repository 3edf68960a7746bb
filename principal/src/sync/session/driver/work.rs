//! Starts and finishes the work of a session.
//!
//! Throttles the writes of one object: the newest value waits in the inbox, where newer ones replace it. One session does
//! not occupy its thread: after a bounded number of bytes it lets other tasks run, and applies large messages one by one.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt as _, StreamExt as _};
use protocol::{Event, Kind, ObjectKey, Target, Verb, Verdict, Work, WorkId, payload};
use tokio::time::Instant;

use super::Driver;
use crate::sync::{hub::ONE_AT_A_TIME, session::spoke_info};

impl Driver {
    /// Starts the work that is ready, as far as there is room.
    pub(super) async fn start_work(&mut self, now: Duration) {
        loop {
            self.budget.settle().await;
            if self.working.len() >= self.sessions.limits.writes_per_session {
                return;
            }
            let Some(Work { id, event }) = self.machine.next_work(now) else {
                return;
            };
            self.budget.charge(event.payload.len());
            if event.target == Target::Resync {
                let is_list = event.verb == Verb::RequestSyncedResourceList;
                if is_list && self.resync.expects_sums() && !self.sum_up().await {
                    return;
                }
                let (resync, mut step) = self.resync_step(now);
                let taken = resync.take(&mut step, &event);
                let verdict = taken.map_or_else(Verdict::Refused, |()| Verdict::Done);
                self.machine.finished(id, verdict, now);
                continue;
            }
            if event.target == Target::ClusterInfo {
                self.facts.set(event.clone());
            }
            if self
                .go_requests
                .as_ref()
                .is_some_and(|go_requests| go_requests.handle_response(&event))
            {
                self.machine.finished(id, Verdict::Done, now);
                continue;
            }
            if let Some(verdict) = self.resync.take_message(&self.hub, &event, now) {
                self.machine.finished(id, verdict, now);
                continue;
            }
            let memory = payload::estimate_of(&event.payload);
            if let Some(after) = self.throttle(&event, memory, now) {
                self.machine.finished(id, Verdict::Retry { after }, now);
                continue;
            }
            self.begin(id, event, memory);
        }
    }

    /// Computes the sums for a comparison one by one and lets other tasks run between them: those of a cluster with many
    /// large statuses take seconds. False if the session has to end before that.
    async fn sum_up(&mut self) -> bool {
        let ended = self.session_slot.ended();
        let summing = async {
            for object in self.hub.objects.without_sums(&self.from.cluster) {
                object.shown_sum();
                self.budget.charge(object.status_bytes());
                self.budget.settle().await;
            }
        };
        tokio::select! {
            biased;
            _end = ended => false,
            () = summing => true,
        }
    }

    /// Records the facts of the agent if they are due: each record reaches the whole hub program.
    pub(super) fn record_facts(&mut self, now: Duration) {
        if let Some(event) = self.facts.take_due(now) {
            spoke_info::record(&self.session_slot, &event);
        }
    }

    /// Begins to apply an event with this decoded size.
    fn begin(&self, id: WorkId, event: Event, memory: usize) {
        let (hub, from) = (Arc::clone(&self.hub), self.from.clone());
        let counter = self.session_slot.counter();
        let large = (memory > ONE_AT_A_TIME).then(|| Arc::clone(&self.large));
        let work = async move {
            let _permit = match large {
                Some(large) => large.acquire_owned().await.ok(),
                None => None,
            };
            let (verdict, reason) = hub.reports.apply_for(&from, &event).await;
            if verdict == Verdict::Done && matches!(event.target, Target::Object(_)) {
                counter.count_report();
            }
            (id, verdict, reason)
        };
        self.working.push(work.boxed());
    }

    /// How long a throttled event with this decoded size has to wait; none if it begins now.
    ///
    /// Throttles only the state of an object: no commands, no deletions, and less what the hub waits for.
    fn throttle(&mut self, event: &Event, memory: usize, now: Duration) -> Option<Duration> {
        let key = event.object()?;
        // An autonomous cluster sends whole objects.
        let is_whole =
            self.from.is_autonomous && matches!(event.verb, Verb::Create | Verb::SpecUpdate);
        let shows = match key.kind {
            Kind::Application => is_whole || event.verb == Verb::StatusUpdate,
            Kind::AppProject => is_whole,
            Kind::Repository | Kind::GpgKey | Kind::TlsCerts | Kind::SshKnownHosts => false,
        };
        if !shows {
            self.pace.release(&key);
            return None;
        }
        if let Some(wait) = self.waits_for_reserve(memory) {
            self.pace.hold(&key);
            return Some(wait);
        }
        let wait = self.paced(event, &key, memory, now);
        if wait.is_none() {
            self.charge_reserve(memory);
        }
        wait
    }

    /// How long the reserve of its cluster makes a report with this decoded size wait; none if it begins now.
    fn waits_for_reserve(&self, memory: usize) -> Option<Duration> {
        let (reserves, cluster) = (&self.hub.objects.write_reserves, &self.from.cluster);
        reserves.wait(cluster, memory, Instant::now())
    }

    fn charge_reserve(&self, memory: usize) {
        let (reserves, cluster) = (&self.hub.objects.write_reserves, &self.from.cluster);
        reserves.charge(cluster, memory, Instant::now());
    }

    /// How long the reserve of its object makes a report wait; none if it begins now, which counts against the reserve.
    fn paced(
        &mut self,
        event: &Event,
        key: &ObjectKey,
        memory: usize,
        now: Duration,
    ) -> Option<Duration> {
        let (hub, cluster) = (&self.hub, &self.from.cluster);
        let take_spare = || hub.take_spare_write(cluster, memory, Instant::now());
        let wait = self.pace.throttle(key, now, take_spare)?;
        if self.hub.reports.awaits(&self.from, event) {
            let wait = self.awaited.throttle(key, now, || false);
            if wait.is_none() {
                self.pace.release(key);
            }
            return wait;
        }
        Some(wait)
    }

    /// Writes the throttled values and finishes the current work: the agent sends them again only in a next session, if
    /// any.
    async fn write_throttled(&mut self) {
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

    /// Finishes the current work, so that the peer need not send it again to the next replica.
    pub(super) async fn finish_work(&mut self) {
        let bound = self.sessions.limits.drain;
        let drained = async {
            self.write_throttled().await;
            self.machine.drain();
            while let Some((id, verdict, _reason)) = self.working.next().await {
                self.machine.finished(id, verdict, self.started.elapsed());
            }
        };
        if tokio::time::timeout(bound, drained).await.is_err() {
            tracing::debug!("some work timed out at the end of the session");
        }
        self.machine.drain();
        self.write(self.started.elapsed());
    }

    /// Writes the throttled values after a disconnect, as the agent may never come back. A reconnecting agent waits for
    /// us, and sends them again.
    pub(super) async fn write_after_disconnect(&mut self) {
        let bound = self.sessions.limits.drain;
        let end = self.session_slot.ended();
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
            let was_throttled = event.object().is_some_and(|key| self.pace.release(&key));
            let memory = payload::estimate_of(&event.payload);
            // Without a reserve, its newest value waits for the next session.
            if was_throttled && self.waits_for_reserve(memory).is_none() {
                self.charge_reserve(memory);
                self.begin(id, event, memory);
            } else {
                let after = Duration::MAX;
                self.machine.finished(id, Verdict::Retry { after }, now);
            }
        }
    }
}

#[cfg(test)]
mod tests;
