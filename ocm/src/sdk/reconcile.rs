//! Reconciles one cluster: observe, plan, apply, report.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use tracing::{debug, info, warn};

use self::{
    idle::Idle,
    plan::{PlanInput, Stage, Works},
    report::Facts,
};
use super::{
    Addon, Error, HealthInput, Removal, RemovalInput, RemovalPhase, Target,
    event::reference,
    hosting,
    hub::Hub,
    object_cache::{ConfigObject, Observed},
    permissions,
};
use crate::{
    api::addon::{AddOnConfig, ManagedClusterAddOn},
    condition::Verdict,
    name::ClusterName,
};

mod apply;
mod changes;
mod idle;
mod plan;
mod report;

pub(crate) use self::plan::blocked;
#[cfg(test)]
pub(crate) use self::plan::tests::samples;

/// The pause until a reconcile without an event, as a safety net for missed events. Long, since none should be missed.
const SWEEP: Duration = Duration::from_hours(2);

/// Reconciles one cluster.
pub(crate) async fn reconcile<A: Addon>(
    hub: &Hub<A>,
    name: &ClusterName,
    now: Timestamp,
) -> Result<Option<Duration>, Error> {
    let observed = &hub.world.observe(name);
    let one = Reconcile {
        hub,
        name,
        observed,
        now,
    };
    match plan::stage(hub.addon.as_ref(), name, observed) {
        Stage::Idle => Ok(one.wait_for_owner().await),
        Stage::Removed => {
            hub.events.forget(&regarding(hub, name, None));
            one.after_removal().await?;
            Ok(None)
        }
        Stage::Removing(input) => one.begin_removal(&input).await,
        Stage::Blocked {
            target,
            verdict,
            remove_works,
        } => {
            one.hold(target, &verdict).await?;
            let cleared = if remove_works {
                one.clear().await?
            } else {
                None
            };
            Ok(Some(cleared.unwrap_or(SWEEP)))
        }
        Stage::Served(target) => one.serve(target).await,
    }
}

/// One reconcile of one cluster.
struct Reconcile<'a, A> {
    hub: &'a Hub<A>,
    name: &'a ClusterName,
    observed: &'a Observed,
    now: Timestamp,
}

impl<A: Addon> Reconcile<'_, A> {
    fn hook(&self, hook: &'static str) -> impl FnOnce(super::HookError) -> Error {
        let cluster = self.name.to_string();
        move |source| Error::Hook {
            hook,
            cluster,
            source,
        }
    }

    /// A configuration object. The cache is locked for each look-up only: the add-on may read its `View` while it renders.
    fn config(&self, named: &AddOnConfig) -> Option<Arc<ConfigObject>> {
        self.hub.world.lock().config(named).map(Arc::clone)
    }

    fn plan_input(&self) -> PlanInput<'_> {
        PlanInput {
            version: self.hub.version,
            cluster: self.name,
            observed: self.observed,
            now: self.now,
        }
    }

    /// Waits until OCM sets the owner of the add-on; an Event reports the obstacle when that takes long.
    async fn wait_for_owner(&self) -> Option<Duration> {
        let addon = self.observed.addon.as_deref()?;
        let offer = self.observed.offer.as_deref();
        match idle::idle(self.hub.addon.name(), addon, offer, self.now) {
            Idle::Wait(left) => Some(left),
            Idle::Warn(reason, note) => {
                let about = regarding(self.hub, self.name, Some(addon));
                let cause = Some(self.name);
                self.hub.events.warn(cause, about, reason, &note).await;
                Some(SWEEP)
            }
        }
    }

    /// For how long the author lets the removal wait.
    async fn before_removal(&self, input: &RemovalInput) -> Result<Option<Duration>, Error> {
        let removal = self.hub.addon.before_removal(input).await;
        Ok(match removal.map_err(self.hook("before_removal"))? {
            Removal::Wait(pause) => Some(pause),
            Removal::Proceed => None,
        })
    }

    async fn after_removal(&self) -> Result<(), Error> {
        let done = self.hub.addon.after_removal(self.name).await;
        done.map_err(self.hook("after_removal"))
    }

    async fn begin_removal(&self, input: &RemovalInput) -> Result<Option<Duration>, Error> {
        let wait = self.before_removal(input).await?;
        if wait.is_some() {
            return Ok(wait);
        }
        match input.phase {
            RemovalPhase::NotAdmitted => {
                let addon = self.hub.addon.as_ref();
                if let Some((target, verdict)) = plan::not_accepted(addon, self.name, self.observed)
                {
                    self.hold(target, &verdict).await?;
                }
            }
            RemovalPhase::Refused | RemovalPhase::ClusterDeleting => {}
            RemovalPhase::AddonDeleting | RemovalPhase::AddonGone => return self.remove().await,
        }
        Ok(Some(SWEEP))
    }

    /// Hooks, then finalizers, then works.
    async fn remove(&self) -> Result<Option<Duration>, Error> {
        let (hub, cluster) = (self.hub, self.name);
        let configs = |named: &_| self.config(named);
        let teardown = teardown::tear_down(hub.addon.as_ref(), self.plan_input(), &configs);
        let addon = self.observed.addon.as_deref();
        if let Some((hooks, addon)) = teardown.hooks.zip(addon) {
            self.write_hooks(addon, &hooks).await?;
            if let Some(pending) = teardown.given_up {
                warn!(%cluster, pending, "pre-delete hooks timed out");
                let about = regarding(hub, cluster, Some(addon));
                let note = format!(
                    "pre-delete hooks timed out; the add-on is removed without them: {pending}"
                );
                let reason = "PreDeleteHookGivenUp";
                hub.events.warn(Some(cluster), about, reason, &note).await;
            }
        }
        // Before the works, which include the hooks: a conflict on the finalizers must not make the hooks run
        // a second time. Without the `ManagedClusterAddOn` the works are deleted in any case.
        if let Some((finalizers, addon)) = teardown.finalizers.zip(addon) {
            self.write_finalizers(addon, &finalizers).await?;
        }
        self.write_works(teardown.steps, &mut Facts::default())
            .await?;
        for work in &teardown.abandoned {
            self.release_work(work).await?;
        }
        Ok(Some(recheck(teardown.recheck)))
    }

    /// Deletes the works of a refused cluster, without hooks, since its `ManagedClusterAddOn` stays.
    async fn clear(&self) -> Result<Option<Duration>, Error> {
        let works = &self.observed.works;
        if works.is_empty() {
            self.after_removal().await?;
            return Ok(None);
        }
        let input = RemovalInput {
            cluster: self.name.clone(),
            phase: RemovalPhase::Refused,
            works: works.len(),
        };
        let wait = self.before_removal(&input).await?;
        if wait.is_none() {
            let outgoing = works.iter().filter(|work| !work.deleting);
            let steps = outgoing.map(|work| plan::Step::delete(work)).collect();
            self.write_works(steps, &mut Facts::default()).await?;
        }
        Ok(wait)
    }

    /// Reports why the add-on does not serve the cluster. Hooks and works stay as they are.
    async fn hold(&self, target: Target<'_>, verdict: &Verdict) -> Result<(), Error> {
        let (mode, live) = (self.hub.addon.health_mode(), target.addon.conditions());
        if let Some(conditions) = report::blocked(mode, verdict, live, self.now) {
            info!(cluster = %target.name, reason = verdict.reason, "cluster not served");
            self.write_conditions(target.addon, &conditions).await?;
        }
        Ok(())
    }

    async fn serve(&self, target: Target<'_>) -> Result<Option<Duration>, Error> {
        let (hub, observed) = (self.hub, self.observed);
        let addon = hub.addon.as_ref();
        let hosting = hosting::hosting(addon, target.addon, observed.host.as_deref());
        let permitted = self.apply_permissions(target).await;
        let problem = permitted.as_ref().err().map(Error::chain);
        let (input, configs) = (self.plan_input(), |named: &_| self.config(named));
        let plan = plan::plan(addon, input, target, problem.as_deref(), &hosting, &configs);
        if let Some(finalizers) = plan.finalizers {
            self.write_finalizers(target.addon, &finalizers).await?;
        }
        if plan.hashes {
            self.write_hashes().await?;
        }
        if let Some(registration) = plan.registration {
            self.write_registration(target.addon, &registration).await?;
        }
        let mut facts = Facts::of(observed, addon.name(), target, &hosting, self.now);
        let worked = match permitted {
            Ok(()) => match addon.prepare_hub(target).await {
                Ok(()) => self.apply_works(target, plan.works, &mut facts).await,
                Err(source) => Err(self.hook("prepare_hub")(source)),
            },
            Err(error) => Err(error),
        };
        // A conflict is not reported: the next reconcile follows at once.
        if worked.as_ref().is_err_and(Error::is_conflict) {
            return worked.map(|()| None);
        }
        let pause = self.write_report(target, &facts).await?;
        worked.map(|()| Some(recheck(pause)))
    }

    /// Applies the agent's permissions on the hub.
    async fn apply_permissions(&self, target: Target<'_>) -> Result<(), Error> {
        let wanted = permissions::Wanted {
            addon: self.hub.addon.name(),
            version: self.hub.version,
            rules: &self.hub.addon.hub_permissions(),
            registrations: &self.hub.addon.registrations(target),
        };
        for step in permissions::plan(wanted, target, &self.observed.permissions) {
            self.write_permission(step).await?;
        }
        Ok(())
    }

    async fn apply_works(
        &self,
        target: Target<'_>,
        works: Works,
        facts: &mut Facts,
    ) -> Result<(), Error> {
        let about = || regarding(self.hub, target.name, Some(target.addon));
        match works {
            Works::Change(steps) => {
                facts.settled = true;
                self.hub.events.forget(&about());
                let changed = self.write_works(steps, facts).await;
                return changed.inspect_err(|error| facts.problem = Some(error.chain()));
            }
            Works::Keep(waiting) => {
                debug!(cluster = %target.name, %waiting, "works kept");
                // An administrator must act before the works can change.
                if let Some(reason) = waiting.needs_a_person() {
                    let note = format!("the works of the add-on stay unchanged: {waiting}");
                    let cause = Some(target.name);
                    self.hub.events.warn(cause, about(), reason, &note).await;
                }
            }
            Works::Refused(error) => {
                facts.problem = Some(error.message.clone());
                facts.render_error = Some(error);
            }
        }
        Ok(())
    }

    /// Writes changed conditions and their Events, and returns when to reconcile again.
    async fn write_report(
        &self,
        target: Target<'_>,
        facts: &Facts,
    ) -> Result<Option<Duration>, Error> {
        let (hub, now) = (self.hub, self.now);
        let health = hub.addon.conditions(HealthInput {
            target,
            works: &facts.works,
            going_since: facts.going_since,
            render_error: facts.render_error.as_ref(),
            now,
        });
        let report = report::report(hub.addon.health_mode(), target, facts, &health, now);
        let recheck = health.recheck.into_iter().chain(report.recheck).min();
        let updates = changes::updates(target.addon.conditions(), &report);
        if let Some(conditions) = report.deploy {
            self.write_conditions(target.addon, &conditions).await?;
        }
        if let Some(available) = report.available {
            self.write_available(target.addon, &available).await?;
        }
        // After the conditions are written, so a restart repeats no Event.
        for update in &updates {
            let about = regarding(hub, target.name, Some(target.addon));
            hub.events.notify(target.name, about, update).await;
        }
        Ok(recheck)
    }
}

fn recheck(pause: Option<Duration>) -> Duration {
    pause.unwrap_or(SWEEP).min(SWEEP)
}

fn regarding<A: Addon>(
    hub: &Hub<A>,
    cluster: &ClusterName,
    addon: Option<&ManagedClusterAddOn>,
) -> ObjectReference {
    let kind = (hub.version.api_version(), "ManagedClusterAddOn");
    let uid = addon.and_then(|addon| addon.metadata.uid.clone());
    reference(kind, Some(cluster), hub.addon.name().as_str(), uid)
}

mod teardown;
#[cfg(test)]
mod tests;
