//! References to objects: names of kinds and of this project's objects, each spelled once.

use std::fmt;

use kube::api::ApiResource;

/// A reference to an object: kind, namespace (none for cluster scope) and name.
#[derive(Clone, Debug)]
pub struct At {
    pub(super) resource: ApiResource,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.resource.kind)?;
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.name)
    }
}

impl At {
    fn new(api: (&str, &str, &str, &str), namespace: Option<&str>, name: &str) -> Self {
        let (group, version, kind, plural) = api;
        let api_version = if group.is_empty() {
            version.to_owned()
        } else {
            format!("{group}/{version}")
        };
        let resource = ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version,
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        Self {
            resource,
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        }
    }

    /// An object of any kind, which is named with its plural; `namespace` is none for cluster scope.
    pub fn of(
        api_version: &str,
        (kind, plural): (&str, &str),
        namespace: Option<&str>,
        name: &str,
    ) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Self::new((group, version, kind, plural), namespace, name)
    }

    /// Its `apiVersion` and kind.
    pub fn kind(&self) -> (&str, &str) {
        (&self.resource.api_version, &self.resource.kind)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// An Argo CD Application.
    pub fn application(namespace: &str, name: &str) -> Self {
        Self::new(
            ("argoproj.io", "v1alpha1", "Application", "applications"),
            Some(namespace),
            name,
        )
    }

    /// An Argo CD `ApplicationSet`.
    pub fn application_set(namespace: &str, name: &str) -> Self {
        let api = (
            "argoproj.io",
            "v1alpha1",
            "ApplicationSet",
            "applicationsets",
        );
        Self::new(api, Some(namespace), name)
    }

    /// An Argo CD AppProject.
    pub fn project(namespace: &str, name: &str) -> Self {
        Self::new(
            ("argoproj.io", "v1alpha1", "AppProject", "appprojects"),
            Some(namespace),
            name,
        )
    }

    /// A ManagedCluster.
    pub fn cluster(name: &str) -> Self {
        let api = (
            "cluster.open-cluster-management.io",
            "v1",
            "ManagedCluster",
            "managedclusters",
        );
        Self::new(api, None, name)
    }

    /// A `ClusterClaim`, on a spoke.
    pub fn cluster_claim(name: &str) -> Self {
        let api = (
            "cluster.open-cluster-management.io",
            "v1alpha1",
            "ClusterClaim",
            "clusterclaims",
        );
        Self::new(api, None, name)
    }

    /// A `ManagedClusterAddOn`, in the version that users of `clusteradm` write.
    pub fn addon(cluster: &str) -> Self {
        let api = (
            "addon.open-cluster-management.io",
            "v1alpha1",
            "ManagedClusterAddOn",
            "managedclusteraddons",
        );
        Self::new(api, Some(cluster), ADDON)
    }

    /// The `ClusterManagementAddOn`.
    pub fn addon_definition() -> Self {
        let api = (
            "addon.open-cluster-management.io",
            "v1alpha1",
            "ClusterManagementAddOn",
            "clustermanagementaddons",
        );
        Self::new(api, None, ADDON)
    }

    /// An `AddOnDeploymentConfig`.
    pub fn addon_config(namespace: &str, name: &str) -> Self {
        let api = (
            "addon.open-cluster-management.io",
            "v1alpha1",
            "AddOnDeploymentConfig",
            "addondeploymentconfigs",
        );
        Self::new(api, Some(namespace), name)
    }

    /// A Placement.
    pub fn placement(namespace: &str, name: &str) -> Self {
        let api = (
            "cluster.open-cluster-management.io",
            "v1beta1",
            "Placement",
            "placements",
        );
        Self::new(api, Some(namespace), name)
    }

    /// A `PlacementDecision`; with an empty name good for lists only.
    pub fn placement_decision(namespace: &str, name: &str) -> Self {
        let api = (
            "cluster.open-cluster-management.io",
            "v1beta1",
            "PlacementDecision",
            "placementdecisions",
        );
        Self::new(api, Some(namespace), name)
    }

    /// A ManifestWork; with an empty name good for lists only.
    pub fn work(cluster: &str, name: &str) -> Self {
        let api = (
            "work.open-cluster-management.io",
            "v1",
            "ManifestWork",
            "manifestworks",
        );
        Self::new(api, Some(cluster), name)
    }

    /// A Secret.
    pub fn secret(namespace: &str, name: &str) -> Self {
        Self::new(("", "v1", "Secret", "secrets"), Some(namespace), name)
    }

    /// A `ConfigMap`.
    pub fn config_map(namespace: &str, name: &str) -> Self {
        Self::new(("", "v1", "ConfigMap", "configmaps"), Some(namespace), name)
    }

    /// A Service.
    pub fn service(namespace: &str, name: &str) -> Self {
        Self::new(("", "v1", "Service", "services"), Some(namespace), name)
    }

    /// A Deployment.
    pub fn deployment(namespace: &str, name: &str) -> Self {
        Self::new(
            ("apps", "v1", "Deployment", "deployments"),
            Some(namespace),
            name,
        )
    }

    /// A `StatefulSet`.
    pub fn stateful_set(namespace: &str, name: &str) -> Self {
        Self::new(
            ("apps", "v1", "StatefulSet", "statefulsets"),
            Some(namespace),
            name,
        )
    }

    /// A Pod; with an empty name good for lists only.
    pub fn pod(namespace: &str, name: &str) -> Self {
        Self::new(("", "v1", "Pod", "pods"), Some(namespace), name)
    }

    /// A Node; with an empty name good for lists only.
    pub fn node(name: &str) -> Self {
        Self::new(("", "v1", "Node", "nodes"), None, name)
    }

    /// A Lease.
    pub fn lease(namespace: &str, name: &str) -> Self {
        Self::new(
            ("coordination.k8s.io", "v1", "Lease", "leases"),
            Some(namespace),
            name,
        )
    }

    /// A Namespace.
    pub fn namespace(name: &str) -> Self {
        Self::new(("", "v1", "Namespace", "namespaces"), None, name)
    }

    /// A `ServiceAccount`.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self::new(
            ("", "v1", "ServiceAccount", "serviceaccounts"),
            Some(namespace),
            name,
        )
    }

    /// A Role.
    pub fn role(namespace: &str, name: &str) -> Self {
        Self::new(
            ("rbac.authorization.k8s.io", "v1", "Role", "roles"),
            Some(namespace),
            name,
        )
    }

    /// A `ClusterRole`.
    pub fn cluster_role(name: &str) -> Self {
        let api = (
            "rbac.authorization.k8s.io",
            "v1",
            "ClusterRole",
            "clusterroles",
        );
        Self::new(api, None, name)
    }

    /// A `ClusterRoleBinding`.
    pub fn cluster_role_binding(name: &str) -> Self {
        let api = (
            "rbac.authorization.k8s.io",
            "v1",
            "ClusterRoleBinding",
            "clusterrolebindings",
        );
        Self::new(api, None, name)
    }

    /// A `CertificateSigningRequest`.
    pub fn csr(name: &str) -> Self {
        let api = (
            "certificates.k8s.io",
            "v1",
            "CertificateSigningRequest",
            "certificatesigningrequests",
        );
        Self::new(api, None, name)
    }

    /// An Event of the core group; with an empty name good for lists only.
    pub fn event(namespace: &str) -> Self {
        Self::new(("", "v1", "Event", "events"), Some(namespace), "")
    }
}

/// The add-on's name, as the tests spell it; the product has its own constant.
pub const ADDON: &str = "argocd-agent-addon";
