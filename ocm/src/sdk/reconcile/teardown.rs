//! Plans the removal of the add-on from a cluster. Pure.
//!
//! Hooks run first, while the other objects still exist; then the finalizers and the works are removed.
//! The removal always ends: hooks have a deadline, and it does not wait for a cluster that is gone.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::plan::{self, PlanInput, Step, WantedWork};
use crate::{
    api::addon::{AddOnConfig, ManagedClusterAddOn},
    condition::{self, Verdict},
    keys,
    sdk::{
        Addon, finalizers, hooks,
        hosting::{self, Hosting},
        object_cache::{ConfigObject, Work},
        place::Place,
        render::{self, Manifest},
    },
};

/// The writes of a removal.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Teardown {
    /// Writes of works.
    pub(crate) steps: Vec<Step>,
    /// The condition of the hooks, if there are any.
    pub(crate) hooks: Option<Verdict>,
    /// The hooks that timed out, for people.
    pub(crate) given_up: Option<String>,
    /// All finalizers, if they have to be written.
    pub(crate) finalizers: Option<Vec<String>>,
    /// Works that no work agent will remove: the SDK removes their finalizer.
    pub(crate) abandoned: Vec<Arc<Work>>,
    /// When to reconcile again without an event.
    pub(crate) recheck: Option<Duration>,
}

/// Plans the writes for a cluster whose add-on is being deleted, or gone.
pub(crate) fn tear_down(
    addon: &impl Addon,
    input: PlanInput<'_>,
    configs: &impl Fn(&AddOnConfig) -> Option<Arc<ConfigObject>>,
) -> Teardown {
    let observed = input.observed;
    if plan::uses_template(observed) {
        // OCM's template controller has hooks and finalizers of the same names.
        return Teardown::default();
    }
    let mut teardown = Teardown::default();
    if let Some(progress) = hook_progress(addon, input, configs) {
        teardown.hooks = Some(hooks::verdict(&progress.pending));
        if progress.pending.is_empty() {
            // Complete: the condition is written before the finalizer is removed.
        } else if let Some(left) = progress.left {
            teardown.steps = progress.steps;
            teardown.recheck = Some(left);
            return teardown;
        } else {
            teardown.given_up = Some(progress.pending.join("; "));
        }
    }
    let outgoing = observed.works.iter().filter(|work| !work.deleting);
    teardown.steps = outgoing.map(|work| Step::delete(work)).collect();
    teardown.finalizers = observed.addon.as_ref().and_then(|addon| {
        let live = addon.metadata.finalizers.as_deref().unwrap_or_default();
        finalizers::plan(live, &BTreeSet::new())
    });
    let stuck = |work: &&Arc<Work>| {
        let has = |finalizer: &String| finalizer == keys::WORK_FINALIZER;
        work.deleting
            && observed.abandoned.contains(&work.report.namespace)
            && work.finalizers.iter().any(has)
    };
    teardown.abandoned = observed.works.iter().filter(stuck).cloned().collect();
    teardown
}

/// The progress of the hooks.
struct HookProgress {
    /// The pending hooks, one line each.
    pending: Vec<String>,
    /// The writes for them.
    steps: Vec<Step>,
    /// The time until their deadline; `None` after it.
    left: Option<Duration>,
}

/// The progress of the hooks; `None` if there are none to wait for.
fn hook_progress(
    addon: &impl Addon,
    input: PlanInput<'_>,
    configs: &impl Fn(&AddOnConfig) -> Option<Arc<ConfigObject>>,
) -> Option<HookProgress> {
    let observed = input.observed;
    // Without works there is nothing to undo, and a cluster that is gone cannot run hooks.
    let target = observed.target(input.cluster);
    let target = target.filter(|_| !observed.works.is_empty())?;
    let cluster_addon = target.addon;
    let hosting = hosting::hosting(addon, cluster_addon, observed.host.as_deref());
    let places = hook_places(cluster_addon, &hosting);
    if places.is_empty() {
        return None;
    }
    let mut progress = HookProgress {
        pending: Vec::new(),
        steps: Vec::new(),
        left: left(cluster_addon, addon.hook_deadline(), input.now),
    };
    let settled = match plan::settle(addon, target, observed, configs) {
        Ok(settled) => settled,
        Err(waiting) => return Some(progress.and(waiting.to_string())),
    };
    let wish = WantedWork {
        input,
        target,
        addon: addon.name(),
        settled: &settled,
    };
    match plan::rendered(addon, &wish) {
        Ok(manifests) => {
            for place in &places {
                progress.check(&wish, place, &manifests);
            }
            Some(progress)
        }
        Err(error) => Some(progress.and(error.message)),
    }
}

/// Where hooks have to run, by the finalizers that were set before the deletion.
fn hook_places(addon: &ManagedClusterAddOn, hosting: &Hosting) -> Vec<Place> {
    let live = addon.metadata.finalizers.as_deref().unwrap_or_default();
    let mut places = hosting.places();
    places.retain(|place| live.iter().any(|it| it == place.hook_finalizer()));
    places
}

/// The clock skew between hub and manager that does not shorten the time of hooks.
const SKEW: SignedDuration = SignedDuration::from_mins(5);

/// The time until the hooks' deadline; `None` after it.
///
/// The deletion time is of the API server's clock, so the time counts from the first condition of the
/// hooks, which is of the manager's clock. The cluster may write that too, so the deletion time bounds it.
fn left(addon: &ManagedClusterAddOn, deadline: Duration, now: Timestamp) -> Option<Duration> {
    let deleted = addon.metadata.deletion_timestamp.as_ref()?.0;
    let kind = condition::addon::HOOK_MANIFEST_COMPLETED;
    let hooks = condition::find(addon.conditions(), kind);
    let ours = hooks.map(|hooks| now.duration_since(hooks.last_transition_time.0));
    let theirs = now.duration_since(deleted).saturating_sub(SKEW);
    let longest = ours.unwrap_or_default().max(theirs);
    let taken = longest.max(SignedDuration::ZERO);
    let deadline = SignedDuration::try_from(deadline).unwrap_or(SignedDuration::MAX);
    let left = deadline.checked_sub(taken)?;
    Duration::try_from(left).ok().filter(|left| !left.is_zero())
}

impl HookProgress {
    fn and(mut self, pending: String) -> Self {
        self.pending.push(pending);
        self
    }

    fn check(&mut self, wish: &WantedWork<'_>, place: &Place, manifests: &[Manifest]) {
        let target = wish.target;
        let hosted = target.addon.hosting_cluster().is_some();
        let mut hooks = render::bound_for(manifests, place, hosted);
        hooks.retain(|manifest| manifest.hook);
        let observed = wish.input.observed;
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
