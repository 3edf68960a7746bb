//! Samples for the tests of several crates: a small fleet as the hub shows it, and its Applications.

use std::borrow::Cow;

use argocd::{
    keys::addon::{ADDON, MODE, REKEY, REVOKED},
    routing::RoutingSettings,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    facts::Addon, fleet::Servers, object::put, settings::Settings, status::Standing, why::Facts,
};

/// The time of all tests.
pub fn now() -> Timestamp {
    at("2026-11-22T12:00:00Z")
}

/// A time, as Kubernetes writes it.
///
/// # Panics
/// If it is none.
#[track_caller]
pub fn at(text: &str) -> Timestamp {
    text.parse().expect("a time of Kubernetes")
}

/// A condition: type, status, reason, message, since.
pub type ConditionFields<'a> = (&'a str, &'a str, &'a str, &'a str, &'a str);

/// The `ManagedClusterAddOn` of a cluster in this mode.
pub fn addon_object(cluster: &str, mode: &str, conditions: &[ConditionFields<'_>]) -> Value {
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

/// What is read of it.
pub fn addon(cluster: &str, mode: &str, conditions: &[ConditionFields<'_>]) -> Addon {
    Addon::read(&addon_object(cluster, mode, conditions))
}

/// The agent is connected.
pub const CONNECTED: ConditionFields<'static> = (
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
pub fn well(cluster: &str) -> Addon {
    addon(cluster, "managed", &[CONNECTED, CERTIFICATE])
}

/// One cluster of each kind: well, held, away, new, revoked.
pub fn fleet() -> Vec<Addon> {
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
    put(
        &mut lima,
        &["metadata", "annotations", REVOKED],
        json!("laptop stolen"),
    );
    let mut oslo = addon_object("oslo", "autonomous", &[away, CERTIFICATE]);
    put(
        &mut oslo,
        &["metadata", "annotations", REKEY],
        json!("2026-11-19T11:50:00.123456789Z"),
    );
    vec![
        well("paris"),
        addon("berlin", "managed", &[CONNECTED, CERTIFICATE, blocked]),
        Addon::read(&oslo),
        addon("quito", "managed", &[]),
        Addon::read(&lima),
    ]
}

/// An Application of the hub as Argo CD and the principal leave it.
pub fn application(namespace: &str, name: &str, destination: &Value) -> Value {
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

/// Four counted Applications of [`fleet`] and one of the hub itself: three of paris, one of them out of sync; two of
/// berlin, one of which contradicts itself.
pub fn standings() -> Vec<Standing> {
    let settings = routing();
    let clusters = crate::fleet::clusters(&fleet(), &Servers::new());
    let mut changed = application("argocd", "two", &to("paris"));
    put(
        &mut changed,
        &["status", "sync", "status"],
        json!("OutOfSync"),
    );
    put(
        &mut changed,
        &["spec", "source", "targetRevision"],
        json!("v3"),
    );
    let mut conflict = application("berlin", "four", &to("paris"));
    put(
        &mut conflict,
        &["status"],
        json!({"conditions": [{"type": "ArgoCDAgentConflict", "message": "m"}]}),
    );
    let all = [
        application("paris", "one", &to("in-cluster")),
        changed,
        application("paris", "three", &to("paris")),
        conflict,
        application("argocd", "five", &to("berlin")),
        application("argocd", "hub-local", &to("in-cluster")),
    ];
    let standing = |app| Standing::of(app, &clusters, &settings);
    all.iter().filter_map(standing).collect()
}

/// How an Application of [`fleet`] stands.
///
/// # Panics
/// If it is counted for no cluster.
pub fn standing(application: &Value) -> Standing {
    let clusters = crate::fleet::clusters(&fleet(), &Servers::new());
    Standing::of(application, &clusters, &routing()).expect("an Application of a cluster")
}

/// A destination on a cluster.
pub fn to(cluster: &str) -> Value {
    json!({"name": cluster, "namespace": "shop"})
}

fn routing() -> RoutingSettings {
    RoutingSettings {
        argocd_namespace: "argocd".to_owned(),
        allowed_namespaces: Vec::new(),
    }
}

/// An Application that a cluster refuses.
pub fn refused() -> Value {
    let mut app = application("argocd", "till", &to("paris"));
    put(
        &mut app,
        &["status", "conditions"],
        json!([
            {"type": "ComparisonError", "message": "not reported: ours is the cause"},
            {"type": "ArgoCDAgentError", "message": "namespaces \"till\" not found",
             "lastTransitionTime": "2026-11-22T10:00:00Z"},
        ]),
    );
    app
}

/// An Application with a broken resource.
pub fn degraded() -> Value {
    let mut app = application("argocd", "shop", &to("paris"));
    put(&mut app, &["status", "health", "status"], json!("Degraded"));
    put(
        &mut app,
        &["status", "resources"],
        json!([
            {"kind": "Service", "name": "web", "health": {"status": "Healthy"}},
            {"kind": "Deployment", "name": "web",
             "health": {"status": "Degraded", "message": "exceeded its progress deadline"}},
        ]),
    );
    app
}

/// An Application with a change with which its cluster has not compared.
pub fn behind() -> Value {
    let mut app = application("argocd", "back", &to("paris"));
    put(&mut app, &["spec", "source", "targetRevision"], json!("v3"));
    put(
        &mut app,
        &["status", "conditions"],
        json!([{"type": "ComparisonError", "message": "v3 is not found"}]),
    );
    app
}

/// An Application without a problem.
pub fn healthy() -> Value {
    application("argocd", "well", &to("paris"))
}

/// All that there is to know about an Application; its project admits what goes to paris.
pub fn facts(application: Value) -> Facts<'static> {
    let project = json!({"metadata": {"namespace": "argocd", "name": "shop"}, "spec": {
        "sourceNamespaces": ["*"], "destinations": [{"name": "paris", "namespace": "shop"}],
    }});
    let servers = [("paris".to_owned(), "https://p?agentName=paris".to_owned())];
    Facts {
        namesakes: vec![application.clone()],
        application,
        project: Ok(Some(project)),
        globals_doubt: None,
        addons: fleet().into(),
        servers: Ok(Cow::Owned(servers.into())),
        settings: Settings::from(RoutingSettings {
            allowed_namespaces: vec!["team-*".to_owned()],
            ..routing()
        }),
    }
}
