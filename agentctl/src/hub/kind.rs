//! The kinds of objects that commands read or write. Pure.

/// A kind of object on the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// API group, empty for the core.
    pub group: &'static str,
    /// Its version.
    pub version: &'static str,
    /// Plural name.
    pub plural: &'static str,
}

/// The group of add-ons, in the version that every hub serves.
const ADDON_GROUP: &str = "addon.open-cluster-management.io";

/// `ManagedClusterAddOns`.
pub const ADDONS: Kind = Kind::new(ADDON_GROUP, "v1alpha1", "managedclusteraddons");
/// `ClusterManagementAddOns`.
pub const OFFERS: Kind = Kind::new(ADDON_GROUP, "v1alpha1", "clustermanagementaddons");
/// `AddOnDeploymentConfigs`.
pub const CONFIGURATIONS: Kind = Kind::new(ADDON_GROUP, "v1alpha1", "addondeploymentconfigs");
/// `ManagedClusters`.
pub const CLUSTERS: Kind = Kind::new(
    "cluster.open-cluster-management.io",
    "v1",
    "managedclusters",
);
/// Applications.
pub const APPLICATIONS: Kind = Kind::new("argoproj.io", "v1alpha1", "applications");
/// `AppProjects`.
pub const PROJECTS: Kind = Kind::new("argoproj.io", "v1alpha1", "appprojects");
/// Secrets.
pub const SECRETS: Kind = Kind::new("", "v1", "secrets");
/// `ConfigMaps`.
pub const CONFIG_MAPS: Kind = Kind::new("", "v1", "configmaps");
/// Namespaces.
pub const NAMESPACES: Kind = Kind::new("", "v1", "namespaces");
/// Pods.
pub const PODS: Kind = Kind::new("", "v1", "pods");
/// Definitions of kinds.
pub const DEFINITIONS: Kind = Kind::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
/// `NetworkPolicies`.
pub const FENCES: Kind = Kind::new("networking.k8s.io", "v1", "networkpolicies");
/// Klusterlets, on clusters whose agents of Open Cluster Management an operator keeps.
pub const KLUSTERLETS: Kind = Kind::new("operator.open-cluster-management.io", "v1", "klusterlets");
/// Services.
pub const SERVICES: Kind = Kind::new("", "v1", "services");
/// Deployments.
pub const DEPLOYMENTS: Kind = Kind::new("apps", "v1", "deployments");
/// `StatefulSets`.
pub const STATEFUL_SETS: Kind = Kind::new("apps", "v1", "statefulsets");
/// Questions what the caller may do.
pub const ACCESS_REVIEWS: Kind =
    Kind::new("authorization.k8s.io", "v1", "selfsubjectaccessreviews");
/// Access reviews for other users.
pub const OTHERS_ACCESS_REVIEWS: Kind =
    Kind::new("authorization.k8s.io", "v1", "subjectaccessreviews");

impl Kind {
    const fn new(group: &'static str, version: &'static str, plural: &'static str) -> Self {
        Self {
            group,
            version,
            plural,
        }
    }

    pub(super) fn path(self, namespace: Option<&str>) -> String {
        let Self {
            group,
            version,
            plural,
        } = self;
        let root = if group.is_empty() {
            format!("/api/{version}")
        } else {
            format!("/apis/{group}/{version}")
        };
        match namespace {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}"),
            None => format!("{root}/{plural}"),
        }
    }

    /// As kubectl and roles call it.
    pub fn full(self) -> String {
        if self.group.is_empty() {
            self.plural.to_owned()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }
}
