//! What to do for a cluster that loses the add-on. Pure.
//!
//! Hooks run first, while everything they may need is still there; then the works go, and with
//! them the finalizers. Nothing here may last for ever: hooks have a deadline, and a cluster that is gone is waited for by nobody.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::plan::{self, Look, Step, WantedWork};
use crate::{
    api::addon::{AddOnConfig, ManagedClusterAddOn, Version},
    condition::{self, Verdict},
    keys,
    name::ClusterName,
    sdk::{
        Addon, Target, finalizers, hooks,
        hosting::{self, Hosting},
        object_cache::{ConfigObject, Observed, Work},
        place::Place,
        render::{self, Manifest},
    },
};

/// What to write for a cluster that loses the add-on.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Teardown {
    /// Writes of works.
    pub(crate) steps: Vec<Step>,
    /// What is said of the hooks, if there are any.
    pub(crate) stated: Option<Verdict>,
    /// What was not waited for any longer, for people.
    pub(crate) given_up: Option<String>,
    /// The finalizers, all of them, if they have to be written.
    pub(crate) finalizers: Option<Vec<String>>,
    /// Works that nobody will ever take away: their finalizer has to.
    pub(crate) deserted: Vec<Arc<Work>>,
    /// When to look again although nothing happens.
    pub(crate) recheck: Option<Duration>,
}

/// A look at a cluster that loses the add-on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TeardownInput<'a> {
    /// The version in use.
    pub(crate) version: Version,
    /// The cluster's name.
    pub(crate) cluster: &'a ClusterName,
    /// What is known of it.
    pub(crate) observed: &'a Observed,
    /// The time.
    pub(crate) now: Timestamp,
}

/// Decides what to write for a cluster whose add-on is being deleted, or gone.
pub(crate) fn tear_down(
    addon: &impl Addon,
    teardown_input: TeardownInput<'_>,
    configs: &impl Fn(&AddOnConfig) -> Option<Arc<ConfigObject>>,
) -> Teardown {
    let observed = teardown_input.observed;
    if plan::uses_template(observed) {
        // OCM's template controller has hooks and finalizers of the same names.
        return Teardown::default();
    }
    let mut tear_down = Teardown::default();
    if let Some(waits) = hooked(addon, teardown_input, configs) {
        tear_down.stated = Some(hooks::verdict(&waits.pending));
        if waits.pending.is_empty() {
            // Done; what has to be said is said before the finalizer goes.
        } else if let Some(left) = waits.left {
            tear_down.steps = waits.steps;
            tear_down.recheck = Some(left);
            return tear_down;
        } else {
            tear_down.given_up = Some(waits.pending.join("; "));
        }
    }
    let outgoing = observed.works.iter().filter(|work| !work.deleting);
    tear_down.steps = outgoing.map(|work| Step::delete(work)).collect();
    tear_down.finalizers = observed.addon.as_ref().and_then(|addon| {
        let live = addon.metadata.finalizers.as_deref().unwrap_or_default();
        finalizers::plan(live, finalizers::Wanted::default())
    });
    let clings = |work: &&Arc<Work>| {
        let has = |finalizer: &String| finalizer == keys::WORK_FINALIZER;
        work.deleting
            && observed.deserted.contains(&work.report.namespace)
            && work.finalizers.iter().any(has)
    };
    tear_down.deserted = observed.works.iter().filter(clings).cloned().collect();
    tear_down
}

/// How far hooks are.
struct Waits {
    /// One line each.
    pending: Vec<String>,
    /// What to write for them.
    steps: Vec<Step>,
    /// How long they may take yet.
    left: Option<Duration>,
}

/// How far the hooks are; `None` if there are none to wait for.
fn hooked(
    addon: &impl Addon,
    teardown_input: TeardownInput<'_>,
    configs: &impl Fn(&AddOnConfig) -> Option<Arc<ConfigObject>>,
) -> Option<Waits> {
    let observed = teardown_input.observed;
    let cluster_addon = observed.addon.as_deref()?;
    // Where nothing was deployed nothing has to be undone; a cluster that is gone does nothing.
    let (cluster, true) = (observed.cluster.as_deref()?, !observed.works.is_empty()) else {
        return None;
    };
    let hosting = hosting::hosting(addon, cluster_addon, observed.host.as_deref());
    let places = hooked_places(cluster_addon, &hosting);
    if places.is_empty() {
        return None;
    }
    let mut waits = Waits {
        pending: Vec::new(),
        steps: Vec::new(),
        left: left(cluster_addon, addon.hook_deadline(), teardown_input.now),
    };
    let target = Target {
        name: teardown_input.cluster,
        cluster,
        addon: cluster_addon,
    };
    let look = Look {
        version: teardown_input.version,
        target,
        observed,
        now: teardown_input.now,
        problem: None,
    };
    let settled = plan::settle(addon, look, configs);
    let (settled, namespace) = match settled {
        Ok(settled) => settled,
        Err(waiting) => return Some(waits.and(waiting.to_string())),
    };
    let wish = WantedWork {
        look,
        addon: addon.name(),
        settled: &settled,
    };
    match plan::rendered(addon, &wish, &namespace) {
        Ok(manifests) => {
            for place in &places {
                waits.look_at(&wish, place, &manifests);
            }
            Some(waits)
        }
        Err(error) => Some(waits.and(error.message)),
    }
}

/// Where hooks have to run: the finalizers tell, which were put there while the add-on lived.
fn hooked_places(addon: &ManagedClusterAddOn, hosting: &Hosting) -> Vec<Place> {
    let live = addon.metadata.finalizers.as_deref().unwrap_or_default();
    let mut places = hosting.places();
    places.retain(|place| {
        let key = match place {
            Place::Managed => keys::PRE_DELETE_FINALIZER,
            Place::Hosting(_) => keys::HOSTING_PRE_DELETE_FINALIZER,
        };
        live.iter().any(|finalizer| finalizer == key)
    });
    places
}

/// By how much the hub's clock may differ from ours before hooks notice.
const SKEW: SignedDuration = SignedDuration::from_mins(5);

/// How long hooks may take yet; `None` if their time is over.
///
/// The time of the deletion is of the API server's clock, so it is counted from what was said of the
/// hooks first, which is of ours. The cluster may write that too, so the deletion bounds it.
fn left(addon: &ManagedClusterAddOn, deadline: Duration, now: Timestamp) -> Option<Duration> {
    let deleted = addon.metadata.deletion_timestamp.as_ref()?.0;
    let kind = condition::addon::HOOK_MANIFEST_COMPLETED;
    let stated = condition::find(addon.conditions(), kind);
    let ours = stated.map(|stated| now.duration_since(stated.last_transition_time.0));
    let theirs = now.duration_since(deleted).saturating_sub(SKEW);
    let taken = ours
        .unwrap_or_default()
        .max(theirs)
        .max(SignedDuration::ZERO);
    let deadline = SignedDuration::try_from(deadline).unwrap_or(SignedDuration::MAX);
    let left = deadline.checked_sub(taken)?;
    Duration::try_from(left).ok().filter(|left| !left.is_zero())
}

impl Waits {
    fn and(mut self, pending: String) -> Self {
        self.pending.push(pending);
        self
    }

    fn look_at(&mut self, wish: &WantedWork<'_>, place: &Place, manifests: &[Manifest]) {
        let target = wish.look.target;
        let hosted = target.addon.hosting_cluster().is_some();
        let mut hooks = render::bound_for(manifests, place, hosted);
        hooks.retain(|manifest| manifest.hook);
        let observed = wish.look.observed;
        if hooks.is_empty() {
            return;
        }
        let live = observed.hooks(wish.addon, target.name, place);
        if let Some(work) = live.filter(|work| work.deleting || wish.is_old(work)) {
            let step = (!work.deleting).then(|| Step::delete(work));
            self.steps.extend(step);
            let name = &work.report.name;
            self.pending
                .push(format!("an earlier {name} must be deleted first"));
            return;
        }
        let spec = json!(render::work_spec(hooks.iter()));
        if live.is_none_or(|live| wish.differs(place, live, &spec)) {
            let name = place.hook_name(wish.addon, target.name);
            self.steps.push(wish.apply(place, name, &spec));
        }
        let report = live.map(|work| &work.report);
        self.pending.extend(hooks::pending(report, &hooks));
    }
}

#[cfg(test)]
mod tests;
