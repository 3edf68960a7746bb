//! Group `cluster.open-cluster-management.io`: clusters, sets and placements.

use std::borrow::Cow;

use k8s_openapi::{
    NamespaceResourceScope,
    apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, ObjectMeta},
};
use kube::{CustomResource, Resource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::{self, Status};

/// Spec of a ManagedCluster, as far as add-ons read it.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "cluster.open-cluster-management.io",
    version = "v1",
    kind = "ManagedCluster",
    status = "ManagedClusterStatus",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase", default)]
pub struct ManagedClusterSpec {
    /// Whether the hub accepts the cluster.
    pub hub_accepts_client: bool,
    /// Taints that keep placements away.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
}

/// Keeps placements without a toleration away from a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Taint {
    /// Key.
    pub key: String,
    /// Value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// `NoSelect`, `PreferNoSelect` or `NoSelectIfNew`.
    pub effect: String,
}

/// Status of a ManagedCluster. The cluster itself may write it: everything here is a claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ManagedClusterStatus {
    /// Conditions, see [`crate::condition::cluster`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Claims of the cluster about itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cluster_claims: Vec<ClusterClaim>,
    /// Versions in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<ManagedClusterVersion>,
}

/// One claim of a cluster about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ClusterClaim {
    /// Name.
    pub name: String,
    /// Value.
    pub value: String,
}

/// The claim that identifies a cluster: the UID of its namespace `kube-system`.
pub const ID_CLAIM: &str = "id.k8s.io";

/// Whether a cluster that claims this ID is the one whose `kube-system` has this UID. `false` if either is unknown.
pub fn is_itself(claimed: Option<&str>, uid: Option<&str>) -> bool {
    claimed.is_some_and(|claimed| !claimed.is_empty() && Some(claimed) == uid)
}

/// Versions in use on a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ManagedClusterVersion {
    /// Of Kubernetes.
    pub kubernetes: String,
}

impl ManagedCluster {
    /// The conditions, none if there is no status.
    pub fn conditions(&self) -> &[Condition] {
        self.status
            .as_ref()
            .map_or(&[], |status| &status.conditions)
    }

    /// Whether the hub has accepted the cluster and it is not being deleted.
    pub fn is_admitted(&self) -> bool {
        self.spec.hub_accepts_client && !self.is_deleting()
    }

    /// Whether the cluster is being deleted.
    pub const fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether the hub has lost contact with the cluster: its `Available` is `Unknown`.
    pub fn is_lost(&self) -> bool {
        condition::has(
            self.conditions(),
            condition::cluster::AVAILABLE,
            Status::Unknown,
        )
    }

    /// A claim by name.
    pub fn claim(&self, name: &str) -> Option<&str> {
        let claims = &self.status.as_ref()?.cluster_claims;
        claims
            .iter()
            .find(|claim| claim.name == name)
            .map(|claim| claim.value.as_str())
    }
}

/// Spec of a `ManagedClusterSetBinding`: lets placements of a namespace see a set.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "cluster.open-cluster-management.io",
    version = "v1beta2",
    kind = "ManagedClusterSetBinding",
    namespaced
)]
#[serde(rename_all = "camelCase", default)]
pub struct ManagedClusterSetBindingSpec {
    /// The set; the binding's name must be the same.
    pub cluster_set: String,
}

/// Spec of a Placement, as far as add-ons read or write it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.open-cluster-management.io",
    version = "v1beta1",
    kind = "Placement",
    namespaced
)]
#[serde(rename_all = "camelCase", default)]
pub struct PlacementSpec {
    /// Sets to choose from; all that are bound to the namespace if empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cluster_sets: Vec<String>,
    /// At most so many clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number_of_clusters: Option<i32>,
    /// A cluster is chosen if one of these fits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub predicates: Vec<ClusterPredicate>,
    /// Taints to tolerate.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<PlacementToleration>,
}

/// One way for a cluster to fit a placement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterPredicate {
    /// What the cluster must have.
    pub required_cluster_selector: ClusterSelector,
}

/// What a cluster must have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterSelector {
    /// Labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
}

/// A taint that does not keep a placement away.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlacementToleration {
    /// Key of the taint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Equal or Exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// Value of the taint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Effect of the taint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
}

/// Clusters that a placement chose. It has no spec.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlacementDecision {
    /// Metadata; the label [`crate::keys::PLACEMENT`] names the Placement.
    pub metadata: ObjectMeta,
    /// The decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<PlacementDecisionStatus>,
}

impl Resource for PlacementDecision {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "PlacementDecision".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "cluster.open-cluster-management.io".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1beta1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "placementdecisions".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// Status of a `PlacementDecision`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PlacementDecisionStatus {
    /// The chosen clusters, at most 100 in one object.
    pub decisions: Vec<ClusterDecision>,
}

/// One chosen cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterDecision {
    /// The cluster.
    pub cluster_name: String,
    /// Why.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_identified_by_its_uid_and_an_unknown_id_never_matches() {
        assert!(is_itself(Some("uid"), Some("uid")));
        for (claimed, uid) in [
            (Some("uid"), Some("other")),
            (Some("uid"), None),
            (None, Some("uid")),
            (None, None),
            (Some(""), Some("")),
        ] {
            assert!(!is_itself(claimed, uid), "{claimed:?} {uid:?}");
        }
    }
}
