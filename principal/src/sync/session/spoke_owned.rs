//! The resync with an autonomous cluster: the hub lists its mirrors, and the cluster answers with the differences.
//!
//! A list may have ten thousand mirrors, so it is sent as the agent acknowledges it, and only the last of many requests
//! for it within a minute is answered.
//!
//! The agent answers with newer states, and with deletes of objects that it does not have. Such a delete answers a question;
//! no user deleted the object. If an agent watched the wrong namespace or saw no objects yet, most mirrors would be
//! deleted. So these deletes are collected until no more arrive. Then all are carried out or, if they are too many,
//! wait for a user's confirmation. Their event ids have no version, with a Go agent as with ours.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use argocd::{Meta, digest, mirror};
use protocol::{
    Event, Kind, ObjectKey, Session, Verb, Verdict,
    payload::{self, RequestUpdate, SyncedResource, SyncedResourceList},
};
use runtime::error::Chain;

use super::{
    brake::{DeletionCandidates, Waiting},
    inventory::Named,
    ownership::{Ownership, Step, decoded},
};
use crate::{
    fleet::{ClusterName, Enrolment},
    report::BlockedDeletion,
    sync::hub::Hub,
};

/// The decision follows this long after the last such delete.
const SETTLED: Duration = Duration::from_secs(2);
/// After a requested list, the next one follows no sooner than this.
const REQUEST_INTERVAL: Duration = Duration::from_mins(1);

/// The resync of one session with an autonomous cluster.
#[derive(Debug)]
pub(super) struct Claims {
    cluster: ClusterName,
    /// The first session after an enrolment deletes no mirrors.
    fresh: bool,
    /// The objects that the cluster reports as missing: the UIDs of their mirrors' sources.
    missing: BTreeMap<ObjectKey, String>,
    waiting: Waiting,
    list: MirrorList,
    /// The agent requested the list again.
    requested: bool,
    /// When the next request is answered.
    next_answer: Duration,
}

/// The list of mirrors, as far as it was not sent yet.
#[derive(Debug)]
struct MirrorList {
    claims: std::vec::IntoIter<RequestUpdate>,
    end: Option<SyncedResourceList>,
}

impl Claims {
    /// Begins the list of mirrors for the agent.
    pub(super) fn begin(hub: &Hub, cluster: &ClusterName, fresh: bool) -> Self {
        hub.mirrors.forget_unmirrored(cluster);
        Self {
            cluster: cluster.clone(),
            fresh,
            missing: BTreeMap::new(),
            waiting: Waiting::default(),
            list: MirrorList::new(hub, cluster),
            requested: false,
            next_answer: Duration::ZERO,
        }
    }

    /// The cluster has this object: requests its state, unless the inventory contained it.
    fn ask_for(&self, step: &mut Step<'_>, there: &SyncedResource) -> Result<(), String> {
        let mirrors = &step.hub.mirrors;
        let key = there.kind.parse().ok();
        let key = key.and_then(|kind| mirrors.mirror_key(&self.cluster, kind, &there.name));
        let key = key.ok_or("nothing that is mirrored has this name")?;
        if !mirrors.shows(&self.cluster, &key, &there.uid) {
            step.session.emit(Event::request_update(&RequestUpdate {
                name: key.name,
                namespace: key.namespace,
                kind: there.kind.clone(),
                ..RequestUpdate::default()
            }));
        }
        Ok(())
    }

    /// The mirrors of objects that the cluster does not have.
    fn deletion_candidates(&self, hub: &Hub) -> DeletionCandidates {
        let mut counts: BTreeMap<Kind, usize> = BTreeMap::new();
        let mut missing = BTreeSet::new();
        let claims = hub.mirrors.claims(&self.cluster);
        let named = claims.iter().filter_map(|claim| Named::read(claim).ok());
        for named in named.filter(|named| !named.uid.is_empty()) {
            let count = counts.entry(named.kind).or_default();
            *count = count.saturating_add(1);
            if self.is_missing(hub, &named) {
                missing.insert(Arc::new(named));
            }
        }
        DeletionCandidates::new(missing, counts)
    }

    fn is_missing(&self, hub: &Hub, named: &Named) -> bool {
        let key = key(named);
        self.missing.get(&key) == Some(&named.uid)
            && hub.mirrors.shows(&self.cluster, &key, &named.uid)
    }
}

impl Ownership for Claims {
    /// Only a Go agent sends any: ours sends the objects themselves.
    fn take(&mut self, step: &mut Step<'_>, event: &Event) -> Result<(), String> {
        if event.verb == Verb::RequestResourceResync {
            self.requested = true;
            return Ok(());
        }
        self.ask_for(step, &decoded("synced resource", event)?)
    }

    fn take_message(&mut self, hub: &Hub, event: &Event, now: Duration) -> Option<Verdict> {
        let object = event.object()?;
        let key = (hub.mirrors).mirror_key(&self.cluster, object.kind, &object.name)?;
        if event.verb != Verb::Delete || !event.event_id.ends_with('_') {
            self.missing.remove(&key);
            return None;
        }
        let stub = match payload::decode_metadata("delete", &event.payload) {
            Ok(stub) => stub,
            Err(error) => return Some(Verdict::Refused(Chain(&error).to_string())),
        };
        let uid = Meta::of(&stub).uid();
        if hub.mirrors.shows(&self.cluster, &key, uid) {
            self.missing.insert(key, uid.to_owned());
            self.waiting.deletion_candidates = None;
            self.waiting.decision = Some(now.saturating_add(SETTLED));
        }
        Some(Verdict::Done)
    }

    fn next_timeout(&self, now: Duration) -> Option<Duration> {
        let answer = self.requested.then_some(self.next_answer);
        let next = [self.waiting.decision, answer].into_iter().flatten().min();
        next.map(|until| until.saturating_sub(now))
    }

    fn advance(&mut self, step: &mut Step<'_>) -> bool {
        if self.requested && self.next_answer <= step.now {
            self.requested = false;
            self.next_answer = step.now.saturating_add(REQUEST_INTERVAL);
            self.list = MirrorList::new(step.hub, &self.cluster);
        }
        // The brake has to see all missing objects at once.
        if !self.missing.is_empty() && self.list.is_incomplete() {
            self.waiting.decision = Some(step.now.saturating_add(SETTLED));
        }
        self.list.emit(step.session);
        false
    }

    /// Sends the list again: the agent answers with the objects that it lacks.
    fn resync_now(&mut self, hub: &Hub) {
        hub.mirrors.forget_unmirrored(&self.cluster);
        self.list = MirrorList::new(hub, &self.cluster);
    }

    fn waiting(&mut self) -> &mut Waiting {
        &mut self.waiting
    }

    fn decide(
        &mut self,
        step: &mut Step<'_>,
        enrolment: Option<Enrolment>,
    ) -> Option<BlockedDeletion> {
        self.waiting.decision = None;
        let enrolment = enrolment?;
        if self.fresh || enrolment.fresh {
            tracing::info!("skipping deletions of mirrors in this session");
            self.missing.clear();
            return None;
        }
        let candidates = self.waiting.deletion_candidates.take();
        let mut deletion_candidates =
            candidates.unwrap_or_else(|| self.deletion_candidates(step.hub));
        let confirmed = enrolment.confirm_delete.as_deref();
        match deletion_candidates.decide(confirmed, |named| self.is_missing(step.hub, named)) {
            Ok(list) => {
                for named in &list {
                    let key = key(named);
                    tracing::info!(object = %key, "the cluster no longer has this object");
                    step.hub.mirrors.end_mirror(&self.cluster, &key, &named.uid);
                }
                self.missing.clear();
                None
            }
            Err(blocked) => {
                self.waiting.block(deletion_candidates, step.now);
                Some(BlockedDeletion {
                    mirrors: true,
                    ..blocked
                })
            }
        }
    }
}

impl MirrorList {
    /// The list of all mirrors, with its end.
    fn new(hub: &Hub, cluster: &ClusterName) -> Self {
        let claims = hub.mirrors.claims(cluster);
        // By the names on the cluster, so that a Go agent can compare; equal lines count once.
        let lines: BTreeSet<_> = claims
            .iter()
            .map(|claim| {
                let name = if claim.kind == Kind::AppProject.as_str() {
                    mirror::source_name(cluster.as_str(), &claim.name).unwrap_or(&claim.name)
                } else {
                    &claim.name
                };
                (claim.kind.as_str(), name, claim.uid.as_str())
            })
            .collect();
        let end = SyncedResourceList {
            checksum: digest::list_checksum(lines),
            ..SyncedResourceList::default()
        };
        tracing::debug!(objects = claims.len(), "sending the inventory of mirrors");
        Self {
            claims: claims.into_iter(),
            end: Some(end),
        }
    }

    const fn is_incomplete(&self) -> bool {
        self.end.is_some()
    }

    /// Emits as much of the list as there is room for.
    fn emit(&mut self, machine: &mut Session) {
        for _ in 0..machine.list_room() {
            if let Some(claim) = self.claims.next() {
                machine.emit(Event::request_update(&claim));
            } else if let Some(end) = self.end.take() {
                machine.emit(Event::request_synced_resource_list(&end));
            } else {
                return;
            }
        }
    }
}

fn key(named: &Named) -> ObjectKey {
    ObjectKey::new(named.kind, &named.namespace, &named.name)
}

#[cfg(test)]
mod tests;
