//! The options of a work for single manifests: update strategy, feedback, orphaning. Pure.

use serde_json::{Value, json};

/// How an object on the spoke follows its manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    Update,
    CreateOnly,
    ServerSideApply { manager: String, force: bool },
    ReadOnly,
}

/// Whether an identifier (with `*` in namespace and name) matches an object.
fn means(identifier: &Value, meta: &Value) -> bool {
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let fits = |key: &str| {
        let pattern = text(identifier, key);
        fits_pattern(&pattern, &text(meta, key))
    };
    text(identifier, "group") == text(meta, "group")
        && text(identifier, "resource") == text(meta, "resource")
        && fits("namespace")
        && fits("name")
}

/// Whether an identifier names this very object.
fn names(identifier: &Value, meta: &Value) -> bool {
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    ["group", "resource", "namespace", "name"]
        .iter()
        .all(|key| text(identifier, key) == text(meta, key))
}

/// A pattern of literal parts with `*` between them.
fn fits_pattern(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut left) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some((_, after)) = left.split_once(part) else {
            return false;
        };
        left = after;
    }
    left.ends_with(last)
}

fn options<'a>(spec: &'a Value, meta: &'a Value) -> impl Iterator<Item = &'a Value> {
    let all = spec["manifestConfigs"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    all.iter()
        .filter(move |option| means(&option["resourceIdentifier"], meta))
}

/// The update strategy of the first matching option that sets one.
pub(super) fn strategy(spec: &Value, meta: &Value) -> Strategy {
    let stated = options(spec, meta).find_map(|option| option.get("updateStrategy"));
    let Some(stated) = stated else {
        return Strategy::Update;
    };
    match stated["type"].as_str() {
        Some("CreateOnly") => Strategy::CreateOnly,
        Some("ReadOnly") => Strategy::ReadOnly,
        Some("ServerSideApply") => {
            let details = &stated["serverSideApply"];
            let manager = details["fieldManager"]
                .as_str()
                .filter(|name| !name.is_empty());
            Strategy::ServerSideApply {
                manager: manager.unwrap_or("work-agent").to_owned(),
                force: details["force"] == true,
            }
        }
        Some(_) | None => Strategy::Update,
    }
}

/// Whether an apply leaves an object without an owner, so that it stays when its manifest or work is deleted. Rules match
/// whole names only.
pub(super) fn is_orphan(spec: &Value, meta: &Value) -> bool {
    let option = &spec["deleteOption"];
    match option["propagationPolicy"].as_str() {
        Some("Orphan") => true,
        Some("SelectivelyOrphan") => option["selectivelyOrphans"]["orphaningRules"]
            .as_array()
            .is_some_and(|rules| rules.iter().any(|rule| names(rule, meta))),
        Some(_) | None => false,
    }
}

/// The feedback that a work requests about an object.
#[derive(Debug, Default)]
pub(super) struct Feedback {
    /// Names and paths.
    pub(super) paths: Vec<(String, String)>,
    /// Why other values cannot be read.
    pub(super) problems: Vec<String>,
}

/// The feedback by the first matching option that has any rules; none without such an option.
pub(super) fn feedback(spec: &Value, meta: &Value) -> Option<Feedback> {
    let rules = options(spec, meta)
        .filter_map(|option| option["feedbackRules"].as_array())
        .find(|rules| !rules.is_empty())?;
    let mut feedback = Feedback::default();
    for rule in rules {
        if rule["type"] == "WellKnownStatus" {
            let known = well_known(meta);
            if known.is_empty() {
                let kind = format!(
                    "{}/{}, Kind={}",
                    meta["group"], meta["version"], meta["kind"]
                );
                let kind = kind.replace('"', "");
                let problem = "cannot find the wellknown statuses for resource with gvk";
                feedback.problems.push(format!("{problem} {kind}"));
            }
            feedback.paths.extend(known);
            continue;
        }
        for one in rule["jsonPaths"].as_array().into_iter().flatten() {
            let text = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
            let (name, path, version) = (text("name"), text("path"), text("version"));
            if version.is_empty() || meta["version"] == version {
                feedback.paths.push((name, path));
            } else {
                let problem = format!(
                    "version set in the path {name} is not matched for the related resource"
                );
                feedback.problems.push(problem);
            }
        }
    }
    Some(feedback)
}

fn well_known(meta: &Value) -> Vec<(String, String)> {
    let paths: &[(&str, &str)] = if *meta == with_kind(meta, "apps", "Deployment") {
        &[
            ("ReadyReplicas", ".status.readyReplicas"),
            ("Replicas", ".status.replicas"),
            ("AvailableReplicas", ".status.availableReplicas"),
        ]
    } else if *meta == with_kind(meta, "apps", "DaemonSet") {
        &[
            ("NumberReady", ".status.numberReady"),
            ("DesiredNumberScheduled", ".status.desiredNumberScheduled"),
            ("NumberAvailable", ".status.numberAvailable"),
        ]
    } else if *meta == with_kind(meta, "batch", "Job") {
        &[
            (
                "JobComplete",
                r#".status.conditions[?(@.type=="Complete")].status"#,
            ),
            ("JobSucceeded", ".status.succeeded"),
        ]
    } else if *meta == with_kind(meta, "", "Pod") {
        &[
            (
                "PodReady",
                r#".status.conditions[?(@.type=="Ready")].status"#,
            ),
            ("PodPhase", ".status.phase"),
        ]
    } else {
        &[]
    };
    paths
        .iter()
        .map(|(name, path)| ((*name).to_owned(), (*path).to_owned()))
        .collect()
}

fn with_kind(meta: &Value, group: &str, kind: &str) -> Value {
    let mut meta = meta.clone();
    meta["group"] = json!(group);
    meta["kind"] = json!(kind);
    meta["version"] = json!("v1");
    meta
}

/// The position of a kind in the order of applying: dependencies come first.
pub(super) fn order(kind: &str) -> usize {
    const CLASSES: [&[&str]; 7] = [
        &[
            "PriorityClass",
            "Namespace",
            "CustomResourceDefinition",
            "StorageClass",
            "PersistentVolume",
            "PodSecurityPolicy",
        ],
        &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"],
        &[
            "NetworkPolicy",
            "ResourceQuota",
            "LimitRange",
            "PodDisruptionBudget",
            "ServiceAccount",
        ],
        &["Secret", "ConfigMap", "PersistentVolumeClaim"],
        &["Service"],
        &[
            "DaemonSet",
            "Pod",
            "ReplicationController",
            "ReplicaSet",
            "Deployment",
            "HorizontalPodAutoscaler",
            "StatefulSet",
            "Job",
            "CronJob",
        ],
        &[
            "APIService",
            "MutatingWebhookConfiguration",
            "ValidatingWebhookConfiguration",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
        ],
    ];
    CLASSES
        .iter()
        .position(|class| class.contains(&kind))
        .unwrap_or(CLASSES.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment() -> Value {
        json!({
            "group": "apps", "version": "v1", "kind": "Deployment", "resource": "deployments",
            "namespace": "ns", "name": "agent",
        })
    }

    #[test]
    fn wildcards_match_any_text() {
        for (pattern, text, fits) in [
            ("*", "anything", true),
            ("a*", "agent", true),
            ("*t", "agent", true),
            ("a*e*t", "agent", true),
            ("a*x*t", "agent", false),
            ("agent", "agent", true),
            ("agen", "agent", false),
        ] {
            assert_eq!(fits_pattern(pattern, text), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn an_option_is_found_by_its_identifier() {
        let spec = json!({ "manifestConfigs": [
            {
                "resourceIdentifier": {
                    "group": "apps", "resource": "deployments", "namespace": "*", "name": "*",
                },
                "feedbackRules": [
                    { "type": "WellKnownStatus" },
                    { "type": "JSONPaths", "jsonPaths": [
                        { "name": "Mine", "path": ".status.x" },
                        { "name": "Other", "version": "v2", "path": ".status.y" },
                    ]},
                ],
                "updateStrategy": { "type": "ServerSideApply", "serverSideApply": { "force": true } },
            },
        ]});
        let wanted = Strategy::ServerSideApply {
            manager: "work-agent".to_owned(),
            force: true,
        };
        assert_eq!(strategy(&spec, &deployment()), wanted);
        let read = feedback(&spec, &deployment()).unwrap();
        let names: Vec<String> = read.paths.into_iter().map(|(name, _)| name).collect();
        assert_eq!(
            names,
            ["ReadyReplicas", "Replicas", "AvailableReplicas", "Mine"]
        );
        let problem = "version set in the path Other is not matched for the related resource";
        assert_eq!(read.problems, [problem]);
        let mut other = deployment();
        other["resource"] = json!("statefulsets");
        assert_eq!(strategy(&spec, &other), Strategy::Update);
        assert!(feedback(&spec, &other).is_none());
    }

    #[test]
    fn the_first_option_with_feedback_counts_alone() {
        let option = |rules: Value| {
            json!({
                "resourceIdentifier": { "group": "", "resource": "configmaps", "name": "*" },
                "feedbackRules": rules,
            })
        };
        let path = |name: &str| json!({ "name": name, "path": ".data.a" });
        let spec = json!({ "manifestConfigs": [
            option(json!([])),
            option(json!([
                { "type": "WellKnownStatus" },
                { "type": "JSONPaths", "jsonPaths": [path("First")] },
            ])),
            option(json!([{ "type": "JSONPaths", "jsonPaths": [path("Second")] }])),
        ]});
        let meta = json!({
            "group": "", "version": "v1", "kind": "ConfigMap", "resource": "configmaps", "name": "a",
        });
        let read = feedback(&spec, &meta).unwrap();
        assert_eq!(read.paths, [("First".to_owned(), ".data.a".to_owned())]);
        let problem =
            "cannot find the wellknown statuses for resource with gvk /v1, Kind=ConfigMap";
        assert_eq!(read.problems, [problem]);
    }

    #[test]
    fn only_objects_named_by_a_rule_are_orphaned() {
        let spec = json!({ "deleteOption": {
            "propagationPolicy": "SelectivelyOrphan",
            "selectivelyOrphans": { "orphaningRules": [
                { "group": "", "resource": "namespaces", "namespace": "", "name": "ns" },
            ]},
        }});
        let namespace = json!({ "group": "", "resource": "namespaces", "name": "ns" });
        assert!(is_orphan(&spec, &namespace));
        assert!(!is_orphan(&spec, &deployment()));

        let mut any = spec;
        any["deleteOption"]["selectivelyOrphans"]["orphaningRules"][0]["name"] = json!("*");
        assert!(!is_orphan(&any, &namespace), "a rule has no wildcards");
    }

    #[test]
    fn namespaces_come_before_rights_before_workloads_before_the_unknown() {
        let kinds = [
            "Namespace",
            "Role",
            "ServiceAccount",
            "ConfigMap",
            "Service",
            "Deployment",
            "APIService",
            "Ingress",
        ];
        assert!(kinds.map(order).is_sorted());
    }
}
