//! Whether the cluster is one of the hub's, and whether what OCM has there can apply what the add-on is made of. Pure.

use argocd::keys::addon::ADDON;
use diagnosis::{
    facts::conditions,
    object::{full_name, image, label, present, text},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::Value;

use super::{Checked, Facts, One, Spoke, argo_cd, failed, is_ready, ok, places, warning};
use crate::check::{
    RightPlace::{self, ArgoCd, Everywhere, Own},
    rights::plural,
};

/// Something that the work agent has to do: API group and plural name (`group/plural`), the verbs, where, and whether only
/// an Argo CD that the add-on installs needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need(
    pub &'static str,
    pub &'static [&'static str],
    pub RightPlace,
    pub bool,
);

const WRITE: &[&str] = &["create", "update", "delete"];
/// Roles with rights that the work agent itself need not have.
const ROLES: &[&str] = &["create", "update", "delete", "escalate", "bind"];
/// Namespaces and definitions stay when the add-on goes.
const KEEP: &[&str] = &["create", "update"];

const ROLES_KIND: &str = "rbac.authorization.k8s.io/roles";
const ROLE_BINDINGS: &str = "rbac.authorization.k8s.io/rolebindings";
const CLUSTER_ROLES: &str = "rbac.authorization.k8s.io/clusterroles";
const CLUSTER_ROLE_BINDINGS: &str = "rbac.authorization.k8s.io/clusterrolebindings";
const POLICIES: &str = "networking.k8s.io/networkpolicies";
const CRDS: &str = "apiextensions.k8s.io/customresourcedefinitions";

/// What the manifests of the add-on need, kind by kind.
pub const NEEDS: [Need; 14] = [
    Need("/namespaces", KEEP, Everywhere, false),
    Need("/serviceaccounts", WRITE, Own, false),
    Need("/configmaps", WRITE, Own, false),
    Need("apps/deployments", WRITE, Own, false),
    Need(ROLES_KIND, ROLES, ArgoCd, false),
    Need(ROLE_BINDINGS, WRITE, ArgoCd, false),
    Need(CLUSTER_ROLES, ROLES, Everywhere, false),
    Need(CLUSTER_ROLE_BINDINGS, WRITE, Everywhere, false),
    Need("apps/deployments", WRITE, ArgoCd, true),
    Need("apps/statefulsets", WRITE, ArgoCd, true),
    Need("/services", WRITE, ArgoCd, true),
    Need("/secrets", WRITE, ArgoCd, true),
    Need(POLICIES, WRITE, ArgoCd, true),
    Need(CRDS, KEEP, Everywhere, true),
];

/// The hub cannot be a cluster of its own fleet here.
pub(super) fn itself(facts: &Facts, spoke: &Spoke) -> Option<Checked> {
    let uid = |read: &One| Some(text(present(read)?, "/metadata/uid").to_owned());
    let (here, hub) = (uid(&spoke.system)?, uid(&facts.hub.as_ref()?.system)?);
    let cause = "this cluster is the hub itself, which gets no agent (ReservedCluster)";
    let next = "choose the context of the cluster with --spoke-context; what shall run on the hub is an Application in \
                its own Argo CD";
    (here == hub && !hub.is_empty()).then(|| failed(cause, next))
}

/// Whether the hub has accepted the cluster and hears it.
pub(super) fn joined(facts: &Facts) -> Checked {
    let hub = facts.hub.as_ref().ok_or("the hub was not asked")?;
    let Some(name) = &facts.cluster else {
        return warning(
            "the cluster's name at the hub is unknown: no Klusterlet here has it",
            "if it has joined, name it: argocd-agentctl check spoke CLUSTER; else have it join: clusteradm join",
        );
    };
    let Some(cluster) = hub.managed.as_ref()? else {
        let cause = format!("the hub has no ManagedCluster {name}");
        return failed(cause, "have it join (clusteradm join), or correct the name");
    };
    if cluster.pointer("/spec/hubAcceptsClient") != Some(&Value::Bool(true)) {
        let next = format!("clusteradm accept --clusters {name}");
        return failed(format!("the hub has not accepted {name}"), next);
    }
    if argocd::Meta::of(cluster).is_deleting() {
        return failed(
            format!("the ManagedCluster {name} is being deleted"),
            "wait until it is gone, and have the cluster join again",
        );
    }
    match available(cluster) {
        Some(condition) if condition.status == "True" => {
            ok(format!("the hub has accepted {name} and hears it"))
        }
        Some(condition) => failed(
            format!("the hub does not hear {name}: {}", condition.message),
            "look at the log of the klusterlet's agents on the cluster, and whether it reaches the hub's API",
        ),
        None => failed(
            format!("the hub has accepted {name} and has not heard of it yet"),
            "wait a minute; then look at the log of the klusterlet's agents on the cluster",
        ),
    }
}

fn available(cluster: &Value) -> Option<Condition> {
    let mut conditions = conditions(cluster).into_iter();
    conditions.find(|it| it.type_ == "ManagedClusterConditionAvailable")
}

fn is_reachable(facts: &Facts) -> bool {
    let managed = facts.hub.as_ref().and_then(|hub| present(&hub.managed));
    managed
        .and_then(available)
        .is_some_and(|condition| condition.status == "True")
}

fn work_agent(programs: &[Value]) -> Option<&Value> {
    let is_one = |it: &&Value| places::WORK_AGENTS.contains(&label(it, "app"));
    programs.iter().find(is_one)
}

/// Namespace and name of the account under which manifests are applied: the work agent's, else that of the usual one.
pub fn work_account(programs: &[Value]) -> (String, String) {
    let account = work_agent(programs).and_then(|it| {
        let account = it.pointer("/spec/template/spec/serviceAccountName")?;
        Some((argocd::Meta::of(it).namespace(), account.as_str()?))
    });
    let (namespace, name) =
        account.unwrap_or(("open-cluster-management-agent", "klusterlet-work-sa"));
    (namespace.to_owned(), name.to_owned())
}

/// Whether what OCM has on a cluster runs.
pub(super) fn klusterlet(facts: &Facts, spoke: &Spoke) -> Checked {
    let Some(agent) = work_agent(spoke.programs.as_ref()?) else {
        if is_reachable(facts) {
            return ok(
                "no Deployment of a klusterlet is here, but the hub hears the cluster: its agents run elsewhere",
            );
        }
        // Before it has joined that is as it should be.
        return warning(
            "no work agent of Open Cluster Management runs here, so nothing of the add-on can come",
            "have the cluster join the hub: clusteradm join",
        );
    };
    let (full_name, image) = (full_name(agent), image(agent));
    if is_ready(agent) {
        return ok(format!("{full_name} is ready, image {image}"));
    }
    failed(
        format!("{full_name} ({image}) is not ready"),
        "kubectl describe its Pods on the cluster, and their log",
    )
}

/// Whether the work agent may apply the add-on.
pub(super) fn rights(facts: &Facts, spoke: &Spoke) -> Checked {
    let programs = spoke.programs.as_deref().unwrap_or_default();
    let (mut lacking, mut missing_for_argo_cd) = (Vec::new(), Vec::new());
    for (Need(resource, .., for_installed_argo_cd), allowed) in &spoke.rights {
        match (*allowed.as_ref()?, for_installed_argo_cd) {
            (true, _) => {}
            (false, true) => missing_for_argo_cd.push(plural(resource)),
            (false, false) => lacking.push(plural(resource)),
        }
    }
    let has_account = work_agent(programs).is_some() || is_reachable(facts);
    if spoke.rights.is_empty() || !has_account {
        return Err("there is no work agent whose rights could be looked at".to_owned());
    }
    let (namespace, name) = work_account(programs);
    let next = format!(
        "bind what `clusteradm join` binds to ServiceAccount {namespace}/{name}: the ClusterRoles admin and \
         open-cluster-management:klusterlet-work:aggregate"
    );
    let may_not = |subject: &str, kinds: &[&str]| {
        let kinds = kinds.join(", ");
        format!("{namespace}/{name} may not write what {subject} is made of: {kinds}")
    };
    if !lacking.is_empty() {
        return failed(may_not(ADDON, &lacking), next);
    }
    if !missing_for_argo_cd.is_empty() && argo_cd::is_installed_by_add_on(facts, spoke) {
        return failed(
            may_not("an Argo CD that is brought", &missing_for_argo_cd),
            format!("{next}; or install Argo CD yourself"),
        );
    }
    ok(format!(
        "{namespace}/{name} may apply what the add-on is made of"
    ))
}
