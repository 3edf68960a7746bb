//! The kinds of objects that commands read or write. Pure.

/// A kind of object on the hub: its API group with version, as manifests have it, and its plural name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind(&'static str, &'static str);

/// The group of add-ons, in the version that every hub serves.
const ADDON_API: &str = "addon.open-cluster-management.io/v1alpha1";
const ARGO_CD_API: &str = "argoproj.io/v1alpha1";
const REVIEW_API: &str = "authorization.k8s.io/v1";

/// `ManagedClusterAddOns`.
pub const ADDONS: Kind = Kind(ADDON_API, "managedclusteraddons");
/// `ClusterManagementAddOns`.
pub const OFFERS: Kind = Kind(ADDON_API, "clustermanagementaddons");
/// `AddOnDeploymentConfigs`.
pub const CONFIGURATIONS: Kind = Kind(ADDON_API, "addondeploymentconfigs");
/// `ManagedClusters`.
pub const CLUSTERS: Kind = Kind("cluster.open-cluster-management.io/v1", "managedclusters");
/// Applications.
pub const APPLICATIONS: Kind = Kind(ARGO_CD_API, "applications");
/// `AppProjects`.
pub const PROJECTS: Kind = Kind(ARGO_CD_API, "appprojects");
/// Secrets.
pub const SECRETS: Kind = Kind("v1", "secrets");
/// `ConfigMaps`.
pub const CONFIG_MAPS: Kind = Kind("v1", "configmaps");
/// Namespaces.
pub const NAMESPACES: Kind = Kind("v1", "namespaces");
/// Pods.
pub const PODS: Kind = Kind("v1", "pods");
/// Definitions of kinds.
pub const DEFINITIONS: Kind = Kind("apiextensions.k8s.io/v1", "customresourcedefinitions");
/// `NetworkPolicies`.
pub const FENCES: Kind = Kind("networking.k8s.io/v1", "networkpolicies");
/// Klusterlets, on clusters whose agents of Open Cluster Management an operator keeps.
pub const KLUSTERLETS: Kind = Kind("operator.open-cluster-management.io/v1", "klusterlets");
/// Services.
pub const SERVICES: Kind = Kind("v1", "services");
/// Deployments.
pub const DEPLOYMENTS: Kind = Kind("apps/v1", "deployments");
/// `StatefulSets`.
pub const STATEFUL_SETS: Kind = Kind("apps/v1", "statefulsets");
/// Questions what the caller may do.
pub const ACCESS_REVIEWS: Kind = Kind(REVIEW_API, "selfsubjectaccessreviews");
/// Access reviews for other users.
pub const OTHERS_ACCESS_REVIEWS: Kind = Kind(REVIEW_API, "subjectaccessreviews");

impl Kind {
    pub(super) fn path(self, namespace: Option<&str>) -> String {
        let Self(api, plural) = self;
        let root = if api.contains('/') { "apis" } else { "api" };
        match namespace {
            Some(namespace) => format!("/{root}/{api}/namespaces/{namespace}/{plural}"),
            None => format!("/{root}/{api}/{plural}"),
        }
    }

    pub(super) const fn plural(self) -> &'static str {
        self.1
    }

    /// As kubectl and roles call it.
    pub fn full(self) -> String {
        match self.0.split_once('/') {
            Some((group, _)) => format!("{}.{group}", self.1),
            None => self.1.to_owned(),
        }
    }
}
