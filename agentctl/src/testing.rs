//! What tests of several modules need: a small fleet as the hub shows it, and the page that has the same outputs.

use argocd::keys::addon::{ADDON, MODE, REKEY, REVOKED};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    facts::Addon,
    output::{Format, Place},
};

/// The time of all tests.
pub(crate) fn now() -> Timestamp {
    at("2026-11-22T12:00:00Z")
}

pub(crate) fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub(crate) const fn place(format: Format, now: Timestamp) -> Place {
    Place {
        format,
        colours: false,
        now,
    }
}

/// Asserts that the page of the commands shows exactly this.
pub(crate) fn is_documented(text: &str) {
    let page = include_str!("../../docs/agentctl.md");
    assert!(
        page.contains(text),
        "docs/agentctl.md does not show this:\n{text}"
    );
}

/// A condition: type, status, reason, message, since.
pub(crate) type ConditionFields<'a> = (&'a str, &'a str, &'a str, &'a str, &'a str);

pub(crate) fn addon_object(cluster: &str, mode: &str, conditions: &[ConditionFields<'_>]) -> Value {
    let condition = |(kind, status, reason, message, since): &ConditionFields<'_>| {
        json!({"type": kind, "status": status, "reason": reason, "message": message,
               "lastTransitionTime": since})
    };
    json!({
        "metadata": {
            "name": ADDON,
            "namespace": cluster,
            "annotations": {MODE: mode},
            "ownerReferences": [{"kind": "ClusterManagementAddOn", "name": ADDON}],
        },
        "status": {"conditions": conditions.iter().map(condition).collect::<Vec<_>>()},
    })
}

pub(crate) fn addon(cluster: &str, mode: &str, conditions: &[ConditionFields<'_>]) -> Addon {
    Addon::read(&addon_object(cluster, mode, conditions))
}

const CONNECTED: ConditionFields<'static> = (
    "Available",
    "True",
    "AgentConnected",
    "the agent is connected and running, version 0.1.0",
    "2026-11-19T12:00:00Z",
);

const CERTIFICATE: ConditionFields<'static> = (
    "ClusterCertificateRotated",
    "True",
    "ClientCertificateUpdated",
    "client certificate rotated starting from 2026-11-19 11:55:00 +0000 UTC to 2026-12-19 12:00:00 +0000 UTC",
    "2026-11-19T12:00:00Z",
);

/// Connected, and no action required.
pub(crate) fn well(cluster: &str) -> Addon {
    addon(cluster, "managed", &[CONNECTED, CERTIFICATE])
}

/// One cluster of each kind: well, held, away, new, revoked.
pub(crate) fn fleet() -> Vec<Addon> {
    let blocked: ConditionFields<'_> = (
        "Degraded",
        "True",
        "ObjectsRefused",
        "the cluster refuses 1 objects of this hub",
        "2026-11-22T10:00:00Z",
    );
    let away: ConditionFields<'_> = (
        "Available",
        "False",
        "AgentDisconnected",
        "last seen at 2026-11-22T11:54:00Z; look at its log, and whether it reaches the principal's address",
        "2026-11-22T11:55:00Z",
    );
    let thrown_out: ConditionFields<'_> = (
        "Degraded",
        "True",
        "Revoked",
        "a person has revoked the agent's certificates",
        "2026-11-22T11:00:00Z",
    );
    let mut lima = addon_object("lima", "managed", &[thrown_out, away]);
    lima["metadata"]["annotations"][REVOKED] = json!("laptop stolen");
    let mut oslo = addon_object("oslo", "autonomous", &[away, CERTIFICATE]);
    oslo["metadata"]["annotations"][REKEY] = json!("2026-11-19T11:50:00.123456789Z");
    vec![
        well("paris"),
        addon("berlin", "managed", &[CONNECTED, CERTIFICATE, blocked]),
        Addon::read(&oslo),
        addon("quito", "managed", &[]),
        Addon::read(&lima),
    ]
}

/// An Application of the hub as Argo CD and the principal leave it.
pub(crate) fn application(namespace: &str, name: &str, destination: &Value) -> Value {
    let source = json!({"repoURL": "https://git.example.com/shop.git", "path": "app", "targetRevision": "v2"});
    json!({
        "metadata": {
            "namespace": namespace, "name": name, "uid": format!("uid-{namespace}"),
            "creationTimestamp": "2026-11-20T08:00:00Z",
            "managedFields": [
                {"manager": "kubectl-client-side-apply", "time": "2026-11-22T11:00:00Z",
                 "fieldsV1": {"f:metadata": {}, "f:spec": {}}},
                {"manager": "argocd-agent-addon-manager", "time": "2026-11-22T11:58:00Z",
                 "fieldsV1": {"f:status": {}}},
            ],
        },
        "spec": {"project": "shop", "destination": destination, "source": source},
        "status": {
            "sync": {"status": "Synced", "revision": "8a3f5c0d91b2e4f6a7c8",
                     "comparedTo": {"source": source, "destination": {"name": "in-cluster"}}},
            "health": {"status": "Healthy", "lastTransitionTime": "2026-11-22T11:02:00Z"},
            "reconciledAt": "2026-11-22T11:57:00Z",
            "operationState": {"phase": "Succeeded", "message": "successfully synced",
                               "startedAt": "2026-11-22T11:00:58Z", "finishedAt": "2026-11-22T11:01:00Z"},
        },
    })
}
