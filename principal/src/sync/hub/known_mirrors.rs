//! The mirrors that were written or reported since the start, and the write that each of them needs. Pure.
//!
//! A written mirror is kept as the very object that the index has: it costs its body once, and an edit of a user is the
//! difference from it.

use std::{collections::BTreeMap, sync::Arc};

use argocd::mirror;
use protocol::{Kind, ObjectKey};
use runtime::kube::UnderWay;

use crate::{
    domain::ClusterName,
    report::Unmirrored,
    settings::MirrorLimits,
    store::{Packed, Step},
};

/// So many refusals are remembered for one cluster, and so many of them are listed.
const MOST_REFUSED: usize = 1000;
const LISTED: usize = 5;

/// The mirrors that were written or reported since the start. All others are in the index alone.
#[derive(Debug, Default)]
pub(super) struct KnownMirrors {
    limits: MirrorLimits,
    known: BTreeMap<ObjectKey, Mirror>,
    usage: BTreeMap<ClusterName, Usage>,
    /// By cluster and by the name there: why an object is not mirrored.
    refused: BTreeMap<ClusterName, BTreeMap<ObjectKey, String>>,
    /// Creates under way, by name.
    pub(super) making: UnderWay<ObjectKey>,
    /// UIDs of mirrors that we created and the watch has not reported yet. A watch that breaks before that does not
    /// miss them in its next list, and would never report their deletion.
    pub(super) unreported: BTreeMap<ObjectKey, String>,
}

#[derive(Debug)]
struct Mirror {
    cluster: ClusterName,
    source_uid: String,
    memory: usize,
    stage: Stage,
    /// We sent a create and do not know its outcome: the mirror may appear at any time.
    is_pending: bool,
}

impl Mirror {
    fn is_kept_for(&self, cluster: &ClusterName) -> bool {
        self.cluster == *cluster
            && match self.stage {
                Stage::Writing | Stage::Kept { .. } => true,
                Stage::Leaving => false,
            }
    }
}

#[derive(Debug)]
enum Stage {
    /// A session is writing it.
    Writing,
    /// It was written; the digest identifies the cluster's report.
    Kept { digest: String, object: Arc<Packed> },
    /// The cluster does not have it any more.
    Leaving,
}

#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    objects: usize,
    memory: usize,
}

/// The size of a mirror, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    /// Of its text.
    pub(super) text: usize,
    /// The estimate of its memory; not zero.
    pub(super) memory: usize,
}

impl KnownMirrors {
    pub(super) fn new(limits: MirrorLimits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// Forgets clusters that are not autonomous any more. Their mirrors stay as they are.
    pub(super) fn keep(&mut self, is_wanted: impl Fn(&ClusterName) -> bool) {
        self.known.retain(|_, mirror| is_wanted(&mirror.cluster));
        self.usage.retain(|cluster, _| is_wanted(cluster));
        self.refused.retain(|cluster, _| is_wanted(cluster));
    }

    /// Forgets a mirror that this cluster may have now, and that another one did not get onto the hub.
    pub(super) fn take_over(&mut self, key: &ObjectKey, cluster: &ClusterName) {
        if self.known.get(key).is_some_and(|it| it.cluster != *cluster) {
            self.forget(key);
        }
    }

    /// Reserves room before a session writes a mirror; refused with a reason.
    pub(super) fn begin(
        &mut self,
        key: &ObjectKey,
        cluster: &ClusterName,
        source_uid: &str,
        size: Size,
    ) -> Result<(), String> {
        let limits = self.limits;
        let known = self.known.get(key);
        if known.is_some_and(|known| known.cluster != *cluster) {
            return Err("this name on the hub belongs to another cluster".to_owned());
        }
        // one that was only reported as deleted takes no room
        let before = known.map_or(0, |known| known.memory);
        let usage = self.usage.get(cluster).copied().unwrap_or_default();
        let after = Usage {
            objects: usage.objects.saturating_add(usize::from(before == 0)),
            memory: usage
                .memory
                .saturating_sub(before)
                .saturating_add(size.memory),
        };
        if size.text > limits.object_bytes {
            return Err(format!(
                "its size of {} bytes exceeds the limit of {} for a mirror",
                size.text, limits.object_bytes
            ));
        }
        if size.memory > limits.object_memory {
            return Err(format!(
                "its many small values need {} bytes of memory, which exceeds the limit of {} for a mirror",
                size.memory, limits.object_memory
            ));
        }
        if after.objects > limits.objects || after.memory > limits.memory {
            return Err(format!(
                "this cluster reached its limit of {} mirrored objects and {} bytes of memory",
                limits.objects, limits.memory
            ));
        }
        self.usage.insert(cluster.clone(), after);
        let mirror = Mirror {
            cluster: cluster.clone(),
            source_uid: source_uid.to_owned(),
            memory: size.memory,
            stage: Stage::Writing,
            is_pending: known.is_some_and(|known| known.is_pending),
        };
        self.known.insert(key.clone(), mirror);
        Ok(())
    }

    /// The hub has the object as the cluster reported it in the report with this `digest`.
    pub(super) fn wrote(
        &mut self,
        key: &ObjectKey,
        cluster: &ClusterName,
        digest: String,
        object: Arc<Packed>,
    ) {
        let mirror = self.known.get_mut(key);
        if let Some(mirror) = mirror.filter(|it| it.cluster == *cluster) {
            mirror.stage = Stage::Kept { digest, object };
        }
    }

    /// The cluster does not have it any more.
    pub(super) fn leave(&mut self, key: &ObjectKey, cluster: &ClusterName, source_uid: &str) {
        let mirror = self.known.entry(key.clone()).or_insert_with(|| Mirror {
            cluster: cluster.clone(),
            source_uid: String::new(),
            memory: 0,
            stage: Stage::Leaving,
            is_pending: false,
        });
        if mirror.cluster == *cluster {
            mirror.stage = Stage::Leaving;
            source_uid.clone_into(&mut mirror.source_uid);
        }
    }

    /// Records whether a create has been sent whose outcome is unknown.
    pub(super) fn note_pending(&mut self, key: &ObjectKey, is_pending: bool) {
        if let Some(mirror) = self.known.get_mut(key) {
            mirror.is_pending = is_pending;
        }
    }

    /// Whether a sent create may still make it appear, from the object with this UID.
    pub(super) fn is_pending(
        &self,
        key: &ObjectKey,
        cluster: &ClusterName,
        source_uid: &str,
    ) -> bool {
        self.known.get(key).is_some_and(|mirror| {
            mirror.is_pending && mirror.cluster == *cluster && mirror.source_uid == source_uid
        })
    }

    /// The response to a create arrived before the watch event.
    pub(super) fn answered(&mut self, key: &ObjectKey, uid: &str) {
        self.unreported.insert(key.clone(), uid.to_owned());
    }

    /// The watch has reported the object with this UID. An event of its predecessor is no report of it.
    pub(super) fn reported(&mut self, key: &ObjectKey, uid: &str) {
        if self.unreported.get(key).is_some_and(|it| it == uid) {
            self.unreported.remove(key);
        }
    }

    /// The created mirrors that a complete list of this kind does not have. One that was created during the list
    /// arrives with the watch.
    pub(super) fn take_unreported(&mut self, kind: Kind) -> BTreeMap<ObjectKey, String> {
        let taken = self.unreported.extract_if(.., |key, _| key.kind == kind);
        taken.collect()
    }

    /// The object with this UID is gone.
    pub(super) fn went(&mut self, key: &ObjectKey, uid: &str) {
        self.making.went(key, uid);
    }

    /// The hub has this object, or none, after the write that it [needed](Self::need).
    pub(super) fn settled(&mut self, key: &ObjectKey, changed: bool, live: Option<Arc<Packed>>) {
        let Some(mirror) = self.known.get_mut(key) else {
            return;
        };
        match (&mut mirror.stage, live) {
            // The result of our write is the wanted object: the API server drops unknown fields.
            (Stage::Kept { object, .. }, Some(live)) if changed => *object = live,
            // Kept while a create is pending.
            (Stage::Leaving, None) if !mirror.is_pending => self.forget(key),
            _ => {}
        }
    }

    /// The write of a cluster did not succeed. Its successor under this name is another mirror.
    pub(super) fn give_up(&mut self, key: &ObjectKey, cluster: &ClusterName) {
        if self.known.get(key).is_some_and(|it| it.cluster == *cluster) {
            self.forget(key);
        }
    }

    fn forget(&mut self, key: &ObjectKey) {
        let Some(mirror) = self.known.remove(key) else {
            return;
        };
        // one that was never written takes no room
        if mirror.memory > 0
            && let Some(usage) = self.usage.get_mut(&mirror.cluster)
        {
            usage.objects = usage.objects.saturating_sub(1);
            usage.memory = usage.memory.saturating_sub(mirror.memory);
        }
    }

    /// Whether the hub's object differs from the wanted one.
    pub(super) fn is_out_of_sync(&self, key: &ObjectKey, live: Option<&Arc<Packed>>) -> bool {
        let is_as_written = match self.known.get(key).map(|mirror| &mirror.stage) {
            Some(Stage::Kept { object, .. }) => live.is_some_and(|live| Arc::ptr_eq(live, object)),
            Some(Stage::Writing) | None => true,
            // its deletion has to be recorded, too
            Some(Stage::Leaving) => return true,
        };
        !is_as_written && self.need(key, live) != Step::Nothing
    }

    /// The write that a mirror needs.
    pub(super) fn need(&self, key: &ObjectKey, live: Option<&Arc<Packed>>) -> Step {
        let Some(known) = self.known.get(key) else {
            return Step::Nothing;
        };
        // an object of the same name that is not a mirror is left alone
        let ours = live.filter(|live| mirror::is_of(live.head(), known.cluster.as_str()));
        match (&known.stage, ours) {
            // A user deleted it.
            (Stage::Kept { object, .. }, None) if live.is_none() => {
                Step::Create(mirror::recreated(&object.whole()))
            }
            // A user changed it.
            (Stage::Kept { object, .. }, Some(live)) => {
                mirror::healing_patch(live.head(), object.head()).map_or(Step::Nothing, Step::Patch)
            }
            (Stage::Leaving, Some(live)) if is_made_of(live, &known.source_uid) => {
                match argocd::projection::release_patch_for_hub(live.head()) {
                    Some(release) => Step::Patch(release),
                    None if live.meta().is_deleting() => Step::Nothing,
                    None => Step::Delete,
                }
            }
            (Stage::Writing | Stage::Kept { .. } | Stage::Leaving, _) => Step::Nothing,
        }
    }

    /// The objects of a cluster that are kept on the hub, with their UIDs on the cluster.
    pub(super) fn kept_of(
        &self,
        cluster: &ClusterName,
    ) -> impl Iterator<Item = (&ObjectKey, &str)> {
        let known = self.known.iter();
        let kept = known.filter(move |(_, mirror)| mirror.is_kept_for(cluster));
        kept.map(|(key, mirror)| (key, mirror.source_uid.as_str()))
    }

    /// Whether this object is one of [`Self::kept_of`].
    pub(super) fn keeps(&self, key: &ObjectKey, cluster: &ClusterName, source_uid: &str) -> bool {
        let known = self.known.get(key);
        known.is_some_and(|it| it.is_kept_for(cluster) && it.source_uid == source_uid)
    }

    /// The digest of the report that the hub's object shows.
    pub(super) fn digest(&self, key: &ObjectKey, live: &Arc<Packed>) -> Option<&str> {
        match &self.known.get(key)?.stage {
            Stage::Kept { digest, object } => (Arc::ptr_eq(live, object)
                || mirror::healing_patch(live.head(), object.head()).is_none())
            .then_some(digest.as_str()),
            Stage::Writing | Stage::Leaving => None,
        }
    }

    /// Records why an object of a cluster is not mirrored, or that it is.
    pub(super) fn note(&mut self, cluster: &ClusterName, key: &ObjectKey, refusal: Option<String>) {
        let refused = self.refused.entry(cluster.clone()).or_default();
        match refusal {
            Some(reason) if refused.len() < MOST_REFUSED || refused.contains_key(key) => {
                refused.insert(key.clone(), reason);
            }
            Some(_) => {}
            None => {
                refused.remove(key);
            }
        }
    }

    /// A new session reports again which objects cannot be mirrored.
    pub(super) fn clear_refused(&mut self, cluster: &ClusterName) {
        self.refused.remove(cluster);
    }

    /// The objects that cannot be mirrored, by their names on the cluster, with the reason.
    pub(super) fn refused(&self) -> impl Iterator<Item = (&ClusterName, &ObjectKey, &str)> {
        self.refused.iter().flat_map(|(cluster, refused)| {
            let refused = refused.iter();
            refused.map(move |(key, why)| (cluster, key, why.as_str()))
        })
    }

    /// The objects of a cluster that cannot be mirrored, if there are any.
    pub(super) fn unmirrored(&self, cluster: &ClusterName) -> Option<Unmirrored> {
        let refused = self.refused.get(cluster)?;
        let listed = refused.iter().take(LISTED);
        (!refused.is_empty()).then(|| Unmirrored {
            count: refused.len(),
            names: listed
                .map(|(key, why)| format!("{} {}: {why}", key.kind, key.name))
                .collect(),
        })
    }
}

/// Whether the hub's object mirrors the object with this UID.
pub(super) fn is_made_of(live: &Packed, source_uid: &str) -> bool {
    live.meta().source_uid().unwrap_or_default() == source_uid
}

#[cfg(test)]
mod tests;
