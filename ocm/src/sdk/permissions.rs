//! The permissions of an agent on the hub: a Role and a `RoleBinding` in its cluster's namespace. Pure.
//!
//! The subject is computed, never read from the status of the `ManagedClusterAddOn`, and it is this
//! cluster's agent alone: a group of the agents of all clusters would give each of them permissions in
//! the namespaces of all others.

use std::sync::Arc;

use k8s_openapi::{
    api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::api::ApiResource;
use serde_json::{Value, json};

use super::{Registration, Target, registration};
use crate::{api::addon::Version, keys, name::AddonName};

const RBAC: &str = "rbac.authorization.k8s.io";

/// One of the two objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// The rules.
    Role,
    /// The subject.
    Binding,
}

impl Part {
    /// Both.
    pub(crate) const ALL: [Self; 2] = [Self::Role, Self::Binding];

    /// Where the objects are, for a dynamic `Api`.
    pub(crate) fn resource(self) -> ApiResource {
        match self {
            Self::Role => ApiResource::erase::<Role>(&()),
            Self::Binding => ApiResource::erase::<RoleBinding>(&()),
        }
    }
}

/// The current objects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Live {
    /// The Role.
    pub(crate) role: Option<Arc<Role>>,
    /// The `RoleBinding`.
    pub(crate) binding: Option<Arc<RoleBinding>>,
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Create or change one of the two.
    Apply(Part, Value),
    /// Delete one that cannot be changed; the next reconcile recreates it.
    Delete(Part),
}

/// The name of both objects.
pub(crate) fn name(addon: &AddonName) -> String {
    format!("open-cluster-management:{addon}:agent")
}

/// The input for the permissions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) addon: &'a AddonName,
    pub(crate) version: Version,
    pub(crate) rules: &'a [PolicyRule],
    pub(crate) registrations: &'a [Registration],
}

/// The writes that give the agent the author's rules; none without rules or without an identity to bind
/// them to.
pub(crate) fn plan(wanted: Wanted<'_>, target: Target<'_>, live: &Live) -> Vec<Step> {
    if wanted.rules.is_empty() || !wanted.registrations.contains(&Registration::KubeClient) {
        return Vec::new();
    }
    let metadata = metadata(wanted, target);
    let role = Role {
        metadata: metadata.clone(),
        rules: Some(wanted.rules.to_vec()),
    };
    let binding = RoleBinding {
        metadata,
        role_ref: RoleRef {
            api_group: Some(RBAC.to_owned()),
            kind: "Role".to_owned(),
            name: name(wanted.addon),
        },
        subjects: Some(vec![subject(wanted.addon, target)]),
    };
    let mut steps = Vec::new();
    let is_role =
        |live: &Arc<Role>| live.rules == role.rules && fits(&live.metadata, &role.metadata);
    if !live.role.as_ref().is_some_and(is_role) {
        steps.push(Step::Apply(Part::Role, json!(role)));
    }
    match &live.binding {
        // The `roleRef` is immutable.
        Some(live) if live.role_ref != binding.role_ref => steps.push(Step::Delete(Part::Binding)),
        Some(live)
            if live.subjects == binding.subjects && fits(&live.metadata, &binding.metadata) => {}
        Some(_) | None => steps.push(Step::Apply(Part::Binding, json!(binding))),
    }
    steps
}

fn metadata(wanted: Wanted<'_>, target: Target<'_>) -> ObjectMeta {
    let owner = OwnerReference {
        api_version: wanted.version.api_version(),
        kind: "ManagedClusterAddOn".to_owned(),
        name: wanted.addon.to_string(),
        uid: target.addon.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    ObjectMeta {
        name: Some(name(wanted.addon)),
        namespace: Some(target.name.to_string()),
        labels: Some([(keys::ADDON_NAME.to_owned(), wanted.addon.to_string())].into()),
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    }
}

/// Whether our labels and the owner are set; other clients may add labels.
fn fits(live: &ObjectMeta, wanted: &ObjectMeta) -> bool {
    let uid = |meta: &ObjectMeta| {
        let mut owners = meta.owner_references.iter().flatten();
        let owner = owners.find(|owner| owner.controller == Some(true));
        owner.map(|owner| owner.uid.clone())
    };
    let kept = live.labels.as_ref();
    let is_kept = |(key, value)| kept.and_then(|kept| kept.get(key)) == Some(value);
    uid(live) == uid(wanted) && wanted.labels.iter().flatten().all(is_kept)
}

/// The cluster's own group, or with tokens the service account that OCM creates for it.
fn subject(addon: &AddonName, target: Target<'_>) -> Subject {
    let (kind, name) = if uses_token(target) {
        ("User", registration::service_account(addon, target.name))
    } else {
        ("Group", addon.cluster_group(target.name))
    };
    Subject {
        api_group: Some(RBAC.to_owned()),
        kind: kind.to_owned(),
        name,
        namespace: None,
    }
}

/// Whether the agent chose the driver `token`. Both subjects are this cluster's, so the choice grants nothing.
fn uses_token(target: Target<'_>) -> bool {
    let status = target.addon.status.as_ref();
    let registrations = status.map_or(&[][..], |status| &status.registrations);
    let registrations = registrations.iter();
    let mut clients = registrations.filter_map(|it| it.kube_client.as_ref());
    clients.any(|client| client.driver == registration::TOKEN)
}

#[cfg(test)]
mod tests;
