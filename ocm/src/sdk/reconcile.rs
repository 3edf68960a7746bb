//! One cluster: look, decide, write, say.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use tracing::{debug, info};

use self::{
    events::{explain, give_up, notify, regarding, warn_about},
    idle::Idle,
    plan::{Look, Plan, Stage, Works},
    report::Facts,
    teardown::{Teardown, TeardownInput},
};
use super::{
    Addon, Error, HealthInput, Leaving, LeavingPhase, Removal, Target, drive::Hub, hosting,
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

/// A look that is not due to any event: catches what no event told. Long, since nothing should.
const SWEEP: Duration = Duration::from_hours(2);

/// Looks at one cluster and brings it on.
pub(crate) async fn reconcile<A: Addon>(
    hub: &Hub<A>,
    name: &ClusterName,
    now: Timestamp,
) -> Result<Outcome, Error> {
    let observed = hub.world.observe(name);
    match plan::stage(hub.addon.as_ref(), name, &observed) {
        Stage::Idle => Ok(wait_to_be_taken_in(hub, name, &observed, now).await),
        Stage::Left => {
            hub.events.forget(&regarding(hub, name, None));
            hub.addon
                .left(name)
                .await
                .map_err(|source| hook("left", name, source))?;
            Ok(Outcome::Settled(None))
        }
        Stage::Leaving(leaving) => leave(hub, &leaving, &observed, now).await,
        Stage::Held {
            target,
            verdict,
            clears,
        } => {
            let blocked = hold(hub, target, &verdict, now).await?;
            if clears {
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

/// Says in an Event why nothing is done, if that is not about to change.
async fn wait_to_be_taken_in<A: Addon>(
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
        Idle::Tell(reason, note) => {
            warn_about(
                hub,
                regarding(hub, cluster, Some(addon)),
                (reason, &note),
                now,
            )
            .await;
            Outcome::Settled(Some(SWEEP))
        }
    }
}

async fn leave<A: Addon>(
    hub: &Hub<A>,
    leaving: &Leaving,
    observed: &Observed,
    now: Timestamp,
) -> Result<Outcome, Error> {
    let removal = hub.addon.leaving(leaving).await;
    match removal.map_err(|source| hook("leaving", &leaving.cluster, source))? {
        Removal::Wait(pause) => return Ok(Outcome::Settled(Some(pause))),
        Removal::Proceed => {}
    }
    match leaving.phase {
        LeavingPhase::NotAdmitted => {
            match plan::not_accepted(hub.addon.as_ref(), &leaving.cluster, observed) {
                Some((target, verdict)) => hold(hub, target, &verdict, now).await,
                None => Ok(Outcome::Settled(Some(SWEEP))),
            }
        }
        LeavingPhase::Refused | LeavingPhase::ClusterDeleting => Ok(Outcome::Settled(Some(SWEEP))),
        LeavingPhase::AddonDeleting | LeavingPhase::AddonGone => {
            part(hub, &leaving.cluster, observed, now).await
        }
    }
}

/// Hooks, then finalizers, then works.
async fn part<A: Addon>(
    hub: &Hub<A>,
    cluster: &ClusterName,
    observed: &Observed,
    now: Timestamp,
) -> Result<Outcome, Error> {
    let Teardown {
        steps,
        stated,
        given_up,
        finalizers,
        deserted,
        recheck,
    } = {
        let state = hub.world.look();
        let configs = |named: &_| state.config(named).map(Arc::clone);
        let teardown_input = TeardownInput {
            version: hub.version,
            cluster,
            observed,
            now,
        };
        teardown::tear_down(hub.addon.as_ref(), teardown_input, &configs)
    };
    if let Some((stated, addon)) = stated.zip(observed.addon.as_deref()) {
        apply::hooks(hub, cluster, addon, &stated, now).await?;
        if let Some(pending) = given_up {
            give_up(hub, cluster, addon, &pending, now).await;
        }
    }
    // Before the works, among which are the hooks: a finalizer that somebody else's write keeps us from
    // taking away must not have them run a second time. Works of an add-on that is gone go anyway.
    if let Some((finalizers, addon)) = finalizers.zip(observed.addon.as_deref()) {
        apply::finalizers(hub, cluster, addon, &finalizers).await?;
    }
    apply::works(hub, cluster, steps, &mut Facts::default()).await?;
    for work in &deserted {
        apply::desert(hub, cluster, work).await?;
    }
    let recheck = recheck.map_or(SWEEP, |recheck| recheck.min(SWEEP));
    Ok(Outcome::Settled(Some(recheck)))
}

/// Takes away what a refused cluster has. Without hooks: they would serve an add-on that goes, and this one stays.
async fn clear<A: Addon>(
    hub: &Hub<A>,
    cluster: &ClusterName,
    observed: &Observed,
) -> Result<Outcome, Error> {
    if observed.works.is_empty() {
        let left = hub.addon.left(cluster).await;
        left.map_err(|source| hook("left", cluster, source))?;
        return Ok(Outcome::Settled(Some(SWEEP)));
    }
    let leaving = Leaving {
        cluster: cluster.clone(),
        phase: LeavingPhase::Refused,
        works: observed.works.len(),
    };
    let removal = hub.addon.leaving(&leaving).await;
    match removal.map_err(|source| hook("leaving", cluster, source))? {
        Removal::Wait(pause) => return Ok(Outcome::Settled(Some(pause))),
        Removal::Proceed => {}
    }
    let outgoing = observed.works.iter().filter(|work| !work.deleting);
    let steps = outgoing.map(|work| plan::Step::delete(work)).collect();
    apply::works(hub, cluster, steps, &mut Facts::default()).await?;
    Ok(Outcome::Settled(Some(SWEEP)))
}

/// Only says why nothing is done. Hooks and works are left as they are.
async fn hold<A: Addon>(
    hub: &Hub<A>,
    target: Target<'_>,
    verdict: &Verdict,
    now: Timestamp,
) -> Result<Outcome, Error> {
    let live = target.addon.conditions();
    if let Some(conditions) = report::blocked(hub.addon.health_mode(), verdict, live, now) {
        info!(cluster = %target.name, reason = verdict.reason, "cluster held");
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
    let permitted = permit(hub, target, observed).await;
    let Plan {
        finalizers,
        hashes,
        registration,
        works,
    } = {
        let problem = permitted.as_ref().err().map(Error::chain);
        let look = Look {
            version: hub.version,
            target,
            observed,
            now,
            problem: problem.as_deref(),
        };
        let state = hub.world.look();
        let configs = |named: &_| state.config(named).map(Arc::clone);
        plan::plan(hub.addon.as_ref(), look, &hosting, &configs)
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
        Ok(()) => match hub.addon.enrolled(target).await {
            Ok(()) => see_to_works(hub, target, works, &mut facts, now).await,
            Err(source) => Err(hook("enrolled", target.name, source)),
        },
        Err(error) => Err(error),
    };
    // A conflict is no news for people, and the next look comes at once.
    if worked.as_ref().is_err_and(Error::is_conflict) {
        return Ok(Outcome::Soon);
    }
    let recheck = write_report(hub, target, &facts, now).await?;
    worked.map(|()| Outcome::Settled(Some(recheck.map_or(SWEEP, |recheck| recheck.min(SWEEP)))))
}

/// Sees to what the agent may do on the hub.
async fn permit<A: Addon>(
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

async fn see_to_works<A: Addon>(
    hub: &Hub<A>,
    target: Target<'_>,
    works: Works,
    facts: &mut Facts,
    now: Timestamp,
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
            explain(hub, target, &waiting, now).await;
            Ok(())
        }
        Works::Refused(error) => {
            facts.problem = Some(error.message.clone());
            facts.render_error = Some(error);
            Ok(())
        }
    }
}

/// Says what is new, and tells when the author wants to be asked again.
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
    notify(hub, target, &updates, now).await;
    Ok(recheck)
}

mod teardown;
#[cfg(test)]
mod tests;
