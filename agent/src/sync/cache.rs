//! What is on the spoke, and what the hub last wanted there.
//!
//! The live side is fed by watches, and ahead of them by the answers to our own writes, so that the
//! next decision about an object sees the last write. The remembered side is fed by what was applied.
//! Memory is bounded by the number of objects that are watched or wanted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use argocd::masked::Masked;
use argocd::projection::Written;
use argocd::{Meta, keys};
use protocol::ObjectKey;
use serde_json::Value;

/// Everything known, by the names that objects have on the spoke.
#[derive(Debug, Default)]
pub struct Store {
    // Held for a lookup or an insert, never over an await.
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    entries: BTreeMap<ObjectKey, Entry>,
    /// UIDs that went while a create of their name was under way.
    making: BTreeMap<ObjectKey, BTreeSet<String>>,
    /// What was taken once by objects that somebody deleted here and that the hub may want again, by whose copies they were.
    taken: BTreeMap<ObjectKey, (String, Records)>,
    /// Made by us and not told by a watch yet.
    unreported: BTreeMap<ObjectKey, Untold>,
    /// Known from before the spoke went back to an earlier state: whatever comes next about them counts.
    former: BTreeSet<ObjectKey>,
}

/// Something that only the answer to our own create has told of.
#[derive(Debug)]
struct Untold {
    uid: String,
    /// A list was complete without it.
    is_missed: bool,
}

/// Annotations that say what was taken once.
type Records = Vec<(&'static str, String)>;

/// A create under way; its answer may come before or after what the watch tells about the object.
#[derive(Debug)]
pub struct Making<'a> {
    store: &'a Store,
    key: ObjectKey,
}

/// What is known about one object.
#[derive(Clone, Default)]
pub struct Entry {
    /// As it is on the spoke.
    pub live: Option<Arc<Value>>,
    /// As the hub wants it, if it said so since we started.
    pub wanted: Option<Arc<Wanted>>,
}

/// What the hub last wanted, after it was applied.
#[derive(Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The object as it should be here.
    pub desired: Value,
    /// Digest of the message, which tells the hub at a resync that nothing is missing.
    pub digest: String,
    /// What remained here of our last write: the API server and Argo CD normalise, and what they
    /// leave of the desired value is as good as the value.
    pub written: Option<Written>,
    /// The hub deletes it, or did: when it goes here, that is said and it stays gone.
    pub leaving: bool,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("live", &self.live.as_deref().map(Masked))
            .field("wanted", &self.wanted)
            .finish()
    }
}

impl fmt::Debug for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wanted")
            .field("desired", &Masked(&self.desired))
            .field("leaving", &self.leaving)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Changed { before } => f
                .debug_struct("Changed")
                .field("before", &before.as_deref().map(Masked))
                .finish(),
        }
    }
}

/// What a watch event meant.
#[derive(Clone, PartialEq, Eq)]
pub enum Change {
    /// Nothing: an echo of our own write, or an older version.
    None,
    /// The object is another one now.
    Changed {
        /// What it was.
        before: Option<Arc<Value>>,
    },
}

impl Store {
    /// What is known about one object.
    pub fn get(&self, key: &ObjectKey) -> Entry {
        self.lock().entries.get(key).cloned().unwrap_or_default()
    }

    /// The object as it is on the spoke.
    pub fn live(&self, key: &ObjectKey) -> Option<Arc<Value>> {
        self.lock().entries.get(key)?.live.clone()
    }

    /// Takes in an object that a watch saw. Older versions than the known one change nothing.
    pub fn seen(&self, key: ObjectKey, object: Arc<Value>) -> Change {
        let mut inner = self.lock();
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

    /// The spoke's API is back at an earlier state: of objects like these older versions than the known ones will come.
    pub fn outdate(&self, is_concerned: impl Fn(&ObjectKey) -> bool) {
        let mut inner = self.lock();
        let Inner {
            entries, former, ..
        } = &mut *inner;
        former.extend(entries.keys().filter(|key| is_concerned(key)).cloned());
    }

    /// Says that an object is about to be created; one create of a name at a time.
    pub fn making(&self, key: ObjectKey) -> Making<'_> {
        self.lock().making.insert(key.clone(), BTreeSet::new());
        Making { store: self, key }
    }

    /// Takes in the answer to one of our patches, unless the object is gone or another one by now.
    pub fn written(&self, key: &ObjectKey, object: &Arc<Value>) {
        let mut inner = self.lock();
        let Some(live) = inner
            .entries
            .get_mut(key)
            .and_then(|entry| entry.live.as_mut())
        else {
            return;
        };
        let same = Meta::of(live).uid() == Meta::of(object).uid();
        if same && is_newer(object, live) {
            *live = Arc::clone(object);
        }
    }

    /// Notes that an object with this UID is gone, and returns what was known.
    pub fn gone(&self, key: &ObjectKey, uid: &str) -> Option<Entry> {
        let mut inner = self.lock();
        let Inner {
            entries,
            making,
            unreported,
            taken,
            former,
        } = &mut *inner;
        unreported.remove(key);
        former.remove(key);
        if let Some(lost) = making.get_mut(key) {
            lost.insert(uid.to_owned());
        }
        let entry = entries.get_mut(key)?;
        if entry
            .live
            .as_deref()
            .is_none_or(|live| Meta::of(live).uid() != uid)
        {
            return None;
        }
        let known = entry.clone();
        // Also before the hub has said anything: it may want it again.
        let meta = entry.live.as_deref().map(Meta::of);
        if let Some((meta, source)) = meta.and_then(|meta| Some((meta, meta.source_uid()?))) {
            let records = [keys::LAST_COMMAND, keys::LAST_REFRESH].into_iter();
            let records = records.filter_map(|it| Some((it, meta.annotation(it)?.to_owned())));
            let records: Records = records.collect();
            if !records.is_empty() {
                taken.insert(key.clone(), (source.to_owned(), records));
            }
        }
        entry.live = None;
        if entry.wanted.is_none() {
            entries.remove(key);
        }
        Some(known)
    }

    /// What a copy of this hub object took once before somebody deleted it here: it is not to be done again.
    pub fn taken(&self, key: &ObjectKey, source_uid: &str) -> Vec<(&'static str, String)> {
        match self.lock().taken.get(key) {
            Some((source, records)) if source == source_uid => records.clone(),
            Some(_) | None => vec![],
        }
    }

    /// A list is complete: objects of ours that it lacks may be gone. Nobody else would tell, for a watch that never saw
    /// an object does not miss it; but the list may be older than the object, or narrower.
    pub fn listed(&self, is_listed: impl Fn(&ObjectKey) -> bool) -> Vec<ObjectKey> {
        let mut missed = vec![];
        for (key, unreported) in &mut self.lock().unreported {
            if is_listed(key) {
                unreported.is_missed = true;
                missed.push(key.clone());
            }
        }
        missed
    }

    /// Which object has to be asked for, because a list lacked it; told once for each list.
    pub fn take_missed(&self, key: &ObjectKey) -> Option<String> {
        let mut inner = self.lock();
        let unreported = inner.unreported.get_mut(key)?;
        std::mem::take(&mut unreported.is_missed).then(|| unreported.uid.clone())
    }

    /// It could not be asked for.
    pub fn still_missed(&self, key: &ObjectKey) {
        if let Some(unreported) = self.lock().unreported.get_mut(key) {
            unreported.is_missed = true;
        }
    }

    /// Remembers what the hub wants, after it was applied.
    pub fn remember(&self, key: ObjectKey, wanted: Wanted) {
        self.lock().entries.entry(key).or_default().wanted = Some(Arc::new(wanted));
    }

    /// Forgets what the hub wanted.
    pub fn forget(&self, key: &ObjectKey) {
        let mut inner = self.lock();
        inner.taken.remove(key);
        if let Some(entry) = inner.entries.get_mut(key) {
            entry.wanted = None;
            if entry.live.is_none() {
                inner.entries.remove(key);
            }
        }
    }

    /// Everything, in order, at one point in time.
    pub fn all(&self) -> Vec<(ObjectKey, Entry)> {
        self.lock()
            .entries
            .iter()
            .map(|(key, entry)| (key.clone(), entry.clone()))
            .collect()
    }

    /// How many objects of each kind are here.
    pub fn present(&self) -> BTreeMap<&'static str, usize> {
        let mut present = BTreeMap::new();
        for (key, entry) in &self.lock().entries {
            if entry.live.is_some() {
                *present.entry(key.kind.as_str()).or_default() += 1;
            }
        }
        present
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Making<'_> {
    /// Takes in the answer, so that the next decision knows the object before a watch tells of it.
    pub fn made(self, object: &Arc<Value>) {
        let mut inner = self.store.lock();
        let Inner {
            entries,
            making,
            unreported,
            taken,
            former: _,
        } = &mut *inner;
        taken.remove(&self.key);
        let uid = Meta::of(object).uid();
        if making.get(&self.key).is_some_and(|lost| lost.contains(uid)) {
            return;
        }
        // What a watch told already is as new or newer.
        let entry = entries.entry(self.key.clone()).or_default();
        if entry.live.is_none() {
            entry.live = Some(Arc::clone(object));
            let uid = uid.to_owned();
            let is_missed = false;
            unreported.insert(self.key.clone(), Untold { uid, is_missed });
        }
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        self.store.lock().making.remove(&self.key);
    }
}

/// Whether `object` is a later version than `known`, or another object of the same name.
///
/// Resource versions of one API server are ordered numbers. Where they are not numbers, what comes
/// last counts.
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
