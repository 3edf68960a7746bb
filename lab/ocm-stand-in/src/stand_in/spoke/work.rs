//! The work agent: applies the manifests of a ManifestWork to the spoke, and reports back.
//!
//! One pass handles every work. Applying and observing each have their own due time in memory. As in OCM they also report
//! apart: `Applied` first, then, from the work as the hub shows it with that report, `Available` and feedback.

mod applied;
mod apply;
mod feedback;
mod json_path;
mod merge;
mod rules;

use std::{collections::HashMap, sync::Arc};

use anyhow::Result;
use kube::{ResourceExt, api::DynamicObject};
use serde_json::{Value, json};
use tokio::{sync::Mutex, time::Instant};

use super::{Spoke, keep};
use crate::{
    condition::{self, Condition},
    control::{self, Again},
    kinds::MANIFEST_WORK,
    stand_in::times,
    tasks::Tasks,
};
use apply::{Applier, Outcome};

/// Finalizer that keeps a work until its objects are gone from the spoke.
const FINALIZER: &str = "cluster.open-cluster-management.io/manifest-work-cleanup";

/// The memory about one work.
#[derive(Debug, Default)]
struct Memory {
    /// The last apply: generation, and the outcome of each manifest.
    applied: Option<(i64, Vec<Outcome>)>,
    /// Drift is corrected, or an error retried, at this time.
    apply_at: Option<Instant>,
    failures: u32,
    /// Whether the record of its objects is being deleted.
    loses_record: bool,
    /// The version of the work that was observed last.
    observed: Option<String>,
    observe_at: Option<Instant>,
}

/// The memory about one deleted work.
#[derive(Clone, Copy, Debug)]
struct End {
    looks: u32,
    look_at: Instant,
}

struct Agent {
    spoke: Spoke,
    applier: Applier,
    works: HashMap<String, Memory>,
    ends: HashMap<String, End>,
}

pub(super) fn start(spoke: &Spoke, tasks: &mut Tasks) {
    let agent = Agent {
        spoke: spoke.clone(),
        applier: Applier::new(spoke.work.clone()),
        works: HashMap::new(),
        ends: HashMap::new(),
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
        let is_there = |name: &String| works.iter().any(|work| work.name_any() == *name);
        self.works.retain(|name, _| is_there(name));
        self.ends.retain(|name, _| is_there(name));
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

    /// Applies and observes when due, and reports one of both: a report makes the work as seen outdated.
    async fn advance(&mut self, work: &DynamicObject, memory: &mut Memory) -> Result<Again> {
        let now = Instant::now();
        let generation = work.metadata.generation.unwrap_or_default();
        let is_new = memory
            .applied
            .as_ref()
            .is_none_or(|(applied, _)| *applied != generation);
        if is_new || memory.apply_at.is_none_or(|at| at <= now) {
            self.apply(work, generation, memory, is_new).await?;
        }
        if memory.loses_record {
            let name = work.name_any();
            let is_gone = applied::remove(&self.spoke, &mut self.applier, &name).await?;
            memory.loses_record = !is_gone;
        }
        let status = &work.data["status"];
        if let Some((generation, outcomes)) = &memory.applied {
            let applied = with_applied(status, *generation, outcomes);
            if applied != *status {
                report(&self.spoke, work, applied).await?;
                memory.observe_at = None;
            } else if memory.observed != work.metadata.resource_version
                || memory.observe_at.is_none_or(|at| at <= now)
            {
                let spec = &work.data["spec"];
                let observed = feedback::observe(&mut self.applier, spec, manifests(status)).await;
                let available = with_available(status, *generation, &observed);
                report(&self.spoke, work, available).await?;
                let pause = times::until_observed_again(self.spoke.feedback_interval);
                memory.observed.clone_from(&work.metadata.resource_version);
                memory.observe_at = Some(Instant::now() + pause);
            }
        }
        let ends = memory.loses_record.then(|| now + times::DELETION.after(0));
        let next = [memory.apply_at, memory.observe_at, ends]
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
        // As in OCM the objects go with a record that a user deletes, and return with the next apply.
        memory.loses_record = record.is_going();
        let spec = &work.data["spec"];
        let outcomes = self.applier.apply(spec, &record.owner()).await;
        let is_pruned =
            record.is_going() || applied::record(&mut self.applier, &record, &outcomes).await?;
        let is_good = is_pruned && outcomes.iter().all(Outcome::is_settled);
        memory.failures = if is_new { 0 } else { memory.failures };
        let pause = if is_good {
            memory.failures = 0;
            times::until_resync()
        } else {
            let pause = times::APPLY.after(memory.failures);
            memory.failures = memory.failures.saturating_add(1);
            pause
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
        let (name, now) = (work.name_any(), Instant::now());
        let known = self.ends.get(&name).copied();
        let (looks, look_at) = known.map_or((0, now), |end| (end.looks, end.look_at));
        if look_at > now {
            return Ok(Some(look_at.saturating_duration_since(now)));
        }
        if !applied::remove(&self.spoke, &mut self.applier, &name).await? {
            let pause = times::DELETION.after(looks);
            let next = End {
                looks: looks.saturating_add(1),
                look_at: now + pause,
            };
            self.ends.insert(name, next);
            return Ok(Some(pause));
        }
        self.ends.remove(&name);
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

/// Writes the status of a work.
async fn report(spoke: &Spoke, work: &DynamicObject, wanted: Value) -> Result<()> {
    let api = MANIFEST_WORK.within(&spoke.hub, &spoke.cluster);
    condition::write_status(&api, work, |status| *status = wanted).await
}

/// The reports about manifests in the status of a work.
fn manifests(status: &Value) -> &[Value] {
    status
        .pointer("/resourceStatus/manifests")
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// The status after an apply. The availability of known objects and of the work
/// stays until they are observed again.
fn with_applied(status: &Value, generation: i64, outcomes: &[Outcome]) -> Value {
    let before = manifests(status);
    let manifests: Vec<Value> = outcomes
        .iter()
        .map(|outcome| manifest_status(outcome, generation, before))
        .collect();
    let mut after = status.clone();
    let conditions = condition::list(&mut after);
    condition::set(
        conditions,
        &applied_condition(outcomes).observed(generation),
    );
    after["resourceStatus"] = json!({ "manifests": manifests });
    after
}

fn manifest_status(outcome: &Outcome, generation: i64, before: &[Value]) -> Value {
    let known = before
        .iter()
        .find(|one| same_object(&one["resourceMeta"], &outcome.meta));
    let mut conditions = known
        .and_then(|one| one["conditions"].as_array().cloned())
        .unwrap_or_default();
    condition::set(&mut conditions, &outcome.condition().observed(generation));
    let values = known.and_then(|one| one.get("statusFeedback"));
    json!({
        "resourceMeta": outcome.meta,
        "conditions": conditions,
        "statusFeedback": values.cloned().unwrap_or_else(|| json!({})),
    })
}

/// The status after the objects of its manifests were observed. An object that is not there keeps its last feedback.
fn with_available(status: &Value, generation: i64, observed: &[feedback::Observed]) -> Value {
    let mut after = status.clone();
    let manifests = after
        .pointer_mut("/resourceStatus/manifests")
        .and_then(Value::as_array_mut);
    for (manifest, observed) in manifests.into_iter().flatten().zip(observed) {
        let mut conditions = manifest["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        condition::set(&mut conditions, &observed.availability());
        if let Some(synced) = observed.synced() {
            let values = match observed.values.as_slice() {
                [] => json!({}),
                values => json!({ "values": values }),
            };
            if manifest["statusFeedback"] != values {
                condition::remove(&mut conditions, synced.kind);
                manifest["statusFeedback"] = values;
            }
            condition::set(&mut conditions, &synced);
        }
        manifest["conditions"] = json!(conditions);
    }
    condition::set(
        condition::list(&mut after),
        &available_condition(observed).observed(generation),
    );
    after
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

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(status: &Value, generation: i64) -> Value {
        let meta = json!({ "ordinal": 0, "kind": "ConfigMap", "name": "a", "namespace": "ns" });
        let result = Ok("uid".to_owned());
        with_applied(status, generation, &[Outcome { meta, result }])
    }

    fn generation(status: &Value, kind: &str) -> Option<i64> {
        let object = json!({ "status": status });
        condition::find(&object, kind).and_then(|it| it["observedGeneration"].as_i64())
    }

    fn seen(exists: bool) -> [feedback::Observed; 1] {
        [feedback::Observed::of(exists)]
    }

    #[test]
    fn a_work_is_applied_before_it_is_available() {
        let new = applied(&Value::Null, 1);
        assert_eq!(generation(&new, "Applied"), Some(1));
        assert_eq!(generation(&new, "Available"), None);

        let available = with_available(&new, 1, &seen(true));
        assert_eq!(generation(&available, "Available"), Some(1));
        assert_eq!(applied(&available, 1), available, "nothing new to report");

        let edited = applied(&available, 2);
        assert_eq!(generation(&edited, "Applied"), Some(2));
        assert_eq!(generation(&edited, "Available"), Some(1));
        let reported = &manifests(&edited)[0]["conditions"];
        assert_eq!(reported.as_array().map(Vec::len), Some(3), "{reported}");
    }

    #[test]
    fn a_missing_object_keeps_its_last_feedback() {
        let mut status = with_available(&applied(&Value::Null, 1), 1, &seen(true));
        let values = json!({ "values": [{ "name": "Replicas" }] });
        status["resourceStatus"]["manifests"][0]["statusFeedback"] = values.clone();
        let missing = with_available(&status, 1, &seen(false));
        assert_eq!(manifests(&missing)[0]["statusFeedback"], values);
        let object = json!({ "status": missing });
        assert_eq!(condition::status(&object, "Available"), Some("False"));

        let back = with_available(&missing, 1, &seen(true));
        assert_eq!(manifests(&back)[0]["statusFeedback"], json!({}));
    }
}
