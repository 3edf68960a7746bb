//! Which conditions of one cluster to write. Pure.

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

/// The cluster's own controllers may change an object while its work agent creates it. The work agent retries a second
/// later, so the first failure of an install is reported only when it lasts.
const INSTALL_GRACE: Duration = Duration::from_secs(10);

/// The input of the report: the state after the works were applied.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Facts {
    /// The current works; the cluster has not reported one that was just written.
    pub(crate) works: Vec<WorkReport>,
    /// Whether the desired works are known.
    pub(crate) settled: bool,
    /// Since when an earlier work is being deleted; the state of the works is unknown until it is gone.
    pub(crate) going_since: Option<Timestamp>,
    /// Why works could not be rendered or written.
    pub(crate) problem: Option<String>,
    /// Why they could not be rendered.
    pub(crate) render_error: Option<RenderError>,
    /// The condition of the hosting cluster; none without hosted mode.
    pub(crate) host: Option<Verdict>,
}

impl Facts {
    /// The observed state, before any write.
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

    /// Records a written work with its new generation.
    pub(crate) fn wrote(&mut self, work: WorkReport) {
        let is_same = |known: &&mut WorkReport| {
            (&known.namespace, &known.name) == (&work.namespace, &work.name)
        };
        if let Some(known) = self.works.iter_mut().find(is_same) {
            known.generation = work.generation;
        } else {
            self.works.push(work);
        }
    }

    /// Records that a work was deleted.
    pub(crate) fn deleted(&mut self, namespace: &str, name: &str) {
        // A former host and the present one may have works of the same name.
        let is_same = |work: &WorkReport| work.namespace == namespace && work.name == name;
        self.works.retain(|work| !is_same(work));
    }
}

/// The conditions to write.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Report {
    /// All conditions of the deploy part with `Available`, if one of the part has to be written.
    pub(crate) deploy: Option<Vec<Condition>>,
    /// `Available`, if it alone has to be written.
    pub(crate) available: Option<Condition>,
    /// When to reconcile again for a condition that waits.
    pub(crate) recheck: Option<Duration>,
}

/// Decides which conditions of a served cluster to write.
pub(crate) fn report(
    mode: HealthMode,
    target: Target<'_>,
    facts: &Facts,
    health: &Health,
    now: Timestamp,
) -> Report {
    let verdicts = &health.verdicts;
    let live = target.addon.conditions();
    let mut draft = Draft::new(live, now);
    draft.set_applied(addon::MANIFEST_APPLIED, facts.applied(false));
    if let Some(host) = &facts.host {
        draft.set(host);
        draft.set_applied(addon::HOSTING_MANIFEST_APPLIED, facts.applied(true));
    } else {
        draft.withdraw(addon::HOSTING_CLUSTER_VALIDITY);
        draft.withdraw(addon::HOSTING_MANIFEST_APPLIED);
    }
    for verdict in verdicts.iter().filter(|verdict| is_authors(&verdict.kind)) {
        draft.set(verdict);
    }
    let mut verdicts = verdicts.iter();
    let available = verdicts.find(|verdict| verdict.kind == addon::AVAILABLE);
    let available = available.filter(|_| health::may_write_available(mode, target.cluster));
    let available = available.map(|verdict| verdict.onto(live, now));
    let waits = health.pending && available.is_none() && draft.is_first_success();
    let fails = draft.is_first_failure();
    let install_grace = facts.install_grace(now).filter(|_| fails);
    draft.add_available(mode, available.as_ref());
    let deploy = draft.finish().filter(|_| !waits && install_grace.is_none());
    let alone = deploy.is_none();
    Report {
        deploy,
        recheck: install_grace,
        available: available.filter(|condition| alone && !condition::is_reported(condition, live)),
    }
}

/// Decides which conditions of a cluster that is not served to write: the reason, and the current conditions.
pub(crate) fn blocked(
    mode: HealthMode,
    verdict: &Verdict,
    live: &[Condition],
    now: Timestamp,
) -> Option<Vec<Condition>> {
    let mut draft = Draft::new(live, now);
    draft.set_applied(addon::MANIFEST_APPLIED, None);
    draft.keep(addon::HOSTING_CLUSTER_VALIDITY);
    draft.keep(addon::HOSTING_MANIFEST_APPLIED);
    draft.set(verdict);
    draft.add_available(mode, None);
    draft.finish()
}

/// Whether the author may set this condition; OCM or other parts of the SDK write the listed ones.
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
    /// How long to wait before a failed work is reported: some time if all failed works are new.
    fn install_grace(&self, now: Timestamp) -> Option<Duration> {
        let failed = self.works.iter().filter(|work| health::has_failed(work));
        let left = failed.map(|work| {
            // A creation time in the future: our clock is behind, so the age is unknown.
            let age = Duration::try_from(now.duration_since(work.created?)).ok()?;
            let left = INSTALL_GRACE.checked_sub(age);
            left.filter(|left| !left.is_zero())
        });
        left.min().flatten()
    }

    /// The condition for the works in one of the two places.
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

/// The conditions of the deploy part. A write contains all of them: server-side apply removes omitted ones.
struct Draft<'a> {
    live: &'a [Condition],
    now: Timestamp,
    conditions: Vec<Condition>,
    /// Whether a condition changed.
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

    /// Sets the condition of the works; without a report of the cluster, the current one stays.
    fn set_applied(&mut self, kind: &str, verdict: Option<Verdict>) {
        let before = condition::find(self.live, kind);
        let new = verdict.map(|verdict| verdict.onto(self.live, self.now));
        let new = new.or_else(|| health::unanswered(kind, self.live));
        self.updates |= match (&new, before) {
            (Some(new), Some(before)) => !condition::same(new, before),
            (None, None) => false,
            (Some(_), None) | (None, Some(_)) => true,
        };
        self.conditions.extend(new);
    }

    /// Sets a condition. The first verdict on a type counts: a second one would differ after every write.
    fn set(&mut self, verdict: &Verdict) {
        let new = verdict.onto(self.live, self.now);
        if condition::find(&self.conditions, &new.type_).is_none() {
            self.updates |=
                !condition::is_reported(&new, self.live) && !may_wait(verdict, self.live);
            self.conditions.push(new);
        }
    }

    fn keep(&mut self, kind: &str) {
        self.conditions
            .extend(condition::find(self.live, kind).cloned());
    }

    /// Adds `Available` to the conditions: to the first ones, so that they are one write, and to later ones, since the write
    /// would remove it. Without a new value the current one stays. It is not counted as a change here.
    fn add_available(&mut self, mode: HealthMode, available: Option<&Condition>) {
        // In lease mode the cluster writes it.
        if mode == HealthMode::Customized {
            let live = condition::find(self.live, addon::AVAILABLE);
            self.conditions.extend(available.or(live).cloned());
        }
    }

    /// Omits a condition that only the SDK writes, which removes it.
    fn withdraw(&mut self, kind: &str) {
        self.updates |= condition::find(self.live, kind).is_some();
    }

    /// Whether this is the first report of the works, and it is good.
    fn is_first_success(&self) -> bool {
        let applied = condition::is_true(&self.conditions, addon::MANIFEST_APPLIED);
        let troubled = condition::is_true(&self.conditions, addon::DEGRADED);
        applied && !troubled && condition::find(self.live, addon::MANIFEST_APPLIED).is_none()
    }

    /// Whether this is the first report of the works, and the cluster could not apply one.
    fn is_first_failure(&self) -> bool {
        let applied = condition::find(&self.conditions, addon::MANIFEST_APPLIED);
        applied.is_some_and(|applied| applied.reason == health::reason::FAILED)
            && condition::find(self.live, addon::MANIFEST_APPLIED).is_none()
    }

    fn finish(self) -> Option<Vec<Condition>> {
        self.updates.then_some(self.conditions)
    }
}

/// Whether a condition may wait for another write: it is new, and good or deferrable.
fn may_wait(verdict: &Verdict, live: &[Condition]) -> bool {
    let first = condition::find(live, &verdict.kind).is_none();
    let good = verdict.kind == addon::DEGRADED && verdict.status == Status::False;
    first && (verdict.deferrable || good)
}

#[cfg(test)]
mod tests;
