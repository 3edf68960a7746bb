//! Whether the cluster is one of the hub's, and whether what OCM has there can apply what the add-on is made of. Pure.

use argocd::keys::addon::ADDON;
use serde_json::Value;

use super::{
    Facts, Finding, Hub, Outcome, Spoke, full_name, image, is_ready, label, places, running,
};
use crate::facts::conditions;

/// Something that the work agent has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// API group and plural name, `group/plural`.
    pub resource: &'static str,
    /// What it does with it.
    pub verbs: &'static [&'static str],
    /// Where.
    pub place: NeedPlace,
    /// Whether only an Argo CD that is brought needs it.
    pub for_installed_argo_cd: bool,
}

/// Where the work agent does something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeedPlace {
    /// On the cluster as a whole.
    Everywhere,
    /// In the agent's namespace.
    Agent,
    /// In Argo CD's.
    ArgoCd,
}

const WRITE: &[&str] = &["create", "update", "delete"];
/// Roles with rights that the work agent itself need not have.
const ROLES: &[&str] = &["create", "update", "delete", "escalate", "bind"];
/// Namespaces and definitions stay when the add-on goes.
const KEEP: &[&str] = &["create", "update"];

/// What the manifests of the add-on need, kind by kind.
pub const NEEDS: [Need; 14] = [
    need("/namespaces", KEEP, NeedPlace::Everywhere),
    need("/serviceaccounts", WRITE, NeedPlace::Agent),
    need("/configmaps", WRITE, NeedPlace::Agent),
    need("apps/deployments", WRITE, NeedPlace::Agent),
    need("rbac.authorization.k8s.io/roles", ROLES, NeedPlace::ArgoCd),
    need(
        "rbac.authorization.k8s.io/rolebindings",
        WRITE,
        NeedPlace::ArgoCd,
    ),
    need(
        "rbac.authorization.k8s.io/clusterroles",
        ROLES,
        NeedPlace::Everywhere,
    ),
    need(
        "rbac.authorization.k8s.io/clusterrolebindings",
        WRITE,
        NeedPlace::Everywhere,
    ),
    for_installed_argo_cd("apps/deployments", WRITE, NeedPlace::ArgoCd),
    for_installed_argo_cd("apps/statefulsets", WRITE, NeedPlace::ArgoCd),
    for_installed_argo_cd("/services", WRITE, NeedPlace::ArgoCd),
    for_installed_argo_cd("/secrets", WRITE, NeedPlace::ArgoCd),
    for_installed_argo_cd(
        "networking.k8s.io/networkpolicies",
        WRITE,
        NeedPlace::ArgoCd,
    ),
    for_installed_argo_cd(
        "apiextensions.k8s.io/customresourcedefinitions",
        KEEP,
        NeedPlace::Everywhere,
    ),
];

const fn need(resource: &'static str, verbs: &'static [&'static str], place: NeedPlace) -> Need {
    Need {
        resource,
        verbs,
        place,
        for_installed_argo_cd: false,
    }
}

const fn for_installed_argo_cd(
    resource: &'static str,
    verbs: &'static [&'static str],
    place: NeedPlace,
) -> Need {
    Need {
        resource,
        verbs,
        place,
        for_installed_argo_cd: true,
    }
}

impl Need {
    /// Group and plural name.
    pub fn kind(&self) -> (&'static str, &'static str) {
        self.resource.split_once('/').unwrap_or(("", self.resource))
    }
}

/// The hub cannot be a cluster of its own fleet here.
pub(super) fn itself(facts: &Facts, spoke: &Spoke) -> Option<Finding> {
    let uid = |read: &Result<Option<Value>, String>| {
        let object = read.as_ref().ok()?.as_ref()?;
        Some(object.pointer("/metadata/uid")?.as_str()?.to_owned())
    };
    let (here, hub) = (uid(&spoke.system)?, uid(&facts.hub.as_ref()?.system)?);
    if here != hub {
        return None;
    }
    let cause = "this cluster is the hub itself, which gets no agent (ReservedCluster)";
    let next = "choose the context of the cluster with --spoke-context; what shall run on the hub is an Application in \
                its own Argo CD";
    Some(Finding::new("cluster", Outcome::Failed, cause).next(next))
}

/// Whether the hub has accepted the cluster and hears it.
pub(super) fn joined(facts: &Facts) -> Finding {
    let finding = |outcome, cause: String| Finding::new("joined", outcome, cause);
    let Some(hub) = &facts.hub else {
        return finding(Outcome::Unclear, "the hub was not asked".to_owned());
    };
    let Some(name) = &facts.cluster else {
        let cause = "the cluster's name at the hub is unknown: no Klusterlet here has it";
        return finding(Outcome::Warning, cause.to_owned()).next(
            "if it has joined, name it: argocd-agentctl check spoke CLUSTER; else have it join: clusteradm join",
        );
    };
    let cluster = match &hub.managed {
        Err(reason) => return finding(Outcome::Unclear, reason.clone()),
        Ok(None) => {
            return finding(
                Outcome::Failed,
                format!("the hub has no ManagedCluster {name}"),
            )
            .next("have it join (clusteradm join), or correct the name");
        }
        Ok(Some(cluster)) => cluster,
    };
    if cluster.pointer("/spec/hubAcceptsClient") != Some(&Value::Bool(true)) {
        return finding(Outcome::Failed, format!("the hub has not accepted {name}"))
            .next(format!("clusteradm accept --clusters {name}"));
    }
    if argocd::Meta::of(cluster).deletion_timestamp().is_some() {
        return finding(
            Outcome::Failed,
            format!("the ManagedCluster {name} is being deleted"),
        )
        .next("wait until it is gone, and have the cluster join again");
    }
    let conditions = conditions(cluster);
    let available = ocm::condition::find(&conditions, "ManagedClusterConditionAvailable");
    match available {
        Some(condition) if condition.status == "True" => finding(
            Outcome::Ok,
            format!("the hub has accepted {name} and hears it"),
        ),
        Some(condition) => finding(
            Outcome::Failed,
            format!("the hub does not hear {name}: {}", condition.message),
        )
        .next("look at the log of the klusterlet's agents on the cluster, and whether it reaches the hub's API"),
        None => finding(
            Outcome::Failed,
            format!("the hub has accepted {name} and has not heard of it yet"),
        )
        .next("wait a minute; then look at the log of the klusterlet's agents on the cluster"),
    }
}

fn is_reachable(hub: &Hub) -> bool {
    let managed = hub.managed.as_ref().ok().and_then(Option::as_ref);
    managed.is_some_and(|cluster| {
        let conditions = conditions(cluster);
        ocm::condition::find(&conditions, "ManagedClusterConditionAvailable")
            .is_some_and(|condition| condition.status == "True")
    })
}

fn work_agent(spoke: &Spoke) -> Option<&Value> {
    find_work_agent(running(spoke))
}

fn find_work_agent<'a>(mut programs: impl Iterator<Item = &'a Value>) -> Option<&'a Value> {
    programs.find(|it| places::WORK_AGENTS.contains(&label(it, "app")))
}

/// Namespace and name of the account under which manifests are applied: the work agent's, else that of the usual one.
pub fn work_account(programs: &[Value]) -> (String, String) {
    let found = find_work_agent(programs.iter());
    let account = found.and_then(|it| {
        let account = it.pointer("/spec/template/spec/serviceAccountName")?;
        Some((argocd::Meta::of(it).namespace(), account.as_str()?))
    });
    let (namespace, name) =
        account.unwrap_or(("open-cluster-management-agent", "klusterlet-work-sa"));
    (namespace.to_owned(), name.to_owned())
}

/// Whether what OCM has on a cluster runs.
pub(super) fn klusterlet(facts: &Facts, spoke: &Spoke) -> Finding {
    let finding = |outcome, cause: String| Finding::new("klusterlet", outcome, cause);
    if let Err(reason) = &spoke.programs {
        return finding(Outcome::Unclear, reason.clone());
    }
    let Some(agent) = work_agent(spoke) else {
        if facts.hub.as_ref().is_some_and(is_reachable) {
            let cause = "no Deployment of a klusterlet is here, but the hub hears the cluster: its agents run elsewhere";
            return finding(Outcome::Ok, cause.to_owned());
        }
        let cause =
            "no work agent of Open Cluster Management runs here, so nothing of the add-on can come";
        // Before it has joined that is as it should be.
        return finding(Outcome::Warning, cause.to_owned())
            .next("have the cluster join the hub: clusteradm join");
    };
    let (full_name, image) = (full_name(agent), image(agent));
    if is_ready(agent) {
        return finding(Outcome::Ok, format!("{full_name} is ready, image {image}"));
    }
    finding(
        Outcome::Failed,
        format!("{full_name} ({image}) is not ready"),
    )
    .next("kubectl describe its Pods on the cluster, and their log")
}

/// Whether the work agent may apply the add-on.
pub(super) fn rights(facts: &Facts, spoke: &Spoke) -> Finding {
    let finding = |outcome, cause: String| Finding::new("work agent", outcome, cause);
    let programs = spoke.programs.as_deref().unwrap_or_default();
    let is_installed_by_add_on = super::argo_cd::is_installed_by_add_on(facts, spoke);
    let (mut lacking, mut missing_for_argo_cd) = (Vec::new(), Vec::new());
    for (need, answer) in &spoke.rights {
        match answer {
            Err(reason) => return finding(Outcome::Unclear, reason.clone()),
            Ok(true) => {}
            Ok(false) if need.for_installed_argo_cd => missing_for_argo_cd.push(need.kind().1),
            Ok(false) => lacking.push(need.kind().1),
        }
    }
    let has_account = work_agent(spoke).is_some() || facts.hub.as_ref().is_some_and(is_reachable);
    if spoke.rights.is_empty() || !has_account {
        let cause = "there is no work agent whose rights could be looked at";
        return finding(Outcome::Unclear, cause.to_owned());
    }
    let (namespace, name) = work_account(programs);
    let next = format!(
        "bind what `clusteradm join` binds to ServiceAccount {namespace}/{name}: the ClusterRoles admin and \
         open-cluster-management:klusterlet-work:aggregate"
    );
    if !lacking.is_empty() {
        let cause = format!(
            "{namespace}/{name} may not write what {ADDON} is made of: {}",
            lacking.join(", ")
        );
        return finding(Outcome::Failed, cause).next(next);
    }
    if is_installed_by_add_on && !missing_for_argo_cd.is_empty() {
        let cause = format!(
            "{namespace}/{name} may not write what an Argo CD that is brought is made of: {}",
            missing_for_argo_cd.join(", ")
        );
        return finding(Outcome::Failed, cause)
            .next(format!("{next}; or install Argo CD yourself"));
    }
    finding(
        Outcome::Ok,
        format!("{namespace}/{name} may apply what the add-on is made of"),
    )
}
