//! A hub in memory, for tests, simulations and benchmarks: it behaves like Kubernetes on writes and watches.

mod store;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use argocd::{
    Meta, Patch,
    global_projects::GlobalProjects,
    testing::memory::{Denied, Objects},
};
use live::events::{self, Observed};
use runtime::notifier::ChangeNotifier as Changes;
use serde_json::Value;

use crate::{
    domain::Key,
    store::{Watched, WriteError},
};

/// A hub in memory; clones share it.
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
    objects: Objects<(Watched, Key)>,
    writes: Writes,
    /// Events, by namespace and name.
    events: BTreeMap<Key, Value>,
    /// Attempts to write Events.
    noted: usize,
    /// Events with this reason are rejected.
    refused: Option<String>,
    outage: bool,
    /// Writes to objects of this name fail.
    failing: Option<String>,
    /// Objects of this name are not created.
    invalid: Option<String>,
    broken: bool,
    /// How often watches broke.
    breaks: u64,
    /// How often the objects were put back.
    restores: u64,
    /// Those in the settings of Argo CD.
    global_projects: GlobalProjects,
}

/// The objects of a hub, as in a snapshot of its etcd.
#[derive(Clone, Debug)]
pub struct Snapshot(Objects<(Watched, Key)>);

impl Snapshot {
    /// All its objects of a kind.
    pub fn all(&self, kind: Watched) -> BTreeMap<Key, Value> {
        all(&self.0, kind)
    }
}

/// Counts the writes of our side, without those of users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Writes {
    /// Writes that changed something.
    pub changes: usize,
    /// Writes that changed nothing, and were not needed.
    pub idle: usize,
    /// Rejected writes.
    pub denied: usize,
}

impl Default for State {
    fn default() -> Self {
        Self {
            objects: Objects::new("uid"),
            writes: Writes::default(),
            events: BTreeMap::new(),
            noted: 0,
            refused: None,
            outage: false,
            failing: None,
            invalid: None,
            broken: false,
            breaks: 0,
            restores: 0,
            global_projects: GlobalProjects::default(),
        }
    }
}

impl State {
    fn note(&mut self, of: &Observed, write: &events::Write) -> Result<(), WriteError> {
        self.noted += 1;
        match write {
            _ if self.outage => Err(WriteError::Unavailable("outage".into())),
            events::Write::Create(event) => {
                let key = Key::of(Meta::of(event));
                let reason = event.get("reason").and_then(Value::as_str);
                if self.refused.is_some() && reason == self.refused.as_deref() {
                    return Err(WriteError::Refused("a reason".to_owned()));
                }
                if self.events.contains_key(&key) {
                    return Err(WriteError::Conflict);
                }
                self.events.insert(key, event.clone());
                Ok(())
            }
            events::Write::Patch { name, body } => {
                let event = self.events.get_mut(&key(&of.namespace, name));
                argocd::patch::merge(event.ok_or(WriteError::NotFound)?, body);
                Ok(())
            }
        }
    }
}

impl Memory {
    /// An empty hub.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates or replaces an object, as a user does. Keeps or sets UID and creation time.
    pub fn put(&self, kind: Watched, object: Value) {
        let key = Key::of(Meta::of(&object));
        self.change(|state| state.objects.put((kind, key), object));
    }

    /// Sets the global projects in the settings of Argo CD, as a user does.
    pub fn set_global_projects(&self, projects: GlobalProjects) {
        self.change(|state| state.global_projects = projects);
    }

    /// Changes an object, as a user does, if it exists.
    pub fn edit(&self, kind: Watched, namespace: &str, name: &str, patch: Value) {
        let key = (kind, key(namespace, name));
        // A missing object stays missing; a merge patch always fits.
        self.change(|state| drop(state.objects.patch(&key, &Patch::Merge(patch))));
    }

    /// Deletes an object, as a user does. With finalizers it stays until they are gone.
    pub fn delete(&self, kind: Watched, namespace: &str, name: &str) {
        let key = (kind, key(namespace, name));
        self.change(|state| state.objects.delete(&key, None, None).ok());
    }

    /// The current Application.
    pub fn application(&self, namespace: &str, name: &str) -> Option<Value> {
        let key = (Watched::Application, key(namespace, name));
        self.lock().objects.get(&key).cloned()
    }

    /// The current project.
    pub fn project(&self, namespace: &str, name: &str) -> Option<Value> {
        let key = (Watched::AppProject, key(namespace, name));
        self.lock().objects.get(&key).cloned()
    }

    /// All current objects of a kind.
    pub fn all(&self, kind: Watched) -> BTreeMap<Key, Value> {
        all(&self.lock().objects, kind)
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

    /// The current Events.
    pub fn all_events(&self) -> BTreeMap<Key, Value> {
        self.lock().events.clone()
    }

    /// Writes of Events by our side, with failed ones.
    pub fn event_writes(&self) -> usize {
        self.lock().noted
    }

    /// Rejects Events with this reason from now on.
    pub fn refuse_events(&self, reason: &str) {
        self.lock().refused = Some(reason.to_owned());
    }

    /// Grows with every change by any client.
    pub fn version(&self) -> u64 {
        self.lock().objects.version()
    }

    /// Writes of our side that changed something.
    pub fn writes(&self) -> usize {
        self.lock().writes.changes
    }

    /// The counts of the writes of our side.
    pub fn all_writes(&self) -> Writes {
        self.lock().writes.clone()
    }

    /// While there is an outage, nothing can be read or written.
    pub fn set_outage(&self, outage: bool) {
        self.lock().outage = outage;
    }

    /// Patches of objects of this name fail from now on.
    pub fn fail_patches_of(&self, name: &str) {
        self.lock().failing = Some(name.to_owned());
    }

    /// The creation of objects of this name is rejected for good from now on.
    pub fn reject_creation_of(&self, name: &str) {
        self.lock().invalid = Some(name.to_owned());
    }

    /// Broken watches report nothing; afterwards they list again, and so notice deletions.
    pub fn break_watches(&self, broken: bool) {
        self.change(|state| {
            state.breaks += u64::from(broken && !state.broken);
            state.broken = broken;
        });
    }

    /// Resolves when `fits` is true. For tests, which limit the wait.
    pub async fn wait_for(&self, fits: impl Fn(&Self) -> bool) {
        loop {
            let seen = self.shared.changed.count();
            if fits(self) {
                return;
            }
            self.shared.changed.since(seen).await;
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let result = change(&mut state);
        drop(state);
        self.shared.changed.notify();
        result
    }

    /// One write of our side: returns the object afterwards, and whether it changed.
    async fn write(
        &self,
        write: impl FnOnce(&mut Objects<(Watched, Key)>) -> Result<(Value, bool), Denied>,
    ) -> Result<Value, WriteError> {
        // As over a network: other tasks run before the write, and again before the response.
        tokio::task::yield_now().await;
        let answer = self.change(|state| {
            if state.outage {
                return Err(WriteError::Unavailable("outage".into()));
            }
            let State {
                objects, writes, ..
            } = state;
            match write(objects) {
                Ok((object, true)) => {
                    writes.changes += 1;
                    Ok(object)
                }
                Ok((object, false)) => {
                    writes.idle += 1;
                    Ok(object)
                }
                Err(denied) => {
                    writes.denied += 1;
                    Err(sorted(denied))
                }
            }
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

fn all(objects: &Objects<(Watched, Key)>, kind: Watched) -> BTreeMap<Key, Value> {
    let all = objects.iter().filter(|((is, _), _)| *is == kind);
    all.map(|((_, key), object)| (key.clone(), object.clone()))
        .collect()
}

fn key(namespace: &str, name: &str) -> Key {
    Key {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

fn sorted(denied: Denied) -> WriteError {
    match denied {
        Denied::NotFound => WriteError::NotFound,
        Denied::Misfit => WriteError::Unfit(denied.to_string()),
        Denied::OtherObject | Denied::NewFinalizer => WriteError::Refused(denied.to_string()),
        Denied::Conflict | Denied::Exists => WriteError::Conflict,
    }
}
