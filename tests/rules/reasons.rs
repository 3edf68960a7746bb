//! `docs/troubleshooting.md` explains every reason that our programs emit, and no other.

use std::collections::{BTreeMap, BTreeSet};

use crate::shared::sources;

const DOCUMENT: &str = "docs/troubleshooting.md";

/// Words in camel case in our programs that are no reasons: names of objects, values of fields.
const NO_REASONS: &[&str] = &[
    // products of a claim
    "MicroShift",
    "OpenShift",
    "OpenShiftDedicated",
    // operators of a label selector
    "In",
    // kinds of objects, and parts of their names
    "AddOnDeploymentConfig",
    "AppProject",
    "Application",
    "Applications",
    "CertificateSigningRequest",
    "ClusterManagementAddOn",
    "CustomResourceDefinition",
    "DaemonSet",
    "Deployment",
    "ConfigMap",
    "GPGKey",
    "Group",
    "Ingress",
    "Namespace",
    "Job",
    "ManagedCluster",
    "ManagedClusterAddOn",
    "ManifestWork",
    "PlacementDecision",
    "Pod",
    "Repository",
    "Role",
    "RoleBinding",
    "Route",
    "SSHKnownHosts",
    "Secret",
    "TLSCerts",
    "TLSRoute",
    "User",
    // states on Argo CD's page of clusters, which docs/live.md explains
    "Failed",
    "Successful",
    // words in requests and responses of the Kubernetes API
    "All",
    "BadRequest",
    "DeleteOptions",
    "NotFound",
    "Status",
    // and in a terminal
    "ExitCode",
    "Height",
    "NonZeroExitCode",
    "Width",
    // debug output that hides the contents of Secrets
    "Json",
    "Merge",
    "None",
    "NotServed",
    "Rewound",
    "Synced",
    // values of fields
    "ClusterIP",
    "CreateOnly",
    "Customized",
    "Default",
    "ExternalDNS",
    "ExternalIP",
    "Foreground",
    "Hosted",
    "InternalIP",
    "Lease",
    "Manual",
    "NodePort",
    "Normal",
    "Opaque",
    "SelectivelyOrphan",
    "ServerSideApply",
    "Succeeded",
    "Update",
    "Warning",
    "Watch",
    "WellKnownStatus",
    // statuses of conditions
    "False",
    "True",
    "Unknown",
    // names of values in the feedback of works
    "DesiredNumberScheduled",
    "JobComplete",
    "NumberReady",
    "PodPhase",
    "ReadyReplicas",
    "Replicas",
    // conditions of others that are only read
    "Applied",
    "HubAcceptedManagedCluster",
    "ManagedClusterConditionAvailable",
    "ManagedClusterJoined",
    // conditions and states of Pods and of their controllers, as Kubernetes spells them
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "PodScheduled",
    "Ready",
    "RegistryUnavailable",
    "ReplicaFailure",
    "StatefulSet",
    // phases of operations of Argo CD
    "Terminating",
    // in an answer of the Kubernetes API, or of us in its place
    "Conflict",
    "Expired",
    "Failure",
    "Forbidden",
    "Gone",
    "InternalError",
    "Invalid",
    "MethodNotAllowed",
    "ServiceUnavailable",
    "Success",
    "Timeout",
    "TooManyRequests",
    "Unauthorized",
    "UnsupportedMediaType",
    // arguments of the API server that accompany a reason
    "Approved",
    "AutoApprovedByHubCSRApprovingController",
    "FieldValueInvalid",
    "OptIn",
    // a prefix
    "ArgoCDAgent",
];

#[test]
fn every_reason_has_a_paragraph() {
    let explained = explained();
    let missing: Vec<_> = emitted()
        .into_iter()
        .filter(|(word, _)| !explained.contains_key(word))
        .map(|(word, file)| format!("{word} ({file})"))
        .collect();
    assert!(
        missing.is_empty(),
        "explain in {DOCUMENT} under headings `### …`, or, if they are never a reason or \
         type, put into NO_REASONS in tests/rules/reasons.rs:\n{}",
        missing.join("\n")
    );
}

#[test]
fn every_paragraph_is_about_a_reason_that_exists() {
    let emitted = emitted();
    let mut wrong = Vec::new();
    for (word, paragraph) in explained() {
        if !emitted.contains_key(&word) {
            wrong.push(format!("{word} is explained and nothing says it"));
        }
        if paragraph.len() < 40 {
            wrong.push(format!(
                "{word} has no explanation worth the name: {paragraph:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A collection that finds nothing would prove nothing; one reason of each kind of place.
#[test]
fn the_reasons_are_found() {
    let emitted: BTreeSet<_> = emitted().into_keys().collect();
    for known in [
        "AgentNeverConnected",
        "ArgoCDAgentConflict",
        "ConfigurationAbsent",
        "MadeAgain",
        "ManagedByTemplate",
        "ManifestApplied",
        "NotEnrolled",
        "WrongRequester",
    ] {
        assert!(emitted.contains(known), "{known} is not among {emitted:?}");
    }
}

/// Literals in camel case that our programs emit, each with a file that has it.
fn emitted() -> BTreeMap<String, String> {
    sources::texts(&[sources::Use::Emitted])
        .into_iter()
        .filter(|it| is_camel_case(&it.words))
        .filter(|it| !NO_REASONS.contains(&it.words.as_str()))
        .map(|it| (it.words, it.file))
        .collect()
}

fn is_camel_case(text: &str) -> bool {
    let mut letters = text.chars();
    letters
        .next()
        .is_some_and(|first| first.is_ascii_uppercase())
        && letters
            .next()
            .is_some_and(|second| second.is_ascii_alphabetic())
        && letters.all(|c| c.is_ascii_alphanumeric())
        && text.contains(|c: char| c.is_ascii_lowercase())
}

/// Each word that the document explains, with its paragraph: the text below a heading of the third
/// rank, or the cells behind the first of a table's row.
fn explained() -> BTreeMap<String, String> {
    let text = sources::file(DOCUMENT);
    let mut explained = BTreeMap::<String, String>::new();
    let mut heading = None;
    for line in text.lines() {
        if let Some(word) = line.strip_prefix("### ") {
            heading = Some(word.to_owned());
            explained.entry(word.to_owned()).or_default();
        } else if line.starts_with('#') {
            heading = None;
        } else if let Some((word, meaning)) = line
            .strip_prefix("| `")
            .and_then(|row| row.split_once("` |"))
        {
            explained
                .entry(word.to_owned())
                .or_default()
                .push_str(meaning);
        } else if let Some(word) = &heading {
            explained.entry(word.clone()).or_default().push_str(line);
        }
    }
    explained
}
