//! Pre-delete hooks: Jobs and Pods that must complete before the add-on is removed. Pure.
//!
//! Each hook is looked up by its own name in the cluster's report, so an unreported hook does not hide
//! the others.

use super::{WorkReport, render::Manifest};
use crate::condition::{self, Status, Verdict};

/// The hooks that have not completed, one line each.
pub(crate) fn pending(work: Option<&WorkReport>, hooks: &[Manifest]) -> Vec<String> {
    let Some(work) = work else {
        return vec!["not sent to the cluster yet".to_owned()];
    };
    let available = condition::find(&work.status.conditions, condition::work::AVAILABLE);
    let present = available.is_some_and(|available| {
        available.status == Status::True.as_str()
            && available.observed_generation == Some(work.generation)
    });
    if !present {
        return vec!["not started by the cluster yet".to_owned()];
    }
    let waits = hooks.iter().filter_map(|hook| {
        let (kind, namespace, name) = (kind(hook), &hook.id.namespace, &hook.id.name);
        // The status of a Job's condition `Complete`, or the phase of a Pod.
        let (value, wanted) = match kind {
            "Job" => ("JobComplete", "True"),
            _pod => ("PodPhase", "Succeeded"),
        };
        let object = work.object(kind, namespace, name);
        let state = object.and_then(|object| object.values().get(value)?.string.as_deref());
        let shown = state.unwrap_or("not reported yet");
        (state != Some(wanted)).then(|| format!("{kind} {namespace}/{name}: {shown}"))
    });
    waits.collect()
}

fn kind(hook: &Manifest) -> &str {
    let kind = hook.body.get("kind").and_then(serde_json::Value::as_str);
    kind.unwrap_or_default()
}

/// The condition of the hooks.
pub(crate) fn verdict(pending: &[String]) -> Verdict {
    let kind = condition::addon::HOOK_MANIFEST_COMPLETED;
    if pending.is_empty() {
        let message = "all hooks that run before deletion are completed";
        return Verdict::new(kind, true, "HookManifestIsCompleted", message);
    }
    let message = format!("waiting for hooks: {}", pending.join("; "));
    Verdict::new(kind, false, "HookManifestIsNotCompleted", message)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::sdk::render;

    fn hook(kind: &str, name: &str) -> Value {
        json!({
            "apiVersion": if kind == "Job" { "batch/v1" } else { "v1" }, "kind": kind,
            "metadata": { "namespace": "n", "name": name,
                "annotations": { (crate::keys::PRE_DELETE): "" } },
        })
    }

    fn hooks() -> Vec<Manifest> {
        let all = vec![hook("Job", "j"), hook("Pod", "p")];
        render::manifests(all.into()).unwrap()
    }

    fn work(generation: i64, values: &[(&str, &str, &str, Option<&str>)]) -> WorkReport {
        let manifests = values.iter().map(|(kind, name, value, state)| {
            let values = state.map(
                |state| json!({ "name": value, "fieldValue": { "type": "String", "string": state } }),
            );
            json!({
                "resourceMeta": { "kind": kind, "namespace": "n", "name": name },
                "statusFeedback": { "values": values.into_iter().collect::<Vec<_>>() },
            })
        });
        let status = json!({
            "conditions": [{
                "type": "Available", "status": "True", "reason": "R", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": generation,
            }],
            "resourceStatus": { "manifests": manifests.collect::<Vec<_>>() },
        });
        WorkReport {
            generation: 1,
            status: serde_json::from_value(status).unwrap(),
            ..WorkReport::default()
        }
    }

    #[test]
    fn all_hooks_must_complete() {
        let (job, pod) = (
            ("Job", "j", "JobComplete", Some("True")),
            ("Pod", "p", "PodPhase", Some("Succeeded")),
        );
        let (fresh, failed) = (
            ("Job", "j", "JobComplete", None),
            ("Pod", "p", "PodPhase", Some("Failed")),
        );
        let cases = [
            (work(1, &[job, pod]), vec![]),
            // The one without values comes first and must not hide the other.
            (work(1, &[fresh, pod]), vec!["Job n/j: not reported yet"]),
            (work(1, &[job, failed]), vec!["Pod n/p: Failed"]),
            (work(1, &[pod]), vec!["Job n/j: not reported yet"]),
            (work(0, &[job, pod]), vec!["not started by the cluster yet"]),
        ];
        for (work, wanted) in cases {
            assert_eq!(pending(Some(&work), &hooks()), wanted);
        }
        assert_eq!(pending(None, &hooks()), ["not sent to the cluster yet"]);
    }

    #[test]
    fn the_condition_names_pending_hooks() {
        assert_eq!(verdict(&[]).status, Status::True);
        let pending = verdict(&["Job n/j: not reported yet".to_owned()]);
        assert_eq!(pending.reason, "HookManifestIsNotCompleted");
        assert!(pending.message.contains("Job n/j"), "{}", pending.message);
    }
}
