//! Mirrors: the objects of autonomous clusters, shown on the hub and kept there as the cluster wants them.
//!
//! The namespace and the prefix of a project come from the session's certificate, the rest of the name from the spoke,
//! checked. An object without the cluster's mark is never touched. A written mirror is kept as the very object that the
//! index has: it costs its body once, and an edit of a user is the difference from it.
//!
//! `apply` applies the reports of a cluster, `names` gives each name to one cluster, `revert` reverts edits on the hub,
//! `write` does one write for either, `inventory` answers queries about the mirrors of a cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use argocd::{Meta, mirror};
use protocol::{Kind, ObjectKey};
use runtime::kube::UnderWay;
use serde_json::Value;

use super::{
    Key,
    store::{Report, Watched},
};
use crate::settings::MirrorLimits;

mod apply;
mod inventory;
mod names;
mod revert;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use revert::keep;

/// So many refusals are remembered for one cluster, and so many of them are listed.
const MOST_REFUSED: usize = 1000;
const LISTED: usize = 5;

/// The mirrors that were written or reported since the start. All others are in the index alone.
#[derive(Debug, Default)]
pub(super) struct Mirrors {
    known: BTreeMap<ObjectKey, Mirror>,
    usage: BTreeMap<String, Usage>,
    /// By cluster and by the name there: why an object is not mirrored.
    refused: BTreeMap<String, BTreeMap<ObjectKey, String>>,
    /// Creates under way, by name.
    making: UnderWay<ObjectKey>,
    /// UIDs of mirrors that we created and the watch has not reported yet. A watch that breaks before that does not
    /// miss them in its next list, and would never report their deletion.
    unreported: BTreeMap<ObjectKey, String>,
}

#[derive(Debug)]
struct Mirror {
    cluster: String,
    source_uid: String,
    bytes: usize,
    stage: Stage,
    /// We sent a create and do not know its outcome: the mirror may appear at any time.
    is_pending: bool,
}

impl Mirror {
    fn is_kept_for(&self, cluster: &str) -> bool {
        self.cluster == cluster
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
    Kept { digest: String, object: Arc<Value> },
    /// The cluster does not have it any more.
    Leaving,
}

#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    objects: usize,
    bytes: usize,
}

/// The write that a mirror needs.
#[derive(Clone, Debug, PartialEq)]
enum Need {
    Nothing,
    /// A user deleted it: it is created again.
    Create(Value),
    /// A user changed it, or a finalizer has to be removed.
    Patch(argocd::Patch),
    /// The cluster does not have it any more.
    Delete,
}

impl Mirrors {
    /// Forgets clusters that are not autonomous any more. Their mirrors stay as they are.
    pub(super) fn keep(&mut self, is_wanted: impl Fn(&str) -> bool) {
        self.known.retain(|_, mirror| is_wanted(&mirror.cluster));
        self.usage.retain(|cluster, _| is_wanted(cluster));
        self.refused.retain(|cluster, _| is_wanted(cluster));
    }

    /// Reserves room before a session writes a mirror; refused with a reason.
    fn begin(
        &mut self,
        key: &ObjectKey,
        cluster: &str,
        source_uid: &str,
        bytes: usize,
        limits: MirrorLimits,
    ) -> Result<(), String> {
        let known = self.known.get(key);
        if known.is_some_and(|known| known.cluster != cluster) {
            return Err("this name on the hub belongs to another cluster".to_owned());
        }
        // one that was only reported as deleted takes no room
        let before = known.map_or(0, |known| known.bytes);
        let usage = self.usage.get(cluster).copied().unwrap_or_default();
        let after = Usage {
            objects: usage.objects.saturating_add(usize::from(before == 0)),
            bytes: usage.bytes.saturating_sub(before).saturating_add(bytes),
        };
        if bytes > limits.object_bytes {
            return Err(format!(
                "its size of {bytes} bytes exceeds the limit of {} for a mirror",
                limits.object_bytes
            ));
        }
        if after.objects > limits.objects || after.bytes > limits.bytes {
            return Err(format!(
                "this cluster reached its limit of {} mirrored objects and {} bytes",
                limits.objects, limits.bytes
            ));
        }
        self.usage.insert(cluster.to_owned(), after);
        let mirror = Mirror {
            cluster: cluster.to_owned(),
            source_uid: source_uid.to_owned(),
            bytes,
            stage: Stage::Writing,
            is_pending: known.is_some_and(|known| known.is_pending),
        };
        self.known.insert(key.clone(), mirror);
        Ok(())
    }

    /// The hub has the object as the cluster reported it in the report with this `digest`.
    fn wrote(&mut self, key: &ObjectKey, digest: String, object: Arc<Value>) {
        if let Some(mirror) = self.known.get_mut(key) {
            mirror.stage = Stage::Kept { digest, object };
        }
    }

    /// The cluster does not have it any more.
    fn leave(&mut self, key: &ObjectKey, cluster: &str, source_uid: &str) {
        let mirror = self.known.entry(key.clone()).or_insert_with(|| Mirror {
            cluster: cluster.to_owned(),
            source_uid: String::new(),
            bytes: 0,
            stage: Stage::Leaving,
            is_pending: false,
        });
        if mirror.cluster == cluster {
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
    fn is_pending(&self, key: &ObjectKey, cluster: &str, source_uid: &str) -> bool {
        self.known.get(key).is_some_and(|mirror| {
            mirror.is_pending && mirror.cluster == cluster && mirror.source_uid == source_uid
        })
    }

    /// The response to a create arrived before the watch event.
    fn answered(&mut self, key: &ObjectKey, uid: &str) {
        self.unreported.insert(key.clone(), uid.to_owned());
    }

    /// The watch has reported this name.
    pub(super) fn reported(&mut self, key: &ObjectKey) {
        self.unreported.remove(key);
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

    /// It is gone; kept while a create is pending.
    fn left(&mut self, key: &ObjectKey) {
        if self.known.get(key).is_some_and(|mirror| !mirror.is_pending) {
            self.forget(key);
        }
    }

    fn forget(&mut self, key: &ObjectKey) {
        let Some(mirror) = self.known.remove(key) else {
            return;
        };
        // one that was never written takes no room
        if mirror.bytes > 0
            && let Some(usage) = self.usage.get_mut(&mirror.cluster)
        {
            usage.objects = usage.objects.saturating_sub(1);
            usage.bytes = usage.bytes.saturating_sub(mirror.bytes);
        }
    }

    /// Whether the hub's object differs from the wanted one.
    pub(super) fn is_out_of_sync(&self, key: &ObjectKey, live: Option<&Arc<Value>>) -> bool {
        let is_as_written = match self.known.get(key).map(|mirror| &mirror.stage) {
            Some(Stage::Kept { object, .. }) => live.is_some_and(|live| Arc::ptr_eq(live, object)),
            Some(Stage::Writing) | None => true,
            // its deletion has to be recorded, too
            Some(Stage::Leaving) => return true,
        };
        !is_as_written && self.need(key, live) != Need::Nothing
    }

    fn need(&self, key: &ObjectKey, live: Option<&Arc<Value>>) -> Need {
        let Some(known) = self.known.get(key) else {
            return Need::Nothing;
        };
        // an object of the same name that is not a mirror is left alone
        let ours = live.filter(|live| mirror::is_of(live, &known.cluster));
        match (&known.stage, ours) {
            (Stage::Kept { object, .. }, None) if live.is_none() => {
                Need::Create(mirror::recreated(object))
            }
            (Stage::Kept { object, .. }, Some(live)) => {
                mirror::healing_patch(live, object).map_or(Need::Nothing, Need::Patch)
            }
            (Stage::Leaving, Some(live)) if is_made_of(live, &known.source_uid) => {
                match argocd::projection::release_patch_for_hub(live) {
                    Some(release) => Need::Patch(release),
                    None if Meta::of(live).is_deleting() => Need::Nothing,
                    None => Need::Delete,
                }
            }
            (Stage::Writing | Stage::Kept { .. } | Stage::Leaving, _) => Need::Nothing,
        }
    }

    /// The objects of a cluster that are kept on the hub, with their UIDs on the cluster.
    fn kept_of(&self, cluster: &str) -> impl Iterator<Item = (&ObjectKey, &str)> {
        let known = self.known.iter();
        let retained = known.filter(move |(_, mirror)| mirror.is_kept_for(cluster));
        retained.map(|(key, mirror)| (key, mirror.source_uid.as_str()))
    }

    /// Whether this object is one of [`Self::kept_of`].
    fn keeps(&self, key: &ObjectKey, cluster: &str, source_uid: &str) -> bool {
        let known = self.known.get(key);
        known.is_some_and(|it| it.is_kept_for(cluster) && it.source_uid == source_uid)
    }

    fn digest(&self, key: &ObjectKey, live: &Arc<Value>) -> Option<&str> {
        match &self.known.get(key)?.stage {
            Stage::Kept { digest, object } => (Arc::ptr_eq(live, object)
                || mirror::healing_patch(live, object).is_none())
            .then_some(digest.as_str()),
            Stage::Writing | Stage::Leaving => None,
        }
    }

    fn note(&mut self, cluster: &str, key: &ObjectKey, refusal: Option<String>) {
        match refusal {
            Some(reason) => {
                let refused = self.refused.entry(cluster.to_owned()).or_default();
                if refused.len() < MOST_REFUSED || refused.contains_key(key) {
                    refused.insert(key.clone(), reason);
                }
            }
            None => {
                if let Some(refused) = self.refused.get_mut(cluster) {
                    refused.remove(key);
                }
            }
        }
    }
}

fn is_made_of(live: &Value, source_uid: &str) -> bool {
    Meta::of(live).source_uid().unwrap_or_default() == source_uid
}

/// The object of a watch report, if it can be a mirror.
pub(super) fn concerned(report: &Report, argocd_namespace: &str) -> Option<ObjectKey> {
    let (kind, key) = match report {
        Report::Applied(kind, object) => (*kind, Key::of(Meta::of(object))),
        Report::Deleted { kind, key, .. } => (*kind, key.clone()),
        Report::Synced(_) | Report::Rewound(_) => return None,
    };
    match kind {
        Watched::Application => Some(key.object()),
        Watched::AppProject => Some(ObjectKey::new(Kind::AppProject, argocd_namespace, key.name)),
        Watched::Repository | Watched::GpgKey | Watched::TlsCerts | Watched::SshKnownHosts => None,
    }
}
