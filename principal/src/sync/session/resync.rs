//! The resync of a session, from its connect until both ends agree.
//!
//! The agent lists its copies. Copies that are up to date are confirmed; when the list is closed, everything else is
//! sent. Unwanted copies are then deleted, all at once or not at all: only if the agent's inventory and the hub's are
//! complete, this is not the first session after an enrolment, and the brake allows it.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use argocd::ranges::{Sums, sum_of};
use protocol::{
    Event, Facet, ObjectKey, Session, Verb,
    payload::{RequestUpdate, ResyncRequest, SyncedResourceList},
    version::Capability,
};

use super::{
    brake::{DeletionCandidates, Waiting},
    inventory::{Inventory, Named},
    ownership::{Ownership, Step, decoded},
};
use crate::{
    fleet::{ClusterName, Enrolment},
    report::BlockedDeletion,
    sync::hub::{Hub, Lookup},
};

/// The resync of one session with a cluster whose objects the hub owns.
#[derive(Debug)]
pub(super) struct Resync {
    /// Objects that the agent should have and has not confirmed.
    unconfirmed: BTreeSet<ObjectKey>,
    cluster: ClusterName,
    agent_namespace: String,
    /// The first session after an enrolment deletes no copies.
    fresh: bool,
    inventory: Inventory,
    /// Objects that the hub is deleting and a Go agent has not named yet. It would create, and keep, each object that
    /// it receives.
    going: BTreeSet<ObjectKey>,
    /// Commands on objects that a Go agent may not have yet: it would refuse them for good.
    early: BTreeSet<ObjectKey>,
    /// Objects that the agent does not have, so that the hub need not wait.
    absent: Vec<ObjectKey>,
    waiting: Waiting,
    rounds: Comparison,
}

mod comparison;
#[cfg(test)]
mod tests;

use comparison::{Comparison, differing, range, these};

impl Resync {
    /// Asks the agent for its inventory. `agent_namespace` is the agent's name of its Argo CD namespace; `every` the
    /// interval of the comparisons, if the agent supports them.
    pub(super) fn begin(
        session: &mut Session,
        cluster: &ClusterName,
        agent_namespace: &str,
        fresh: bool,
        delivered: Vec<ObjectKey>,
        every: Duration,
    ) -> Self {
        let compares = session.peer().capabilities.has(Capability::RangeSums);
        Self {
            inventory: Inventory::new(delivered.len()),
            unconfirmed: delivered.into_iter().collect(),
            cluster: cluster.clone(),
            agent_namespace: agent_namespace.to_owned(),
            fresh,
            going: BTreeSet::new(),
            early: BTreeSet::new(),
            absent: Vec::new(),
            waiting: Waiting::default(),
            rounds: Comparison::begin(session, compares.then_some(every)),
        }
    }
}

impl Ownership for Resync {
    fn take(&mut self, step: &mut Step<'_>, event: &Event) -> Result<(), String> {
        if event.verb == Verb::RequestSyncedResourceList {
            let list: SyncedResourceList = decoded("end of a resync", event)?;
            if list.ranges.is_some() {
                return self.compare(step, &list);
            }
            self.end_inventory(step, list);
            return Ok(());
        }
        if event.verb != Verb::RequestUpdate {
            return Err("a managed cluster may not send this".to_owned());
        }
        self.claim(step, &decoded("request-update", event)?)
    }

    fn expects_sums(&self) -> bool {
        self.rounds.expects_sums()
    }

    fn next_timeout(&self, now: Duration) -> Option<Duration> {
        let next = [self.waiting.decision, self.rounds.next_timeout(now)];
        let next = next.into_iter().flatten().min();
        next.map(|until| until.saturating_sub(now))
    }

    fn advance(&mut self, step: &mut Step<'_>) -> bool {
        if self.rounds.has_timed_out(step.now) {
            self.time_out(step);
        }
        let begins = self.rounds.ask_when_due(step.session, step.now);
        if begins {
            self.inventory = Inventory::new(step.hub.objects.delivered_count(&self.cluster));
        }
        begins
    }

    fn resync_now(&mut self, _hub: &Hub) {
        self.rounds.request();
    }

    fn forget(&mut self, session: &mut Session, key: &ObjectKey) {
        self.unconfirmed.remove(key);
        self.going.remove(key);
        self.send_early_command(session, key);
    }

    fn command(&mut self, session: &mut Session, key: &ObjectKey) {
        if !session.peer().capabilities.is_ours() && self.unconfirmed.contains(key) {
            self.early.insert(key.clone());
        } else {
            session.mark(key, Facet::Command);
        }
    }

    fn take_absent(&mut self) -> Vec<ObjectKey> {
        std::mem::take(&mut self.absent)
    }

    fn agreed(&self) -> Option<Duration> {
        self.rounds.last
    }

    fn decide(
        &mut self,
        step: &mut Step<'_>,
        enrolment: Option<Enrolment>,
    ) -> Option<BlockedDeletion> {
        self.waiting.decision = None;
        let mut deletion_candidates = self.waiting.deletion_candidates.take()?;
        let enrolment = enrolment?;
        if self.fresh || enrolment.fresh || !step.hub.objects.is_authority_for(&self.cluster) {
            tracing::debug!("skipping deletions: first session after enrolment");
            return None;
        }
        let confirmed = enrolment.confirm_delete.as_deref();
        match deletion_candidates.decide(confirmed, |named| self.is_unknown(step.hub, named)) {
            Ok(list) => {
                for named in &list {
                    delete(step, named);
                }
                None
            }
            Err(blocked) => {
                self.waiting.block(deletion_candidates, step.now);
                Some(blocked)
            }
        }
    }

    fn waiting(&mut self) -> &mut Waiting {
        &mut self.waiting
    }

    fn has_too_many(&self) -> bool {
        self.inventory.too_many
    }
}

impl Resync {
    fn claim(&mut self, step: &mut Step<'_>, claim: &RequestUpdate) -> Result<(), String> {
        let named = Named::read(claim)?;
        let objects = &step.hub.objects;
        let found = objects.claim(&self.cluster, &self.agent_namespace, claim);
        if let Lookup::Wanted { key, digest } = found {
            self.unconfirmed.remove(&key);
            self.going.remove(&key);
            self.send_early_command(step.session, &key);
            if claim.digest.as_ref() != Some(&digest) {
                step.session.mark(key, Facet::State);
            }
        }
        self.inventory.add(named);
        self.rounds.expect_more(step.now);
        Ok(())
    }

    fn end_inventory(&mut self, step: &mut Step<'_>, list: SyncedResourceList) {
        let is_first = self.inventory.end(list);
        self.send_the_rest(step);
        // A Go agent may close the list before it is complete. Each check sorts the whole list, so later ends of the same
        // list are checked when the agent is silent.
        if is_first && self.inventory.is_complete() {
            self.complete(step);
        } else {
            self.rounds.expect_more(step.now);
        }
    }

    /// Ends the resync when the agent's time is over.
    fn time_out(&mut self, step: &mut Step<'_>) {
        self.send_the_rest(step);
        let capabilities = &step.session.peer().capabilities;
        if (self.inventory).is_whole(capabilities.has(Capability::DigestResync)) {
            return self.complete(step);
        }
        for key in std::mem::take(&mut self.going) {
            step.session.mark(key, Facet::State);
        }
        let inventory = self.inventory.take();
        if inventory.too_many {
            tracing::warn!(
                objects = inventory.named.len(),
                "the agent names far more objects than the hub delivers; skipping deletions"
            );
        } else {
            tracing::debug!("the inventory is incomplete; skipping deletions");
        }
        self.rounds.ended(step.now);
    }

    /// The agent has named all its objects.
    fn complete(&mut self, step: &Step<'_>) {
        self.absent.extend(std::mem::take(&mut self.going));
        self.find_deletion_candidates(step);
        self.rounds.ended(step.now);
    }

    fn send_the_rest(&mut self, step: &mut Step<'_>) {
        let is_ours = step.session.peer().capabilities.is_ours();
        for key in std::mem::take(&mut self.unconfirmed) {
            if !is_ours && step.hub.objects.is_deleting(&key) {
                self.early.remove(&key);
                self.going.insert(key);
            } else {
                self.send_early_command(step.session, &key);
                step.session.mark(key, Facet::State);
            }
        }
    }

    /// Sends a command that waited for its object, with the state or after it.
    fn send_early_command(&mut self, session: &mut Session, key: &ObjectKey) {
        if self.early.remove(key) {
            session.mark(key, Facet::Command);
        }
    }

    fn find_deletion_candidates(&mut self, step: &Step<'_>) {
        let inventory = self.inventory.take();
        let named = inventory.named.iter();
        let unknown: BTreeSet<Arc<Named>> = named
            .filter(|named| self.is_unknown(step.hub, named))
            .cloned()
            .collect();
        let unknown = self.rounds.deletion_candidates(unknown);
        let candidates = DeletionCandidates::new(unknown, inventory.counts);
        self.waiting.deletion_candidates = Some(candidates);
        self.waiting.decision = Some(step.now);
    }

    fn is_unknown(&self, hub: &Hub, named: &Named) -> bool {
        let claim = RequestUpdate {
            name: named.name.clone(),
            namespace: named.namespace.clone(),
            uid: named.uid.clone(),
            kind: named.kind.to_string(),
            ..RequestUpdate::default()
        };
        self.lookup(hub, &claim) == Lookup::Unknown
    }

    fn lookup(&self, hub: &Hub, claim: &RequestUpdate) -> Lookup {
        hub.objects
            .lookup(&self.cluster, &self.agent_namespace, claim)
    }

    /// Compares the agent's checksums with ours and asks for the differences.
    fn compare(&mut self, step: &mut Step<'_>, list: &SyncedResourceList) -> Result<(), String> {
        // A comparison costs us more than its request costs the peer.
        if !self.rounds.take_sums() {
            return Err("unexpected digests".to_owned());
        }
        let sums = |bytes: &Option<Vec<u8>>| Sums::from_bytes(bytes.as_ref()?);
        let (Some(theirs), Some(shown)) = (sums(&list.ranges), sums(&list.statuses)) else {
            return Err("invalid digests".to_owned());
        };
        let mut expected = step.hub.objects.expected(&self.cluster);
        expected.retain(|it| step.session.peer().knows(it.key.kind));
        let objects = differing(&theirs, &expected, |name, it| {
            Some(sum_of(name, &it.digest))
        });
        let statuses = differing(&shown, &expected, |_name, it| it.shown);
        self.inventory = Inventory::new(expected.len());
        self.unconfirmed.clear();
        for it in expected {
            if objects.contains(&range(&theirs, &it)) {
                self.unconfirmed.insert(it.key);
            } else {
                self.inventory.add_same(it.key.kind);
            }
        }
        tracing::debug!(
            ranges = objects.len(),
            statuses = statuses.len(),
            "compared sums"
        );
        if objects.is_empty() {
            self.send_the_rest(step);
            self.find_deletion_candidates(step);
            self.rounds.ended(step.now);
        } else {
            self.rounds.expect_more(step.now);
        }
        let request = ResyncRequest {
            sums: false,
            ranges: these(&theirs, &objects),
            statuses: these(&shown, &statuses),
        };
        if request != ResyncRequest::default() {
            step.session.emit(Event::resync_request(&request));
        }
        Ok(())
    }
}

fn delete(step: &mut Step<'_>, named: &Named) {
    tracing::info!(kind = %named.kind, name = %named.name, "the hub no longer has this object");
    let key = ObjectKey::new(named.kind, &named.namespace, &named.name);
    step.session
        .emit(step.hub.objects.deletion(&key, &named.uid));
}
