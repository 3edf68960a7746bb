//! An API server in memory: objects of any kind, with versions, preconditions, field owners, subresources and watches.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use argocd::patch::merge;
use serde_json::{Value, json};
use tokio::sync::watch;

pub(crate) mod apply;
pub(crate) mod http;
mod rules;
pub(crate) mod select;

use apply::Owners;
pub(crate) use rules::is_deleting;
use rules::{check, finalizers, has_status, restore, tidy, within};

/// `plural.group`, namespace, name.
pub(crate) type Key = (String, String, String);

/// Why a request is refused.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    /// The fields that caused it, each with its reason.
    pub(crate) causes: Vec<(&'static str, String, String)>,
}

impl Refusal {
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            causes: vec![],
        }
    }

    fn absent(key: &Key) -> Self {
        Self::new(404, "NotFound", format!("{key:?} not found"))
    }

    fn conflict(why: &str) -> Self {
        Self::new(409, "Conflict", why)
    }

    /// As the API server sends it.
    pub(crate) fn status(&self) -> Value {
        let causes = self.causes.iter().map(|(reason, message, field)| {
            json!({ "reason": reason, "message": message, "field": field })
        });
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "code": self.code, "reason": self.reason, "message": self.message,
            "details": { "causes": causes.collect::<Vec<_>>() },
        })
    }
}

/// A change, for watches.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) key: Key,
    pub(crate) before: Option<Arc<Value>>,
    pub(crate) after: Option<Arc<Value>>,
}

#[derive(Clone, Debug)]
struct Stored {
    object: Arc<Value>,
    owners: Owners,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<Key, Stored>,
    changes: Vec<Change>,
    version: watch::Sender<u64>,
}

/// A write of one object.
#[derive(Clone, Debug)]
pub(crate) enum Write {
    Create(Value),
    Replace(Value),
    Merge(Value),
    /// Server-side apply, and whether it takes over fields of other managers.
    Apply(Value, bool),
    /// With the UID and the version that the object must have.
    Delete(Option<String>, Option<String>),
}

/// The server; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Api(Arc<Mutex<State>>);

impl Api {
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn version(&self) -> u64 {
        self.lock().version()
    }

    /// Follows the version.
    pub(crate) fn versions(&self) -> watch::Receiver<u64> {
        self.lock().version.subscribe()
    }

    pub(crate) fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let key = (kind.to_owned(), namespace.to_owned(), name.to_owned());
        let state = self.lock();
        state.objects.get(&key).map(|it| Arc::clone(&it.object))
    }

    /// All objects of a kind, of one namespace if it is not empty.
    pub(crate) fn list(&self, kind: &str, namespace: &str) -> Vec<(Key, Arc<Value>)> {
        let first = (kind.to_owned(), namespace.to_owned(), String::new());
        let state = self.lock();
        let following = state.objects.range(first..);
        let ours = following.take_while(|((of, within, _), _)| {
            of == kind && (namespace.is_empty() || within == namespace)
        });
        ours.map(|(key, it)| (key.clone(), Arc::clone(&it.object)))
            .collect()
    }

    /// The findings of `read` in the changes after a version, and the present version.
    pub(crate) fn changes<T>(
        &self,
        after: u64,
        read: impl FnMut(&Change) -> Option<T>,
    ) -> (u64, Vec<T>) {
        let state = self.lock();
        let from = state.changes.partition_point(|it| it.version <= after);
        let found = state.changes[from..].iter().filter_map(read).collect();
        (state.version().max(after), found)
    }

    /// Carries out a write of a field manager, and returns the object after it.
    pub(crate) fn write(
        &self,
        key: &Key,
        subresource: &str,
        manager: &str,
        write: Write,
    ) -> Result<Arc<Value>, Refusal> {
        let mut state = self.lock();
        let before = state.objects.get(key).cloned();
        let (mut object, mut owners) = match (&before, write) {
            (Some(stored), Write::Delete(uid, version)) => {
                return state.delete(key, stored, uid, version);
            }
            (Some(stored), write) => stored.changed(key, subresource, manager, write)?,
            (None, write) => made(key, subresource, manager, write)?,
        };
        if let Some(stored) = &before {
            check(&stored.object, &object)?;
            restore(&stored.object, &mut object);
        } else {
            state.complete(key, &mut object);
        }
        tidy(&mut object);
        owners.forget_absent(&object);
        Ok(state.store(key, before.as_ref(), object, owners))
    }
}

/// A new object, and the owners of its fields.
fn made(
    key: &Key,
    subresource: &str,
    manager: &str,
    write: Write,
) -> Result<(Value, Owners), Refusal> {
    let mut owners = Owners::default();
    let object = match write {
        Write::Create(object) => {
            owners.updated(manager, &Value::Null, &object);
            object
        }
        Write::Apply(wanted, _) => {
            let uid = wanted.pointer("/metadata/uid");
            if uid.is_some_and(|it| !it.is_null()) {
                return Err(Refusal::conflict("uid mismatch: no such object"));
            }
            owners.applied(manager, subresource, &Value::Null, &wanted, true)?
        }
        Write::Replace(_) | Write::Merge(_) | Write::Delete(..) => {
            return Err(Refusal::absent(key));
        }
    };
    Ok((object, owners))
}

impl Stored {
    /// The object after a write, and the owners of its fields.
    fn changed(
        &self,
        key: &Key,
        subresource: &str,
        manager: &str,
        write: Write,
    ) -> Result<(Value, Owners), Refusal> {
        let mut owners = self.owners.clone();
        let object = match write {
            Write::Create(_) | Write::Delete(..) => {
                let exists = format!("{key:?} exists");
                return Err(Refusal::new(409, "AlreadyExists", exists));
            }
            Write::Replace(object) => within(&key.0, subresource, &self.object, object),
            Write::Merge(patch) => {
                let mut object = (*self.object).clone();
                merge(&mut object, &patch);
                within(&key.0, subresource, &self.object, object)
            }
            Write::Apply(wanted, force) => {
                check(&self.object, &wanted)?;
                let object = owners.applied(manager, subresource, &self.object, &wanted, force)?;
                let object = within(&key.0, subresource, &self.object, object);
                return Ok((object, owners));
            }
        };
        owners.updated(manager, &self.object, &object);
        Ok((object, owners))
    }
}

impl State {
    fn version(&self) -> u64 {
        *self.version.borrow()
    }

    /// Sets the fields that a server sets at creation.
    fn complete(&self, key: &Key, object: &mut Value) {
        let next = self.version() + 1;
        if let Some(fields) = object.as_object_mut()
            && has_status(&key.0)
        {
            fields.remove("status");
        }
        let made = json!({ "metadata": {
            "name": key.2,
            "namespace": Some(&key.1).filter(|it| !it.is_empty()),
            "uid": format!("uid-{next}"),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "generation": object.get("spec").map(|_| 1),
            "deletionTimestamp": null,
            "resourceVersion": null,
        }});
        merge(object, &made);
    }

    fn store(
        &mut self,
        key: &Key,
        before: Option<&Stored>,
        mut object: Value,
        owners: Owners,
    ) -> Arc<Value> {
        if let Some(before) = before
            && *before.object == object
        {
            self.objects.insert(
                key.clone(),
                Stored {
                    object: Arc::clone(&before.object),
                    owners,
                },
            );
            return Arc::clone(&before.object);
        }
        if let Some(before) = before
            && before.object.get("spec") != object.get("spec")
        {
            let generation = before.object["metadata"]["generation"].as_i64();
            object["metadata"]["generation"] = json!(generation.unwrap_or_default() + 1);
        }
        let version = self.version() + 1;
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        let is_gone = is_deleting(&object) && finalizers(&object).is_empty();
        let object = Arc::new(object);
        if is_gone {
            self.objects.remove(key);
        } else {
            let object = Arc::clone(&object);
            self.objects.insert(key.clone(), Stored { object, owners });
        }
        self.changes.push(Change {
            version,
            key: key.clone(),
            before: before.map(|it| Arc::clone(&it.object)),
            after: (!is_gone).then(|| Arc::clone(&object)),
        });
        self.version.send_replace(version);
        object
    }

    fn delete(
        &mut self,
        key: &Key,
        stored: &Stored,
        uid: Option<String>,
        version: Option<String>,
    ) -> Result<Arc<Value>, Refusal> {
        let metadata = &stored.object["metadata"];
        let is_other =
            |wanted: Option<String>, is: &Value| wanted.is_some_and(|it| is.as_str() != Some(&it));
        if is_other(uid, &metadata["uid"]) || is_other(version, &metadata["resourceVersion"]) {
            return Err(Refusal::conflict("Precondition failed"));
        }
        if is_deleting(&stored.object) {
            return Ok(Arc::clone(&stored.object));
        }
        let mut object = (*stored.object).clone();
        object["metadata"]["deletionTimestamp"] = json!("2026-01-02T00:00:00Z");
        let owners = stored.owners.clone();
        Ok(self.store(key, Some(stored), object, owners))
    }
}

#[cfg(test)]
mod tests;
