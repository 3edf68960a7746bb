//! The kinds of objects that commands read or write. Pure.

/// A kind of object on the hub: its API group (empty for the core), its version, and its plural name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind(&'static str, &'static str, &'static str);

/// The group of add-ons, in the version that every hub serves.
const ADDON_GROUP: &str = "addon.open-cluster-management.io";
const REVIEW_GROUP: &str = "authorization.k8s.io";
const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// `ManagedClusterAddOns`.
pub const ADDONS: Kind = Kind(ADDON_GROUP, "v1alpha1", "managedclusteraddons");
/// `ClusterManagementAddOns`.
pub const OFFERS: Kind = Kind(ADDON_GROUP, "v1alpha1", "clustermanagementaddons");
/// `AddOnDeploymentConfigs`.
pub const CONFIGURATIONS: Kind = Kind(ADDON_GROUP, "v1alpha1", "addondeploymentconfigs");
/// `ManagedClusters`.
pub const CLUSTERS: Kind = Kind(
    "cluster.open-cluster-management.io",
    "v1",
    "managedclusters",
);
/// Applications.
pub const APPLICATIONS: Kind = Kind("argoproj.io", "v1alpha1", "applications");
/// `AppProjects`.
pub const PROJECTS: Kind = Kind("argoproj.io", "v1alpha1", "appprojects");
/// The resources of Argo CD's operator, each of which is an Argo CD.
pub const ARGO_CDS: Kind = Kind("argoproj.io", "v1beta1", "argocds");
/// Secrets.
pub const SECRETS: Kind = Kind("", "v1", "secrets");
/// `ConfigMaps`.
pub const CONFIG_MAPS: Kind = Kind("", "v1", "configmaps");
/// Namespaces.
pub const NAMESPACES: Kind = Kind("", "v1", "namespaces");
/// Pods.
pub const PODS: Kind = Kind("", "v1", "pods");
/// Definitions of kinds.
pub const DEFINITIONS: Kind = Kind("apiextensions.k8s.io", "v1", "customresourcedefinitions");
/// `NetworkPolicies`.
pub const FENCES: Kind = Kind("networking.k8s.io", "v1", "networkpolicies");
/// Klusterlets, on clusters whose agents of Open Cluster Management an operator keeps.
pub const KLUSTERLETS: Kind = Kind("operator.open-cluster-management.io", "v1", "klusterlets");
/// Services.
pub const SERVICES: Kind = Kind("", "v1", "services");
/// Deployments.
pub const DEPLOYMENTS: Kind = Kind("apps", "v1", "deployments");
/// Leases.
pub const LEASES: Kind = Kind("coordination.k8s.io", "v1", "leases");
/// `StatefulSets`.
pub const STATEFUL_SETS: Kind = Kind("apps", "v1", "statefulsets");
/// `ClusterRoles`.
pub const CLUSTER_ROLES: Kind = Kind(RBAC_GROUP, "v1", "clusterroles");
/// `ClusterRoleBindings`.
pub const CLUSTER_ROLE_BINDINGS: Kind = Kind(RBAC_GROUP, "v1", "clusterrolebindings");
/// Questions what the caller may do.
pub const ACCESS_REVIEWS: Kind = Kind(REVIEW_GROUP, "v1", "selfsubjectaccessreviews");
/// Access reviews for other users.
pub const OTHERS_ACCESS_REVIEWS: Kind = Kind(REVIEW_GROUP, "v1", "subjectaccessreviews");

impl Kind {
    pub(super) fn path(self, namespace: Option<&str>) -> String {
        let Self(group, version, plural) = self;
        let root = match group {
            "" => format!("/api/{version}"),
            group => format!("/apis/{group}/{version}"),
        };
        match namespace {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}"),
            None => format!("{root}/{plural}"),
        }
    }

    pub(super) const fn plural(self) -> &'static str {
        self.2
    }

    /// As kubectl and roles call it.
    pub fn full(self) -> String {
        match self {
            Self("", _, plural) => plural.to_owned(),
            Self(group, _, plural) => format!("{plural}.{group}"),
        }
    }
}
