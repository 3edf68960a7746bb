//! Labels, annotations, finalizers and fixed names of OCM that an add-on uses, each spelled once.

/// Label on works and certificate requests: which add-on they belong to.
pub const ADDON_NAME: &str = "open-cluster-management.io/addon-name";
/// Label on works that live in another namespace than their `ManagedClusterAddOn` (hosted mode).
pub const ADDON_NAMESPACE: &str = "open-cluster-management.io/addon-namespace";
/// Label on certificate requests and on cluster namespaces: which cluster they belong to.
pub const CLUSTER_NAME: &str = "open-cluster-management.io/cluster-name";
/// Annotation on works: the configurations that they were rendered from, with their hashes.
pub const CONFIG_SPEC_HASH: &str = "open-cluster-management.io/config-spec-hash";
/// Annotation on certificate requests that came through OCM's gRPC server: the user who sent them.
pub const CSR_USER: &str = "open-cluster-management.io/csr-user";
/// Annotation on a ManagedCluster: image registries to use there, as JSON.
pub const IMAGE_REGISTRIES: &str = "open-cluster-management.io/image-registries";

/// Annotation on a `ManagedClusterAddOn`: the cluster that hosts the agent.
pub const HOSTING_CLUSTER: &str = "addon.open-cluster-management.io/hosting-cluster-name";
/// Annotation on a `ManagedClusterAddOn`: values for rendering, as JSON.
pub const VALUES: &str = "addon.open-cluster-management.io/values";
/// Annotation that carries the v1alpha1 field `spec.installNamespace` in v1beta1.
pub const INSTALL_NAMESPACE: &str = "addon.open-cluster-management.io/v1alpha1-install-namespace";
/// Annotation on a manifest: the object stays on the cluster when its work is deleted.
pub const DELETION_ORPHAN: &str = "addon.open-cluster-management.io/deletion-orphan";
/// Annotation (or label) on a manifest: the object is a hook that runs before deletion.
pub const PRE_DELETE: &str = "addon.open-cluster-management.io/addon-pre-delete";
/// Label that older versions of OCM used to mark hooks.
pub const PRE_DELETE_OLD: &str = "open-cluster-management.io/addon-pre-delete";
/// Annotation (or label) on a manifest in hosted mode: `managed`, `hosting` or `none`.
pub const HOSTED_LOCATION: &str = "addon.open-cluster-management.io/hosted-manifest-location";
/// Finalizer on a `ManagedClusterAddOn`: hooks run on the managed cluster before its removal.
pub const PRE_DELETE_FINALIZER: &str = "addon.open-cluster-management.io/addon-pre-delete";
/// Finalizer on a `ManagedClusterAddOn`: hooks run on the hosting cluster before its removal.
pub const HOSTING_PRE_DELETE_FINALIZER: &str =
    "addon.open-cluster-management.io/hosting-addon-pre-delete";
/// Finalizer on a `ManagedClusterAddOn`: its works must be deleted from the hosting cluster.
pub const HOSTING_CLEANUP_FINALIZER: &str =
    "addon.open-cluster-management.io/hosting-manifests-cleanup";
/// Prefix of the deprecated finalizers of add-ons; the SDK drops them when it writes finalizers.
pub const OLD_FINALIZER_PREFIX: &str = "cluster.open-cluster-management.io/";
/// Label on a namespace of the cluster: OCM copies its image pull secret there.
pub const SPOKE_NAMESPACE: &str = "addon.open-cluster-management.io/namespace";
/// Label on a `ClusterRole` of the cluster: its rules are added to the work agent's.
pub const AGGREGATE_TO_WORK: &str = "open-cluster-management.io/aggregate-to-work";
/// Annotation on a `ClusterManagementAddOn`: who manages its life cycle.
pub const LIFECYCLE: &str = "addon.open-cluster-management.io/lifecycle";
/// Prefix of the label by which OCM shows an add-on's state on the ManagedCluster.
pub const FEATURE_PREFIX: &str = "feature.open-cluster-management.io/addon-";
/// Label on a ManagedCluster: the set it is in.
pub const CLUSTER_SET: &str = "cluster.open-cluster-management.io/clusterset";
/// Label on a `PlacementDecision`: the Placement it belongs to.
pub const PLACEMENT: &str = "cluster.open-cluster-management.io/placement";
/// Taint key of a cluster whose Available is Unknown.
pub const TAINT_UNREACHABLE: &str = "cluster.open-cluster-management.io/unreachable";
/// Taint key of a cluster whose Available is False.
pub const TAINT_UNAVAILABLE: &str = "cluster.open-cluster-management.io/unavailable";
/// Finalizer of OCM's work agent on a ManifestWork.
pub const WORK_FINALIZER: &str = "cluster.open-cluster-management.io/manifest-work-cleanup";

/// Namespace on the cluster for an agent, unless the configuration sets another.
pub const DEFAULT_INSTALL_NAMESPACE: &str = "open-cluster-management-agent-addon";
/// The user of OCM's gRPC server; the true requester is then in [`CSR_USER`].
pub const GRPC_SERVER_USER: &str =
    "system:serviceaccount:open-cluster-management-hub:grpc-server-sa";
/// Signer of client certificates for the hub's own API server.
pub const KUBE_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// Prefix of every user and group of OCM.
pub const IDENTITY_PREFIX: &str = "system:open-cluster-management:";
/// Prefix of the group of a cluster that joined with the registration driver `awsirsa`; its user is its name.
pub const AWSIRSA_GROUP_PREFIX: &str = "open-cluster-management:";
/// Annotation on such a ManagedCluster: the ARN of its cluster in EKS.
pub const MANAGED_CLUSTER_ARN: &str = "agent.open-cluster-management.io/managed-cluster-arn";
/// Annotation on such a ManagedCluster: the end of the name of its IAM roles.
pub const MANAGED_CLUSTER_ROLE_SUFFIX: &str =
    "agent.open-cluster-management.io/managed-cluster-iam-role-suffix";
