//! What a session does after its connect until both ends agree.
//!
//! The agent is asked what it holds. What it holds as it should is confirmed; once it has said its last word,
//! everything else is sent. What it should not hold goes then too, all at once or not at all: only if the agent's
//! inventory is complete, the hub's is, this is not the first session after an enrolment, and it is not too much.

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
    /// Nothing goes for being unknown here.
    fresh: bool,
    /// Until when more is expected of the agent.
    response_timeout: Option<Duration>,
    inventory: Inventory,
    /// What the hub is deleting and a Go agent has not named yet. It would make what it hears of, and keep it.
    going: BTreeSet<ObjectKey>,
    /// Commands on what a Go agent may not have yet: it would refuse them, for good.
    early: BTreeSet<ObjectKey>,
    /// What it has nothing of, so that the hub need not wait.
    absent: Vec<ObjectKey>,
    pub(super) waiting: Waiting,
    rounds: Comparison,
}

use comparison::Comparison;

impl Resync {
    /// Asks the agent what it holds. `every`: between two comparisons of sums, if the agent compares any.
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

    /// One message of the agent about what it holds.
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
                Ok(list) => self.last_word(session, hub, list, now),
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

    /// When something is to be done without any message.
    pub(super) fn next_timeout(&self, now: Duration) -> Option<Duration> {
        let hurried = self.is_hurried().then_some(now);
        let next = [
            self.response_timeout,
            self.waiting.decision,
            self.rounds.next,
            hurried,
        ];
        let next = next.into_iter().flatten().min();
        next.map(|until| until.saturating_sub(now))
    }

    /// Ends the resync when the peer has had its time.
    pub(super) fn end_when_due(&mut self, session: &mut Session, hub: &Hub, now: Duration) {
        if self.response_timeout.is_some_and(|until| until <= now) {
            self.send_the_rest(session, hub);
            let closes = session.peer().capabilities.has(Capability::DigestResync);
            if self.inventory.is_whole(closes) {
                self.absent.extend(std::mem::take(&mut self.going));
                self.condemn(hub, now);
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

    /// The hub has something to say about this object anyway.
    pub(super) fn forget(&mut self, session: &mut Session, key: &ObjectKey) {
        self.unconfirmed.forget(key);
        self.going.remove(key);
        self.said_early(session, key);
    }

    /// Something has to be done once, with what the agent has.
    pub(super) fn command(&mut self, session: &mut Session, key: &ObjectKey) {
        if !session.peer().capabilities.is_ours() && self.unconfirmed.is_open(key) {
            self.early.insert(key.clone());
        } else {
            session.mark(key, Facet::Command);
        }
    }

    /// What the agent has nothing of, while the hub waits for it to go.
    pub(super) fn take_absent(&mut self) -> Vec<ObjectKey> {
        std::mem::take(&mut self.absent)
    }

    /// When the last comparison ended.
    pub(super) const fn agreed(&self) -> Option<Duration> {
        self.rounds.last
    }

    /// Takes away what is to go; says what is held instead.
    ///
    /// `enrolment`: as it is now, and not as it was when the session began.
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
        if self.fresh || enrolment.fresh || !hub.is_authority_for(&self.cluster) {
            tracing::debug!("skipping deletions: first session after enrolment");
            return None;
        }
        let confirmed = enrolment.confirm_delete.as_deref();
        match deletion_candidates.decide(confirmed, |named| self.is_unknown(hub, named)) {
            Decision::Go(list) => {
                for named in &list {
                    take_away(session, hub, named);
                }
                None
            }
            Decision::Hold(retained) => {
                self.waiting.hold(deletion_candidates, now);
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
            self.said_early(session, &key);
            if claim.digest.as_ref() != Some(&digest) {
                session.mark(key, Facet::State);
            }
        }
        self.inventory.add(named);
        self.response_timeout = Some(now.saturating_add(RESPONSE_TIMEOUT));
        Verdict::Done
    }

    fn last_word(
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
            self.condemn(hub, now);
            self.rounds.ended(now);
        } else {
            // A Go agent may say its last word before the others.
            self.response_timeout = Some(now.saturating_add(RESPONSE_TIMEOUT));
        }
        Verdict::Done
    }

    fn send_the_rest(&mut self, session: &mut Session, hub: &Hub) {
        let is_ours = session.peer().capabilities.is_ours();
        for key in self.unconfirmed.finish() {
            if !is_ours && hub.is_deleting(&key) {
                self.early.remove(&key);
                self.going.insert(key);
            } else {
                self.said_early(session, &key);
                session.mark(key, Facet::State);
            }
        }
    }

    /// A command that waited for its object goes with the state, or after it.
    fn said_early(&mut self, session: &mut Session, key: &ObjectKey) {
        if self.early.remove(key) {
            session.mark(key, Facet::Command);
        }
    }

    fn condemn(&mut self, hub: &Hub, now: Duration) {
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
        hub.lookup(&self.cluster, &self.agent_namespace, claim)
    }
}

fn take_away(session: &mut Session, hub: &Hub, named: &Named) {
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
