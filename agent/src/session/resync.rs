//! What is said at the begin of a session, and what answers the principal's questions, in both modes.

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
    /// What is said on every connect.
    ///
    /// Managed: all statuses, and to a Go principal what we hold; ours asks, and if it compares sums it asks for the
    /// statuses that differ, too. Autonomous: to a Go principal everything;
    /// ours says what it shows, and hears what is different.
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
                    // Those that were to be said are among all of them.
                    for (key, _) in self.reports.replicas() {
                        if key.kind == Kind::Application {
                            moving.session.mark(key, Facet::Status);
                        }
                    }
                }
                for event in pending.events.into_values() {
                    moving.session.emit(event);
                }
                // A Go principal has one place for errors, and nobody who takes this one away again.
                let contests = self.reports.all_contests();
                for event in contests.into_iter().filter(|_| is_ours) {
                    moving.session.emit(event);
                }
                if !is_ours {
                    self.tell_all(moving);
                }
            }
            Mode::Autonomous => {
                // What is different from what it shows it will ask for; what went meanwhile did so here.
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
        self.tell_sight(moving);
    }

    /// Whether there is an Argo CD here, what it has counted, and whom we trust; a Go principal has an ear for the
    /// counts only, and only for those of managed clusters.
    pub(super) fn tell_sight(&mut self, moving: &mut Moving<'_>) {
        let (argo_cd, running) = {
            let sync_status = self.sync_status.borrow_and_update();
            (Some(sync_status.argocd()), sync_status.runs().cloned())
        };
        let census = self.census.borrow_and_update().clone();
        if moving.welcome.capabilities.is_ours() {
            let info = SpokeInfo {
                argo_cd,
                argo_cd_runs: running.as_ref().map(|it| it.runs),
                argo_cd_kinds_brought: running.as_ref().is_some_and(|it| it.kinds_brought),
                argo_cd_ails: running.and_then(|it| it.ails),
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

    /// Hands on what came together. A delete first: what has the name now may have come after it.
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

    /// Names everything that we hold, and that this was all.
    fn tell_all(&self, moving: &mut Moving<'_>) {
        let retained = self.replica.retained(&moving.welcome);
        tell_held(moving, retained);
    }

    /// Tells what a request asks for; one that names nothing asks for everything.
    fn notify(&self, moving: &mut Moving<'_>, request: &ResyncRequest) {
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
            return self.tell_all(moving);
        }
        if let Some(statuses) = statuses {
            for key in self.replica.shown_in(&moving.welcome, statuses) {
                moving.session.mark(key, Facet::Status);
            }
        }
        if let Some(ranges) = ranges {
            let retained = self.replica.held_in(&moving.welcome, ranges);
            tell_held(moving, retained);
        }
    }

    /// Answers one message of a resync.
    pub(super) fn answer_resync(&self, moving: &mut Moving<'_>, event: &Event) -> Verdict {
        let decoded = match (self.replica.mode(), event.verb) {
            (Mode::Managed, Verb::RequestResourceResync) => {
                payload::decode("resync request", &event.payload)
                    .map(|request| self.notify(moving, &request))
            }
            (Mode::Managed, Verb::ResponseSyncedResource) => {
                payload::decode("synced resource", &event.payload)
                    .map(|asked| self.say_held(moving, &asked))
            }
            (Mode::Autonomous, Verb::RequestUpdate) => {
                payload::decode("request-update", &event.payload)
                    .map(|claim| self.compare(moving, &claim))
            }
            (Mode::Autonomous, Verb::RequestSyncedResourceList) => {
                payload::decode("end of a resync", &event.payload)
                    .map(|list| self.say_the_rest(moving, &list))
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

    fn say_held(&self, moving: &mut Moving<'_>, asked: &SyncedResource) {
        for body in &self.replica.holds(asked, &moving.welcome).updates {
            moving.session.emit(Event::request_update(body));
        }
    }

    /// The hub shows this one.
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
            // Where there is no Argo CD nothing is known of its objects.
            Answer::Gone(event) if self.replica.sees_argocd() => moving.session.emit(event),
            Answer::Gone(_) | Answer::Unknown => {}
        }
    }

    /// That was all that the hub shows; the rest is news. A Go principal asks for a list instead.
    fn say_the_rest(&self, moving: &mut Moving<'_>, list: &SyncedResourceList) {
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

/// Names what is held, and that this was all.
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

fn tell_held(moving: &mut Moving<'_>, retained: Inventory) {
    for body in &retained.updates {
        moving.session.emit(Event::request_update(body));
    }
    let end = SyncedResourceList {
        checksum: retained.checksum,
        ..SyncedResourceList::default()
    };
    moving
        .session
        .emit(Event::request_synced_resource_list(&end));
    tracing::debug!(
        objects = retained.updates.len(),
        "sent the inventory to the principal"
    );
}
