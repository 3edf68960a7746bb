//! Decides which clusters have the add-on, and in which mode. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use principal::Mode;

use crate::{
    addon::argocd_install::Decision,
    hub::{Addon, Cluster, Install, Own, World, mode_of},
    keys,
};

/// One write.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step {
    /// The cluster.
    pub cluster: String,
    /// The UID of the ManagedCluster if its label asks for the step, else a precondition: the UID of the
    /// `ManagedClusterAddOn`.
    pub uid: String,
    /// The write.
    pub action: Action,
}

/// What to write.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Make the `ManagedClusterAddOn` of a labelled cluster.
    Make {
        /// The mode to record on it.
        mode: Mode,
        /// Whether a user deleted the previous one while the label stayed.
        again: bool,
        /// Another mode that the cluster had before it opted out. It is recorded instead of `mode` if the cluster has
        /// Applications, because their ownership would change unnoticed.
        former: Option<Mode>,
    },
    /// Delete a `ManagedClusterAddOn` that we made, because the label is refused, or nothing is deployed for it yet.
    Delete,
    /// Delete one whose label is gone, as soon as the cluster has applied `KEEP_ARGOCD` if that is set.
    Leave(Leave),
    /// End the wait of a removal, because the label is back.
    Stay,
    /// Record the mode on a `ManagedClusterAddOn`.
    Record {
        /// The source of the mode.
        mode: Source,
        /// Another mode that the cluster had on an earlier `ManagedClusterAddOn`, as in [`Action::Make`].
        former: Option<Mode>,
    },
    /// Restore annotations that another client removed from a `ManagedClusterAddOn`.
    Restore {
        /// The annotations.
        annotations: BTreeMap<&'static str, String>,
        /// The resource version that lacks them, a precondition: in a later one, an administrator may have restored the agent.
        version: String,
    },
    /// Replace the recorded mode by that of the label, if no Application goes to the cluster: a change moves the
    /// ownership of its Applications.
    Change(Mode),
    /// Emit an Event about a label that is refused.
    Refuse {
        /// The reason of the Event.
        reason: &'static str,
        /// The message of the Event.
        message: String,
    },
}

/// The removal of an add-on whose label is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Leave {
    /// Since when it waits for the cluster, as the `ManagedClusterAddOn` records it.
    pub since: Option<Timestamp>,
    /// Whether the cluster can apply anything: the hub accepts it and has not lost it.
    pub reachable: bool,
    /// Whether we installed its Argo CD.
    pub installed: bool,
}

/// The source of a mode.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A known mode.
    Known(Mode),
    /// The variable `MODE` of this `AddOnDeploymentConfig` (namespace, name), or managed.
    Config(String, String),
}

/// Returns the steps that bring the add-on to the clusters that ask for it.
///
/// With Placements, OCM creates and deletes add-ons; we only record modes and refuse labels. We never delete an add-on
/// that we did not make. A recorded mode changes after a user confirms it, or when the label made the add-on and
/// the cluster has no Application.
pub fn plan(world: &World, own: &Own) -> Vec<Step> {
    let Some(install) = world.install.filter(|install| !install.by_template) else {
        return Vec::new();
    };
    let step = |cluster: &String, uid: &String, action: Option<Action>| {
        Some(Step {
            cluster: cluster.clone(),
            uid: uid.clone(),
            action: action?,
        })
    };
    let labels = world.clusters.iter().filter_map(|(name, cluster)| {
        let action = for_label(world, own, name, cluster, install.by_placements);
        step(name, &cluster.uid, action)
    });
    let addons = world.addons.iter().filter_map(|(name, addon)| {
        let action = for_addon(world, own, name, addon, install);
        step(name, &addon.uid, action)
    });
    labels.chain(addons).collect()
}

fn for_addon(
    world: &World,
    own: &Own,
    name: &str,
    addon: &Addon,
    install: Install,
) -> Option<Action> {
    let known = world.clusters.get(name);
    if addon.deleting || addon.by_template || addon.unidentified {
        return None;
    }
    let unlabelled = known.filter(|known| known.label().is_none());
    // The claim that identifies a cluster arrives later than the cluster, perhaps after we made the add-on.
    let is_reserved = world.reserved(name, own).is_some();
    if addon.made_for_label && (unlabelled.is_some() || is_reserved) && !install.by_placements {
        let leaving = unlabelled.filter(|_| addon.adopted && !is_reserved);
        return Some(leaving.map_or(Action::Delete, |it| Action::Leave(leave(it, addon))));
    }
    if !addon.missing.is_empty() {
        return Some(Action::Restore {
            annotations: addon.missing.clone(),
            version: addon.version.clone(),
        });
    }
    if addon.keeping_since.is_some() {
        return Some(Action::Stay);
    }
    if let Some(mode) = mode_to_record(known, addon, install) {
        // A mode that a user confirmed overrides the former one.
        let is_first = addon.mode().is_none() && confirmed(known, addon).is_none();
        let former = world.former.get(name).copied().filter(|_| is_first);
        return Some(Action::Record { mode, former });
    }
    let asked = blocked_change(known, addon).filter(|_| follows_label(addon, install));
    asked.map(Action::Change)
}

fn leave(cluster: &Cluster, addon: &Addon) -> Leave {
    let decision = addon.argocd.as_deref().and_then(Decision::read);
    Leave {
        since: addon.keeping_since,
        reachable: cluster.is_admitted() && !cluster.lost,
        installed: decision.is_some_and(Decision::installs_argocd),
    }
}

fn for_label(
    world: &World,
    own: &Own,
    name: &str,
    cluster: &Cluster,
    by_placements: bool,
) -> Option<Action> {
    let label = cluster.label()?;
    if !cluster.is_admitted() {
        return None;
    }
    let refuse = |reason, message| Some(Action::Refuse { reason, message });
    if let Some(message) = world.reserved(name, own) {
        return refuse("ReservedCluster", message);
    }
    let Some(mode) = mode_of(label) else {
        let message = format!(
            "the label {} of this ManagedCluster is {label:?}; it must be managed or autonomous",
            keys::MODE
        );
        return refuse("UnknownMode", message);
    };
    if by_placements || world.addons.contains_key(name) {
        return None;
    }
    Some(Action::Make {
        mode,
        again: world.left.contains(name),
        former: world.former.get(name).copied().filter(|it| *it != mode),
    })
}

/// The mode to record: the confirmed one; if none is recorded, that of the label if it may decide, else of the
/// configuration, else managed.
fn mode_to_record(cluster: Option<&Cluster>, addon: &Addon, install: Install) -> Option<Source> {
    if let Some(confirmed) = confirmed(cluster, addon) {
        return (addon.mode() != Some(confirmed)).then_some(Source::Known(confirmed));
    }
    if addon.mode().is_some() {
        // It changes only to the one that a user confirmed.
        return None;
    }
    match (first_of_label(cluster, addon, install), &addon.config) {
        (Some(mode), _) => Some(Source::Known(mode)),
        (None, Some((namespace, name))) => Some(Source::Config(namespace.clone(), name.clone())),
        (None, None) => addon.configured.then_some(Source::Known(Mode::Managed)),
    }
}

/// The mode of the label, if a user confirmed it.
fn confirmed(cluster: Option<&Cluster>, addon: &Addon) -> Option<Mode> {
    let confirmed = mode_of(addon.confirmed.as_deref()?)?;
    let label = mode_of(cluster?.label()?)?;
    (label == confirmed).then_some(confirmed)
}

/// The mode of the label, if the label may choose the first mode.
pub fn first_of_label(cluster: Option<&Cluster>, addon: &Addon, install: Install) -> Option<Mode> {
    let label = cluster.filter(|_| follows_label(addon, install))?.label();
    label.and_then(mode_of)
}

/// Whether the label of the cluster may choose the mode, and change it without a confirmation while no Application blocks that.
///
/// The cluster can write the label. If the label made the add-on, the cluster could also remove it and set it to
/// another mode. If a user made the add-on, the label must grant nothing.
pub const fn follows_label(addon: &Addon, install: Install) -> bool {
    addon.made_for_label || install.by_placements
}

/// The mode of the label, if another mode is recorded.
pub fn blocked_change(cluster: Option<&Cluster>, addon: &Addon) -> Option<Mode> {
    let asked = mode_of(cluster?.label()?)?;
    let recorded = addon.mode()?;
    (asked != recorded).then_some(asked)
}

#[cfg(test)]
mod tests;
