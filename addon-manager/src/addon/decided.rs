//! The objects of one cluster on the hub, with the decisions that the manager recorded about it.

use ocm::sdk::Target;
use principal::Mode;

use super::{ArgocdAgent, conditions::BlockedMode};
use crate::{
    decisions,
    hub::{self, World},
    optin::plan::{blocked_change, first_of_label, follows_label},
};

impl ArgocdAgent {
    /// The part of the world that concerns one cluster, with the recorded decisions.
    pub(super) fn world(&self, target: Target<'_>) -> World {
        let name = target.name.to_string();
        let configuration = self.parts.view.configured(target.name);
        let addon = hub::addon(target.addon, &self.name, configuration);
        let mut world = World {
            clusters: [(name.clone(), hub::cluster(target.cluster))].into(),
            addons: [(name, addon)].into(),
            install: self.parts.view.offer().map(|offer| hub::install(&offer)),
            ..World::default()
        };
        // Known before the first reconcile of a leader.
        if let Some(records) = &*self.parts.channels.decisions.borrow() {
            decisions::enforce(records, &mut world);
        }
        world
    }

    /// The `ManagedClusterAddOn` with the recorded decisions.
    pub(super) fn addon(&self, target: Target<'_>) -> hub::Addon {
        let addon = self.world(target).addons.remove(target.name.as_str());
        addon.unwrap_or_default()
    }

    /// The `ManagedClusterAddOn`, and the mode of the label if the label may choose the first mode.
    pub(super) fn addon_and_label(&self, target: Target<'_>) -> (hub::Addon, Option<Mode>) {
        let (mut world, name) = (self.world(target), target.name.as_str());
        let addon = world.addons.remove(name).unwrap_or_default();
        let cluster = world.clusters.get(name);
        let label = world
            .install
            .and_then(|it| first_of_label(cluster, &addon, it));
        (addon, label)
    }

    /// The change of mode that waits for a user, if any.
    pub(super) fn blocked_mode(&self, target: Target<'_>) -> Option<BlockedMode> {
        let world = self.world(target);
        let addon = world.addons.get(target.name.as_str())?;
        let asked = blocked_change(world.clusters.get(target.name.as_str()), addon)?;
        let counted = self.parts.channels.blocked_modes.borrow();
        let applications = counted.get(target.name.as_str()).copied();
        // A label that may change the mode without a confirmation waits only once Applications are counted.
        let waits = applications.is_some() || !follows_label(addon, world.install?);
        let recorded = addon.mode()?;
        waits.then_some(BlockedMode {
            recorded,
            asked,
            applications,
        })
    }
}
