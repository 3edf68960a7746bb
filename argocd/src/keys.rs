//! All labels, annotations, finalizers and well-known names.

pub mod addon;

/// The `ConfigMap` with Argo CD's settings.
pub const SETTINGS: &str = "argocd-cm";
/// API version of Applications and AppProjects.
pub const API_VERSION: &str = "argoproj.io/v1alpha1";

/// Annotation of a replica: UID of its source object.
pub const SOURCE_UID: &str = "argocd.argoproj.io/source-uid";
/// Annotation: the principal that last wrote a replica.
pub const PRINCIPAL_UID: &str = "argocd.argoproj.io/principal-uid";
/// Annotation: `true` on a replica whose source is in the hub's Argo CD namespace.
pub const NAMESPACE_REMAPPED: &str = "argocd.argoproj.io/namespace-remapped";
/// Annotation of the user: `recreate` or `upsert` when the source UID changes.
pub const SOURCE_UID_MISMATCH_POLICY: &str = "argocd.argoproj.io/source-uid-mismatch-policy";
/// Annotation of the user on the spoke: `always` or `never`.
pub const ADOPTION_POLICY: &str = "argocd.argoproj.io/adoption-policy";
/// Annotation of the Go principal on the objects that it writes.
pub const LAST_UPDATED: &str = "argocd-agent.argoproj.io/last-updated";
/// Annotation: `normal` or `hard`; Argo CD removes it after the refresh.
pub const REFRESH: &str = "argocd.argoproj.io/refresh";
/// Annotation: `normal`; Argo CD removes it when it hydrates. Clients that set it also set [`REFRESH`].
pub const HYDRATE: &str = "argocd.argoproj.io/hydrate";
/// Annotations with which users and webhooks request something once.
pub const REQUESTS: [&str; 2] = [REFRESH, HYDRATE];
/// Annotation of the notifications controller: its record of sent notifications.
pub const NOTIFIED: &str = "notified.notifications.argoproj.io";
/// Annotation of kubectl.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Annotation: no application controller on the hub touches this cluster.
pub const SKIP_RECONCILE: &str = "argocd.argoproj.io/skip-reconcile";
/// Annotation on the cluster Secret: its creator.
pub const MANAGED_BY: &str = "managed-by";
/// Value of [`MANAGED_BY`].
pub const MANAGED_BY_US: &str = "argocd-agent";

/// Label of the user: never replicate this object.
pub const IGNORE_SYNC: &str = "argocd-agent.argoproj-labs.io/ignore-sync";
/// Label on a cluster Secret: its agent.
pub const AGENT_NAME: &str = "argocd-agent.argoproj-labs.io/agent-name";
/// Annotation on the AppProject of a managed cluster: that cluster.
pub const CLUSTER_PROJECT: &str = "argocd-agent.open-cluster-management.io/cluster-project";
/// Label on a cluster Secret that a principal of the Go implementation created.
pub const SELF_REGISTERED: &str = "argocd-agent.argoproj-labs.io/self-registered-cluster";
/// Label on a cluster Secret that argocd-pull-integration created: its cluster.
pub const OLDER_CLUSTER_NAME: &str = "apps.open-cluster-management.io/cluster-name";
/// Label: `cluster`, `repository` or `repo-creds`.
pub const SECRET_TYPE: &str = "argocd.argoproj.io/secret-type";
/// Value of [`SECRET_TYPE`]: access to one repository.
pub const REPOSITORY: &str = "repository";
/// Value of [`SECRET_TYPE`]: access to every repository whose URL begins like this one's.
pub const REPO_CREDS: &str = "repo-creds";
/// Selects both, and no other Secret.
pub const REPOSITORY_SELECTOR: &str = "argocd.argoproj.io/secret-type in (repository,repo-creds)";
/// Selects the cluster Secrets.
pub const CLUSTER_SELECTOR: &str = "argocd.argoproj.io/secret-type=cluster";
/// Label that Argo CD's own `ConfigMap`s carry.
pub const PART_OF: &str = "app.kubernetes.io/part-of";
/// The label, with its value, of Argo CD's programs and Services, independent of the installer.
pub const OF_ARGOCD: (&str, &str) = (PART_OF, "argocd");
/// Label with which Argo CD may track the resources of an Application.
pub const INSTANCE: &str = "app.kubernetes.io/instance";
/// Annotation with which Argo CD may track the resources of an Application.
pub const TRACKING_ID: &str = "argocd.argoproj.io/tracking-id";

/// Annotation of the agent: event id of the last sync command that it took, and the digest of its content.
pub const LAST_COMMAND: &str = "argocd-agent.open-cluster-management.io/last-command";
/// Annotation of the agent: identity of the last refresh that it took.
pub const LAST_REFRESH: &str = "argocd-agent.open-cluster-management.io/last-refresh";
/// Annotation that the principal adds on the wire: identity of a requested refresh.
pub const REFRESH_ID: &str = "argocd-agent.open-cluster-management.io/refresh-id";
/// Annotation of the agent: the annotations from the hub, so that the agent removes those that the hub removes.
pub const APPLIED_ANNOTATIONS: &str = "argocd-agent.open-cluster-management.io/applied-annotations";
/// Annotation of the user on a deleting Application: the deletion with this timestamp is confirmed.
pub const CONFIRM_DELETE: &str = "argocd-agent.open-cluster-management.io/confirm-delete";
/// Annotation of a mirror on the hub: the autonomous cluster that owns the source object.
pub const MIRRORED_FROM: &str = "argocd-agent.open-cluster-management.io/mirrored-from";

/// Label of an Event that we created on the hub: the cluster that recorded the Event of its Application.
pub const NOTED_ON: &str = "argocd-agent.open-cluster-management.io/noted-on";

/// Annotation that the principal adds on the wire: identifies the content of a Secret without revealing it.
pub const CONTENT_ID: &str = "argocd-agent.open-cluster-management.io/content-id";
/// Annotation of the agent on a shared `ConfigMap`: the hub's entries.
pub const SHARED_ENTRIES: &str = "argocd-agent.open-cluster-management.io/shared-entries";

/// Prefix of our labels and annotations.
pub const OUR_PREFIX: &str = "argocd-agent.open-cluster-management.io/";
/// Prefixes of keys that a cluster may never put on its Argo CD cluster Secret.
const RESERVED_PREFIXES: [&str; 3] = [
    "argocd.argoproj.io/",
    "argocd-agent.argoproj-labs.io/",
    OUR_PREFIX,
];

/// Whether a label or annotation has a meaning for Argo CD or for us.
pub fn is_reserved(key: &str) -> bool {
    let mut prefixes = RESERVED_PREFIXES.iter();
    is_tracking(key) || prefixes.any(|prefix| key.starts_with(prefix))
}

/// Whether a label or annotation makes an object a resource of an Application. Argo CD would prune a copy with it as one
/// that the Application's source does not have.
pub(crate) fn is_tracking(key: &str) -> bool {
    [INSTANCE, TRACKING_ID].contains(&key)
}

/// Type prefix of the conditions that the hub itself sets on its Applications.
pub const HUB_CONDITION_PREFIX: &str = "ArgoCDAgent";
/// Condition: the destination contradicts the namespace.
pub const CONDITION_CONFLICT: &str = "ArgoCDAgentConflict";
/// Condition: another Application has this name on the spoke.
pub const CONDITION_NAME_CONFLICT: &str = "ArgoCDAgentNameConflict";
/// Condition: its deletion is older than the enrolment of its cluster and waits for a confirmation.
pub const CONDITION_DELETION_UNCONFIRMED: &str = "ArgoCDAgentDeletionUnconfirmed";
/// Condition: the project does not admit it.
pub const CONDITION_NOT_ADMITTED: &str = "ArgoCDAgentNotAdmitted";

/// Condition: its repository's Secret has no project and is not shared with its cluster, or the cluster refuses it.
pub const CONDITION_REPOSITORY: &str = "ArgoCDAgentRepositoryNotShared";
/// Condition: another field manager on the spoke keeps changing fields that the hub owns.
pub const CONDITION_CONTESTED: &str = "ArgoCDAgentSpecContested";

/// Condition: a deletion or a refresh waits for a cluster that is not connected.
pub const CONDITION_DISCONNECTED: &str = "ArgoCDAgentDisconnected";
/// Condition: the cluster reports or refuses something.
pub const CONDITION_ERROR: &str = "ArgoCDAgentError";

/// Argo CD's finalizer of Applications: Argo CD deletes the resources first.
pub const RESOURCES_FINALIZER: &str = "resources-finalizer.argocd.argoproj.io";

/// The name in Argo CD of the cluster that it runs on.
pub const IN_CLUSTER: &str = "in-cluster";
/// The URL of the API server inside of every cluster.
pub const IN_CLUSTER_SERVER: &str = "https://kubernetes.default.svc";
