//! Who shall have the add-on, and in which mode: pure.

use principal::Mode;

use crate::{
    hub::{Addon, Cluster, Install, Own, World, mode_of},
    keys,
};

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Make the `ManagedClusterAddOn` of a labelled cluster.
    Make {
        /// The cluster.
        cluster: String,
        /// Recorded on it.
        mode: Mode,
        /// Somebody deleted the one before while the label stayed.
        again: bool,
        /// Another mode, which it had before it opted out: recorded in the place of the one that is asked for while there
        /// are Applications of the cluster, whose ownership would change without a word.
        former: Option<Mode>,
    },
    /// Delete a `ManagedClusterAddOn` that we made, because the label is gone or cannot be followed.
    Delete {
        /// The cluster.
        cluster: String,
        /// Of the one that was looked at, and no other.
        uid: String,
    },
    /// Write down the mode of a `ManagedClusterAddOn`.
    Record {
        /// The cluster.
        cluster: String,
        /// Of the one that was looked at, and no other.
        uid: String,
        /// Where it comes from.
        mode: Source,
    },
    /// Write down the mode that the label asks for in the place of another, if no Application goes to
    /// the cluster: a change moves the ownership of those that do.
    Change {
        /// The cluster.
        cluster: String,
        /// Of the one that was looked at, and no other.
        uid: String,
        /// What the label asks for.
        mode: Mode,
    },
    /// Tell people about a label that cannot be followed.
    Refuse {
        /// The cluster.
        cluster: String,
        /// UID of the ManagedCluster.
        uid: String,
        /// The reason of the Event.
        reason: &'static str,
        /// Its text.
        message: String,
    },
}

impl Step {
    /// The cluster that it is about.
    pub fn cluster(&self) -> &str {
        match self {
            Self::Make { cluster, .. }
            | Self::Delete { cluster, .. }
            | Self::Record { cluster, .. }
            | Self::Change { cluster, .. }
            | Self::Refuse { cluster, .. } => cluster,
        }
    }
}

/// Where a mode comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Known already.
    Known(Mode),
    /// The variable `MODE` of this `AddOnDeploymentConfig` (namespace, name), or managed.
    Config(String, String),
}

/// What has to be done so that the add-on is where it was asked for.
///
/// With Placements OCM makes and deletes; we record modes and complain about labels only. What we did
/// not make is never deleted. A recorded mode changes when a person confirms it, or when the label made
/// the add-on and no Application is there.
pub fn plan(world: &World, own: &Own) -> Vec<Step> {
    let Some(install) = world.install.filter(|install| !install.by_template) else {
        return Vec::new();
    };
    let mut steps = Vec::new();
    for (name, cluster) in &world.clusters {
        steps.extend(label_step(world, own, name, cluster, install.by_placements));
    }
    for (name, addon) in &world.addons {
        let cluster = world.clusters.get(name);
        if addon.deleting || addon.by_template {
            continue;
        }
        let unlabelled = cluster.is_some_and(|cluster| cluster.label().is_none());
        // A cluster tells who it is some time after it came, perhaps after we made the add-on.
        let unwanted = unlabelled || world.reserved(name, own).is_some();
        if addon.made_for_label && unwanted && !install.by_placements {
            steps.push(Step::Delete {
                cluster: name.clone(),
                uid: addon.uid.clone(),
            });
        } else if let Some(mode) = mode_to_record(cluster, addon) {
            steps.push(Step::Record {
                cluster: name.clone(),
                uid: addon.uid.clone(),
                mode,
            });
        } else if let Some(mode) = blocked_change(cluster, addon)
            && follows_label(addon, install)
        {
            steps.push(Step::Change {
                cluster: name.clone(),
                uid: addon.uid.clone(),
                mode,
            });
        }
    }
    steps
}

fn label_step(
    world: &World,
    own: &Own,
    name: &str,
    cluster: &Cluster,
    by_placements: bool,
) -> Option<Step> {
    let label = cluster.label()?;
    if !cluster.is_admitted() {
        return None;
    }
    let refuse = |reason, message| {
        Some(Step::Refuse {
            cluster: name.to_owned(),
            uid: cluster.uid.clone(),
            reason,
            message,
        })
    };
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
    Some(Step::Make {
        cluster: name.to_owned(),
        mode,
        again: world.left.contains(name),
        former: world.former.get(name).copied().filter(|it| *it != mode),
    })
}

/// Recorded value, then label, then configuration, then managed.
fn mode_to_record(cluster: Option<&Cluster>, addon: &Addon) -> Option<Source> {
    let label = cluster.and_then(Cluster::label).and_then(mode_of);
    if addon.mode().is_some() {
        // A change counts only when a person confirmed exactly this one.
        let confirmed = mode_of(addon.confirmed.as_deref()?)?;
        return (label == Some(confirmed) && addon.mode() != Some(confirmed))
            .then_some(Source::Known(confirmed));
    }
    if let Some(before) = addon.recalled.as_deref().and_then(mode_of) {
        return Some(Source::Known(before));
    }
    match (label, &addon.config) {
        (Some(mode), _) => Some(Source::Known(mode)),
        (None, Some((namespace, name))) => Some(Source::Config(namespace.clone(), name.clone())),
        (None, None) => addon.configured.then_some(Source::Known(Mode::Managed)),
    }
}

/// Whether the label of the cluster may change the mode by itself, while no Application is in the way.
///
/// The label can be written by the cluster. Where it made the add-on, taking it away and putting it on
/// with another mode leads to the same; where a person made the add-on, it must grant nothing.
pub const fn follows_label(addon: &Addon, install: Install) -> bool {
    addon.made_for_label || install.by_placements
}

/// The mode that the label asks for while another is recorded and no one has confirmed the change.
pub fn blocked_change(cluster: Option<&Cluster>, addon: &Addon) -> Option<Mode> {
    let asked = mode_of(cluster?.label()?)?;
    let recorded = addon.mode()?;
    (asked != recorded).then_some(asked)
}

#[cfg(test)]
mod tests;
