//! The hub's objects and the marks for the sessions, under one short lock.
//!
//! Watches, results of our own writes, reports of clusters and the fleet change the index. The effects go into the
//! mailboxes of the open sessions under the same lock, so that a session that subscribes misses no change. Clusters
//! without a session have no mailbox: their next connect compares everything.
//!
//! A deletion that a watch saw is carried out on the clusters at once. An object that a new list does not have proves
//! no deletion: a restored hub looks the same. So the clusters with a copy are compared instead, as after a connect,
//! under the brake on mass deletion. All missing objects of a list are applied at once, so that no comparison sees a
//! part of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use argocd::routing::RoutingSettings;
use protocol::{Event, Facet, Kind, ObjectKey};
use runtime::{clock::Clock, notifier::ChangeNotifier, work_queue::WorkQueue};
use tokio::{
    sync::watch,
    time::{Instant, error::Elapsed},
};

use super::{
    deliveries::Deliveries,
    failing_writes::FailingWrites,
    index::{Effect, Entry, Index},
    known_mirrors::KnownMirrors,
    mailbox::Mailbox,
    spans::Cause,
    write_reserves::WriteReserves,
};
use crate::{
    domain::{ClusterName, Key},
    fleet::Fleet,
    metrics::Metrics,
    report::{Refused, Stuck},
    settings::Settings,
    store::{Report, Reporter, Watched},
};

mod globals;

/// The longest wait for a watch event. A live watch is far quicker; others wait for a dead one.
const UPDATE_TIMEOUT: Duration = Duration::from_secs(1);

/// The hub's objects, and the sessions that are notified of changes.
pub(crate) struct Objects {
    // Guards plain maps; locked for a lookup or one decision, never over an await.
    state: Mutex<State>,
    /// Applications whose conditions may have to change.
    pub(super) conditions: WorkQueue<Key>,
    /// Mirrors that differ from their source.
    pub(super) mirrors: WorkQueue<ObjectKey>,
    pub(super) failing_writes: FailingWrites,
    pub(crate) write_reserves: WriteReserves,
    pub(crate) deliveries: Deliveries,
    /// Notifies waiting writers of each reported object.
    updates: ChangeNotifier,
    principal_uid: OnceLock<Arc<str>>,
    pub(super) argocd_namespace: String,
    /// As in [`Limits`](crate::settings::Limits).
    pub(super) large_statuses: usize,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) index: Index,
    pub(super) mirrors: KnownMirrors,
    pub(super) sessions: BTreeMap<ClusterName, (u64, Mailbox)>,
    /// When the last session of a cluster without one ended.
    pub(super) left: BTreeMap<ClusterName, Instant>,
    /// The time from which clusters can connect.
    pub(super) open: Option<Instant>,
    /// The number of the next session.
    pub(super) next: u64,
    /// The kinds whose full list has been reported.
    synced: BTreeSet<Watched>,
    /// Kinds that are listed again, because the hub was restored to an earlier state.
    pub(super) rewound: BTreeSet<Watched>,
    /// UIDs of objects that the current list does not have, until the list is complete.
    missing: BTreeMap<ObjectKey, String>,
    /// The last logged global projects without effect.
    ignored_globals: Vec<String>,
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects").finish_non_exhaustive()
    }
}

impl State {
    /// Whether all kinds have been listed.
    pub(super) fn is_synced(&self) -> bool {
        Watched::ALL.iter().all(|kind| self.has_listed(*kind))
    }

    /// Whether this kind has been listed.
    pub(super) fn has_listed(&self, kind: Watched) -> bool {
        self.synced.contains(&kind)
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
    pub(super) fn notify(&self, cluster: &ClusterName, emit: impl FnOnce(&Mailbox)) {
        if let Some((_, mailbox)) = self.sessions.get(cluster) {
            emit(mailbox);
        }
    }
}

impl Objects {
    pub(super) fn new(settings: &Settings, metrics: Metrics, clock: Clock) -> Self {
        let index = Index::new(RoutingSettings {
            argocd_namespace: settings.argocd_namespace.clone(),
            allowed_namespaces: settings.other_namespaces.clone(),
        })
        .salted(uuid::Uuid::new_v4().to_string());
        let state = State {
            index,
            mirrors: KnownMirrors::new(settings.limits.mirrors),
            sessions: BTreeMap::new(),
            left: BTreeMap::new(),
            open: None,
            next: 0,
            synced: BTreeSet::new(),
            rewound: BTreeSet::new(),
            missing: BTreeMap::new(),
            ignored_globals: Vec::new(),
        };
        Self {
            state: Mutex::new(state),
            conditions: WorkQueue::default(),
            mirrors: WorkQueue::default(),
            failing_writes: FailingWrites::new(metrics),
            write_reserves: WriteReserves::default(),
            deliveries: Deliveries::new(clock),
            updates: ChangeNotifier::default(),
            principal_uid: OnceLock::new(),
            argocd_namespace: settings.argocd_namespace.clone(),
            large_statuses: settings.limits.large_statuses,
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the identity of the principal once; before that no cluster is served. False if it differs from an earlier
    /// one, which connected agents would not understand.
    #[must_use]
    pub(super) fn set_principal_uid(&self, uid: &Arc<str>) -> bool {
        *self.principal_uid.get_or_init(|| Arc::clone(uid)) == *uid
    }

    /// Whether the identity of the principal is known.
    pub(super) fn is_identified(&self) -> bool {
        self.principal_uid.get().is_some()
    }

    /// The event with the identity of the principal.
    pub(super) fn signed(&self, event: Event) -> Event {
        match self.principal_uid.get() {
            Some(uid) => event.from_principal(uid),
            None => event,
        }
    }

    /// Updates the enrolled clusters.
    pub(super) fn set_fleet(&self, fleet: &Fleet) {
        let mut state = self.lock();
        let effects = state.index.set_fleet(fleet);
        let State {
            index,
            mirrors,
            left,
            ..
        } = &mut *state;
        mirrors.keep(|cluster| index.is_autonomous(cluster));
        left.retain(|cluster, _| index.is_cluster(cluster.as_str()));
        self.post(&state, effects);
    }

    /// The writes for a cluster that keep failing.
    pub(crate) fn stuck(&self, cluster: &ClusterName) -> Option<Stuck> {
        let state = self.lock();
        // An object that was deleted or moved meanwhile is not retried.
        self.failing_writes.of(cluster, |key| {
            Key::from_object(key).is_none_or(|key| {
                let entry = state.index.application(&key);
                entry.is_some_and(|entry| entry.cluster() == Some(cluster))
            })
        })
    }

    /// The version of the objects that a cluster refuses.
    pub(crate) fn complaints(&self, cluster: &ClusterName) -> u64 {
        self.lock().index.complaints_of(cluster)
    }

    /// The objects that a cluster refuses, if there are any.
    pub(crate) fn refused(&self, cluster: &ClusterName) -> Option<Refused> {
        self.lock().index.refused(cluster)
    }

    /// Records a refusal of a cluster, for a condition on the Application, or on those that need the object.
    pub(crate) fn refused_by(&self, cluster: &ClusterName, key: &ObjectKey, reason: &str) {
        let mut state = self.lock();
        let effects = if let Some(key) = Key::from_object(key) {
            let entry = state.index.application(&key);
            if entry.is_none_or(|entry| entry.cluster() != Some(cluster)) {
                return;
            }
            let report = format!("cluster {cluster} refuses it: {reason}");
            state.index.set_report(&key, Some(report))
        } else {
            let before = state.index.complaints_of(cluster);
            let effects = state.index.refuse(cluster, key, reason);
            if state.index.complaints_of(cluster) != before {
                tracing::warn!(%cluster, object = %key, reason, "a cluster refuses a provisioned object");
            }
            effects
        };
        self.post(&state, effects);
    }

    /// Applies the reports of the watches, and whether all kinds have been listed.
    pub(super) fn reporter(self: Arc<Self>) -> (Reporter, watch::Receiver<bool>) {
        let (is_synced, synced) = watch::channel(false);
        let reporter = move |report| {
            let all = self.report(report);
            is_synced.send_if_modified(|known| std::mem::replace(known, all) != all);
        };
        (Arc::new(reporter), synced)
    }

    /// Applies a report of a watch; true once all kinds have been listed.
    pub(crate) fn report(&self, report: Report) -> bool {
        let mut state = self.lock();
        match report {
            Report::Deleted {
                kind,
                key,
                uid,
                is_seen: false,
            } => {
                let key = ObjectKey::new(kind, key.namespace, key.name);
                state.missing.insert(key, uid);
            }
            Report::Synced(kind) => {
                let unreported = state.mirrors.take_unreported(kind);
                let missing = state.missing.extract_if(.., |key, _| key.kind == kind);
                // A name may have lost both: the object that the watch knew, and a mirror that replaced it.
                for (key, uid) in missing.chain(unreported).collect::<Vec<_>>() {
                    let report = Report::Deleted {
                        kind,
                        key: Key::from(&key),
                        uid,
                        is_seen: false,
                    };
                    self.take(&mut state, &key, report);
                }
                state.synced.insert(kind);
                state.rewound.remove(&kind);
                state.log_ignored_globals();
            }
            Report::Rewound(kind) => state.rewind(kind),
            Report::GlobalProjects(globals) => {
                let effects = state.set_globals(globals);
                self.post(&state, effects);
            }
            Report::Applied(kind, ref object) => {
                let meta = object.meta();
                let key = ObjectKey::new(kind, meta.namespace(), meta.name());
                self.take(&mut state, &key, report);
            }
            Report::Deleted { kind, ref key, .. } => {
                let key = ObjectKey::new(kind, &key.namespace, &key.name);
                self.take(&mut state, &key, report);
            }
        }
        self.updates.notify();
        state.is_synced()
    }

    /// Takes the report of one object into the index.
    fn take(&self, state: &mut State, key: &ObjectKey, report: Report) {
        let cause = Cause::of(&report, &state.index);
        state.missing.remove(key);
        let effects = match report {
            Report::Applied(kind, object) => {
                state.mirrors.reported(key, object.meta().uid());
                let new = state.has_listed(Watched::Application);
                state.index.set(kind, Arc::new(object), new)
            }
            Report::Deleted { uid, is_seen, .. } => {
                state.mirrors.reported(key, &uid);
                state.mirrors.went(key, &uid);
                remove(state, key, &uid, is_seen)
            }
            Report::Synced(_) | Report::Rewound(_) | Report::GlobalProjects(_) => return,
        };
        if key.kind == Kind::AppProject {
            state.log_ignored_globals();
        }
        let listed = state.has_listed(Watched::Application);
        self.deliveries.begin(&state.index, key, &effects, listed);
        self.post_for(state, effects, cause);
        let State { index, mirrors, .. } = state;
        let live = index.object(key);
        if live.is_some() {
            mirrors.note_pending(key, false);
        }
        if mirrors.is_out_of_sync(key, live) {
            self.mirrors.mark(key.clone());
        }
    }

    /// Waits for the watch while the known object is old, up to a timeout.
    pub(super) async fn wait_while(&self, is_old: impl Fn(&State) -> bool) -> Result<(), Elapsed> {
        let waiting = async {
            loop {
                let seen = self.updates.count();
                if !is_old(&self.lock()) {
                    return;
                }
                self.updates.since(seen).await;
            }
        };
        tokio::time::timeout(UPDATE_TIMEOUT, waiting).await
    }

    pub(super) fn post(&self, state: &State, effects: Vec<Effect>) {
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
                Effect::Conditions(key) => self.conditions.mark(key),
            }
        }
    }
}

/// Removes an object from the index. Without a seen deletion, its clusters are compared instead of deleting the copies.
fn remove(state: &mut State, key: &ObjectKey, uid: &str, is_seen: bool) -> Vec<Effect> {
    // A cluster may need the last state of an Application before the deletion.
    let entry = Key::from_object(key).and_then(|key| state.index.application(&key));
    let last = entry
        .filter(|entry| entry.uid() == uid)
        .and_then(Entry::final_state);
    let effects = state.index.remove(key, uid);
    if !is_seen {
        return state.without_deletions(effects);
    }
    for effect in &effects {
        if let Effect::Gone { cluster, key, .. } = effect
            && let Some(last) = last.as_ref().filter(|_| key.kind == Kind::Application)
        {
            state.notify(cluster, |mailbox| {
                mailbox.last(key.clone(), Arc::clone(last));
            });
        }
    }
    effects
}

#[cfg(test)]
mod tests;
