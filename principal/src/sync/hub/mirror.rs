//! Mirrors: what autonomous clusters own, shown on the hub and held there as the cluster wants it.
//!
//! The namespace and the prefix of a project come from the session's certificate, the rest of the name from the spoke,
//! checked. An object that does not carry the cluster's mark is never touched. What was written is kept as the very
//! object that the index has, so a mirror costs its body once, and somebody's edit is what differs from it.
//!
//! `apply` takes in what a cluster says, `keep` takes back what somebody did on the hub, `write` is one write of either,
//! `shown` answers what the hub shows of a cluster.

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
mod revert;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use revert::keep;

/// How many refusals are remembered for one cluster, and how many of them are told.
const MOST_REFUSED: usize = 1000;
const TOLD: usize = 5;

/// What is known about mirrors since the start. Objects that nobody has spoken of since are in the index alone.
#[derive(Debug, Default)]
pub(super) struct Mirrors {
    known: BTreeMap<ObjectKey, Mirror>,
    usage: BTreeMap<String, Usage>,
    /// By cluster and by the name there: why it is not shown.
    refused: BTreeMap<String, BTreeMap<ObjectKey, String>>,
    /// Creates under way, by name.
    making: UnderWay<ObjectKey>,
    /// What we made and only the answer has told of: UIDs. A watch that breaks before it tells misses nothing when it lists
    /// anew, so that it would never say that this one is gone.
    unreported: BTreeMap<ObjectKey, String>,
}

#[derive(Debug)]
struct Mirror {
    cluster: String,
    source_uid: String,
    bytes: usize,
    stand: Stand,
    /// We have asked the hub to make it and do not know what came of that: it may be there at any time.
    is_coming: bool,
}

impl Mirror {
    fn is_held_for(&self, cluster: &str) -> bool {
        self.cluster == cluster
            && match self.stand {
                Stand::Writing | Stand::Blocked { .. } => true,
                Stand::Leaving => false,
            }
    }
}

#[derive(Debug)]
enum Stand {
    /// A session is writing it.
    Writing,
    /// It was written so; the digest names what the cluster said.
    Blocked { digest: String, object: Arc<Value> },
    /// The cluster does not have it any more.
    Leaving,
}

#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    objects: usize,
    bytes: usize,
}

/// What has to be done about a mirror.
#[derive(Clone, Debug, PartialEq)]
enum Need {
    Nothing,
    /// Somebody deleted it: it is made again so.
    Make(Value),
    /// Somebody changed it, or it has to be let go.
    Mend(argocd::Patch),
    /// It goes.
    End,
}

impl Mirrors {
    /// Forgets everything about clusters that are not autonomous any more. Their mirrors stay as they are.
    pub(super) fn keep(&mut self, is_wanted: impl Fn(&str) -> bool) {
        self.known.retain(|_, mirror| is_wanted(&mirror.cluster));
        self.usage.retain(|cluster, _| is_wanted(cluster));
        self.refused.retain(|cluster, _| is_wanted(cluster));
    }

    /// A session is about to write this one; or why not.
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
        // one that was only said to be gone takes no room
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
            stand: Stand::Writing,
            is_coming: known.is_some_and(|known| known.is_coming),
        };
        self.known.insert(key.clone(), mirror);
        Ok(())
    }

    /// It is on the hub as the cluster said, which `digest` names.
    fn wrote(&mut self, key: &ObjectKey, digest: String, object: Arc<Value>) {
        if let Some(mirror) = self.known.get_mut(key) {
            mirror.stand = Stand::Blocked { digest, object };
        }
    }

    /// The cluster has it no more.
    fn leave(&mut self, key: &ObjectKey, cluster: &str, source_uid: &str) {
        let mirror = self.known.entry(key.clone()).or_insert_with(|| Mirror {
            cluster: cluster.to_owned(),
            source_uid: String::new(),
            bytes: 0,
            stand: Stand::Leaving,
            is_coming: false,
        });
        if mirror.cluster == cluster {
            mirror.stand = Stand::Leaving;
            source_uid.clone_into(&mut mirror.source_uid);
        }
    }

    /// Notes that the hub makes it, or that it is known what came of that.
    pub(super) fn note_coming(&mut self, key: &ObjectKey, is_coming: bool) {
        if let Some(mirror) = self.known.get_mut(key) {
            mirror.is_coming = is_coming;
        }
    }

    /// Whether it may be there at any time, made of the object with this UID.
    fn is_coming(&self, key: &ObjectKey, cluster: &str, source_uid: &str) -> bool {
        self.known.get(key).is_some_and(|mirror| {
            mirror.is_coming && mirror.cluster == cluster && mirror.source_uid == source_uid
        })
    }

    /// The answer to a create told of it first.
    fn answered(&mut self, key: &ObjectKey, uid: &str) {
        self.unreported.insert(key.clone(), uid.to_owned());
    }

    /// The watch tells of this name.
    pub(super) fn reply(&mut self, key: &ObjectKey) {
        self.unreported.remove(key);
    }

    /// What a complete list of this kind has not told of either. One that was made while it was on its way comes with the
    /// watch.
    pub(super) fn take_untold(&mut self, kind: Kind) -> BTreeMap<ObjectKey, String> {
        let taken = self.unreported.extract_if(.., |key, _| key.kind == kind);
        taken.collect()
    }

    /// The object with this UID is gone.
    pub(super) fn went(&mut self, key: &ObjectKey, uid: &str) {
        self.making.went(key, uid);
    }

    /// It is gone; what may still come is not forgotten.
    fn left(&mut self, key: &ObjectKey) {
        if self.known.get(key).is_some_and(|mirror| !mirror.is_coming) {
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

    /// Whether what the hub has now is not what it should have.
    pub(super) fn is_crooked(&self, key: &ObjectKey, live: Option<&Arc<Value>>) -> bool {
        let is_as_written = match self.known.get(key).map(|mirror| &mirror.stand) {
            Some(Stand::Blocked { object, .. }) => {
                live.is_some_and(|live| Arc::ptr_eq(live, object))
            }
            Some(Stand::Writing) | None => true,
            // that it is gone has to be noted, too
            Some(Stand::Leaving) => return true,
        };
        !is_as_written && self.need(key, live) != Need::Nothing
    }

    fn need(&self, key: &ObjectKey, live: Option<&Arc<Value>>) -> Need {
        let Some(known) = self.known.get(key) else {
            return Need::Nothing;
        };
        // a stranger of the same name is nobody's business here
        let ours = live.filter(|live| mirror::is_of(live, &known.cluster));
        match (&known.stand, ours) {
            (Stand::Blocked { object, .. }, None) if live.is_none() => {
                Need::Make(mirror::recreated(object))
            }
            (Stand::Blocked { object, .. }, Some(live)) => {
                mirror::healing_patch(live, object).map_or(Need::Nothing, Need::Mend)
            }
            (Stand::Leaving, Some(live)) if is_made_of(live, &known.source_uid) => {
                match argocd::projection::release_patch_for_hub(live) {
                    Some(release) => Need::Mend(release),
                    None if Meta::of(live).is_deleting() => Need::Nothing,
                    None => Need::End,
                }
            }
            (Stand::Writing | Stand::Blocked { .. } | Stand::Leaving, _) => Need::Nothing,
        }
    }

    /// What of a cluster is held on the hub, with the UIDs there.
    fn held_of(&self, cluster: &str) -> impl Iterator<Item = (&ObjectKey, &str)> {
        let known = self.known.iter();
        let retained = known.filter(move |(_, mirror)| mirror.is_held_for(cluster));
        retained.map(|(key, mirror)| (key, mirror.source_uid.as_str()))
    }

    /// Whether this one is.
    fn holds(&self, key: &ObjectKey, cluster: &str, source_uid: &str) -> bool {
        let known = self.known.get(key);
        known.is_some_and(|it| it.is_held_for(cluster) && it.source_uid == source_uid)
    }

    fn digest(&self, key: &ObjectKey, live: &Arc<Value>) -> Option<&str> {
        match &self.known.get(key)?.stand {
            Stand::Blocked { digest, object } => (Arc::ptr_eq(live, object)
                || mirror::healing_patch(live, object).is_none())
            .then_some(digest.as_str()),
            Stand::Writing | Stand::Leaving => None,
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

/// What a report of the watch is about, if that can be a mirror.
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
