//! Every label, annotation, finalizer and well-known name, once.

pub mod addon;

/// API version of Applications and AppProjects.
pub const API_VERSION: &str = "argoproj.io/v1alpha1";

/// Annotation: UID of the source object; says that an object is a replica.
pub const SOURCE_UID: &str = "argocd.argoproj.io/source-uid";
/// Annotation: the principal that last wrote a replica.
pub const PRINCIPAL_UID: &str = "argocd.argoproj.io/principal-uid";
/// Annotation: `true` on a replica whose original is in the hub's Argo CD namespace, however that is called.
pub const NAMESPACE_REMAPPED: &str = "argocd.argoproj.io/namespace-remapped";
/// Annotation of the user: `recreate` or `upsert` when the source UID changes.
pub const SOURCE_UID_MISMATCH_POLICY: &str = "argocd.argoproj.io/source-uid-mismatch-policy";
/// Annotation of the user on the spoke: `always` or `never`.
pub const ADOPTION_POLICY: &str = "argocd.argoproj.io/adoption-policy";
/// Annotation of the Go principal on what it writes.
pub const LAST_UPDATED: &str = "argocd-agent.argoproj.io/last-updated";
/// Annotation: `normal` or `hard`; Argo CD takes it away when it has refreshed.
pub const REFRESH: &str = "argocd.argoproj.io/refresh";
/// Annotation: `normal`; Argo CD takes it away when it hydrates. Whoever asks for that asks for a refresh with it.
pub const HYDRATE: &str = "argocd.argoproj.io/hydrate";
/// What people and webhooks ask for once.
pub const REQUESTS: [&str; 2] = [REFRESH, HYDRATE];
/// Annotation of the notifications controller: what it has already sent.
pub const NOTIFIED: &str = "notified.notifications.argoproj.io";
/// Annotation of kubectl.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Annotation: no application controller on the hub touches this cluster.
pub const SKIP_RECONCILE: &str = "argocd.argoproj.io/skip-reconcile";
/// Annotation on the cluster Secret: who made it.
pub const MANAGED_BY: &str = "managed-by";
/// Value of [`MANAGED_BY`].
pub const MANAGED_BY_US: &str = "argocd-agent";

/// Label of the user: never replicate this object.
pub const IGNORE_SYNC: &str = "argocd-agent.argoproj-labs.io/ignore-sync";
/// Label on a cluster Secret: its agent.
pub const AGENT_NAME: &str = "argocd-agent.argoproj-labs.io/agent-name";
/// Annotation on the AppProject that was made for a managed cluster: that cluster.
pub const CLUSTER_PROJECT: &str = "argocd-agent.open-cluster-management.io/cluster-project";
/// Label on a cluster Secret that a principal of the Go implementation made for itself.
pub const SELF_REGISTERED: &str = "argocd-agent.argoproj-labs.io/self-registered-cluster";
/// Label on a cluster Secret that argocd-pull-integration made: its cluster.
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
/// Label by which Argo CD may track what belongs to an Application.
pub const INSTANCE: &str = "app.kubernetes.io/instance";
/// Annotation by which Argo CD may track what belongs to an Application.
pub const TRACKING_ID: &str = "argocd.argoproj.io/tracking-id";

/// Annotation of the agent: event id of the last sync command it took, and the digest of its content.
pub const LAST_COMMAND: &str = "argocd-agent.open-cluster-management.io/last-command";
/// Annotation of the agent: identity of the last refresh it took.
pub const LAST_REFRESH: &str = "argocd-agent.open-cluster-management.io/last-refresh";
/// Annotation that the principal adds on the wire: identity of a refresh that is asked for.
pub const REFRESH_ID: &str = "argocd-agent.open-cluster-management.io/refresh-id";
/// Annotation of the agent: the annotations that came from the hub, so that those taken away there go.
pub const APPLIED_ANNOTATIONS: &str = "argocd-agent.open-cluster-management.io/applied-annotations";
/// Annotation on the hub: the autonomous cluster whose object this one mirrors. What lacks it is never taken for a mirror.
pub const MIRRORED_FROM: &str = "argocd-agent.open-cluster-management.io/mirrored-from";

/// Label of an Event on the hub: the cluster that noted it of its Application. What lacks it is none that we made.
pub const NOTED_ON: &str = "argocd-agent.open-cluster-management.io/noted-on";

/// Annotation that the principal adds on the wire: names this very content of a Secret without telling anything of it.
pub const CONTENT_ID: &str = "argocd-agent.open-cluster-management.io/content-id";
/// Annotation of the agent on a `ConfigMap` that hub and spoke fill together: which entries are the hub's.
pub const SHARED_ENTRIES: &str = "argocd-agent.open-cluster-management.io/shared-entries";

/// Prefix of our labels and annotations.
pub const OUR_PREFIX: &str = "argocd-agent.open-cluster-management.io/";
/// Prefixes of keys that a cluster may never put on its Argo CD cluster Secret.
pub const RESERVED_LABEL_PREFIXES: [&str; 3] = [
    "argocd.argoproj.io/",
    "argocd-agent.argoproj-labs.io/",
    OUR_PREFIX,
];

/// Type prefix of the conditions that the hub itself puts on its Applications.
pub const HUB_CONDITION_PREFIX: &str = "ArgoCDAgent";
/// Condition: the destination contradicts the namespace.
pub const CONDITION_CONFLICT: &str = "ArgoCDAgentConflict";
/// Condition: another Application has this name on the spoke.
pub const CONDITION_NAME_CONFLICT: &str = "ArgoCDAgentNameConflict";
/// Condition: the project does not admit it.
pub const CONDITION_NOT_ADMITTED: &str = "ArgoCDAgentNotAdmitted";

/// Condition: its repository's Secret has no project and is not shared with its cluster, or the cluster refuses it.
pub const CONDITION_REPOSITORY: &str = "ArgoCDAgentRepositoryNotShared";
/// Condition: somebody on the spoke keeps changing what the hub owns.
pub const CONDITION_CONTESTED: &str = "ArgoCDAgentSpecContested";

/// Condition: a deletion waits for a cluster that is not connected, or a refresh was not done because of that.
pub const CONDITION_DISCONNECTED: &str = "ArgoCDAgentDisconnected";
/// Condition: the cluster reports or refuses something.
pub const CONDITION_ERROR: &str = "ArgoCDAgentError";

/// Argo CD's finalizer of Applications: resources go first.
pub const RESOURCES_FINALIZER: &str = "resources-finalizer.argocd.argoproj.io";

/// What a cluster's Argo CD calls itself.
pub const IN_CLUSTER: &str = "in-cluster";
/// Its API server, as every cluster calls it from inside.
pub const IN_CLUSTER_SERVER: &str = "https://kubernetes.default.svc";
