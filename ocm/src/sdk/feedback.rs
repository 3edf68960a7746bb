//! `Available` from the feedback of workloads in works, with OCM's own reasons. Pure.

use super::{HealthInput, WorkReport, exchange::is_deployment_ready};
use crate::{
    api::work::ManifestCondition,
    condition::{self, Status, Verdict},
};

/// Whether the add-on's workloads run, for authors without a better health check: every Deployment wants
/// no replica or has a ready one, and every `DaemonSet` is ready on all its nodes.
pub fn availability(input: &HealthInput<'_>) -> Verdict {
    let condition = |status: Status, reason: &str, message: &str| {
        Verdict::new(condition::addon::AVAILABLE, status, reason, message)
    };
    if input.works.is_empty() {
        let message = "Addon manifestWork is not found";
        return condition(Status::Unknown, "WorkNotFound", message);
    }
    for work in input.works {
        let available = condition::find(&work.status.conditions, condition::work::AVAILABLE);
        let Some(available) = available else {
            let message = "Addon manifestWork is not applied yet";
            return condition(Status::Unknown, "WorkNotApplied", message);
        };
        if available.status == Status::False.as_str() {
            return condition(Status::False, "WorkNotApplied", &available.message);
        }
    }
    let objects = input.works.iter().flat_map(WorkReport::objects);
    let workloads: Vec<_> = objects.filter(|object| is_workload(object)).collect();
    if workloads.is_empty() {
        return condition(Status::True, "WorkApplied", "Addon work is applied");
    }
    if workloads.iter().all(|object| object.values().is_empty()) {
        let message = "Probe results are not returned";
        return condition(Status::Unknown, "NoProbeResult", message);
    }
    if let Some(object) = workloads.iter().find(|object| !is_ready(object)) {
        let meta = &object.resource_meta;
        let message = format!(
            "{} {}/{} is not ready",
            meta.kind, meta.namespace, meta.name
        );
        return condition(Status::False, "ProbeUnavailable", &message);
    }
    let name = input.target.addon.metadata.name.as_deref();
    let message = format!("{} add-on is available.", name.unwrap_or_default());
    condition(Status::True, "ProbeAvailable", &message)
}

fn is_workload(object: &ManifestCondition) -> bool {
    matches!(
        object.resource_meta.kind.as_str(),
        "Deployment" | "DaemonSet"
    )
}

/// The cluster does not report values that are zero.
fn is_ready(object: &ManifestCondition) -> bool {
    match object.resource_meta.kind.as_str() {
        "Deployment" => is_deployment_ready(object),
        _daemon_set => object.integer("NumberReady") == object.integer("DesiredNumberScheduled"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        api::{addon::ManagedClusterAddOn, cluster::ManagedCluster},
        name::ClusterName,
        sdk::Target,
    };

    fn object(kind: &str, values: &[(&str, i64)]) -> Value {
        let value = |(name, number): &(&str, i64)| json!({ "name": name, "fieldValue": { "type": "Integer", "integer": number } });
        json!({
            "resourceMeta": { "kind": kind, "namespace": "n", "name": "x" },
            "statusFeedback": { "values": values.iter().map(value).collect::<Vec<_>>() },
        })
    }

    fn work(available: Option<&str>, objects: &[Value]) -> WorkReport {
        let condition = available.map(|status| {
            json!({
                "type": "Available", "status": status, "reason": "R", "message": "why",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        });
        let conditions: Vec<_> = condition.into_iter().collect();
        let status =
            json!({ "conditions": conditions, "resourceStatus": { "manifests": objects } });
        WorkReport {
            status: serde_json::from_value(status).unwrap(),
            ..WorkReport::default()
        }
    }

    fn condition(works: &[WorkReport]) -> (Status, String) {
        let (name, cluster) = (ClusterName::new("c").unwrap(), ManagedCluster::default());
        let addon = ManagedClusterAddOn::default();
        let verdict = availability(&HealthInput {
            target: Target {
                name: &name,
                cluster: &cluster,
                addon: &addon,
            },
            works,
            going_since: None,
            render_error: None,
            now: jiff::Timestamp::UNIX_EPOCH,
        });
        (verdict.status, verdict.reason)
    }

    #[test]
    fn feedback_of_workloads_is_judged_as_in_ocms_framework() {
        let deployment = |values: &[(&str, i64)]| object("Deployment", values);
        let set = |values: &[(&str, i64)]| object("DaemonSet", values);
        let (wants, ready) = (("Replicas", 1), ("ReadyReplicas", 1));
        let cases = [
            (vec![], Status::Unknown, "WorkNotFound"),
            (vec![work(None, &[])], Status::Unknown, "WorkNotApplied"),
            (
                vec![work(Some("False"), &[])],
                Status::False,
                "WorkNotApplied",
            ),
            (vec![work(Some("True"), &[])], Status::True, "WorkApplied"),
            (
                vec![work(Some("True"), &[deployment(&[])])],
                Status::Unknown,
                "NoProbeResult",
            ),
            // A new Deployment reports only the desired replicas.
            (
                vec![work(Some("True"), &[deployment(&[wants])])],
                Status::False,
                "ProbeUnavailable",
            ),
            (
                vec![work(Some("True"), &[deployment(&[wants, ready])])],
                Status::True,
                "ProbeAvailable",
            ),
            (
                vec![
                    work(Some("True"), &[deployment(&[wants, ready])]),
                    work(
                        Some("True"),
                        &[set(&[("DesiredNumberScheduled", 2), ("NumberReady", 1)])],
                    ),
                ],
                Status::False,
                "ProbeUnavailable",
            ),
        ];
        for (works, status, reason) in cases {
            assert_eq!(condition(&works), (status, reason.to_owned()));
        }
    }
}
