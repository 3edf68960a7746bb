//! A spoke in memory, for tests, simulations and benchmarks: it handles writes and watches like Kubernetes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use argocd::testing::memory::{Change, Denied, Objects, Seen};
use argocd::{Meta, Patch};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use protocol::{Kind, ObjectKey};
use runtime::error::ErrorClass;
use runtime::notifier::ChangeNotifier as Changes;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::sync::api::{Error, Report, Reporter, Spoke, Target};

/// A spoke in memory; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    // Locked for one read or write, never over an await.
    state: Mutex<State>,
    changed: Changes,
}

#[derive(Debug)]
struct State {
    objects: Objects<ObjectKey>,
    writes: Writes,
    outage: bool,
    broken: bool,
    /// The number of interruptions of watches.
    breaks: u64,
    /// How often the objects were put back.
    restores: u64,
}

/// The objects of a spoke, as in a snapshot of its etcd.
#[derive(Clone, Debug)]
pub struct Snapshot(Objects<ObjectKey>);

/// The pending changes of a watch.
struct Updates {
    changes: Vec<Change<ObjectKey>>,
    /// The number of interruptions of watches.
    breaks: u64,
    restores: u64,
}

/// Counts of the agent's writes, without those of users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Writes {
    /// Writes that changed an object.
    pub changes: usize,
    /// Writes that changed nothing.
    pub idle: usize,
    /// Rejected writes.
    pub denied: usize,
}

impl Default for State {
    fn default() -> Self {
        Self {
            objects: Objects::new("spoke-uid"),
            writes: Writes::default(),
            outage: false,
            broken: false,
            breaks: 0,
            restores: 0,
        }
    }
}

impl Memory {
    /// An empty spoke.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates or replaces an object, as a user or Argo CD does.
    pub fn put(&self, kind: Kind, object: Value) {
        let meta = Meta::of(&object);
        let key = ObjectKey::new(kind, meta.namespace(), meta.name());
        self.change(|state| state.objects.put(key, object));
    }

    /// Changes an object if it exists, as a user or Argo CD does.
    pub fn edit(&self, key: &ObjectKey, patch: Value) {
        // A missing object needs no edit; a merge patch always fits.
        self.change(|state| drop(state.objects.patch(key, &Patch::Merge(patch))));
    }

    /// Deletes an object, as a user does. Finalizers keep it until they are removed.
    pub fn delete(&self, key: &ObjectKey) {
        self.change(|state| state.objects.delete(key, None, None).ok());
    }

    /// The current object.
    pub fn get(&self, key: &ObjectKey) -> Option<Value> {
        self.lock().objects.get(key).cloned()
    }

    /// All current objects.
    pub fn all(&self) -> Vec<(ObjectKey, Value)> {
        let state = self.lock();
        let all = state.objects.iter();
        all.map(|(key, object)| (key.clone(), object.clone()))
            .collect()
    }

    /// The results of the agent's writes.
    pub fn writes(&self) -> Writes {
        self.lock().writes.clone()
    }

    /// During an outage, all writes fail.
    pub fn set_outage(&self, outage: bool) {
        self.lock().outage = outage;
    }

    /// Broken watches report nothing; afterwards they list again, and report missing objects as gone.
    pub fn break_watches(&self, broken: bool) {
        self.change(|state| {
            state.breaks += u64::from(broken && !state.broken);
            state.broken = broken;
        });
    }

    /// All current objects.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.lock().objects.clone())
    }

    /// All objects are as in the snapshot, with their versions of then; watches report that they were rewound.
    pub fn put_back(&self, snapshot: Snapshot) {
        self.change(|state| {
            state.objects.put_back(snapshot.0);
            state.restores += 1;
        });
    }

    /// The pending changes of a watch that has seen so many restores; none while watches are broken.
    fn updates(
        &self,
        seen: &mut Seen<ObjectKey>,
        restored: u64,
        is_watched: impl Fn(&ObjectKey) -> bool,
    ) -> Option<Updates> {
        let state = self.lock();
        if state.broken {
            return None;
        }
        if restored != state.restores {
            seen.list_again();
        }
        Some(Updates {
            changes: state.objects.updates(seen, is_watched),
            breaks: state.breaks,
            restores: state.restores,
        })
    }

    /// Notifies of every change, by the agent or others.
    pub fn changes(&self) -> &Changes {
        &self.shared.changed
    }

    /// Grows with every change, by the agent or others.
    pub fn version(&self) -> u64 {
        self.lock().objects.version()
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let result = change(&mut state);
        drop(state);
        self.shared.changed.notify();
        result
    }

    async fn write<T>(
        &self,
        write: impl FnOnce(&mut Objects<ObjectKey>) -> Result<(T, bool), Denied> + Send,
    ) -> Result<T, Error> {
        // As over a network: other tasks run before the write, and again before the answer.
        tokio::task::yield_now().await;
        let answer = self.change(|state| {
            if state.outage {
                return Err(outage());
            }
            let State {
                objects, writes, ..
            } = state;
            let (answer, changed) = write(objects).map_err(|denied| {
                writes.denied += 1;
                sorted(denied)
            })?;
            if changed {
                writes.changes += 1;
            } else {
                writes.idle += 1;
            }
            Ok(answer)
        });
        tokio::task::yield_now().await;
        answer
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Spoke for Memory {
    fn watch(
        &self,
        target: Target,
        report: Reporter,
        token: CancellationToken,
    ) -> BoxFuture<'static, ()> {
        let memory = self.clone();
        let is_watched = move |key: &ObjectKey| {
            let Target { kind, namespace } = &target;
            key.kind == *kind && namespace.as_ref().is_none_or(|it| *it == key.namespace)
        };
        async move {
            let mut seen = Seen::new();
            // The number of interruptions at the last list.
            let mut listed = None;
            let mut restored = memory.lock().restores;
            loop {
                let count = memory.shared.changed.count();
                if let Some(updates) = memory.updates(&mut seen, restored, &is_watched) {
                    let breaks = updates.breaks;
                    if restored != updates.restores {
                        restored = updates.restores;
                        listed = None;
                        report(Report::Rewound);
                    }
                    let is_seen = listed == Some(breaks);
                    for update in updates.changes {
                        report(match update {
                            Change::Applied(_, object) => Report::Applied(object),
                            Change::Gone(key, uid) => Report::Gone { key, uid, is_seen },
                        });
                    }
                    if !is_seen {
                        report(Report::Synced);
                        listed = Some(breaks);
                    }
                }
                let next = memory.shared.changed.since(count);
                if token.run_until_cancelled(next).await.is_none() {
                    return;
                }
            }
        }
        .boxed()
    }

    fn has<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<bool, Error>> {
        async move {
            tokio::task::yield_now().await;
            let state = self.lock();
            if state.outage {
                return Err(outage());
            }
            Ok(state.objects.get(key).is_some())
        }
        .boxed()
    }

    fn knows_us(&self) -> BoxFuture<'_, bool> {
        futures::future::ready(true).boxed()
    }

    fn create<'a>(
        &'a self,
        key: &'a ObjectKey,
        object: &'a Value,
    ) -> BoxFuture<'a, Result<Value, Error>> {
        self.write(|objects| Ok((objects.create(key.clone(), object.clone())?, true)))
            .boxed()
    }

    fn patch<'a>(
        &'a self,
        key: &'a ObjectKey,
        uid: &'a str,
        patch: Patch,
    ) -> BoxFuture<'a, Result<Value, Error>> {
        self.write(move |objects| objects.patch(key, &patch.only_for(uid)))
            .boxed()
    }

    /// All namespaces exist.
    fn make_namespace<'a>(&'a self, _name: &'a str) -> BoxFuture<'a, Result<(), Error>> {
        async { Ok(()) }.boxed()
    }

    /// The stand-in for Argo CD watches all namespaces.
    fn application_namespaces<'a>(
        &'a self,
        _argocd_namespace: &'a str,
    ) -> BoxFuture<'a, Result<Option<String>, Error>> {
        async { Ok(Some("*".to_owned())) }.boxed()
    }

    /// The memory records no field managers.
    fn last_writer<'a>(
        &'a self,
        _key: &'a ObjectKey,
    ) -> BoxFuture<'a, Result<Option<String>, Error>> {
        async { Ok(None) }.boxed()
    }

    fn delete<'a>(
        &'a self,
        key: &'a ObjectKey,
        uid: &'a str,
    ) -> BoxFuture<'a, Result<Option<Value>, Error>> {
        self.write(move |objects| {
            let before = objects.version();
            objects.delete(key, Some(uid), None)?;
            Ok((objects.get(key).cloned(), objects.version() != before))
        })
        .boxed()
    }
}

fn outage() -> Error {
    Error::Failed {
        error_class: ErrorClass::Transient,
        source: "outage".into(),
    }
}

fn sorted(denied: Denied) -> Error {
    match denied {
        Denied::Misfit => Error::Misfit(Box::new(denied)),
        Denied::NewFinalizer => Error::Refused(Box::new(denied)),
        Denied::Exists | Denied::NotFound | Denied::Conflict | Denied::OtherObject => Error::Stale,
    }
}
