//! A hub in memory, for tests and benchmarks: versions, conflicts, finalizers and watches as Kubernetes has them.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use argocd::{Meta, Patch};
use futures::{FutureExt as _, future::BoxFuture};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Report, Reporter, Store, Watched, WriteError};
use crate::hub::index::Key;

type Objects = BTreeMap<Key, Value>;

/// A hub in memory; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    // Held for one read or write, never over an await.
    state: Mutex<State>,
    changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    version: u64,
    applications: Objects,
    projects: Objects,
    writes: Vec<Key>,
    outage: bool,
}

impl State {
    const fn objects(&mut self, kind: Watched) -> &mut Objects {
        match kind {
            Watched::Application => &mut self.applications,
            Watched::AppProject => &mut self.projects,
        }
    }

    fn stamp(&mut self, object: &mut Value) {
        self.version += 1;
        let version = json!({ "metadata": { "resourceVersion": self.version.to_string() } });
        argocd::patch::merge(object, &version);
    }
}

impl Memory {
    /// An empty hub.
    pub fn new() -> Self {
        Self::default()
    }

    /// What a user does: creates an object, or replaces all of it. UID and creation time are kept or made.
    pub fn put(&self, kind: Watched, mut object: Value) {
        self.change(|state| {
            let key = Key::of(Meta::of(&object));
            let made = json!({ "metadata": {
                "uid": format!("uid-{}", state.version + 1),
                "creationTimestamp": format!("2026-01-01T00:00:00.{:09}Z", state.version + 1),
            } });
            let known = state.objects(kind).get(&key).map_or(made, |known| {
                json!({ "metadata": {
                    "uid": Meta::of(known).uid(),
                    "creationTimestamp": Meta::of(known).creation_timestamp(),
                } })
            });
            for field in ["uid", "creationTimestamp"] {
                let given = object.pointer(&format!("/metadata/{field}")).is_some();
                if let Some(value) = known
                    .pointer(&format!("/metadata/{field}"))
                    .filter(|_| !given)
                {
                    argocd::patch::merge(&mut object, &json!({ "metadata": { field: value } }));
                }
            }
            state.stamp(&mut object);
            state.objects(kind).insert(key, object);
        });
    }

    /// What a user does: deletes an object. With finalizers it stays until they are gone.
    pub fn delete(&self, kind: Watched, namespace: &str, name: &str) {
        let key = Key {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        self.change(|state| {
            let Some(mut object) = state.objects(kind).remove(&key) else {
                return;
            };
            if Meta::of(&object).finalizers().is_empty() {
                return;
            }
            let mark = json!({ "metadata": { "deletionTimestamp": "2026-01-02T00:00:00Z" } });
            argocd::patch::merge(&mut object, &mark);
            state.stamp(&mut object);
            state.objects(kind).insert(key, object);
        });
    }

    /// What the hub has now.
    pub fn application(&self, namespace: &str, name: &str) -> Option<Value> {
        let key = Key {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        self.lock().applications.get(&key).cloned()
    }

    /// How often our side has written.
    pub fn writes(&self) -> usize {
        self.lock().writes.len()
    }

    /// While there is an outage, nothing can be read or written.
    pub fn set_outage(&self, outage: bool) {
        self.lock().outage = outage;
    }

    /// Resolves when the hub is as `fits` wants it. For tests, which bound the wait.
    pub async fn wait_for(&self, fits: impl Fn(&Self) -> bool) {
        let mut changed = self.shared.changed.subscribe();
        while !fits(self) {
            if changed.changed().await.is_err() {
                return;
            }
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let result = change(&mut state);
        state.version += 1;
        let version = state.version;
        drop(state);
        self.shared.changed.send_replace(version);
        result
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn news(&self, kind: Watched, seen: &mut BTreeMap<Key, (String, String)>, report: &Reporter) {
        let objects = self.lock().objects(kind).clone();
        let identity = |object: &Value| {
            let meta = Meta::of(object);
            (meta.uid().to_owned(), meta.resource_version().to_owned())
        };
        let gone: Vec<_> = seen
            .iter()
            .filter(|(key, (uid, _))| objects.get(key).is_none_or(|o| Meta::of(o).uid() != uid))
            .map(|(key, (uid, _))| (key.clone(), uid.clone()))
            .collect();
        for (key, uid) in gone {
            seen.remove(&key);
            report(Report::Deleted { kind, key, uid });
        }
        for (key, object) in objects {
            let identity = identity(&object);
            if seen.get(&key) != Some(&identity) {
                seen.insert(key, identity);
                report(Report::Applied(kind, object));
            }
        }
    }
}

impl Store for Memory {
    fn watch(&self, report: Reporter, token: CancellationToken) -> BoxFuture<'static, ()> {
        let memory = self.clone();
        async move {
            let mut changed = memory.shared.changed.subscribe();
            let kinds = [Watched::AppProject, Watched::Application];
            let mut seen = [BTreeMap::new(), BTreeMap::new()];
            let mut synced = false;
            loop {
                changed.mark_unchanged();
                for (kind, seen) in kinds.into_iter().zip(&mut seen) {
                    memory.news(kind, seen, &report);
                    if !synced {
                        report(Report::Synced(kind));
                    }
                }
                synced = true;
                if !matches!(
                    token.run_until_cancelled(changed.changed()).await,
                    Some(Ok(()))
                ) {
                    return;
                }
            }
        }
        .boxed()
    }

    fn patch<'a>(
        &'a self,
        application: &'a Key,
        version: &'a str,
        patch: Patch,
    ) -> BoxFuture<'a, Result<Value, WriteError>> {
        async move {
            // As over a network: others get their turn before the answer.
            tokio::task::yield_now().await;
            self.change(|state| {
                if state.outage {
                    return Err(WriteError::Unavailable("outage".into()));
                }
                let known = state
                    .applications
                    .get(application)
                    .ok_or(WriteError::NotFound)?;
                if let Patch::Json(operations) = &patch
                    && !fit(operations, known)
                {
                    return Err(WriteError::Unfit("no such path".to_owned()));
                }
                if Meta::of(known).resource_version() != version {
                    return Err(WriteError::Conflict);
                }
                let mut object = patch.applied_to(known);
                state.stamp(&mut object);
                state.writes.push(application.clone());
                let meta = Meta::of(&object);
                let ends = meta.is_deleting() && meta.finalizers().is_empty();
                if let Entry::Occupied(mut slot) = state.applications.entry(application.clone()) {
                    if ends {
                        slot.remove();
                    } else {
                        slot.insert(object.clone());
                    }
                }
                Ok(object)
            })
        }
        .boxed()
    }

    fn principal_uid(&self) -> BoxFuture<'_, Result<String, WriteError>> {
        async { Ok("principal-uid".to_owned()) }.boxed()
    }
}

/// Whether everything that the operations take away or replace is there.
fn fit(operations: &Value, object: &Value) -> bool {
    let text = |operation: &Value, field: &str| {
        let text = operation.get(field).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    operations
        .as_array()
        .into_iter()
        .flatten()
        .all(|operation| {
            text(operation, "op") == "add" || object.pointer(&text(operation, "path")).is_some()
        })
}
