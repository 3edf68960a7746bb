//! What to say of one cluster. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::plan::numbered;
use crate::{
    api::work::ManifestWorkStatus,
    condition::{self, Status, Verdict, addon},
    name::AddonName,
    sdk::{HealthMode, RenderError, Target, WorkReport, health, world::Observed},
};

/// What is known when the works have been seen to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Facts {
    /// The works as they are now; one that was just written has not been answered for.
    pub(crate) works: Vec<WorkReport>,
    /// Whether it is known what the works should be.
    pub(crate) settled: bool,
    /// Why works could not be rendered or written.
    pub(crate) problem: Option<String>,
    /// Why they could not be rendered.
    pub(crate) render_error: Option<RenderError>,
}

impl Facts {
    /// What was observed, before anything is written.
    pub(crate) fn of(observed: &Observed, addon: &AddonName) -> Self {
        let works = numbered(addon, observed).filter(|(_, work)| !work.deleting);
        Self {
            works: works.map(|(_, work)| work.report.clone()).collect(),
            ..Self::default()
        }
    }

    /// A work was written and has this generation now.
    pub(crate) fn wrote(&mut self, name: &str, created: Option<Timestamp>, generation: i64) {
        if let Some(work) = self.works.iter_mut().find(|work| work.name == name) {
            work.generation = generation;
        } else {
            let (name, status) = (name.to_owned(), ManifestWorkStatus::default());
            self.works.push(WorkReport {
                name,
                created,
                generation,
                status,
            });
        }
    }

    /// A work was deleted.
    pub(crate) fn deleted(&mut self, name: &str) {
        self.works.retain(|work| work.name != name);
    }
}

/// What has to be written.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Report {
    /// All conditions of the deploy part, if one of them has to be written.
    pub(crate) deploy: Option<Vec<Condition>>,
    /// `Available`, if it has to be written.
    pub(crate) available: Option<Condition>,
}

/// Decides what to say of a served cluster.
pub(crate) fn report(
    mode: HealthMode,
    target: Target<'_>,
    facts: &Facts,
    verdicts: &[Verdict],
    now: Timestamp,
) -> Report {
    let live = target.addon.conditions();
    let others = verdicts.iter().filter(|verdict| is_authors(&verdict.kind));
    let available = verdicts
        .iter()
        .find(|verdict| verdict.kind == addon::AVAILABLE);
    let available = available.filter(|_| health::may_write_available(mode, target.cluster));
    Report {
        deploy: deploy(manifest_applied(facts), others, live, now),
        available: available
            .map(|verdict| verdict.onto(live, now))
            .filter(|condition| !is_said(condition, live)),
    }
}

/// Decides what to say of a cluster that is not served: why, and nothing that was not said before.
pub(crate) fn held(
    verdict: &Verdict,
    live: &[Condition],
    now: Timestamp,
) -> Option<Vec<Condition>> {
    deploy(None, std::iter::once(verdict), live, now)
}

/// These are written by OCM, by the registration part, or with care of their own.
fn is_authors(kind: &str) -> bool {
    ![
        addon::AVAILABLE,
        addon::CONFIGURED,
        addon::PROGRESSING,
        addon::REGISTRATION_APPLIED,
        addon::MANIFEST_APPLIED,
    ]
    .contains(&kind)
}

fn manifest_applied(facts: &Facts) -> Option<Verdict> {
    if let Some(problem) = &facts.problem {
        return Some(health::not_written(problem));
    }
    let known = facts.settled || !facts.works.is_empty();
    known
        .then(|| health::manifest_applied(&facts.works))
        .flatten()
}

fn deploy<'a>(
    manifest_applied: Option<Verdict>,
    others: impl Iterator<Item = &'a Verdict>,
    live: &[Condition],
    now: Timestamp,
) -> Option<Vec<Condition>> {
    let mut conditions: Vec<Condition> = Vec::new();
    let mut news = false;
    let before = condition::find(live, addon::MANIFEST_APPLIED);
    let applied = manifest_applied
        .map(|verdict| verdict.onto(live, now))
        .or_else(|| health::unanswered(live));
    news |= match (&applied, before) {
        (Some(applied), Some(before)) => !condition::same(applied, before),
        (None, None) => false,
        (Some(_), None) | (None, Some(_)) => true,
    };
    conditions.extend(applied);
    for verdict in others {
        let condition = verdict.onto(live, now);
        // Of two words on one thing the first counts; the second would be news for ever.
        if condition::find(&conditions, &condition.type_).is_none() {
            news |= !is_said(&condition, live) && !may_wait(verdict, live);
            conditions.push(condition);
        }
    }
    news.then_some(conditions)
}

/// Good news that nobody has heard otherwise is no reason to write.
fn may_wait(verdict: &Verdict, live: &[Condition]) -> bool {
    let first = condition::find(live, &verdict.kind).is_none();
    let good = verdict.kind == addon::DEGRADED && verdict.status == Status::False;
    first && (verdict.calm || good)
}

fn is_said(condition: &Condition, live: &[Condition]) -> bool {
    condition::find(live, &condition.type_).is_some_and(|live| condition::same(condition, live))
}

#[cfg(test)]
mod tests;
