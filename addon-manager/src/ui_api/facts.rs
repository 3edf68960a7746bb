//! The facts about clusters in the form that judgements read. Pure.

use std::collections::{BTreeMap, BTreeSet};

use argocd::routing::Clusters;
use diagnosis::{
    facts::Addon,
    labels::Wrong,
    status::{Cluster, Tally},
};
use jiff::Timestamp;
use ocm::{
    api::{addon::ManagedClusterAddOn, cluster::ManagedCluster},
    name::{AddonName, ClusterName},
};
use principal::{Fleet, Mode, Sessions};

use super::{
    fleet::{ClusterRow, amend, cluster},
    hub::Hub,
};
use crate::keys;

/// The clusters as the hub has them now.
#[derive(Debug)]
pub struct Clusterwise<'a, H> {
    /// The facts about the hub.
    pub hub: &'a H,
    /// Our add-on.
    pub addon: &'a AddonName,
    /// The sessions.
    pub sessions: &'a Sessions,
}

impl<H: Hub> Clusterwise<'_, H> {
    /// The clusters that the fleet shows, by name: those with the add-on, and those whose label has no effect.
    pub fn names(&self) -> BTreeSet<ClusterName> {
        let labelled = self.hub.clusters().into_iter();
        let wrong = labelled.filter(|(_, object)| wrong(object).is_some());
        let enrolled = self.hub.enrolled().into_iter();
        enrolled.chain(wrong.map(|(name, _)| name)).collect()
    }

    /// The add-on of a cluster, with the session that it has now.
    pub fn addon(&self, name: &ClusterName) -> Option<Addon> {
        let object = self.hub.addon(name)?;
        let mut addon = addon(&object, name, self.addon);
        let session = self.sessions.get(name.as_str());
        amend(&mut addon, session.map(|it| &**it));
        Some(addon)
    }

    /// The row of a cluster; none if the fleet does not show it.
    pub fn row(&self, name: &ClusterName, tally: Tally, now: Timestamp) -> Option<ClusterRow> {
        let object = self.hub.cluster(name);
        let wrong = object.as_deref().and_then(wrong);
        let shown = match (self.addon(name), wrong) {
            (Some(addon), wrong) => {
                let session = self.sessions.get(name.as_str());
                let mut shown = cluster(&addon, session.map(|it| &**it), tally, now);
                if let Some(wrong) = wrong {
                    shown.mislabelled(&wrong);
                }
                shown
            }
            (None, Some(wrong)) => Cluster::without_add_on(&wrong),
            (None, None) => return None,
        };
        let labels = object.as_deref().and_then(|it| it.metadata.labels.as_ref());
        Some(ClusterRow::new(shown, labels))
    }
}

/// The facts of a `ManagedClusterAddOn`.
fn addon(object: &ManagedClusterAddOn, cluster: &ClusterName, ours: &AddonName) -> Addon {
    let annotation = |key| object.annotation(key).map(str::to_owned);
    let deleting = object.metadata.deletion_timestamp.as_ref();
    Addon {
        cluster: cluster.to_string(),
        mode: annotation(keys::MODE),
        adopted: object.is_managed_by(ours),
        deleting: deleting.map(|time| time.0),
        revoked: annotation(keys::REVOKED),
        rekey: annotation(keys::REKEY).filter(|name| !name.is_empty()),
        conditions: object.conditions().to_vec(),
    }
}

/// The label of a cluster, if it has no effect; as [`Wrong::read`], but the view does not have the time of the label.
fn wrong(cluster: &ManagedCluster) -> Option<Wrong> {
    let value = cluster.metadata.labels.as_ref()?.get(keys::MODE)?;
    let is_mode = matches!(value.as_str(), "managed" | "autonomous");
    (!is_mode && cluster.is_admitted()).then(|| Wrong {
        cluster: cluster.metadata.name.clone().unwrap_or_default(),
        value: value.clone(),
        since: None,
    })
}

/// The clusters as the principal routes to them.
pub fn routes(fleet: &Fleet) -> Clusters {
    let enrolled = fleet.clusters.iter();
    let autonomous = enrolled.clone();
    let autonomous = autonomous.filter(|(_, it)| it.mode == Mode::Autonomous);
    Clusters::new(enrolled.map(|(name, it)| (name.clone(), it.server.clone())))
        .with_autonomous(autonomous.map(|(name, _)| name.clone()))
}

/// The servers of these clusters.
pub fn servers(fleet: &Fleet, names: &BTreeSet<String>) -> BTreeMap<String, String> {
    let known = names.iter().filter_map(|name| {
        let server = fleet.clusters.get(name)?.server.clone()?;
        Some((name.clone(), server))
    });
    known.collect()
}

#[cfg(test)]
mod tests;
