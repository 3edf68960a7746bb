//! Sends the agent's state at the start of a session, and answers the principal's resync, in both modes.

use argocd::Meta;
use live::cluster_info::Census;
use protocol::payload::{
    self, ClusterInfo, RequestUpdate, ResyncRequest, SpokeInfo, SyncedResource, SyncedResourceList,
};
use protocol::version::Capability;
use protocol::{Event, Facet, Kind, Mode, Verb, Verdict};

use super::drive::{Drive, Moving};
use crate::sync::replica::Inventory;
use crate::sync::source::{self, Answer};

impl Drive<'_> {
    /// Sends the messages that start every session.
    ///
    /// Managed: the agent sends all statuses, and its inventory to a Go principal. Our principal asks for the
    /// inventory; if it compares sums, it also asks for the statuses that differ. Autonomous: the agent sends
    /// all objects to a Go principal. Our principal sends its inventory, and the agent answers with the differences.
    pub(super) fn greet(&mut self, moving: &mut Moving<'_>) {
        let is_ours = moving.welcome.capabilities.is_ours();
        match self.replica.mode() {
            Mode::Managed => {
                let pending = self.reports.take();
                if moving.welcome.capabilities.has(Capability::RangeSums) {
                    for key in pending.statuses {
                        moving.session.mark(key, Facet::Status);
                    }
                } else {
                    // All statuses include the pending ones.
                    for (key, _) in self.reports.replicas() {
                        if key.kind == Kind::Application {
                            moving.session.mark(key, Facet::Status);
                        }
                    }
                }
                for event in pending.events.into_values() {
                    moving.session.emit(event);
                }
                // A Go principal has one place for errors, and would never clear this one.
                let contests = self.reports.all_contests();
                for event in contests.into_iter().filter(|_| is_ours) {
                    moving.session.emit(event);
                }
                if !is_ours {
                    self.send_inventory(moving);
                }
            }
            Mode::Autonomous => {
                // The principal asks for objects that differ; deletions on the spoke are events.
                for event in self.reports.take().events.into_values() {
                    moving.session.emit(event);
                }
                if !is_ours {
                    for (key, _) in source::owned(self.reports.store()) {
                        moving.session.mark(key, Facet::State);
                    }
                    moving.session.emit(Event::request_resource_resync());
                }
            }
        }
        self.send_spoke_info(moving);
    }

    /// Sends whether this cluster has an Argo CD, its statistics, and the trusted roots. A Go principal accepts only the
    /// statistics of managed clusters.
    pub(super) fn send_spoke_info(&mut self, moving: &mut Moving<'_>) {
        let (argo_cd, running) = {
            let sync_status = self.sync_status.borrow_and_update();
            (Some(sync_status.argocd()), sync_status.runs().cloned())
        };
        let census = self.census.borrow_and_update().clone();
        if moving.welcome.capabilities.is_ours() {
            let info = SpokeInfo {
                argo_cd,
                argo_cd_runs: running.as_ref().map(|it| it.runs),
                argo_cd_kinds_brought: running.as_ref().is_some_and(|it| it.kinds_installed),
                argo_cd_ails: running.and_then(|it| it.health_problem),
                trusts: self.renewal.trusts(),
                ..census.as_ref().map(for_ours).unwrap_or_default()
            };
            moving.session.emit(Event::spoke_info(&info));
        } else if let Some(census) = census
            && self.replica.mode() == Mode::Managed
        {
            moving.session.emit(Event::cluster_info(&for_go(&census)));
        }
    }

    /// Passes pending reports to the session. Deletes go first: an object of the same name may be newer.
    pub(super) fn take_reports(&self, moving: &mut Moving<'_>) {
        let pending = self.reports.take();
        for key in pending.statuses {
            moving.session.mark(key, Facet::Status);
        }
        let is_ours = moving.welcome.capabilities.is_ours();
        let contests = pending.contests.into_values().filter(|_| is_ours);
        for event in pending.events.into_values().chain(contests) {
            moving.session.emit(event);
        }
        for key in pending.states {
            moving.session.mark(key, Facet::State);
        }
    }

    /// Sends the whole inventory.
    fn send_inventory(&self, moving: &mut Moving<'_>) {
        let inventory = self.replica.inventory(&moving.welcome);
        emit_inventory(moving, inventory);
    }

    /// Answers a resync request; one without sums, ranges and statuses asks for the whole inventory.
    fn answer_request(&self, moving: &mut Moving<'_>, request: &ResyncRequest) {
        let ResyncRequest {
            sums,
            ranges,
            statuses,
        } = request;
        if *sums || (ranges.is_none() && statuses.is_none()) {
            self.note_resync();
        }
        if *sums {
            let list = self.replica.sums(&moving.welcome);
            return moving
                .session
                .emit(Event::request_synced_resource_list(&list));
        }
        if ranges.is_none() && statuses.is_none() {
            return self.send_inventory(moving);
        }
        if let Some(statuses) = statuses {
            for key in self.replica.apps_in(&moving.welcome, statuses) {
                moving.session.mark(key, Facet::Status);
            }
        }
        if let Some(ranges) = ranges {
            let inventory = self.replica.inventory_in(&moving.welcome, ranges);
            emit_inventory(moving, inventory);
        }
    }

    /// Answers one message of a resync.
    pub(super) fn answer_resync(&self, moving: &mut Moving<'_>, event: &Event) -> Verdict {
        let decoded = match (self.replica.mode(), event.verb) {
            (Mode::Managed, Verb::RequestResourceResync) => {
                payload::decode("resync request", &event.payload)
                    .map(|request| self.answer_request(moving, &request))
            }
            (Mode::Managed, Verb::ResponseSyncedResource) => {
                payload::decode("synced resource", &event.payload)
                    .map(|asked| self.answer_synced_resource(moving, &asked))
            }
            (Mode::Autonomous, Verb::RequestUpdate) => {
                payload::decode("request-update", &event.payload)
                    .map(|claim| self.compare(moving, &claim))
            }
            (Mode::Autonomous, Verb::RequestSyncedResourceList) => {
                payload::decode("end of a resync", &event.payload)
                    .map(|list| self.finish_comparison(moving, &list))
            }
            (_, _) => return Verdict::Refused("not for an agent of this mode".to_owned()),
        };
        match decoded {
            Ok(()) => Verdict::Done,
            Err(error) => Verdict::Refused(error.to_string()),
        }
    }

    fn note_resync(&self) {
        self.metrics.resyncs.inc();
        let now = runtime::clock::Clock::system().now();
        self.metrics.last_resync.set(now.as_second());
    }

    fn answer_synced_resource(&self, moving: &mut Moving<'_>, asked: &SyncedResource) {
        for body in &self.replica.find(asked, &moving.welcome).updates {
            moving.session.emit(Event::request_update(body));
        }
    }

    /// Compares one object of the hub with the spoke's.
    fn compare(&self, moving: &mut Moving<'_>, claim: &RequestUpdate) {
        let welcome = &moving.welcome;
        let cluster = welcome.agent_name.as_deref().or(welcome.subject.as_deref());
        let answer = source::answer(
            self.reports.store(),
            self.replica.argocd_namespace(),
            cluster,
            claim,
            welcome.capabilities.is_ours(),
        );
        match answer {
            Answer::Right(key) => {
                moving.claimed.insert(key);
            }
            Answer::State(key) => {
                moving.claimed.insert(key.clone());
                moving.session.mark(key, Facet::State);
            }
            // Without an Argo CD the agent knows nothing of its objects.
            Answer::Gone(event) if self.replica.serves_argocd() => moving.session.emit(event),
            Answer::Gone(_) | Answer::Unknown => {}
        }
    }

    /// Ends a comparison: sends the objects that the hub did not name. A Go principal asks for a list instead.
    fn finish_comparison(&self, moving: &mut Moving<'_>, list: &SyncedResourceList) {
        self.note_resync();
        let store = self.reports.store();
        if !moving.welcome.capabilities.is_ours() {
            for body in source::list(store, list.checksum.as_deref()) {
                moving.session.emit(Event::response_synced_resource(&body));
            }
            return;
        }
        let claimed = std::mem::take(&mut moving.claimed);
        for (key, live) in source::owned(store) {
            if !claimed.contains(&key) {
                tracing::debug!(object = %key, uid = Meta::of(&live).uid(), "not on the hub yet");
                moving.session.mark(key, Facet::State);
            }
        }
    }
}

fn for_ours(census: &Census) -> SpokeInfo {
    SpokeInfo {
        applications_count: Some(census.applications),
        apis_count: Some(census.apis),
        resources_count: Some(census.resources),
        server_version: census.server_version.clone(),
        ..SpokeInfo::default()
    }
}

fn for_go(census: &Census) -> ClusterInfo {
    let count = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    ClusterInfo {
        applications_count: count(census.applications),
        apis_count: count(census.apis),
        resources_count: count(census.resources),
    }
}

/// Names each object of the inventory, then ends the list.
fn emit_inventory(moving: &mut Moving<'_>, inventory: Inventory) {
    for body in &inventory.updates {
        moving.session.emit(Event::request_update(body));
    }
    let end = SyncedResourceList {
        checksum: inventory.checksum,
        ..SyncedResourceList::default()
    };
    moving
        .session
        .emit(Event::request_synced_resource_list(&end));
    tracing::debug!(
        objects = inventory.updates.len(),
        "sent the inventory to the principal"
    );
}
