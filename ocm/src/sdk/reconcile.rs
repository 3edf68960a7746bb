//! Reconciles one cluster: observe, plan, apply, report.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use tracing::{debug, info, warn};

use self::{
    events::{explain, notify, regarding},
    idle::Idle,
    plan::{Plan, PlanInput, Stage, Works},
    report::Facts,
    teardown::{Teardown, TeardownInput},
};
use super::{
    Addon, Error, HealthInput, Removal, RemovalInput, RemovalPhase, Target, drive::Hub, hosting,
    object_cache::Observed, permissions, queue::Outcome,
};
use crate::{condition::Verdict, name::ClusterName};

mod apply;
mod changes;
mod events;
mod idle;
mod plan;
mod report;

pub(crate) use self::plan::blocked;
#[cfg(test)]
pub(crate) use self::plan::samples;

/// The pause until a reconcile without an event, as a safety net for missed events. Long, since none should be missed.
const SWEEP: Duration = Duration::from_hours(2);

/// Reconciles one cluster.
pub(crate) async fn reconcile<A: Addon>(
    hub: &Hub<A>,
    name: &ClusterName,
    now: Timestamp,
) -> Result<Outcome, Error> {
    let observed = hub.world.observe(name);
    match plan::stage(hub.addon.as_ref(), name, &observed) {
        Stage::Idle => Ok(wait_for_owner(hub, name, &observed, now).await),
        Stage::Removed => {
            hub.events.forget(&regarding(hub, name, None));
            after_removal(hub, name).await?;
            Ok(Outcome::Settled(None))
        }
        Stage::Removing(input) => begin_removal(hub, &input, &observed, now).await,
        Stage::Blocked {
            target,
            verdict,
            remove_works,
        } => {
            let blocked = hold(hub, target, &verdict, now).await?;
            if remove_works {
                return clear(hub, name, &observed).await;
            }
            Ok(blocked)
        }
        Stage::Served(target) => serve(hub, target, &observed, now).await,
    }
}

fn hook(hook: &'static str, cluster: &ClusterName, source: super::HookError) -> Error {
    Error::Hook {
        hook,
        cluster: cluster.to_string(),
        source,
    }
}

/// Waits until OCM sets the owner of the add-on; an Event reports the obstacle when that takes long.
async fn wait_for_owner<A: Addon>(
    hub: &Hub<A>,
    cluster: &ClusterName,
    observed: &Observed,
    now: Timestamp,
) -> Outcome {
    let Some(addon) = observed.addon.as_deref() else {
        return Outcome::Settled(None);
    };
    match idle::idle(hub.addon.name(), addon, observed.offer.as_deref(), now) {
        Idle::Wait(left) => Outcome::Settled(Some(left)),
        Idle::Warn(reason, note) => {
            let about = regarding(hub, cluster, Some(addon));
            hub.events.warn(about, reason, &note).await;
            Outcome::Settled(Some(SWEEP))
        }
    }
}

/// Whether the author lets the removal wait.
async fn before_removal<A: Addon>(
    hub: &Hub<A>,
    input: &RemovalInput,
) -> Result<Option<Outcome>, Error> {
    let removal = hub.addon.before_removal(input).await;
    let removal = removal.map_err(|source| hook("before_removal", &input.cluster, source))?;
    Ok(match removal {
        Removal::Wait(pause) => Some(Outcome::Settled(Some(pause))),
        Removal::Proceed => None,
    })
}

async fn after_removal<A: Addon>(hub: &Hub<A>, cluster: &ClusterName) -> Result<(), Error> {
    let done = hub.addon.after_removal(cluster).await;
    done.map_err(|source| hook("after_removal", cluster, source))
}

async fn begin_removal<A: Addon>(
    hub: &Hub<A>,
    input: &RemovalInput,
    observed: &Observed,
    now: Timestamp,
) -> Result<Outcome, Error> {
    if let Some(wait) = before_removal(hub, input).await? {
        return Ok(wait);
    }
    match input.phase {
        RemovalPhase::NotAdmitted => {
            match plan::not_accepted(hub.addon.as_ref(), &input.cluster, observed) {
                Some((target, verdict)) => hold(hub, target, &verdict, now).await,
                None => Ok(Outcome::Settled(Some(SWEEP))),
            }
        }
        RemovalPhase::Refused | RemovalPhase::ClusterDeleting => Ok(Outcome::Settled(Some(SWEEP))),
        RemovalPhase::AddonDeleting | RemovalPhase::AddonGone => {
            remove(hub, &input.cluster, observed, now).await
        }
    }
}

/// Hooks, then finalizers, then works.
async fn remove<A: Addon>(
    hub: &Hub<A>,
    cluster: &ClusterName,
    observed: &Observed,
    now: Timestamp,
) -> Result<Outcome, Error> {
    let Teardown {
        steps,
        hooks,
        given_up,
        finalizers,
        abandoned,
        recheck,
    } = {
        // Locked for each look-up only: the add-on may read its `View` while it renders.
        let configs = |named: &_| hub.world.lock().config(named).map(Arc::clone);
        let teardown_input = TeardownInput {
            version: hub.version,
            cluster,
            observed,
            now,
        };
        teardown::tear_down(hub.addon.as_ref(), teardown_input, &configs)
    };
    if let Some((hooks, addon)) = hooks.zip(observed.addon.as_deref()) {
        apply::hooks(hub, cluster, addon, &hooks, now).await?;
        if let Some(pending) = given_up {
            warn!(%cluster, pending, "pre-delete hooks timed out");
            let about = regarding(hub, cluster, Some(addon));
            let note = format!(
                "pre-delete hooks timed out; the add-on is removed without them: {pending}"
            );
            hub.events.warn(about, "PreDeleteHookGivenUp", &note).await;
        }
    }
    // Before the works, which include the hooks: a conflict on the finalizers must not make the hooks run
    // a second time. Without the `ManagedClusterAddOn` the works are deleted in any case.
    if let Some((finalizers, addon)) = finalizers.zip(observed.addon.as_deref()) {
        apply::finalizers(hub, cluster, addon, &finalizers).await?;
    }
    apply::works(hub, cluster, steps, &mut Facts::default()).await?;
    for work in &abandoned {
        apply::release(hub, cluster, work).await?;
    }
    let recheck = recheck.map_or(SWEEP, |recheck| recheck.min(SWEEP));
    Ok(Outcome::Settled(Some(recheck)))
}

/// Deletes the works of a refused cluster, without hooks, since its `ManagedClusterAddOn` stays.
async fn clear<A: Addon>(
    hub: &Hub<A>,
    cluster: &ClusterName,
    observed: &Observed,
) -> Result<Outcome, Error> {
    if observed.works.is_empty() {
        after_removal(hub, cluster).await?;
        return Ok(Outcome::Settled(Some(SWEEP)));
    }
    let input = RemovalInput {
        cluster: cluster.clone(),
        phase: RemovalPhase::Refused,
        works: observed.works.len(),
    };
    if let Some(wait) = before_removal(hub, &input).await? {
        return Ok(wait);
    }
    let outgoing = observed.works.iter().filter(|work| !work.deleting);
    let steps = outgoing.map(|work| plan::Step::delete(work)).collect();
    apply::works(hub, cluster, steps, &mut Facts::default()).await?;
    Ok(Outcome::Settled(Some(SWEEP)))
}

/// Reports why the add-on does not serve the cluster. Hooks and works stay as they are.
async fn hold<A: Addon>(
    hub: &Hub<A>,
    target: Target<'_>,
    verdict: &Verdict,
    now: Timestamp,
) -> Result<Outcome, Error> {
    let live = target.addon.conditions();
    if let Some(conditions) = report::blocked(hub.addon.health_mode(), verdict, live, now) {
        info!(cluster = %target.name, reason = verdict.reason, "cluster not served");
        apply::conditions(hub, target, &conditions).await?;
    }
    Ok(Outcome::Settled(Some(SWEEP)))
}

async fn serve<A: Addon>(
    hub: &Hub<A>,
    target: Target<'_>,
    observed: &Observed,
    now: Timestamp,
) -> Result<Outcome, Error> {
    let hosting = hosting::hosting(hub.addon.as_ref(), target.addon, observed.host.as_deref());
    let permitted = apply_permissions(hub, target, observed).await;
    let Plan {
        finalizers,
        hashes,
        registration,
        works,
    } = {
        let problem = permitted.as_ref().err().map(Error::chain);
        let input = PlanInput {
            version: hub.version,
            target,
            observed,
            now,
            problem: problem.as_deref(),
        };
        // Locked for each look-up only: the add-on may read its `View` while it renders.
        let configs = |named: &_| hub.world.lock().config(named).map(Arc::clone);
        plan::plan(hub.addon.as_ref(), input, &hosting, &configs)
    };
    if let Some(finalizers) = finalizers {
        apply::finalizers(hub, target.name, target.addon, &finalizers).await?;
    }
    if hashes {
        apply::hashes(hub, target).await?;
    }
    if let Some(registration) = registration {
        apply::registration(hub, target, &registration).await?;
    }
    let mut facts = Facts::of(observed, hub.addon.name(), target, &hosting, now);
    let worked = match permitted {
        Ok(()) => match hub.addon.prepare_hub(target).await {
            Ok(()) => apply_works(hub, target, works, &mut facts).await,
            Err(source) => Err(hook("prepare_hub", target.name, source)),
        },
        Err(error) => Err(error),
    };
    // A conflict is not reported: the next reconcile follows at once.
    if worked.as_ref().is_err_and(Error::is_conflict) {
        return Ok(Outcome::Soon);
    }
    let recheck = write_report(hub, target, &facts, now).await?;
    worked.map(|()| Outcome::Settled(Some(recheck.map_or(SWEEP, |recheck| recheck.min(SWEEP)))))
}

/// Applies the agent's permissions on the hub.
async fn apply_permissions<A: Addon>(
    hub: &Hub<A>,
    target: Target<'_>,
    observed: &Observed,
) -> Result<(), Error> {
    let wanted = permissions::Wanted {
        addon: hub.addon.name(),
        version: hub.version,
        rules: &hub.addon.hub_permissions(),
        registrations: &hub.addon.registrations(target),
    };
    for step in permissions::plan(wanted, target, &observed.permissions) {
        apply::permission(hub, target.name, step).await?;
    }
    Ok(())
}

async fn apply_works<A: Addon>(
    hub: &Hub<A>,
    target: Target<'_>,
    works: Works,
    facts: &mut Facts,
) -> Result<(), Error> {
    match works {
        Works::Change(steps) => {
            facts.settled = true;
            hub.events
                .forget(&regarding(hub, target.name, Some(target.addon)));
            let changed = apply::works(hub, target.name, steps, facts).await;
            changed.inspect_err(|error| facts.problem = Some(error.chain()))
        }
        Works::Keep(waiting) => {
            debug!(cluster = %target.name, %waiting, "works kept");
            explain(hub, target, &waiting).await;
            Ok(())
        }
        Works::Refused(error) => {
            facts.problem = Some(error.message.clone());
            facts.render_error = Some(error);
            Ok(())
        }
    }
}

/// Writes changed conditions and their Events, and returns when to reconcile again.
async fn write_report<A: Addon>(
    hub: &Hub<A>,
    target: Target<'_>,
    facts: &Facts,
    now: Timestamp,
) -> Result<Option<Duration>, Error> {
    let health = hub.addon.conditions(HealthInput {
        target,
        works: &facts.works,
        going_since: facts.going_since,
        render_error: facts.render_error.as_ref(),
        now,
    });
    let report = report::report(hub.addon.health_mode(), target, facts, &health, now);
    let recheck = health.recheck.into_iter().chain(report.recheck).min();
    let live = target.addon.conditions();
    let updates = changes::updates(live, &report);
    if let Some(conditions) = report.deploy {
        apply::conditions(hub, target, &conditions).await?;
    }
    if let Some(available) = report.available {
        apply::available(hub, target, available).await?;
    }
    notify(hub, target, &updates).await;
    Ok(recheck)
}

mod teardown;
#[cfg(test)]
mod tests;
