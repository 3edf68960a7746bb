//! The resync of a session, from its connect until both ends agree.
//!
//! The agent lists its copies. Copies that are up to date are confirmed; when the list is closed, everything else is
//! sent. Unwanted copies are then deleted, all at once or not at all: only if the agent's inventory and the hub's are
//! complete, this is not the first session after an enrolment, and the brake allows it.

use std::{collections::BTreeSet, time::Duration};

use protocol::{
    Event, Facet, Kind, ObjectKey, Session, Verb, Verdict,
    payload::{self, RequestUpdate, SyncedResourceList},
    resync::{RESPONSE_TIMEOUT, Unconfirmed},
    version::Capability,
};
use runtime::error::Chain;

use super::{
    brake::{Decision, DeletionCandidates, Waiting},
    inventory::{Inventory, Named},
};
use crate::{
    fleet::{ClusterName, Enrolment},
    report::BlockedDeletion,
    sync::hub::{Hub, Lookup},
};

/// The resync of one session.
#[derive(Debug)]
pub(super) struct Resync {
    unconfirmed: Unconfirmed,
    cluster: ClusterName,
    agent_namespace: String,
    /// The first session after an enrolment deletes no copies.
    fresh: bool,
    /// Until when more messages of the agent are expected.
    response_timeout: Option<Duration>,
    inventory: Inventory,
    /// Objects that the hub is deleting and a Go agent has not named yet. It would create, and keep, each object that
    /// it receives.
    going: BTreeSet<ObjectKey>,
    /// Commands on objects that a Go agent may not have yet: it would refuse them for good.
    early: BTreeSet<ObjectKey>,
    /// Objects that the agent does not have, so that the hub need not wait.
    absent: Vec<ObjectKey>,
    pub(super) waiting: Waiting,
    rounds: Comparison,
}

use comparison::Comparison;

impl Resync {
    /// Asks the agent for its inventory. `every` is the interval of the comparisons, if the agent supports them.
    pub(super) fn begin(
        session: &mut Session,
        cluster: &ClusterName,
        agent_namespace: &str,
        fresh: bool,
        delivered: Vec<ObjectKey>,
        every: Option<Duration>,
    ) -> Self {
        let rounds = Comparison::begin(session, every);
        Self {
            unconfirmed: Unconfirmed::new(delivered),
            cluster: cluster.clone(),
            agent_namespace: agent_namespace.to_owned(),
            fresh,
            response_timeout: Some(RESPONSE_TIMEOUT),
            inventory: Inventory::default(),
            going: BTreeSet::new(),
            early: BTreeSet::new(),
            absent: Vec::new(),
            waiting: Waiting::default(),
            rounds,
        }
    }

    /// Handles a message of the agent about its copies.
    pub(super) fn take(
        &mut self,
        session: &mut Session,
        hub: &Hub,
        event: &Event,
        now: Duration,
    ) -> Verdict {
        if event.verb == Verb::RequestSyncedResourceList {
            return match payload::decode::<SyncedResourceList>("end of a resync", &event.payload) {
                Ok(list) if list.ranges.is_some() => self.compare(session, hub, &list, now),
                Ok(list) => self.end_inventory(session, hub, list, now),
                Err(error) => refused(Chain(&error).to_string()),
            };
        }
        if event.verb != Verb::RequestUpdate {
            return refused("a managed cluster may not send this");
        }
        match payload::decode("request-update", &event.payload) {
            Ok(claim) => self.claim(session, hub, &claim, now),
            Err(error) => refused(Chain(&error).to_string()),
        }
    }

    /// The time until the next action without a message.
    pub(super) fn next_timeout(&self, now: Duration) -> Option<Duration> {
        let requested = self.is_requested().then_some(now);
        let next = [
            self.response_timeout,
            self.waiting.decision,
            self.rounds.next,
            requested,
        ];
        let next = next.into_iter().flatten().min();
        next.map(|until| until.saturating_sub(now))
    }

    /// Ends the resync when the agent's time is over.
    pub(super) fn end_when_due(&mut self, session: &mut Session, hub: &Hub, now: Duration) {
        if self.response_timeout.is_some_and(|until| until <= now) {
            self.send_the_rest(session, hub);
            let closes = session.peer().capabilities.has(Capability::DigestResync);
            if self.inventory.is_whole(closes) {
                self.absent.extend(std::mem::take(&mut self.going));
                self.find_deletion_candidates(hub, now);
            } else {
                for key in std::mem::take(&mut self.going) {
                    session.mark(key, Facet::State);
                }
                tracing::debug!("the inventory is incomplete; skipping deletions");
                self.inventory = Inventory::default();
            }
            self.response_timeout = None;
            self.rounds.ended(now);
        }
    }

    /// Drops the object from the resync: the hub sends a message about it anyway.
    pub(super) fn forget(&mut self, session: &mut Session, key: &ObjectKey) {
        self.unconfirmed.forget(key);
        self.going.remove(key);
        self.send_early_command(session, key);
    }

    /// Sends a command when the agent has the object.
    pub(super) fn command(&mut self, session: &mut Session, key: &ObjectKey) {
        if !session.peer().capabilities.is_ours() && self.unconfirmed.is_open(key) {
            self.early.insert(key.clone());
        } else {
            session.mark(key, Facet::Command);
        }
    }

    /// The objects that the agent does not have and whose deletion the hub waits for.
    pub(super) fn take_absent(&mut self) -> Vec<ObjectKey> {
        std::mem::take(&mut self.absent)
    }

    /// When the last comparison ended.
    pub(super) const fn agreed(&self) -> Option<Duration> {
        self.rounds.last
    }

    /// Deletes the unknown objects; returns a deletion that the brake blocks instead.
    ///
    /// `enrolment` is the current one, not that of the session's begin.
    pub(super) fn decide(
        &mut self,
        session: &mut Session,
        hub: &Hub,
        enrolment: Option<Enrolment>,
        now: Duration,
    ) -> Option<BlockedDeletion> {
        self.waiting.decision = None;
        let mut deletion_candidates = self.waiting.deletion_candidates.take()?;
        let enrolment = enrolment?;
        if self.fresh || enrolment.fresh || !hub.objects.is_authority_for(&self.cluster) {
            tracing::debug!("skipping deletions: first session after enrolment");
            return None;
        }
        let confirmed = enrolment.confirm_delete.as_deref();
        match deletion_candidates.decide(confirmed, |named| self.is_unknown(hub, named)) {
            Decision::Delete(list) => {
                for named in &list {
                    delete(session, hub, named);
                }
                None
            }
            Decision::Block(retained) => {
                self.waiting.block(deletion_candidates, now);
                Some(retained)
            }
        }
    }

    fn claim(
        &mut self,
        session: &mut Session,
        hub: &Hub,
        claim: &RequestUpdate,
        now: Duration,
    ) -> Verdict {
        let Some(named) = Named::read(claim) else {
            return refused("invalid name");
        };
        if let Lookup::Wanted { key, digest } = self.lookup(hub, claim) {
            self.unconfirmed.confirm(&key);
            self.going.remove(&key);
            self.send_early_command(session, &key);
            if claim.digest.as_ref() != Some(&digest) {
                session.mark(key, Facet::State);
            }
        }
        self.inventory.add(named);
        self.response_timeout = Some(now.saturating_add(RESPONSE_TIMEOUT));
        Verdict::Done
    }

    fn end_inventory(
        &mut self,
        session: &mut Session,
        hub: &Hub,
        list: SyncedResourceList,
        now: Duration,
    ) -> Verdict {
        self.inventory.end(list);
        self.send_the_rest(session, hub);
        if self.inventory.is_complete() {
            self.absent.extend(std::mem::take(&mut self.going));
            self.response_timeout = None;
            self.find_deletion_candidates(hub, now);
            self.rounds.ended(now);
        } else {
            // A Go agent may close the list before it is complete.
            self.response_timeout = Some(now.saturating_add(RESPONSE_TIMEOUT));
        }
        Verdict::Done
    }

    fn send_the_rest(&mut self, session: &mut Session, hub: &Hub) {
        let is_ours = session.peer().capabilities.is_ours();
        for key in self.unconfirmed.finish() {
            if !is_ours && hub.objects.is_deleting(&key) {
                self.early.remove(&key);
                self.going.insert(key);
            } else {
                self.send_early_command(session, &key);
                session.mark(key, Facet::State);
            }
        }
    }

    /// Sends a command that waited for its object, with the state or after it.
    fn send_early_command(&mut self, session: &mut Session, key: &ObjectKey) {
        if self.early.remove(key) {
            session.mark(key, Facet::Command);
        }
    }

    fn find_deletion_candidates(&mut self, hub: &Hub, now: Duration) {
        let inventory = std::mem::take(&mut self.inventory);
        let unknown = inventory
            .named()
            .filter(|named| self.is_unknown(hub, named));
        let deletion_candidates = self.rounds.deletion_candidates(unknown.cloned().collect());
        self.waiting.deletion_candidates = Some(DeletionCandidates::of(inventory, |named| {
            deletion_candidates.contains(named)
        }));
        self.waiting.decision = Some(now);
    }

    fn is_unknown(&self, hub: &Hub, named: &Named) -> bool {
        let claim = RequestUpdate {
            name: named.name.clone(),
            namespace: named.namespace.clone(),
            uid: named.uid.clone(),
            kind: named.kind.clone(),
            ..RequestUpdate::default()
        };
        self.lookup(hub, &claim) == Lookup::Unknown
    }

    fn lookup(&self, hub: &Hub, claim: &RequestUpdate) -> Lookup {
        hub.objects
            .lookup(&self.cluster, &self.agent_namespace, claim)
    }
}

fn delete(session: &mut Session, hub: &Hub, named: &Named) {
    let Ok(kind) = named.kind.parse::<Kind>() else {
        return;
    };
    tracing::info!(kind = %named.kind, name = %named.name, "the hub no longer has this object");
    let key = ObjectKey::new(kind, &named.namespace, &named.name);
    session.emit(hub.delete(&key, &named.uid));
}

fn refused(why: impl Into<String>) -> Verdict {
    Verdict::Refused(why.into())
}
mod comparison;
