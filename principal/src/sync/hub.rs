//! The hub as the sessions see it: the objects that each cluster should have, and the effects of its reports.
//!
//! One index under one short lock. Watches, results of our own writes and the fleet change it. The effects go into the
//! mailboxes of the open sessions under the same lock, so that a session that subscribes misses no change. Clusters
//! without a session have no mailbox: their next connect compares everything.
//! then listens misses nothing. Clusters without a session have no mailbox: their next connect compares everything.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use argocd::routing::RoutingSettings;
use protocol::{Event, Facet, ObjectKey};
use runtime::{clock::Clock, notifier::ChangeNotifier};
use tokio::{sync::Semaphore, time::Instant};

use crate::{
    domain::Key,
    fleet::{ClusterName, Fleet},
    metrics::Metrics,
    report::{Refused, Stuck, Update},
    settings::{MirrorLimits, Settings},
    store::{self, Store, Watched},
};

mod apply;
mod conditions;
mod encode;
mod failing_writes;
mod index;
mod lookup;
mod mailbox;
mod mirror;
mod reported;
mod spans;
mod work_queue;
mod write;

pub(crate) use apply::Sender;
pub(crate) use conditions::keep as keep_conditions;
pub(crate) use encode::EventEncoder;
pub(crate) use lookup::{Expected, Lookup};
use mailbox::Mailbox;
pub(crate) use mirror::keep as keep_mirrors;

use failing_writes::FailingWrites;
use index::{Effect, Index};
use mirror::Mirrors;
use reported::Missing;
use spans::Cause;
use work_queue::WorkQueue;

/// The hub as the sessions see it.
pub(crate) struct Hub {
    // Guards plain maps; locked for a lookup or one decision, never over an await.
    state: Mutex<State>,
    store: Arc<dyn Store>,
    principal_uid: OnceLock<Arc<str>>,
    writes: Semaphore,
    dirty: WorkQueue<Key>,
    /// Mirrors that differ from their source.
    mirrors_to_reconcile: WorkQueue<ObjectKey>,
    mirror_limits: MirrorLimits,
    failing_writes: FailingWrites,
    /// Notifies waiting writers of each reported Application.
    updates: ChangeNotifier,
    argocd_namespace: String,
    clock: Clock,
    metrics: Metrics,
}

#[derive(Debug)]
struct State {
    index: Index,
    mirrors: Mirrors,
    sessions: BTreeMap<String, (u64, Mailbox)>,
    /// When the last session of a cluster without one ended.
    left: BTreeMap<String, Instant>,
    /// The time from which clusters can connect.
    open: Option<Instant>,
    next: u64,
    /// The kinds whose full list has been reported.
    synced: BTreeSet<Watched>,
    /// Kinds that are listed again, because the hub was restored to an earlier state.
    rewound: BTreeSet<Watched>,
    /// The objects that the current list does not have.
    missing: Missing,
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

impl State {
    /// Whether all kinds have been listed.
    fn is_synced(&self) -> bool {
        Watched::ALL.iter().all(|kind| self.synced.contains(kind))
    }

    /// The hub was restored to an earlier state. Objects that the next list does not have were not deleted one by one:
    /// only a full comparison at the next connect of a cluster can decide about them. So every session ends.
    fn rewind(&mut self, kind: Watched) {
        self.synced.remove(&kind);
        self.rewound.insert(kind);
        self.index.outdate(kind, uuid::Uuid::new_v4().to_string());
        for (_, mailbox) in std::mem::take(&mut self.sessions).into_values() {
            mailbox.end();
        }
    }

    /// Notifies the session of a cluster. Without a session the next connect compares everything.
    fn notify(&self, cluster: &str, emit: impl FnOnce(&Mailbox)) {
        if let Some((_, mailbox)) = self.sessions.get(cluster) {
            emit(mailbox);
        }
    }
}

impl Hub {
    pub(crate) fn new(
        settings: &Settings,
        store: Arc<dyn Store>,
        clock: Clock,
        metrics: Metrics,
    ) -> Self {
        let index = Index::new(RoutingSettings {
            argocd_namespace: settings.argocd_namespace.clone(),
            allowed_namespaces: settings.other_namespaces.clone(),
        })
        .salted(uuid::Uuid::new_v4().to_string());
        let state = State {
            index,
            mirrors: Mirrors::default(),
            sessions: BTreeMap::new(),
            left: BTreeMap::new(),
            open: None,
            next: 0,
            synced: BTreeSet::new(),
            rewound: BTreeSet::new(),
            missing: Missing::default(),
        };
        metrics.hub_write_limit(settings.limits.writes);
        Self {
            state: Mutex::new(state),
            store,
            principal_uid: OnceLock::new(),
            writes: Semaphore::new(settings.limits.writes),
            dirty: WorkQueue::default(),
            mirrors_to_reconcile: WorkQueue::default(),
            mirror_limits: settings.limits.mirrors,
            failing_writes: FailingWrites::default(),
            updates: ChangeNotifier::default(),
            argocd_namespace: settings.argocd_namespace.clone(),
            clock,
            metrics,
        }
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Sets the identity of the principal once; before that no cluster is served. False if it differs from an earlier
    /// one, which connected agents would not understand.
    #[must_use]
    pub(crate) fn set_principal_uid(&self, uid: &Arc<str>) -> bool {
        *self.principal_uid.get_or_init(|| Arc::clone(uid)) == *uid
    }

    /// Updates the enrolled clusters.
    pub(crate) fn set_fleet(&self, fleet: &Fleet) {
        let mut state = self.lock();
        let effects = state.index.set_fleet(fleet);
        let State {
            index,
            mirrors,
            left,
            ..
        } = &mut *state;
        mirrors.keep(|cluster| index.is_autonomous(cluster));
        left.retain(|cluster, _| fleet.clusters.contains_key(cluster));
        self.judge_names(&mut state);
        self.post(&state, effects);
    }

    /// Subscribes a session: it is notified of every change from now on, and gets the list of current objects.
    pub(crate) fn subscribe(self: &Arc<Self>, cluster: &ClusterName) -> Subscription {
        let mut state = self.lock();
        let id = state.next;
        state.next = state.next.wrapping_add(1);
        let mailbox = Mailbox::default();
        // Admitted just before the hub was restored to an earlier state.
        if !state.rewound.is_empty() {
            mailbox.end();
        }
        state.left.remove(cluster.as_str());
        state
            .sessions
            .insert(cluster.to_string(), (id, mailbox.clone()));
        state.index.clear_gone_there(cluster.as_str());
        let mut effects = state.index.clear_refusals(cluster.as_str());
        // The agent reports again those that it still finds.
        let theirs: Vec<Key> = state
            .index
            .routed_to(cluster.as_str())
            .map(|(key, _)| key.clone())
            .collect();
        for key in theirs {
            effects.extend(state.index.set_contest(&key, None));
        }
        self.post(&state, effects);
        let delivered = state.index.delivered_to(cluster.as_str());
        for (key, entry) in state.index.routed_to(cluster.as_str()) {
            if entry.refresh().is_some() {
                mailbox.state(key.object());
            }
            if entry.has_command() {
                mailbox.command(key.object());
            }
            self.dirty.mark(key.clone());
        }
        drop(state);
        Subscription {
            hub: Arc::clone(self),
            cluster: cluster.clone(),
            id,
            mailbox,
            delivered,
        }
    }

    /// The writes for a cluster that keep failing.
    pub(crate) fn stuck(&self, cluster: &ClusterName) -> Option<Stuck> {
        let cluster = cluster.as_str();
        let state = self.lock();
        // An object that was deleted or moved meanwhile is not retried.
        self.failing_writes.of(cluster, |key| {
            Key::from_object(key).is_none_or(|key| {
                let entry = state.index.application(&key);
                entry.is_some_and(|entry| entry.cluster() == Some(cluster))
            })
        })
    }

    /// The objects that a cluster refuses, if they changed since version `before`; and their version now.
    pub(crate) fn refused(
        &self,
        cluster: &ClusterName,
        before: Option<u64>,
    ) -> (u64, Update<Refused>) {
        let state = self.lock();
        let now = state.index.complaints_of(cluster.as_str());
        if before == Some(now) {
            return (now, Update::Same);
        }
        (now, Update::Now(state.index.refused(cluster.as_str())))
    }

    /// Records a refusal of a cluster, for a condition on the Application, or on those that need the object.
    pub(crate) fn refused_by(&self, cluster: &ClusterName, key: &ObjectKey, reason: &str) {
        let mut state = self.lock();
        let Some(key) = Key::from_object(key) else {
            tracing::warn!(%cluster, object = %key, reason, "a cluster refuses a provisioned object");
            let effects = state.index.refuse(cluster.as_str(), key, reason);
            return self.post(&state, effects);
        };
        let theirs = state
            .index
            .application(&key)
            .is_some_and(|entry| entry.cluster() == Some(cluster.as_str()));
        if theirs {
            let report = format!("cluster {cluster} refuses it: {reason}");
            let effects = state.index.set_report(&key, Some(report));
            self.post(&state, effects);
        }
    }

    fn post(&self, state: &State, effects: Vec<Effect>) {
        self.post_for(state, effects, None);
    }

    /// Like [`Self::post`], for a change that may be traced: the trace is noted before the mailbox is marked.
    fn post_for(&self, state: &State, effects: Vec<Effect>, mut cause: Option<Cause>) {
        let mut trace = |mailbox: &Mailbox, key: &ObjectKey, facet| {
            if let Some(context) = cause.as_mut().and_then(Cause::context) {
                mailbox.traces().note((key.clone(), facet), context);
            }
        };
        for effect in effects {
            match effect {
                Effect::State { cluster, key } => state.notify(&cluster, |mailbox| {
                    trace(mailbox, &key, Facet::State);
                    mailbox.state(key);
                }),
                Effect::Command { cluster, key } => state.notify(&cluster, |mailbox| {
                    trace(mailbox, &key, Facet::Command);
                    mailbox.command(key);
                }),
                Effect::Gone { cluster, key, uid } => state.notify(&cluster, |mailbox| {
                    trace(mailbox, &key, Facet::State);
                    mailbox.gone(key, uid);
                }),
                Effect::Conditions(key) => self.dirty.mark(key),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The subscription of a session at the hub; dropped, the session is not notified any more.
#[derive(Debug)]
pub(crate) struct Subscription {
    hub: Arc<Hub>,
    pub(crate) cluster: ClusterName,
    id: u64,
    pub(crate) mailbox: Mailbox,
    /// Everything that the cluster should have.
    pub(crate) delivered: Vec<ObjectKey>,
}

impl Subscription {
    /// The event that deletes a copy.
    pub(crate) fn delete(&self, key: &ObjectKey, uid: &str) -> Event {
        let event = self.hub.delete(key, uid);
        let (traces, matter) = (self.mailbox.traces(), (key, Facet::State));
        spans::sent(traces, matter, self.cluster.as_str(), event)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut state = self.hub.lock();
        let cluster = self.cluster.as_str();
        if state
            .sessions
            .get(cluster)
            .is_some_and(|(id, _)| *id == self.id)
        {
            state.sessions.remove(cluster);
            self.hub.failing_writes.forget(cluster);
            let now = Instant::now();
            state.left.insert(cluster.to_owned(), now);
            // A restarted agent is back before the condition is set.
            for (key, _) in state.index.routed_to(cluster) {
                self.hub.dirty.mark_at(now + conditions::GRACE, key);
            }
        }
    }
}

#[cfg(test)]
mod tests;
