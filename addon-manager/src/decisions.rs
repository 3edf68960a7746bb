//! Decisions about a cluster, recorded so that no other client can undo them by accident.
//!
//! Administrators ask with annotations on the `ManagedClusterAddOn`. Other tools remove annotations: `clusteradm addon
//! enable` replaces all of them, and a recreated `ManagedClusterAddOn` has none. So the manager records each decision per
//! cluster in a `ConfigMap` of its own namespace, and restores the annotations from there. A request that is absent
//! changes nothing; only an explicit act does:
//!
//! | decision | changes when |
//! |---|---|
//! | mode | [`optin::plan`](crate::optin::plan) records another one |
//! | revoked | the annotation is absent **and** the key has another name than at the revocation (`agent restore` does both) |
//! | rekey | the annotation has another value |
//! | made for the label, installed Argo CD | the `ManagedClusterAddOn` is another one (another UID) |
//!
//! A record belongs to one ManagedCluster, by UID. When the name has another UID, it is either the same cluster on a
//! restored hub or a new import. The claim `id.k8s.io` decides. Clusters without it are a new import if the manager
//! observed the removal, and the same cluster if the restored add-on has its recorded mode. Otherwise
//! [`Identity::Unknown`] holds the cluster until the claim is reported or an administrator names another key. A new import
//! starts clean and gets another key, so certificates of the earlier cluster are rejected. A revocation belongs to the
//! name and survives all of that.
//! Pure; [`store`] reads and writes the `ConfigMap`.

pub mod store;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use principal::Mode;
use serde::{Deserialize, Serialize};

use crate::{
    hub::{Addon, Cluster, World},
    keys,
};

/// The records of all clusters, by name.
pub type Records = BTreeMap<String, Record>;

/// The records as other parts see them; none until they were read, and then nothing may be decided.
pub type Known = Option<Arc<Records>>;

/// The decisions about one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The mode that it had last.
    pub mode: Option<Mode>,
    /// UID of its ManagedCluster.
    pub uid: String,
    /// UID of the `ManagedClusterAddOn` that the mode was recorded on last.
    pub addon: String,
    /// Everything else.
    pub details: Details,
}

/// The decisions besides the mode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Details {
    /// Whether the manager created the `ManagedClusterAddOn` because of the label.
    #[serde(skip_serializing_if = "is_false")]
    pub made_for_label: bool,
    /// Whether the certificates of the cluster are revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Revocation>,
    /// The name of its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rekey: Option<String>,
    /// The decision about its Argo CD.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argocd: Option<String>,
    /// The namespace of the Argo CD that the add-on installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argocd_place: Option<String>,
    /// Its claim `id.k8s.io`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
    /// When its ManagedCluster was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed: Option<Timestamp>,
}

/// A revocation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revocation {
    /// The administrator's reason.
    pub reason: String,
    /// The name of the key that was revoked. A restore names another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

/// Whether a ManagedCluster is the one of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// It is: the same UID, the same claim, or an add-on that was restored with its recorded mode.
    Same,
    /// Another cluster has the name now: another claim, an observed removal, or another key.
    New,
    /// Another UID without evidence.
    Unknown,
}

impl Record {
    fn identity(&self, cluster: &Cluster, addon: Option<&Addon>) -> Identity {
        if self.uid == cluster.uid {
            return Identity::Same;
        }
        let renamed = addon.and_then(|it| it.rekey.as_ref());
        if renamed.is_some() && renamed != self.details.rekey.as_ref() {
            return Identity::New;
        }
        match (self.details.claim.as_deref(), cluster.id()) {
            (Some(before), Some(now)) if before == now => return Identity::Same,
            (Some(_), Some(_)) => return Identity::New,
            (None, _) | (_, None) => {}
        }
        if self.details.removed.is_some() {
            return Identity::New;
        }
        // No removal was observed. An administrator restored the hub if the add-on came back with its mode: no spoke can
        // write that annotation.
        let restored = addon.is_some_and(|it| it.mode().is_some() && it.mode() == self.mode);
        if restored {
            Identity::Same
        } else {
            Identity::Unknown
        }
    }

    /// The record of a new import under the name of this one.
    fn of_new_import(&self, cluster: &Cluster) -> Self {
        Self {
            uid: cluster.uid.clone(),
            details: Details {
                revoked: self.details.revoked.clone(),
                rekey: Some(format!("import {}", cluster.uid)),
                ..Details::default()
            },
            ..Self::default()
        }
    }

    /// Takes over what the annotations of a `ManagedClusterAddOn` ask for.
    fn absorb(&mut self, addon: &Addon) {
        if let Some(mode) = addon.mode() {
            self.mode = Some(mode);
        }
        let details = &mut self.details;
        if self.addon != addon.uid {
            details.made_for_label = false;
            (details.argocd, details.argocd_place) = (None, None);
        }
        if addon.mode().is_some() {
            self.addon.clone_from(&addon.uid);
        }
        details.made_for_label |= addon.made_for_label;
        if addon.argocd.is_some() {
            details.argocd.clone_from(&addon.argocd);
            details.argocd_place.clone_from(&addon.argocd_place);
        }
        let key = details.rekey.clone();
        if let Some(reason) = &addon.revoked {
            let revoked = details.revoked.get_or_insert_with(|| Revocation {
                key: addon.rekey.clone().or(key),
                ..Revocation::default()
            });
            revoked.reason.clone_from(reason);
        } else {
            let restores =
                |revoked: &mut Revocation| addon.rekey.is_some() && addon.rekey != revoked.key;
            details.revoked.take_if(restores);
        }
        if addon.rekey.is_some() {
            details.rekey.clone_from(&addon.rekey);
        }
    }

    /// The annotations that this record demands and the `ManagedClusterAddOn` lacks.
    fn missing(&self, addon: &Addon) -> BTreeMap<&'static str, String> {
        let details = &self.details;
        let label = details.made_for_label.then(|| "true".to_owned());
        let reason = details.revoked.as_ref().map(|it| &it.reason);
        let has_argocd = addon.argocd.is_some();
        let has_place = has_argocd || addon.argocd_place.is_some();
        let wanted = [
            (keys::MADE_FOR_LABEL, addon.made_for_label, label.as_ref()),
            (keys::REVOKED, addon.revoked.is_some(), reason),
            (keys::REKEY, addon.rekey.is_some(), details.rekey.as_ref()),
            (keys::ARGOCD, has_argocd, details.argocd.as_ref()),
            (keys::ARGOCD_PLACE, has_place, details.argocd_place.as_ref()),
        ];
        let absent = wanted.into_iter().filter(|(_, is_there, _)| !is_there);
        absent
            .filter_map(|(key, _, value)| Some((key, value?.clone())))
            .collect()
    }
}

/// The record of a cluster after its objects are taken into account; none without a decision.
fn current(
    record: Option<&Record>,
    cluster: &Cluster,
    addon: Option<&Addon>,
) -> Option<(Identity, Record)> {
    let identity = record.map_or(Identity::Same, |it| it.identity(cluster, addon));
    let mut now = match (record, identity) {
        (Some(record), Identity::Unknown) => return Some((identity, record.clone())),
        (Some(record), Identity::New) => record.of_new_import(cluster),
        (Some(record), Identity::Same) => record.clone(),
        (None, _) => Record::default(),
    };
    if let Some(addon) = addon {
        now.absorb(addon);
    }
    let decided = now.mode.is_some() || now.details != Details::default();
    now.uid.clone_from(&cluster.uid);
    now.details.removed = None;
    if let Some(claim) = cluster.id() {
        now.details.claim = Some(claim.to_owned());
    }
    decided.then_some((identity, now))
}

/// The records after a look at the hub.
///
/// The record of a removed cluster stays for `keep`, as long as one of its certificates may be valid, and longer only if
/// it is revoked.
pub fn updated(records: &Records, world: &World, now: Timestamp, keep: SignedDuration) -> Records {
    let names = records.keys().chain(world.addons.keys());
    let names: BTreeSet<&String> = names.collect();
    let update = |name: &String| {
        let record = records.get(name);
        if let Some(cluster) = world.clusters.get(name) {
            return current(record, cluster, world.addons.get(name)).map(|(_, it)| it);
        }
        let mut record = record?.clone();
        let removed = *record.details.removed.get_or_insert(now);
        let matters = record.details.revoked.is_some() || now.duration_since(removed) < keep;
        matters.then_some(record)
    };
    names
        .into_iter()
        .filter_map(|name| Some((name.clone(), update(name)?)))
        .collect()
}

/// Completes what the objects of the hub ask for with what was decided.
pub fn enforce(records: &Records, world: &mut World) {
    for (name, addon) in &mut world.addons {
        let (record, cluster) = (records.get(name), world.clusters.get(name));
        let Some((identity, now)) = cluster.and_then(|it| current(record, it, Some(addon))) else {
            continue;
        };
        let is_same_addon = record.is_some_and(|it| it.addon == addon.uid);
        addon.unidentified = identity == Identity::Unknown;
        if !addon.unidentified {
            addon.missing = now.missing(addon);
        }
        let mode = now
            .mode
            .filter(|_| identity == Identity::Same && is_same_addon);
        if let (None, Some(mode)) = (&addon.recorded, mode) {
            addon.recorded = Some(mode.as_str().to_owned());
            addon.missing.insert(keys::MODE, mode.as_str().to_owned());
        }
        let details = now.details;
        addon.revoked = details.revoked.map(|it| it.reason);
        addon.rekey = details.rekey;
        if identity != Identity::Unknown {
            addon.made_for_label = details.made_for_label;
            (addon.argocd, addon.argocd_place) = (details.argocd, details.argocd_place);
        }
    }
    let modes = records.iter().filter_map(|(name, record)| {
        let cluster = world.clusters.get(name)?;
        let mode = record.mode.filter(|_| cluster.uid == record.uid)?;
        Some((name.clone(), mode))
    });
    world.former = modes.collect();
}

/// The message for a cluster with [`Identity::Unknown`].
pub fn identity_changed(cluster: &str) -> String {
    format!(
        "the ManagedCluster {cluster} was created again, and the claim id.k8s.io does not show whether it is the same \
        cluster; its agent is rejected until the klusterlet reports the claim. To admit it as a new cluster: \
        `kubectl -n {cluster} annotate managedclusteraddon {} {}=\"$(date +%s)\"`",
        keys::ADDON,
        keys::REKEY
    )
}

#[cfg(test)]
mod tests;
