//! What is in the way of one cluster, and what is left to do afterwards. Pure.

use argocd::keys::addon::MODE;
use diagnosis::object::text;
use ocm::api::cluster::is_itself;
use serde_json::Value;

use super::{
    Facts, Fate, Named,
    facts::{ClusterSecret, ManagedCluster},
};
use crate::{
    check::{Finding, failed},
    output::word,
};

/// What is in the way of a cluster itself.
pub(super) fn of(facts: &Facts, cluster: &ManagedCluster) -> Vec<String> {
    let name = &cluster.name;
    let mut all = Vec::new();
    let argocd = &facts.settings.routing.argocd_namespace;
    // As the hub program judges it.
    if name == argocd || *name == facts.own_namespace || name.starts_with("kube-") {
        all.push(format!(
            "the namespace {name} on the hub has another use; have the cluster join under another name"
        ));
    }
    all.extend(itself(facts, cluster));
    if cluster.deleting {
        all.push(format!("the ManagedCluster {name} is being deleted"));
    } else if !cluster.accepted {
        all.push(format!(
            "the hub has not accepted it: clusteradm accept --clusters {name}"
        ));
    }
    all.extend(label(facts, cluster));
    let mut secrets = facts.secrets.iter();
    let taken = secrets.find(|it| it.name == argocd::cluster_secret::name(name));
    if let Some(taken) = taken.filter(|it| !it.becomes_ours(name)) {
        let secret = &taken.name;
        all.push(format!(
            "the Secret {argocd}/{secret} was not created by argocd-agent, so the add-on does not touch it and \
            cannot create its own; save it, recreate it under another name, and delete it"
        ));
    }
    all
}

/// The hub is no cluster of its own fleet, by the rule that the hub program has.
fn itself(facts: &Facts, cluster: &ManagedCluster) -> Option<String> {
    let claimed = cluster.id.as_deref();
    match &facts.hub_uid {
        Ok(uid) => is_itself(claimed, uid.as_deref()).then(|| {
            "it is the hub itself; deploy there with Applications whose destination is in-cluster"
                .to_owned()
        }),
        // One that does not say which it is, is served.
        Err(why) => claimed.map(|_| {
            format!(
                "cannot decide whether it is the hub itself, because the hub's namespace kube-system cannot be read: {why}"
            )
        }),
    }
}

fn label(facts: &Facts, cluster: &ManagedCluster) -> Option<String> {
    let name = &cluster.name;
    if let Some(addon) = facts.addons.iter().find(|it| it.cluster == *name) {
        let leaving = addon.deleting.is_some();
        return leaving.then(|| {
            "the add-on is being removed from the cluster; wait until that is done".to_owned()
        });
    }
    let current = cluster.mode.as_deref()?;
    (current != word(facts.mode)).then(|| {
        format!(
            "its label {MODE} is already {current:?}; pass that with --mode, or remove it: kubectl label \
            managedcluster {name} {MODE}-"
        )
    })
}

/// Applications that have to be changed first.
pub(super) fn applications<'a>(all: impl Iterator<Item = &'a Named>) -> Option<String> {
    let fates: Vec<_> = all.map(|it| it.fate).collect();
    let parts = [
        (Fate::Change, "need another destination"),
        (Fate::Blocked, "would go to the wrong place"),
    ];
    let parts = parts.map(|(fate, words)| (fates.iter().filter(|it| **it == fate).count(), words));
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<_> = parts
        .map(|(count, words)| format!("{count} {words}"))
        .collect();
    (!parts.is_empty()).then(|| format!("of its Applications {}", parts.join(", ")))
}

/// What is left to do when the cluster is adopted. Argo CD refuses a name that two cluster Secrets have.
pub(super) fn afterwards(facts: &Facts, secret: &ClusterSecret, cluster: &str) -> Option<String> {
    let (argocd, name) = (&facts.settings.routing.argocd_namespace, &secret.name);
    if secret.becomes_ours(cluster) || *name == argocd::cluster_secret::name(cluster) {
        return None;
    }
    let why = if secret.shown == cluster {
        "Argo CD's UI and CLI refuse a name that two cluster Secrets have"
    } else {
        "Applications cannot use it then"
    };
    Some(format!("delete the Secret {argocd}/{name}: {why}"))
}

/// With Placements the label does not opt in.
pub(super) fn placements(offer: &Result<Option<Value>, String>) -> Option<Finding> {
    let offer = offer.as_ref().ok()?.as_ref()?;
    let cause = "Placements choose the clusters with the add-on, so a label has no effect";
    let next = "let the Placement of the ClusterManagementAddOn select the clusters, and use --dry-run here";
    let is_by_placements = text(offer, "/spec/installStrategy/type") == "Placements";
    is_by_placements.then(|| Finding::of(("add-on", failed(cause, next))))
}
