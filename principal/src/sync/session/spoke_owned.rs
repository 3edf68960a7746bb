//! The resync with an autonomous cluster: the hub lists its mirrors, and the cluster answers with the differences.
//!
//! It answers with newer states, and with deletes of objects that it does not have. Such a delete answers a question;
//! no user deleted the object. If an agent watched the wrong namespace or saw no objects yet, most mirrors would be
//! deleted. So these deletes are collected until no more arrive. Then all are carried out or, if they are too many,
//! wait for a user's confirmation. Their event ids have no version, with a Go agent as with ours.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use argocd::{Meta, digest, mirror};
use protocol::{
    Event, Kind, ObjectKey, Session, Verb, Verdict,
    payload::{self, RequestUpdate, SyncedResource, SyncedResourceList},
};
use runtime::error::Chain;

use super::{
    brake::{Decision, DeletionCandidates, Waiting},
    inventory::{Inventory, Named},
};
use crate::{
    fleet::{ClusterName, Enrolment},
    report::BlockedDeletion,
    sync::hub::Hub,
};

/// The decision follows this long after the last such delete.
const SETTLED: Duration = Duration::from_secs(2);

/// The resync of one session with an autonomous cluster.
#[derive(Debug)]
pub(super) struct Claims {
    cluster: ClusterName,
    /// The first session after an enrolment deletes no mirrors.
    fresh: bool,
    /// The objects that the cluster reports as missing: the UIDs of their mirrors' sources.
    missing: BTreeMap<ObjectKey, String>,
    pub(super) waiting: Waiting,
}

impl Claims {
    /// Sends the inventory of mirrors to the agent.
    pub(super) fn begin(
        machine: &mut Session,
        hub: &Hub,
        cluster: &ClusterName,
        fresh: bool,
    ) -> Self {
        hub.forget_unmirrored(cluster);
        send_inventory(machine, hub, cluster);
        Self {
            cluster: cluster.clone(),
            fresh,
            missing: BTreeMap::new(),
            waiting: Waiting::default(),
        }
    }

    /// Sends the inventory again: the agent answers with the objects that it lacks.
    pub(super) fn resync_now(&self, machine: &mut Session, hub: &Hub) {
        hub.forget_unmirrored(&self.cluster);
        send_inventory(machine, hub, &self.cluster);
    }

    /// Handles a resync message of the agent. Only a Go agent sends any: ours sends the objects themselves.
    pub(super) fn take(&mut self, machine: &mut Session, hub: &Hub, event: &Event) -> Verdict {
        if event.verb == Verb::RequestResourceResync {
            send_inventory(machine, hub, &self.cluster);
            return Verdict::Done;
        }
        match payload::decode::<SyncedResource>("synced resource", &event.payload) {
            Err(error) => Verdict::Refused(Chain(&error).to_string()),
            Ok(there) => self.ask_for(machine, hub, &there),
        }
    }

    /// The cluster has this object: requests its state, unless the inventory contained it.
    fn ask_for(&self, machine: &mut Session, hub: &Hub, there: &SyncedResource) -> Verdict {
        let key = there
            .kind
            .parse()
            .ok()
            .and_then(|kind| hub.mirror_key(&self.cluster, kind, &there.name));
        let Some(key) = key else {
            return Verdict::Refused("nothing that is mirrored has this name".to_owned());
        };
        if !hub.shows(&self.cluster, &key, &there.uid) {
            machine.emit(Event::request_update(&RequestUpdate {
                name: key.name,
                namespace: key.namespace,
                kind: there.kind.clone(),
                ..RequestUpdate::default()
            }));
        }
        Verdict::Done
    }

    /// Handles a message about an object; a verdict if it answers that the object does not exist.
    pub(super) fn take_message(
        &mut self,
        hub: &Hub,
        event: &Event,
        now: Duration,
    ) -> Option<Verdict> {
        let object = event.object()?;
        let key = hub.mirror_key(&self.cluster, object.kind, &object.name)?;
        if event.verb != Verb::Delete || !event.event_id.ends_with('_') {
            self.missing.remove(&key);
            return None;
        }
        let stub = match payload::decode_object("delete", &event.payload) {
            Ok(stub) => stub,
            Err(error) => return Some(Verdict::Refused(Chain(&error).to_string())),
        };
        let uid = Meta::of(&stub).uid();
        if hub.shows(&self.cluster, &key, uid) {
            self.missing.insert(key, uid.to_owned());
            self.waiting.deletion_candidates = None;
            self.waiting.decision = Some(now.saturating_add(SETTLED));
        }
        Some(Verdict::Done)
    }

    pub(super) fn next_timeout(&self, now: Duration) -> Option<Duration> {
        self.waiting.decision.map(|until| until.saturating_sub(now))
    }

    /// Deletes the mirrors of missing objects; returns a deletion that the brake blocks instead.
    pub(super) fn decide(
        &mut self,
        hub: &Hub,
        enrolment: Option<Enrolment>,
        now: Duration,
    ) -> Option<BlockedDeletion> {
        self.waiting.decision = None;
        let enrolment = enrolment?;
        if self.fresh || enrolment.fresh {
            tracing::info!("skipping deletions of mirrors in this session");
            self.missing.clear();
            return None;
        }
        let mut deletion_candidates = match self.waiting.deletion_candidates.take() {
            Some(deletion_candidates) => deletion_candidates,
            None => {
                DeletionCandidates::of(self.inventory(hub), |named| self.is_missing(hub, named))
            }
        };
        let confirmed = enrolment.confirm_delete.as_deref();
        match deletion_candidates.decide(confirmed, |named| self.is_missing(hub, named)) {
            Decision::Delete(list) => {
                for named in &list {
                    if let Some(key) = key(named) {
                        tracing::info!(object = %key, "the cluster no longer has this object");
                        hub.end_mirror(&self.cluster, &key, &named.uid);
                    }
                }
                self.missing.clear();
                None
            }
            Decision::Block(retained) => {
                self.waiting.block(deletion_candidates, now);
                Some(BlockedDeletion {
                    mirrors: true,
                    ..retained
                })
            }
        }
    }

    /// All mirrors; the cluster may not have some of them.
    fn inventory(&self, hub: &Hub) -> Inventory {
        let mut inventory = Inventory::default();
        let claims = hub.claims(&self.cluster);
        for named in claims.iter().filter_map(Named::read) {
            inventory.add(named);
        }
        inventory
    }

    fn is_missing(&self, hub: &Hub, named: &Named) -> bool {
        key(named).is_some_and(|key| {
            self.missing.get(&key) == Some(&named.uid) && hub.shows(&self.cluster, &key, &named.uid)
        })
    }
}

fn key(named: &Named) -> Option<ObjectKey> {
    let kind: Kind = named.kind.parse().ok()?;
    Some(ObjectKey::new(kind, &named.namespace, &named.name))
}

/// Sends the list of all mirrors, with its end.
fn send_inventory(machine: &mut Session, hub: &Hub, cluster: &ClusterName) {
    let claims = hub.claims(cluster);
    for claim in &claims {
        machine.emit(Event::request_update(claim));
    }
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
    machine.emit(Event::request_synced_resource_list(&end));
    tracing::debug!(
        objects = claims.len(),
        "sent the inventory of mirrors to the agent"
    );
}
