//! The cache of the spoke's objects, and the last desired states of the hub.
//!
//! Watches update the live objects, and so do the answers to our own writes, so that the next plan for
//! an object sees the last write. Applied changes update the desired states. The number of watched or
//! desired objects bounds the memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use argocd::masked::Masked;
use argocd::projection::Written;
use argocd::{Meta, keys};
use protocol::ObjectKey;
use serde_json::Value;

use crate::lock::lock;

/// All cached objects by their keys on the spoke.
#[derive(Default, derive_more::Debug)]
#[debug("Store")]
pub struct Store {
    // Locked for a lookup or an insert, never over an await.
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    entries: BTreeMap<ObjectKey, Entry>,
    /// UIDs that were deleted while a create of their name was in progress.
    making: BTreeMap<ObjectKey, BTreeSet<String>>,
    /// Command records of locally deleted objects that the hub may want again, with their source UIDs.
    taken: BTreeMap<ObjectKey, (String, Records)>,
    /// Objects that we created and no watch has reported yet.
    unreported: BTreeMap<ObjectKey, Unreported>,
    /// Objects from before the spoke's API went back to an earlier state: the next version of each counts.
    former: BTreeSet<ObjectKey>,
}

/// An object that is known only from the answer to our create.
struct Unreported {
    uid: String,
    /// A complete list lacked it.
    is_missed: bool,
}

/// Annotations that record executed commands.
type Records = Vec<(&'static str, String)>;

/// A create in progress; its answer may arrive before or after the watch's report.
#[derive(Debug)]
pub(crate) struct Making<'a> {
    store: &'a Store,
    key: ObjectKey,
}

/// The cached state of one object.
#[derive(Clone, Default)]
pub(crate) struct Entry {
    /// The live object on the spoke.
    pub(crate) live: Option<Arc<Value>>,
    /// The hub's desired state, if received since we started.
    pub(crate) wanted: Option<Arc<Wanted>>,
}

/// The hub's last desired state, after it was applied.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The desired object on this cluster.
    pub(crate) desired: Value,
    /// Digest of the message, by which a resync sees that the state is current.
    pub(crate) digest: String,
    /// The stored form of our last write: the API server and Argo CD normalise the desired value, and
    /// the normal form counts as equal.
    pub(crate) written: Option<Written>,
    /// The hub deletes or deleted it: the agent reports the deletion and does not recreate the object.
    pub(crate) leaving: bool,
}

/// The effect of a watch event.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
pub(crate) enum Change {
    /// None: an echo of our own write, or an older version.
    None,
    /// The object changed.
    #[debug("Changed({:?})", before.as_deref().map(Masked))]
    Changed {
        /// The previous object.
        before: Option<Arc<Value>>,
    },
}

impl Store {
    /// The cached state of one object.
    pub(crate) fn get(&self, key: &ObjectKey) -> Entry {
        lock(&self.inner)
            .entries
            .get(key)
            .cloned()
            .unwrap_or_default()
    }

    /// The live object on the spoke.
    pub(crate) fn live(&self, key: &ObjectKey) -> Option<Arc<Value>> {
        lock(&self.inner).entries.get(key)?.live.clone()
    }

    /// Caches an object from a watch. Versions older than the cached one change nothing.
    pub(crate) fn seen(&self, key: ObjectKey, object: Arc<Value>) -> Change {
        let mut inner = lock(&self.inner);
        inner.unreported.remove(&key);
        let is_former = inner.former.remove(&key);
        let entry = inner.entries.entry(key).or_default();
        let known = entry.live.as_deref().filter(|_| !is_former);
        if known.is_some_and(|known| !is_newer(&object, known)) {
            return Change::None;
        }
        Change::Changed {
            before: entry.live.replace(object),
        }
    }

    /// Accepts older versions of these objects, since the spoke's API is back at an earlier state.
    pub(crate) fn outdate(&self, is_concerned: impl Fn(&ObjectKey) -> bool) {
        let inner = &mut *lock(&self.inner);
        let concerned = inner.entries.keys().filter(|key| is_concerned(key));
        inner.former.extend(concerned.cloned());
    }

    /// Announces the create of an object; one create of a name at a time.
    pub(crate) fn making(&self, key: ObjectKey) -> Making<'_> {
        lock(&self.inner)
            .making
            .insert(key.clone(), BTreeSet::new());
        Making { store: self, key }
    }

    /// Caches the answer to one of our patches, unless the object is gone or another one by now.
    pub(crate) fn written(&self, key: &ObjectKey, object: &Arc<Value>) {
        let mut inner = lock(&self.inner);
        if let Some(live) = inner.entries.get_mut(key).and_then(|it| it.live.as_mut())
            && Meta::of(live).uid() == Meta::of(object).uid()
            && is_newer(object, live)
        {
            *live = Arc::clone(object);
        }
    }

    /// Notes that an object with this UID is gone, and returns its cached state.
    pub(crate) fn gone(&self, key: &ObjectKey, uid: &str) -> Option<Entry> {
        let inner = &mut *lock(&self.inner);
        inner.unreported.remove(key);
        inner.former.remove(key);
        if let Some(lost) = inner.making.get_mut(key) {
            lost.insert(uid.to_owned());
        }
        let entry = inner.entries.get_mut(key)?;
        let live = entry.live.take_if(|live| Meta::of(live).uid() == uid)?;
        let meta = Meta::of(&live);
        // Also without a desired state: the hub may want the object again.
        if let Some(source) = meta.source_uid() {
            let records = [keys::LAST_COMMAND, keys::LAST_REFRESH].into_iter();
            let records = records.filter_map(|it| Some((it, meta.annotation(it)?.to_owned())));
            let records: Records = records.collect();
            if !records.is_empty() {
                let taken = (source.to_owned(), records);
                inner.taken.insert(key.clone(), taken);
            }
        }
        let wanted = entry.wanted.clone();
        if wanted.is_none() {
            inner.entries.remove(key);
        }
        let live = Some(live);
        Some(Entry { live, wanted })
    }

    /// Records of the commands that a deleted copy of this hub object executed, so that its successor does not repeat them.
    pub(crate) fn taken(&self, key: &ObjectKey, source_uid: &str) -> Vec<(&'static str, String)> {
        match lock(&self.inner).taken.get(key) {
            Some((source, records)) if source == source_uid => records.clone(),
            Some(_) | None => vec![],
        }
    }

    /// Marks and returns unreported objects that a complete list lacks. They may be gone, and a watch that never saw an
    /// object does not report its deletion; but the list may be older than the object, or its selector may not match.
    pub(crate) fn listed(&self, is_listed: impl Fn(&ObjectKey) -> bool) -> Vec<ObjectKey> {
        let mut missed = vec![];
        for (key, unreported) in &mut lock(&self.inner).unreported {
            if is_listed(key) {
                unreported.is_missed = true;
                missed.push(key.clone());
            }
        }
        missed
    }

    /// The UID of an object to look up, because a list lacked it; returned once for each list.
    pub(crate) fn take_missed(&self, key: &ObjectKey) -> Option<String> {
        let mut inner = lock(&self.inner);
        let unreported = inner.unreported.get_mut(key)?;
        std::mem::take(&mut unreported.is_missed).then(|| unreported.uid.clone())
    }

    /// Marks an object as missed again, after its lookup failed.
    pub(crate) fn still_missed(&self, key: &ObjectKey) {
        if let Some(unreported) = lock(&self.inner).unreported.get_mut(key) {
            unreported.is_missed = true;
        }
    }

    /// Remembers an applied desired state.
    pub(crate) fn remember(&self, key: ObjectKey, wanted: Wanted) {
        lock(&self.inner).entries.entry(key).or_default().wanted = Some(Arc::new(wanted));
    }

    /// Forgets the desired state.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        let mut inner = lock(&self.inner);
        inner.taken.remove(key);
        if let Some(entry) = inner.entries.get_mut(key) {
            entry.wanted = None;
            if entry.live.is_none() {
                inner.entries.remove(key);
            }
        }
    }

    /// A snapshot of all entries, in order.
    pub(crate) fn all(&self) -> Vec<(ObjectKey, Entry)> {
        let entries = lock(&self.inner).entries.clone();
        entries.into_iter().collect()
    }

    /// The number of live objects of each kind.
    pub(crate) fn present(&self) -> BTreeMap<&'static str, usize> {
        let mut present = BTreeMap::new();
        for (key, entry) in &lock(&self.inner).entries {
            if entry.live.is_some() {
                *present.entry(key.kind.as_str()).or_default() += 1;
            }
        }
        present
    }
}

impl Making<'_> {
    /// Caches the answer, so that the next plan sees the object before a watch reports it.
    pub(crate) fn made(self, object: &Arc<Value>) {
        let inner = &mut *lock(&self.store.inner);
        inner.taken.remove(&self.key);
        let uid = Meta::of(object).uid();
        let lost = inner.making.get(&self.key);
        if lost.is_some_and(|lost| lost.contains(uid)) {
            return;
        }
        // An object that a watch has reported is as new or newer.
        let entry = inner.entries.entry(self.key.clone()).or_default();
        if entry.live.is_none() {
            entry.live = Some(Arc::clone(object));
            let reported = Unreported {
                uid: uid.to_owned(),
                is_missed: false,
            };
            inner.unreported.insert(self.key.clone(), reported);
        }
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        lock(&self.store.inner).making.remove(&self.key);
    }
}

/// Whether `object` is a later version than `known`, or another object of the same name.
///
/// Resource versions of one API server are ordered numbers. If they are not numbers, the last one
/// counts.
fn is_newer(object: &Value, known: &Value) -> bool {
    let (object, known) = (Meta::of(object), Meta::of(known));
    if object.uid() != known.uid() {
        return true;
    }
    let version = |meta: Meta<'_>| meta.resource_version().parse::<u64>().ok();
    match (version(object), version(known)) {
        (Some(object), Some(known)) => object > known,
        _ => object.resource_version() != known.resource_version(),
    }
}

#[cfg(test)]
mod tests;
