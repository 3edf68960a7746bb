//! The work agent: applies the manifests of a ManifestWork to the spoke, and reports back.
//!
//! One pass handles every work. Applying and observing each have their own due time in memory, so a
//! pass that was woken by our own write costs nothing.

mod applied;
mod apply;
mod feedback;
mod json_path;
mod merge;
mod rules;

use std::{collections::HashMap, sync::Arc, time::Duration};

use anyhow::Result;
use kube::{ResourceExt, api::DynamicObject};
use rand::Rng as _;
use serde_json::{Value, json};
use tokio::{sync::Mutex, time::Instant};

use super::{Spoke, keep};
use crate::{
    condition::{self, Condition},
    control::{self, Again},
    kinds::MANIFEST_WORK,
    tasks::Tasks,
};
use apply::{Applier, Outcome};

/// Finalizer that keeps a work until its objects are gone from the spoke.
const FINALIZER: &str = "cluster.open-cluster-management.io/manifest-work-cleanup";
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LAST_RETRY: Duration = Duration::from_mins(1);
/// How often objects that are being deleted are checked.
const LOOK_FOR_END: Duration = Duration::from_millis(500);

/// The memory about one work.
#[derive(Debug, Default)]
struct Memory {
    /// The last apply: generation, and the outcome of each manifest.
    applied: Option<(i64, Vec<Outcome>)>,
    /// Drift is corrected, or an error retried, at this time.
    apply_at: Option<Instant>,
    failures: u32,
    observed: Vec<feedback::Observed>,
    observe_at: Option<Instant>,
}

struct Agent {
    spoke: Spoke,
    applier: Applier,
    works: HashMap<String, Memory>,
}

pub(super) fn start(spoke: &Spoke, tasks: &mut Tasks) {
    let agent = Agent {
        spoke: spoke.clone(),
        applier: Applier::new(spoke.work.clone()),
        works: HashMap::new(),
    };
    // One pass at a time, so the lock never waits; it only lets each pass borrow the memory of the last one.
    let agent = Arc::new(Mutex::new(agent));
    keep(tasks, "work agent", &spoke.on_hub, move || {
        let agent = Arc::clone(&agent);
        async move { agent.lock().await.pass().await }
    });
}

impl Agent {
    async fn pass(&mut self) -> Result<Again> {
        let works = self.spoke.on_hub.within(MANIFEST_WORK, &self.spoke.cluster);
        self.works
            .retain(|name, _| works.iter().any(|work| work.name_any() == *name));
        let mut again = None;
        let mut failure = None;
        for work in works {
            match self.one(&work).await {
                Ok(wish) => again = control::sooner(again, wish),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(again), Err)
    }

    async fn one(&mut self, work: &DynamicObject) -> Result<Again> {
        let name = work.name_any();
        if work.metadata.deletion_timestamp.is_some() {
            self.works.remove(&name);
            return self.finalize(work).await;
        }
        if !work.finalizers().iter().any(|has| has == FINALIZER) {
            let mut all = work.finalizers().to_vec();
            all.push(FINALIZER.to_owned());
            let patch = json!({ "metadata": { "finalizers": all } });
            let api = MANIFEST_WORK.within(&self.spoke.hub, &self.spoke.cluster);
            condition::write_object(&api, work, patch).await?;
            return Ok(None);
        }
        let mut memory = self.works.remove(&name).unwrap_or_default();
        let result = self.advance(work, &mut memory).await;
        self.works.insert(name, memory);
        result
    }

    /// Applies and observes when due, and reports both in one write.
    async fn advance(&mut self, work: &DynamicObject, memory: &mut Memory) -> Result<Again> {
        let now = Instant::now();
        let generation = work.metadata.generation.unwrap_or_default();
        let is_new = memory
            .applied
            .as_ref()
            .is_none_or(|(applied, _)| *applied != generation);
        if is_new || memory.apply_at.is_none_or(|at| at <= now) {
            self.apply(work, generation, memory, is_new).await?;
            memory.observe_at = None;
        }
        if memory.observe_at.is_none_or(|at| at <= now) {
            let outcomes = memory
                .applied
                .as_ref()
                .map_or(&[][..], |(_, outcomes)| outcomes);
            memory.observed =
                feedback::observe(&mut self.applier, &work.data["spec"], outcomes).await;
            memory.observe_at = Some(Instant::now() + self.spoke.feedback_interval);
        }
        report(&self.spoke, work, memory).await?;
        let next = [memory.apply_at, memory.observe_at]
            .into_iter()
            .flatten()
            .min();
        Ok(next.map(|at| at.saturating_duration_since(Instant::now())))
    }

    async fn apply(
        &mut self,
        work: &DynamicObject,
        generation: i64,
        memory: &mut Memory,
        is_new: bool,
    ) -> Result<()> {
        let record = applied::ensure(&self.spoke, &work.name_any()).await?;
        let Some(record) = record else {
            // A user deleted it: finish in the background, then create it again.
            memory.apply_at = Some(Instant::now() + LOOK_FOR_END);
            return Ok(());
        };
        let spec = &work.data["spec"];
        let outcomes = self.applier.apply(spec, &record.owner()).await;
        let is_pruned = applied::record(&mut self.applier, &record, spec, &outcomes).await?;
        let is_good = is_pruned && outcomes.iter().all(Outcome::is_settled);
        memory.failures = if is_new { 0 } else { memory.failures };
        let pause = if is_good {
            memory.failures = 0;
            // OCM's agent re-applies after some minutes, with jitter.
            Duration::from_secs(rand::rng().random_range(240..=360))
        } else {
            memory.failures = memory.failures.saturating_add(1);
            FIRST_RETRY
                .saturating_mul(1 << memory.failures.min(8))
                .min(LAST_RETRY)
        };
        memory.applied = Some((generation, outcomes));
        memory.apply_at = Some(Instant::now() + pause);
        Ok(())
    }

    /// Removes the objects of a deleted work from the spoke, then removes the finalizer.
    async fn finalize(&mut self, work: &DynamicObject) -> Result<Again> {
        if !work.finalizers().iter().any(|has| has == FINALIZER) {
            return Ok(None);
        }
        let spec = &work.data["spec"];
        if !applied::remove(&self.spoke, &mut self.applier, &work.name_any(), spec).await? {
            return Ok(Some(LOOK_FOR_END));
        }
        let kept: Vec<&String> = work
            .finalizers()
            .iter()
            .filter(|has| *has != FINALIZER)
            .collect();
        let api = MANIFEST_WORK.within(&self.spoke.hub, &self.spoke.cluster);
        condition::write_object(&api, work, json!({ "metadata": { "finalizers": kept } })).await?;
        Ok(None)
    }
}

/// Writes the results of a work into its status.
async fn report(spoke: &Spoke, work: &DynamicObject, memory: &Memory) -> Result<()> {
    let Some((generation, outcomes)) = &memory.applied else {
        return Ok(());
    };
    let api = MANIFEST_WORK.within(&spoke.hub, &spoke.cluster);
    condition::write_status(&api, work, |status| {
        let before = status
            .pointer("/resourceStatus/manifests")
            .and_then(Value::as_array);
        let before = before.cloned().unwrap_or_default();
        let manifests: Vec<Value> = outcomes
            .iter()
            .zip(&memory.observed)
            .map(|(outcome, observed)| manifest_status(outcome, observed, *generation, &before))
            .collect();
        status["resourceStatus"] = json!({ "manifests": manifests });
        let conditions = condition::list(status);
        condition::set(
            conditions,
            &applied_condition(outcomes).observed(*generation),
        );
        condition::set(
            conditions,
            &available_condition(&memory.observed).observed(*generation),
        );
    })
    .await
}

fn manifest_status(
    outcome: &Outcome,
    observed: &feedback::Observed,
    generation: i64,
    before: &[Value],
) -> Value {
    let known = before
        .iter()
        .find(|one| same_object(&one["resourceMeta"], &outcome.meta));
    let mut conditions = known
        .and_then(|one| one["conditions"].as_array().cloned())
        .unwrap_or_default();
    condition::set(&mut conditions, &outcome.condition().observed(generation));
    condition::set(&mut conditions, &observed.availability());
    match observed.synced() {
        Some(synced) => condition::set(&mut conditions, &synced),
        None => condition::remove(&mut conditions, "StatusFeedbackSynced"),
    }
    let mut status = json!({ "resourceMeta": outcome.meta, "conditions": conditions });
    status["statusFeedback"] = match observed.values.as_slice() {
        [] => json!({}),
        values => json!({ "values": values }),
    };
    status
}

fn same_object(a: &Value, b: &Value) -> bool {
    ["group", "resource", "kind", "namespace", "name"]
        .iter()
        .all(|key| a[*key] == b[*key])
}

fn applied_condition(outcomes: &[Outcome]) -> Condition {
    if outcomes.iter().all(Outcome::is_applied) {
        Condition::of(
            "Applied",
            true,
            "AppliedManifestWorkComplete",
            "Apply manifest work complete",
        )
    } else {
        Condition::of(
            "Applied",
            false,
            "AppliedManifestWorkFailed",
            "Failed to apply manifest work",
        )
    }
}

fn available_condition(observed: &[feedback::Observed]) -> Condition {
    let missing = observed
        .iter()
        .filter(|one| one.exists == Some(false))
        .count();
    let unknown = observed.iter().filter(|one| one.exists.is_none()).count();
    if missing > 0 {
        let message = format!(
            "{missing} of {} resources are not available",
            observed.len()
        );
        Condition::of("Available", false, "ResourcesNotAvailable", message)
    } else if unknown > 0 {
        let message = format!(
            "{unknown} of {} resources have unknown status",
            observed.len()
        );
        Condition::new("Available", "Unknown", "ResourcesStatusUnknown", message)
    } else {
        Condition::of(
            "Available",
            true,
            "ResourcesAvailable",
            "All resources are available",
        )
    }
}
