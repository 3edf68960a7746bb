//! The rights of the klusterlet's agents on their spoke, gaps included.

use serde_json::{Value, json};

use super::{Manifest, REGISTRATION, WORK, rule};
use crate::kinds::{
    CLUSTER_ROLE, CLUSTER_ROLE_BINDING, Kind, ROLE, ROLE_BINDING, words::AGENT_NAMESPACE,
};

const ALL: &[&str] = &[
    "get", "list", "watch", "create", "update", "patch", "delete",
];
const READ: &[&str] = &["get", "list", "watch"];
const LEASES: &[&str] = &["create", "get", "list", "update", "watch", "patch"];

/// Label of a ClusterRole whose rules the work agent gets too; an add-on may install one of its own.
const AGGREGATE: &str = "open-cluster-management.io/aggregate-to-work";

/// The roles and bindings of both agents.
pub(super) fn of_agents() -> Vec<Manifest> {
    let mut all = Vec::new();
    for account in [REGISTRATION, WORK] {
        // Their metrics servers read how the API server authenticates.
        let reader = "extension-apiserver-authentication-reader";
        let name = format!("open-cluster-management:{account}:{reader}");
        all.push(binding(
            ROLE_BINDING,
            Some("kube-system"),
            &name,
            reader,
            account,
        ));
    }
    all.extend(of_registration());
    all.extend(of_work());
    all
}

fn of_registration() -> Vec<Manifest> {
    let about_the_cluster = [
        rule(&[""], &["nodes"], READ),
        rule(
            &[""],
            &["namespaces"],
            &["create", "get", "list", "update", "watch", "patch"],
        ),
        rule(
            &["cluster.open-cluster-management.io"],
            &["clusterclaims"],
            READ,
        ),
        rule(&["about.k8s.io"], &["clusterproperties"], READ),
    ];
    // Secrets everywhere: an add-on may choose any install namespace.
    let for_add_ons = [
        rule(&[""], &["secrets"], ALL),
        rule(&["coordination.k8s.io"], &["leases"], LEASES),
    ];
    let mut own = common_rules();
    own.push(rule(&[""], &["secrets"], ALL));
    let name = |what: &str| format!("open-cluster-management:klusterlet-registration:{what}");
    [
        everywhere(&name("agent"), &about_the_cluster, REGISTRATION),
        everywhere(&name("addon-management"), &for_add_ons, REGISTRATION),
        at_home(
            "open-cluster-management:management:klusterlet-registration:agent",
            &own,
            REGISTRATION,
        ),
    ]
    .concat()
}

fn of_work() -> Vec<Manifest> {
    let works = "work.open-cluster-management.io";
    let agent = [
        rule(&[works], &["appliedmanifestworks"], ALL),
        rule(
            &[works],
            &["appliedmanifestworks/status"],
            &["patch", "update"],
        ),
        rule(&[works], &["appliedmanifestworks/finalizers"], &["update"]),
        rule(
            &["authorization.k8s.io"],
            &["subjectaccessreviews"],
            &["create"],
        ),
        rule(&[""], &["serviceaccounts"], &["impersonate"]),
    ];
    let name = |what: &str| format!("open-cluster-management:klusterlet-work:{what}");
    let mut execution = role(&name("execution"), &execution_rules());
    execution["metadata"]["labels"] = json!({ AGGREGATE: "true" });
    let aggregate = json!({
        "metadata": { "name": name("aggregate") },
        "aggregationRule": { "clusterRoleSelectors": [{ "matchLabels": { AGGREGATE: "true" } }] },
    });
    let bound =
        |what: &str, role: &str| binding(CLUSTER_ROLE_BINDING, None, &name(what), role, WORK);
    [
        everywhere(&name("agent"), &agent, WORK),
        at_home(
            "open-cluster-management:management:klusterlet-work:agent",
            &common_rules(),
            WORK,
        ),
        vec![
            (CLUSTER_ROLE, None, execution),
            (CLUSTER_ROLE, None, aggregate),
            bound("aggregate", &name("aggregate")),
            bound("execution-admin", "admin"),
        ],
    ]
    .concat()
}

/// The work agent's rights beyond `admin`: no patch of CRDs, no delete of webhook configurations.
fn execution_rules() -> Vec<Value> {
    let rbac = "rbac.authorization.k8s.io";
    let webhooks = [
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
    ];
    vec![
        rule(
            &["apiextensions.k8s.io"],
            &["customresourcedefinitions"],
            &["get", "list", "watch", "create", "delete", "update"],
        ),
        rule(
            &[""],
            &["namespaces"],
            &["create", "update", "patch", "delete"],
        ),
        rule(&[rbac], &["clusterrolebindings", "rolebindings"], ALL),
        rule(
            &[rbac],
            &["clusterroles", "roles"],
            &[ALL, &["escalate", "bind"]].concat(),
        ),
        rule(&["monitoring.coreos.com"], &["servicemonitors"], ALL),
        rule(&["oauth.openshift.io"], &["oauthclients"], ALL),
        rule(&["scheduling.k8s.io"], &["priorityclasses"], ALL),
        rule(
            &["admissionregistration.k8s.io"],
            &webhooks,
            &["get", "list", "watch", "create", "update", "patch"],
        ),
    ]
}

/// The rights of every agent in its own namespace.
fn common_rules() -> Vec<Value> {
    vec![
        rule(&[""], &["configmaps"], ALL),
        rule(&[""], &["pods"], &["get"]),
        rule(&["apps"], &["replicasets"], &["get"]),
        rule(&["coordination.k8s.io"], &["leases"], LEASES),
        rule(
            &["", "events.k8s.io"],
            &["events"],
            &["create", "patch", "update"],
        ),
    ]
}

fn role(name: &str, rules: &[Value]) -> Value {
    json!({ "metadata": { "name": name }, "rules": rules })
}

/// A ClusterRole and its binding for one account.
fn everywhere(name: &str, rules: &[Value], account: &str) -> Vec<Manifest> {
    vec![
        (CLUSTER_ROLE, None, role(name, rules)),
        binding(CLUSTER_ROLE_BINDING, None, name, name, account),
    ]
}

/// A Role in the agents' namespace and its binding for one account.
fn at_home(name: &str, rules: &[Value], account: &str) -> Vec<Manifest> {
    vec![
        (ROLE, Some(AGENT_NAMESPACE.to_owned()), role(name, rules)),
        binding(ROLE_BINDING, Some(AGENT_NAMESPACE), name, name, account),
    ]
}

/// A binding of either kind; a Role is bound in a namespace, a ClusterRole without one.
fn binding(kind: Kind, namespace: Option<&str>, name: &str, role: &str, account: &str) -> Manifest {
    let role_kind = if namespace.is_some() {
        ROLE
    } else {
        CLUSTER_ROLE
    };
    let object = json!({
        "metadata": { "name": name },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": role_kind.name, "name": role,
        },
        "subjects": [{ "kind": "ServiceAccount", "namespace": AGENT_NAMESPACE, "name": account }],
    });
    (kind, namespace.map(str::to_owned), object)
}
