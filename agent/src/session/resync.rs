//! Sends the agent's state at the start of a session, and answers the principal's resync, in both modes.

use argocd::Meta;
use protocol::payload::{
    self, ClusterInfo, RequestUpdate, ResyncRequest, SpokeInfo, SyncedResourceList,
};
use protocol::version::Capability;
use protocol::{Event, Facet, Mode, Session, Verb, Verdict};

use super::drive::{Drive, SessionState};
use crate::sync::replica::checksum;
use crate::sync::source::{self, Answer};

impl Drive<'_> {
    /// Sends the messages that start every session.
    ///
    /// Managed: the agent sends all statuses, and its inventory to a Go principal. Our principal asks for the
    /// inventory; if it compares sums, it also asks for the statuses that differ. Autonomous: the agent sends
    /// all objects to a Go principal. Our principal sends its inventory, and the agent answers with the differences.
    pub(super) fn greet(&mut self, state: &mut SessionState<'_>) {
        let is_ours = state.welcome.capabilities.is_ours();
        match self.replica.mode() {
            Mode::Managed => {
                let pending = self.reports.take();
                let statuses = if state.welcome.capabilities.has(Capability::RangeSums) {
                    pending.statuses
                } else {
                    // All statuses include the pending ones.
                    self.reports.statuses()
                };
                for key in statuses {
                    state.session.mark(key, Facet::Status);
                }
                // A Go principal has one place for errors, and would never clear that of a contest.
                let contests = self.reports.all_contests().into_iter();
                let contests = contests.filter(|_| is_ours);
                for event in pending.events.into_values().chain(contests) {
                    state.session.emit(event);
                }
                if !is_ours {
                    let inventory = self.replica.inventory(&state.welcome);
                    emit_inventory(&mut state.session, &inventory.all());
                }
            }
            Mode::Autonomous => {
                // The principal asks for objects that differ; deletions on the spoke are events.
                for event in self.reports.take().events.into_values() {
                    state.session.emit(event);
                }
                if !is_ours {
                    for (key, _) in source::owned(self.reports.store()) {
                        state.session.mark(key, Facet::State);
                    }
                    state.session.emit(Event::request_resource_resync());
                }
            }
        }
        self.send_spoke_info(state);
    }

    /// Sends whether this cluster has an Argo CD, its statistics, and the trusted roots. A Go principal accepts only the
    /// statistics of managed clusters.
    pub(super) fn send_spoke_info(&mut self, state: &mut SessionState<'_>) {
        let (argo_cd, running) = {
            let sync_status = self.sync_status.borrow_and_update();
            (Some(sync_status.argocd()), sync_status.runs().cloned())
        };
        let census = self.census.borrow_and_update().clone();
        if state.welcome.capabilities.is_ours() {
            let census = census.as_ref();
            let info = SpokeInfo {
                argo_cd,
                argo_cd_runs: running.as_ref().map(|it| it.runs),
                argo_cd_kinds_brought: running.as_ref().is_some_and(|it| it.kinds_installed),
                argo_cd_ails: running.and_then(|it| it.health_problem),
                trusts: self.renewal.trusts(),
                applications_count: census.map(|it| it.applications),
                apis_count: census.map(|it| it.apis),
                resources_count: census.map(|it| it.resources),
                server_version: census.and_then(|it| it.server_version.clone()),
            };
            state.session.emit(Event::spoke_info(&info));
        } else if let Some(census) = census
            && self.replica.mode() == Mode::Managed
        {
            let count = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
            let info = ClusterInfo {
                applications_count: count(census.applications),
                apis_count: count(census.apis),
                resources_count: count(census.resources),
            };
            state.session.emit(Event::cluster_info(&info));
        }
    }

    /// Passes pending reports to the session. Deletes go first: an object of the same name may be newer.
    pub(super) fn take_reports(&self, state: &mut SessionState<'_>) {
        let pending = self.reports.take();
        for key in pending.statuses {
            state.session.mark(key, Facet::Status);
        }
        let is_ours = state.welcome.capabilities.is_ours();
        let contests = pending.contests.into_values().filter(|_| is_ours);
        for event in pending.events.into_values().chain(contests) {
            state.session.emit(event);
        }
        for key in pending.states {
            state.session.mark(key, Facet::State);
        }
    }

    /// Answers a resync request; one without sums, ranges and statuses asks for the whole inventory.
    fn answer_request(&self, state: &mut SessionState<'_>, request: &ResyncRequest) {
        let ResyncRequest {
            sums,
            ranges,
            statuses,
        } = request;
        let SessionState {
            session, welcome, ..
        } = state;
        let inventory = self.replica.inventory(welcome);
        let is_whole = ranges.is_none() && statuses.is_none();
        if *sums || is_whole {
            self.note_resync();
        }
        if *sums {
            return session.emit(Event::request_synced_resource_list(&inventory.sums()));
        }
        if is_whole {
            return emit_inventory(session, &inventory.all());
        }
        if let Some(statuses) = statuses {
            for key in inventory.apps_in(statuses) {
                session.mark(key, Facet::Status);
            }
        }
        if let Some(ranges) = ranges {
            emit_inventory(session, &inventory.in_ranges(ranges));
        }
    }

    /// Answers one message of a resync.
    pub(super) fn answer_resync(&self, state: &mut SessionState<'_>, event: &Event) -> Verdict {
        let body = &event.payload;
        let decoded = match (self.replica.mode(), event.verb) {
            (Mode::Managed, Verb::RequestResourceResync) => payload::decode("resync request", body)
                .map(|request| self.answer_request(state, &request)),
            (Mode::Managed, Verb::ResponseSyncedResource) => {
                payload::decode("synced resource", body).map(|asked| {
                    if let Some(body) = self.replica.inventory(&state.welcome).find(&asked) {
                        state.session.emit(Event::request_update(&body));
                    }
                })
            }
            (Mode::Autonomous, Verb::RequestUpdate) => {
                payload::decode("request-update", body).map(|claim| self.compare(state, &claim))
            }
            (Mode::Autonomous, Verb::RequestSyncedResourceList) => {
                payload::decode("end of a resync", body)
                    .map(|list| self.finish_comparison(state, &list))
            }
            (_, _) => return Verdict::Refused("not for an agent of this mode".to_owned()),
        };
        decoded.map_or_else(
            |error| Verdict::Refused(error.to_string()),
            |()| Verdict::Done,
        )
    }

    fn note_resync(&self) {
        self.metrics.resyncs.inc();
        let now = runtime::clock::Clock::system().now();
        self.metrics.last_resync.set(now.as_second());
    }

    /// Compares one object of the hub with the spoke's.
    fn compare(&self, state: &mut SessionState<'_>, claim: &RequestUpdate) {
        let (store, namespace) = (self.reports.store(), self.replica.argocd_namespace());
        match source::answer(store, namespace, &state.welcome, claim) {
            Answer::Right(key) => {
                state.claimed.insert(key);
            }
            Answer::State(key) => {
                state.claimed.insert(key.clone());
                state.session.mark(key, Facet::State);
            }
            // Without an Argo CD the agent knows nothing of its objects.
            Answer::Gone(event) if self.replica.serves_argocd() => state.session.emit(event),
            Answer::Gone(_) | Answer::Unknown => {}
        }
    }

    /// Ends a comparison: sends the objects that the hub did not name. A Go principal asks for a list instead.
    fn finish_comparison(&self, state: &mut SessionState<'_>, list: &SyncedResourceList) {
        self.note_resync();
        let store = self.reports.store();
        if !state.welcome.capabilities.is_ours() {
            for body in source::list(store, list.checksum.as_deref()) {
                state.session.emit(Event::response_synced_resource(&body));
            }
            return;
        }
        let claimed = std::mem::take(&mut state.claimed);
        for (key, live) in source::owned(store) {
            if !claimed.contains(&key) {
                tracing::debug!(object = %key, uid = Meta::of(&live).uid(), "not on the hub yet");
                state.session.mark(key, Facet::State);
            }
        }
    }
}

/// Names each object of the inventory, then ends the list.
fn emit_inventory(session: &mut Session, updates: &[RequestUpdate]) {
    for body in updates {
        session.emit(Event::request_update(body));
    }
    let end = SyncedResourceList {
        checksum: checksum(updates),
        ..SyncedResourceList::default()
    };
    session.emit(Event::request_synced_resource_list(&end));
    let objects = updates.len();
    tracing::debug!(objects, "sent the inventory to the principal");
}
