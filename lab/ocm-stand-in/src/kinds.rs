//! The kinds of OCM, as the API server serves them.
//!
//! Objects are handled as JSON: the lab must neither lose nor invent a field of a foreign API.

use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
    core::GroupVersionKind,
};

/// A kind with its plural name and its scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Kind {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) name: &'static str,
    pub(crate) plural: &'static str,
}

impl Kind {
    /// The description that `kube` wants.
    pub(crate) fn resource(self) -> ApiResource {
        let gvk = GroupVersionKind::gvk(self.group, self.version, self.name);
        ApiResource::from_gvk_with_plural(&gvk, self.plural)
    }

    /// All objects, or a cluster-scoped kind.
    pub(crate) fn all(self, client: &Client) -> Api<DynamicObject> {
        Api::all_with(client.clone(), &self.resource())
    }

    /// The objects of one namespace.
    pub(crate) fn within(self, client: &Client, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(client.clone(), namespace, &self.resource())
    }

    /// `group/version`, the value of `apiVersion`.
    pub(crate) fn api_version(self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

macro_rules! kinds {
    ($($name:ident = $group:literal $version:literal $kind:literal $plural:literal;)*) => {
        $(pub(crate) const $name: Kind =
            Kind { group: $group, version: $version, name: $kind, plural: $plural };)*
    };
}

// The add-on kinds are handled in v1beta1, as OCM itself does since 1.3.
kinds! {
    MANAGED_CLUSTER = "cluster.open-cluster-management.io" "v1" "ManagedCluster" "managedclusters";
    CLUSTER_CLAIM = "cluster.open-cluster-management.io" "v1alpha1" "ClusterClaim" "clusterclaims";
    CLUSTER_SET = "cluster.open-cluster-management.io" "v1beta2" "ManagedClusterSet" "managedclustersets";
    CLUSTER_SET_BINDING =
        "cluster.open-cluster-management.io" "v1beta2" "ManagedClusterSetBinding" "managedclustersetbindings";
    PLACEMENT = "cluster.open-cluster-management.io" "v1beta1" "Placement" "placements";
    PLACEMENT_DECISION =
        "cluster.open-cluster-management.io" "v1beta1" "PlacementDecision" "placementdecisions";
    CLUSTER_MANAGEMENT_ADD_ON =
        "addon.open-cluster-management.io" "v1beta1" "ClusterManagementAddOn" "clustermanagementaddons";
    MANAGED_CLUSTER_ADD_ON =
        "addon.open-cluster-management.io" "v1beta1" "ManagedClusterAddOn" "managedclusteraddons";
    MANIFEST_WORK = "work.open-cluster-management.io" "v1" "ManifestWork" "manifestworks";
    APPLIED_MANIFEST_WORK =
        "work.open-cluster-management.io" "v1" "AppliedManifestWork" "appliedmanifestworks";
    LEASE = "coordination.k8s.io" "v1" "Lease" "leases";
    CERTIFICATE_SIGNING_REQUEST =
        "certificates.k8s.io" "v1" "CertificateSigningRequest" "certificatesigningrequests";
    CUSTOM_RESOURCE_DEFINITION =
        "apiextensions.k8s.io" "v1" "CustomResourceDefinition" "customresourcedefinitions";
    VALIDATING_WEBHOOK_CONFIGURATION = "admissionregistration.k8s.io" "v1"
        "ValidatingWebhookConfiguration" "validatingwebhookconfigurations";
    MUTATING_WEBHOOK_CONFIGURATION = "admissionregistration.k8s.io" "v1"
        "MutatingWebhookConfiguration" "mutatingwebhookconfigurations";
    NAMESPACE = "" "v1" "Namespace" "namespaces";
    SERVICE_ACCOUNT = "" "v1" "ServiceAccount" "serviceaccounts";
    CLUSTER_ROLE = "rbac.authorization.k8s.io" "v1" "ClusterRole" "clusterroles";
    CLUSTER_ROLE_BINDING =
        "rbac.authorization.k8s.io" "v1" "ClusterRoleBinding" "clusterrolebindings";
    ROLE = "rbac.authorization.k8s.io" "v1" "Role" "roles";
    ROLE_BINDING = "rbac.authorization.k8s.io" "v1" "RoleBinding" "rolebindings";
}

/// Labels, annotations, finalizers and other names of OCM that more than one module uses.
pub(crate) mod words {
    /// The namespace of the klusterlet's agents on a spoke.
    pub(crate) const AGENT_NAMESPACE: &str = "open-cluster-management-agent";
    /// The default namespace of an add-on's agent.
    pub(crate) const ADD_ON_NAMESPACE: &str = "open-cluster-management-agent-addon";
    /// Condition of a ManagedCluster that compares its clock with the hub's.
    pub(crate) const CLOCK_SYNCED: &str = "ManagedClusterConditionClockSynced";
    /// The name of each cluster's own lease in its namespace on the hub.
    pub(crate) const CLUSTER_LEASE: &str = "managed-cluster-lease";
    /// Label that ties an object to a managed cluster.
    pub(crate) const CLUSTER_NAME: &str = "open-cluster-management.io/cluster-name";
    /// Label that ties an object to an add-on.
    pub(crate) const ADD_ON_NAME: &str = "open-cluster-management.io/addon-name";
    /// Annotation of a v1beta1 ManagedClusterAddOn that carries v1alpha1's `spec.installNamespace`.
    pub(crate) const INSTALL_NAMESPACE: &str =
        "addon.open-cluster-management.io/v1alpha1-install-namespace";
    /// Annotation that names the cluster which an add-on's agent runs on instead of its own.
    pub(crate) const HOSTING_CLUSTER: &str =
        "addon.open-cluster-management.io/hosting-cluster-name";
    /// Name of a default config that v1alpha1 left out.
    pub(crate) const NO_DEFAULT: &str = "__reserved_no_default__";
    /// The signer behind `kubeClient` registrations.
    pub(crate) const KUBE_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
}
