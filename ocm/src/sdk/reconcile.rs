//! One cluster: look, decide, write, say.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use tracing::{debug, info};

use self::{
    plan::{Plan, Stage, Works},
    report::Facts,
};
use super::{
    Addon, Error, HealthInput, Leaving, LeavingPhase, Removal, Target, drive::Hub, event::Saying,
    queue::Outcome, settled::Waiting, world::Observed,
};
use crate::{condition::Verdict, name::ClusterName};

mod apply;
mod plan;
mod report;

pub(crate) use self::plan::held;

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
        Stage::Idle => Ok(Outcome::Settled(None)),
        Stage::Left => {
            hub.addon
                .left(name)
                .await
                .map_err(|source| hook("left", name, source))?;
            Ok(Outcome::Settled(None))
        }
        Stage::Leaving(leaving) => leave(hub, &leaving, &observed).await,
        Stage::Held { target, verdict } => hold(hub, target, &verdict, now).await,
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

async fn leave<A: Addon>(
    hub: &Hub<A>,
    leaving: &Leaving,
    observed: &Observed,
) -> Result<Outcome, Error> {
    let removal = hub.addon.leaving(leaving).await;
    match removal.map_err(|source| hook("leaving", &leaving.cluster, source))? {
        Removal::Wait(pause) => return Ok(Outcome::Settled(Some(pause))),
        Removal::Proceed => {}
    }
    match leaving.phase {
        LeavingPhase::NotAdmitted | LeavingPhase::ClusterDeleting => {}
        LeavingPhase::AddonDeleting | LeavingPhase::AddonGone => {
            let leftover = observed.works.iter().filter(|work| !work.deleting);
            for work in leftover {
                apply::delete_work(hub, &leaving.cluster, &work.report.name).await?;
            }
        }
    }
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
    if let Some(conditions) = report::held(verdict, live, now) {
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
    let Plan {
        hashes,
        registration,
        works,
    } = {
        let state = hub.world.look();
        let configs = |named: &_| state.config(named).map(Arc::clone);
        plan::plan(
            hub.addon.as_ref(),
            hub.version,
            target,
            observed,
            &configs,
            now,
        )
    };
    if hashes {
        apply::hashes(hub, target).await?;
    }
    if let Some(registration) = registration {
        apply::registration(hub, target, &registration).await?;
    }
    let enrolled = hub.addon.enrolled(target).await;
    let mut facts = Facts::of(observed, hub.addon.name());
    let worked = match enrolled {
        Ok(()) => see_to_works(hub, target, works, &mut facts, now).await,
        Err(source) => Err(hook("enrolled", target.name, source)),
    };
    // A conflict is no news for people, and the next look comes at once.
    if worked.as_ref().is_err_and(Error::is_conflict) {
        return Ok(Outcome::Soon);
    }
    let recheck = say(hub, target, &facts, now).await?;
    worked.map(|()| Outcome::Settled(Some(recheck.map_or(SWEEP, |recheck| recheck.min(SWEEP)))))
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
            hub.events.forget(&regarding(hub, target));
            let changed = apply::works(hub, target, steps, facts).await;
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

/// Says in an Event what a person has to do before works can be made.
async fn explain<A: Addon>(hub: &Hub<A>, target: Target<'_>, waiting: &Waiting, now: Timestamp) {
    let Some(reason) = waiting.needs_a_person() else {
        return;
    };
    let note = format!("the add-on waits: {waiting}");
    let saying = Saying {
        regarding: regarding(hub, target),
        warning: true,
        reason,
        note: &note,
    };
    let reporter = hub.addon.name().as_str();
    hub.events
        .say(&hub.client, reporter, saying, now, &hub.metrics)
        .await;
}

fn regarding<A: Addon>(hub: &Hub<A>, target: Target<'_>) -> ObjectReference {
    ObjectReference {
        api_version: Some(hub.version.api_version()),
        kind: Some("ManagedClusterAddOn".to_owned()),
        namespace: Some(target.name.to_string()),
        name: target.addon.metadata.name.clone(),
        uid: target.addon.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// Says what is new, and tells when the author wants to be asked again.
async fn say<A: Addon>(
    hub: &Hub<A>,
    target: Target<'_>,
    facts: &Facts,
    now: Timestamp,
) -> Result<Option<Duration>, Error> {
    let health = hub.addon.conditions(HealthInput {
        target,
        works: &facts.works,
        render_error: facts.render_error.as_ref(),
        now,
    });
    let report = report::report(
        hub.addon.health_mode(),
        target,
        facts,
        &health.verdicts,
        now,
    );
    if let Some(conditions) = report.deploy {
        apply::conditions(hub, target, &conditions).await?;
    }
    if let Some(available) = report.available {
        apply::available(hub, target, available).await?;
    }
    Ok(health.recheck)
}
