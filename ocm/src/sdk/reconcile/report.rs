//! What to say of one cluster. Pure.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::{
    condition::{self, Status, Verdict, addon},
    name::AddonName,
    sdk::{
        Health, HealthMode, RenderError, Target, WorkReport, health, hosting::Hosting,
        object_cache::Observed,
    },
};

/// A cluster's own controllers may be at an object that its work agent makes just now. That is a failure which the work
/// agent has put right a second later; so the first failure of an install is told when it lasts.
const TEETHING: Duration = Duration::from_secs(10);

/// What is known when the works have been seen to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Facts {
    /// The works as they are now; one that was just written has not been answered for.
    pub(crate) works: Vec<WorkReport>,
    /// Whether it is known what the works should be.
    pub(crate) settled: bool,
    /// Since when a work is on its way out that has to be gone before they are: until then nothing is known of them.
    pub(crate) going_since: Option<Timestamp>,
    /// Why works could not be rendered or written.
    pub(crate) problem: Option<String>,
    /// Why they could not be rendered.
    pub(crate) render_error: Option<RenderError>,
    /// What is said of the cluster that shall host the agent; none without hosted mode.
    pub(crate) host: Option<Verdict>,
}

impl Facts {
    /// What was observed, before anything is written.
    pub(crate) fn of(
        observed: &Observed,
        addon: &AddonName,
        target: Target<'_>,
        hosting: &Hosting,
        now: Timestamp,
    ) -> Self {
        let uid = target.addon.metadata.uid.as_deref().unwrap_or_default();
        let (mut works, mut going) = (Vec::new(), Vec::new());
        for place in hosting.places() {
            for (_, work) in observed.deploys(addon, target.name, &place) {
                if work.deleting || work.is_old(uid) {
                    going.push(work.deleted_at.unwrap_or(now));
                }
                if !work.deleting {
                    works.push(WorkReport {
                        hosted: place.is_hosting(),
                        ..work.report.clone()
                    });
                }
            }
        }
        Self {
            works,
            going_since: going.into_iter().min(),
            host: hosting.verdict(),
            ..Self::default()
        }
    }

    /// A work was written and has this generation now.
    pub(crate) fn wrote(&mut self, work: WorkReport) {
        let is_it = |known: &&mut WorkReport| {
            (&known.namespace, &known.name) == (&work.namespace, &work.name)
        };
        if let Some(known) = self.works.iter_mut().find(is_it) {
            known.generation = work.generation;
        } else {
            self.works.push(work);
        }
    }

    /// A work was deleted.
    pub(crate) fn deleted(&mut self, namespace: &str, name: &str) {
        // The same name may be on a former host and on the present one.
        let is_it = |work: &WorkReport| work.namespace == namespace && work.name == name;
        self.works.retain(|work| !is_it(work));
    }
}

/// What has to be written.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Report {
    /// All conditions of the deploy part with `Available`, if one of the part has to be written.
    pub(crate) deploy: Option<Vec<Condition>>,
    /// `Available`, if it alone has to be written.
    pub(crate) available: Option<Condition>,
    /// When to look again at what was not said yet.
    pub(crate) recheck: Option<Duration>,
}

/// Decides what to say of a served cluster.
pub(crate) fn report(
    mode: HealthMode,
    target: Target<'_>,
    facts: &Facts,
    stated: &Health,
    now: Timestamp,
) -> Report {
    let verdicts = &stated.verdicts;
    let live = target.addon.conditions();
    let mut draft = Draft::new(live, now);
    draft.state(addon::MANIFEST_APPLIED, facts.applied(false));
    if let Some(host) = &facts.host {
        draft.emit(host);
        draft.state(addon::HOSTING_MANIFEST_APPLIED, facts.applied(true));
    } else {
        draft.unsay(addon::HOSTING_CLUSTER_VALIDITY);
        draft.unsay(addon::HOSTING_MANIFEST_APPLIED);
    }
    for verdict in verdicts.iter().filter(|verdict| is_authors(&verdict.kind)) {
        draft.emit(verdict);
    }
    let available = verdicts
        .iter()
        .find(|verdict| verdict.kind == addon::AVAILABLE);
    let available = available.filter(|_| health::may_write_available(mode, target.cluster));
    let available = available.map(|verdict| verdict.onto(live, now));
    let waits = stated.pending && available.is_none() && draft.is_first_good_news();
    let teething = if draft.is_first_failure() {
        facts.teething(now)
    } else {
        None
    };
    draft.accompany(mode, available.as_ref());
    let deploy = draft.finish().filter(|_| !waits && teething.is_none());
    let alone = deploy.is_none();
    Report {
        deploy,
        recheck: teething,
        available: available.filter(|condition| alone && !is_said(condition, live)),
    }
}

/// Decides what to say of a cluster that is not served: why, and nothing that was not said before.
pub(crate) fn blocked(
    mode: HealthMode,
    verdict: &Verdict,
    live: &[Condition],
    now: Timestamp,
) -> Option<Vec<Condition>> {
    let mut draft = Draft::new(live, now);
    draft.state(addon::MANIFEST_APPLIED, None);
    draft.keep(addon::HOSTING_CLUSTER_VALIDITY);
    draft.keep(addon::HOSTING_MANIFEST_APPLIED);
    draft.emit(verdict);
    draft.accompany(mode, None);
    draft.finish()
}

/// These are written by OCM, by another part of the SDK, or with care of their own.
fn is_authors(kind: &str) -> bool {
    ![
        addon::AVAILABLE,
        addon::CONFIGURED,
        addon::PROGRESSING,
        addon::REGISTRATION_APPLIED,
        addon::MANIFEST_APPLIED,
        addon::HOSTING_MANIFEST_APPLIED,
        addon::HOSTING_CLUSTER_VALIDITY,
        addon::HOOK_MANIFEST_COMPLETED,
    ]
    .contains(&kind)
}

impl Facts {
    /// How long it is too early yet to say that a work has failed: all that have are new.
    fn teething(&self, now: Timestamp) -> Option<Duration> {
        let failed = self.works.iter().filter(|work| health::has_failed(work));
        let left = failed.map(|work| {
            // Made in our future: our clock is behind, and nothing is known of its age.
            let age = Duration::try_from(now.duration_since(work.created?)).ok()?;
            TEETHING.checked_sub(age).filter(|left| !left.is_zero())
        });
        left.min().flatten()
    }

    /// The verdict over the works in one of the two places.
    fn applied(&self, hosted: bool) -> Option<Verdict> {
        let kind = if hosted {
            addon::HOSTING_MANIFEST_APPLIED
        } else {
            addon::MANIFEST_APPLIED
        };
        if let Some(problem) = &self.problem {
            return Some(health::not_written(kind, problem));
        }
        if self.going_since.is_some() {
            return None;
        }
        let works = self.works.iter().filter(|work| work.hosted == hosted);
        let works: Vec<_> = works.collect();
        let known = self.settled || !works.is_empty();
        known
            .then(|| health::manifest_applied(kind, &works))
            .flatten()
    }
}

/// The conditions of the deploy part, written all or not at all: one that is left out vanishes.
struct Draft<'a> {
    live: &'a [Condition],
    now: Timestamp,
    conditions: Vec<Condition>,
    /// Whether there is a reason to write.
    updates: bool,
}

impl<'a> Draft<'a> {
    const fn new(live: &'a [Condition], now: Timestamp) -> Self {
        Self {
            live,
            now,
            conditions: Vec::new(),
            updates: false,
        }
    }

    /// What is known of works; without an answer from the cluster, what was said before.
    fn state(&mut self, kind: &str, verdict: Option<Verdict>) {
        let before = condition::find(self.live, kind);
        let stated = verdict.map(|verdict| verdict.onto(self.live, self.now));
        let stated = stated.or_else(|| health::unanswered(kind, self.live));
        self.updates |= match (&stated, before) {
            (Some(stated), Some(before)) => !condition::same(stated, before),
            (None, None) => false,
            (Some(_), None) | (None, Some(_)) => true,
        };
        self.conditions.extend(stated);
    }

    /// Of two words on one thing the first counts; the second would be news for ever.
    fn emit(&mut self, verdict: &Verdict) {
        let stated = verdict.onto(self.live, self.now);
        if condition::find(&self.conditions, &stated.type_).is_none() {
            self.updates |= !is_said(&stated, self.live) && !may_wait(verdict, self.live);
            self.conditions.push(stated);
        }
    }

    fn keep(&mut self, kind: &str) {
        self.conditions
            .extend(condition::find(self.live, kind).cloned());
    }

    /// `Available` goes along with every word: with the first, so that both are one write, and with later ones, since what
    /// is left out vanishes. As it is unless there is something to say of it; that it is news is for others to find.
    fn accompany(&mut self, mode: HealthMode, stated: Option<&Condition>) {
        // In lease mode it is the cluster's own.
        if mode == HealthMode::Customized {
            let live = condition::find(self.live, addon::AVAILABLE);
            self.conditions.extend(stated.or(live).cloned());
        }
    }

    /// Takes back what only the SDK says.
    fn unsay(&mut self, kind: &str) {
        self.updates |= condition::find(self.live, kind).is_some();
    }

    /// Whether nothing was said of the works before, and now only that all is well.
    fn is_first_good_news(&self) -> bool {
        let applied = condition::is_true(&self.conditions, addon::MANIFEST_APPLIED);
        let troubled = condition::is_true(&self.conditions, addon::DEGRADED);
        applied && !troubled && condition::find(self.live, addon::MANIFEST_APPLIED).is_none()
    }

    /// Whether nothing was said of the works before, and now that the cluster could not apply one.
    fn is_first_failure(&self) -> bool {
        let stated = condition::find(&self.conditions, addon::MANIFEST_APPLIED);
        stated.is_some_and(|stated| stated.reason == health::reason::FAILED)
            && condition::find(self.live, addon::MANIFEST_APPLIED).is_none()
    }

    fn finish(self) -> Option<Vec<Condition>> {
        self.updates.then_some(self.conditions)
    }
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
