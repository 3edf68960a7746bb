//! Group `cluster.open-cluster-management.io`: clusters, and the decisions of placements.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, api::ApiResource, core::GroupVersionKind};
use serde::{Deserialize, Serialize};

use crate::condition::{self, Status};

/// Spec of a ManagedCluster, as far as add-ons read it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "cluster.open-cluster-management.io",
    version = "v1",
    kind = "ManagedCluster",
    status = "ManagedClusterStatus",
    derive = "PartialEq",
    derive = "Default",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase", default)]
pub struct ManagedClusterSpec {
    /// Whether the hub accepts the cluster.
    pub hub_accepts_client: bool,
}

/// Status of a ManagedCluster. The cluster itself may write it: everything here is a claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterClaim {
    /// Name.
    pub name: String,
    /// Value.
    pub value: String,
}

/// The claim that identifies a cluster: the UID of its namespace `kube-system`.
pub const ID_CLAIM: &str = "id.k8s.io";

/// The label and the claims by which clusters state their kind. Only OpenShift has a version claim of its own.
const VENDOR: &str = "vendor";
const PRODUCT_CLAIM: &str = "product.open-cluster-management.io";
const OPENSHIFT_VERSION_CLAIM: &str = "version.openshift.io";
/// The products that are an OpenShift.
const OPENSHIFT: [&str; 6] = [
    "OpenShift",
    "OpenShiftDedicated",
    "ROSA",
    "ARO",
    "ROKS",
    "MicroShift",
];

/// Whether a cluster that claims this ID is the one whose `kube-system` has this UID. `false` if either is unknown.
pub fn is_itself(claimed: Option<&str>, uid: Option<&str>) -> bool {
    claimed.is_some_and(|claimed| !claimed.is_empty() && Some(claimed) == uid)
}

/// Versions in use on a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ManagedClusterVersion {
    /// Of Kubernetes.
    pub kubernetes: String,
}

impl ManagedCluster {
    /// The conditions, none if there is no status.
    pub fn conditions(&self) -> &[Condition] {
        let status = self.status.as_ref();
        status.map_or(&[], |status| &status.conditions)
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
        let available = condition::cluster::AVAILABLE;
        condition::has(self.conditions(), available, Status::Unknown)
    }

    /// Whether it is an OpenShift, by the label `vendor` or its claims.
    pub fn is_openshift(&self) -> bool {
        let labels = self.metadata.labels.as_ref();
        let vendor = labels.and_then(|labels| labels.get(VENDOR));
        let product = self.claim(PRODUCT_CLAIM);
        let version = self.claim(OPENSHIFT_VERSION_CLAIM);
        vendor.is_some_and(|vendor| vendor == "OpenShift")
            || product.is_some_and(|product| OPENSHIFT.contains(&product))
            || version.is_some_and(|version| !version.is_empty())
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

/// Where `PlacementDecisions` are, for a dynamic `Api`. They have no spec; the label [`crate::keys::PLACEMENT`] names the
/// Placement, and the status at most 100 clusters.
pub fn placement_decisions() -> ApiResource {
    let group = "cluster.open-cluster-management.io";
    ApiResource::from_gvk(&GroupVersionKind::gvk(
        group,
        "v1beta1",
        "PlacementDecision",
    ))
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

    #[test]
    fn openshift_is_recognized_by_label_or_claim() {
        let cluster = |label: &str, claim: &str, value: &str| {
            let object = serde_json::json!({
                "metadata": { "name": "c", "labels": { "vendor": label } },
                "spec": {}, "status": { "clusterClaims": [{ "name": claim, "value": value }] },
            });
            serde_json::from_value::<ManagedCluster>(object).unwrap()
        };
        for (label, claim, value) in [
            ("OpenShift", "id.k8s.io", "x"),
            ("auto-detect", "product.open-cluster-management.io", "ROSA"),
            (
                "",
                "product.open-cluster-management.io",
                "OpenShiftDedicated",
            ),
            ("", "version.openshift.io", "4.18.2"),
        ] {
            let cluster = cluster(label, claim, value);
            assert!(cluster.is_openshift(), "{label} {claim} {value}");
        }
        for (label, claim, value) in [
            ("", "id.k8s.io", "OpenShift"),
            ("Rancher", "product.open-cluster-management.io", "EKS"),
            ("openshift", "product.open-cluster-management.io", ""),
            ("", "version.openshift.io", ""),
        ] {
            let cluster = cluster(label, claim, value);
            assert!(!cluster.is_openshift(), "{label} {claim} {value}");
        }
        assert!(!ManagedCluster::default().is_openshift());
    }
}
