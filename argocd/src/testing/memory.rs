//! An in-memory API server, pure: versions, UIDs, conflicts, finalizers.
//!
//! The in-memory stores of both ends use it. A no-op write does not change the version, as with a real API server, so
//! tests can count effective writes by versions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Value, json};

use crate::masked::Masked;
use crate::object::Meta;
use crate::patch::{self, Patch};

#[cfg(test)]
mod tests;

/// Metadata that the server sets at creation.
const MADE_BY_SERVER: [&str; 4] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// Collections that an API server does not keep when they are empty.
const COLLECTIONS: [&str; 4] = ["labels", "annotations", "finalizers", "ownerReferences"];

/// Objects by key.
#[derive(Clone)]
pub struct Objects<K> {
    kept: BTreeMap<K, Value>,
    /// Prefix of UIDs, so that the UIDs of two servers never collide.
    name: &'static str,
    version: u64,
    /// Versions that restores took back: UIDs and times do not repeat.
    lost: u64,
    /// The key that changed in each version, so that a watch need not scan all objects.
    changed: BTreeMap<u64, K>,
    last_change: BTreeMap<K, u64>,
}

/// The objects that a watch has reported; see [`Objects::updates`].
#[derive(Debug)]
pub struct Seen<K> {
    upto: u64,
    /// The next updates are a new list.
    lists: bool,
    /// UID and version.
    reported: BTreeMap<K, (String, String)>,
}

impl<K> Seen<K> {
    /// A watch that has reported nothing.
    pub const fn new() -> Self {
        Self {
            upto: 0,
            lists: false,
            reported: BTreeMap::new(),
        }
    }

    /// The watch lists again, whichever versions it has reported: the server was restored.
    pub const fn list_again(&mut self) {
        self.lists = true;
    }
}

impl<K> Default for Seen<K> {
    fn default() -> Self {
        Self::new()
    }
}

/// An event of a watch.
#[derive(Clone, PartialEq, Eq)]
pub enum Change<K> {
    /// The object was created or changed.
    Applied(K, Value),
    /// The object with this UID was deleted.
    Gone(K, String),
}

impl<K> fmt::Debug for Objects<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects")
            .field("count", &self.kept.len())
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl<K: fmt::Debug> fmt::Debug for Change<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Applied(key, object) => f
                .debug_tuple("Applied")
                .field(key)
                .field(&Masked(object))
                .finish(),
            Self::Gone(key, uid) => f.debug_tuple("Gone").field(key).field(uid).finish(),
        }
    }
}

/// Why a write was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// An object of this name exists.
    #[error("it exists")]
    Exists,
    /// No object of this name exists.
    #[error("it does not exist")]
    NotFound,
    /// The version, or the UID of a deletion, differs from that of the write.
    #[error("it has changed")]
    Conflict,
    /// The UID differs from that of the patch.
    #[error("it is another object")]
    OtherObject,
    /// The patch adds a finalizer to an object that is being deleted.
    #[error("an object that is being deleted takes no new finalizers")]
    NewFinalizer,
    /// An operation of the patch has a path that does not exist.
    #[error("no such path")]
    Misfit,
}

impl<K: Ord + Clone> Objects<K> {
    /// An empty server.
    pub const fn new(name: &'static str) -> Self {
        Self {
            kept: BTreeMap::new(),
            name,
            version: 0,
            lost: 0,
            changed: BTreeMap::new(),
            last_change: BTreeMap::new(),
        }
    }

    /// One object.
    pub fn get(&self, key: &K) -> Option<&Value> {
        self.kept.get(key)
    }

    /// All objects.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &Value)> {
        self.kept.iter()
    }

    /// Grows with every change; never goes back, unlike the versions of objects.
    pub const fn version(&self) -> u64 {
        self.version.saturating_add(self.lost)
    }

    /// Goes back to an earlier state, as when an etcd is restored from a snapshot: with the versions of then.
    pub fn put_back(&mut self, earlier: Self) {
        let age = self.version().saturating_sub(earlier.version());
        *self = earlier;
        self.lost = self.lost.saturating_add(age).saturating_add(1);
    }

    /// Creates an object. UID and times of `object` do not count: a client may create it from a copy.
    pub fn create(&mut self, key: K, mut object: Value) -> Result<Value, Denied> {
        if self.kept.contains_key(&key) {
            return Err(Denied::Exists);
        }
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|field, _| !MADE_BY_SERVER.contains(&field.as_str()));
        }
        Ok(self.put(key, object))
    }

    /// Creates an object or replaces it. Keeps UID and creation time, or generates them if they are absent.
    pub fn put(&mut self, key: K, mut object: Value) -> Value {
        drop_empty(&mut object);
        self.version += 1;
        let made = json!({
            "uid": format!("{}-{}", self.name, self.version()),
            "creationTimestamp": format!("2026-01-01T00:00:00.{:09}Z", self.version()),
        });
        let known = self.kept.get(&key).and_then(|known| known.get("metadata"));
        let known = known.unwrap_or(&made).clone();
        for field in ["uid", "creationTimestamp"] {
            if object.pointer(&format!("/metadata/{field}")).is_none() {
                patch::merge(
                    &mut object,
                    &json!({ "metadata": { field: known.get(field) } }),
                );
            }
        }
        self.store(key, object)
    }

    /// Patches an object; the UID and the version in the patch, if any, must match.
    ///
    /// Returns the object after the patch, and whether it has changed.
    pub fn patch(&mut self, key: &K, patch: &Patch) -> Result<(Value, bool), Denied> {
        let known = self.kept.get(key).ok_or(Denied::NotFound)?;
        let mut object = patch.try_applied_to(known).ok_or(Denied::Misfit)?;
        drop_empty(&mut object);
        let (before, after) = (Meta::of(known), Meta::of(&object));
        if before.resource_version() != after.resource_version() {
            return Err(Denied::Conflict);
        }
        if before.uid() != after.uid() {
            return Err(Denied::OtherObject);
        }
        let kept = before.finalizers();
        if before.is_deleting() && after.finalizers().iter().any(|it| !kept.contains(it)) {
            return Err(Denied::NewFinalizer);
        }
        if object == *known {
            return Ok((object, false));
        }
        self.version += 1;
        Ok((self.store(key.clone(), object), true))
    }

    /// Deletes an object, if it has this UID and this version. An object with finalizers stays until they are removed.
    pub fn delete(
        &mut self,
        key: &K,
        uid: Option<&str>,
        version: Option<&str>,
    ) -> Result<(), Denied> {
        let known = self.kept.get(key).ok_or(Denied::NotFound)?;
        let meta = Meta::of(known);
        let is_other = |required: Option<&str>, is: &str| required.is_some_and(|it| it != is);
        if is_other(uid, meta.uid()) || is_other(version, meta.resource_version()) {
            return Err(Denied::Conflict);
        }
        if meta.is_deleting() {
            return Ok(());
        }
        let mut object = known.clone();
        let mark = json!({ "metadata": { "deletionTimestamp": "2026-01-02T00:00:00Z" } });
        patch::merge(&mut object, &mark);
        self.version += 1;
        self.store(key.clone(), object);
        Ok(())
    }

    /// The changes since the last call with `seen`, which it updates.
    pub fn updates(&self, seen: &mut Seen<K>, is_watched: impl Fn(&K) -> bool) -> Vec<Change<K>> {
        let since = seen.upto.saturating_add(1);
        let all: Vec<K> = if seen.lists {
            let known = seen.reported.keys().chain(self.kept.keys());
            known.cloned().collect()
        } else {
            vec![]
        };
        let changed: BTreeSet<&K> = if seen.lists {
            all.iter().collect()
        } else {
            self.changed.range(since..).map(|(_, key)| key).collect()
        };
        seen.lists = false;
        seen.upto = self.version;
        let mut updates = Vec::new();
        for key in &changed {
            let uid = self.kept.get(*key).map(|object| Meta::of(object).uid());
            let reported = seen.reported.get(*key);
            if let Some((gone, _)) = reported.filter(|(reported, _)| uid != Some(reported)) {
                updates.push(Change::Gone(K::clone(key), gone.clone()));
                seen.reported.remove(*key);
            }
        }
        for key in changed.into_iter().filter(|key| is_watched(key)) {
            let Some(object) = self.kept.get(key) else {
                continue;
            };
            let meta = Meta::of(object);
            let identity = (meta.uid().to_owned(), meta.resource_version().to_owned());
            seen.reported.insert(key.clone(), identity);
            updates.push(Change::Applied(key.clone(), object.clone()));
        }
        updates
    }

    /// Stores an object with the current version, or removes it if it is being deleted and has no finalizers. A removed
    /// object is returned in its last version.
    fn store(&mut self, key: K, mut object: Value) -> Value {
        if let Some(before) = self.last_change.insert(key.clone(), self.version) {
            self.changed.remove(&before);
        }
        self.changed.insert(self.version, key.clone());
        let meta = Meta::of(&object);
        if meta.is_deleting() && meta.finalizers().is_empty() {
            self.kept.remove(&key);
        } else {
            let version = json!({ "metadata": { "resourceVersion": self.version.to_string() } });
            patch::merge(&mut object, &version);
            self.kept.insert(key, object.clone());
        }
        object
    }
}

/// Removes empty collections of the metadata, and empty `data` as of a Secret.
fn drop_empty(object: &mut Value) {
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    fields.retain(|field, value| field != "data" || !is_empty(value));
    if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, value| !COLLECTIONS.contains(&field.as_str()) || !is_empty(value));
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
