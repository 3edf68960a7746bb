//! Names, labels and annotations of this add-on in Kubernetes, each spelled once. Those that the command line also uses
//! are in [`argocd::keys::addon`].

pub use argocd::keys::addon::{
    ADDON, ARGOCD, ARGOCD_PLACE, FLEET_GUARD, IDENTITY, INSTALLED, MANAGER, MODE,
    PRINCIPAL_SERVICE, REKEY, REPLICA_OF, REVOKED, UI_SECRET, UI_TOKEN, VERSION,
};

/// Label by which the cluster backup of Red Hat Advanced Cluster Management selects Secrets and `ConfigMap`s. Any value.
pub const BACKUP: &str = "cluster.open-cluster-management.io/backup";

/// The custom signer of the agents' certificates.
pub const SIGNER: &str = "open-cluster-management.io/argocd-agent-addon";
/// Annotation on a `ManagedClusterAddOn` that the manager made because of the label.
pub const MADE_FOR_LABEL: &str = "argocd-agent.open-cluster-management.io/made-for-label";
/// Annotation on a `ManagedClusterAddOn` whose label is gone: since when its removal waits until the cluster has applied
/// `KEEP_ARGOCD`.
pub const KEEPING_SINCE: &str = "argocd-agent.open-cluster-management.io/keeping-argocd-since";
/// Annotation on a `ManagedClusterAddOn` by which a user confirms a change of mode; its value is the new mode.
pub const CONFIRM_MODE: &str = "argocd-agent.open-cluster-management.io/confirm-mode";
/// Annotation on a `ManagedClusterAddOn` by which a user confirms a blocked deletion of many objects; its value is the
/// digest that the condition names.
pub const CONFIRM_DELETE: &str = "argocd-agent.open-cluster-management.io/confirm-delete";
/// Label on the cluster Secret of a self-registered agent; upstream's.
pub const SELF_REGISTERED: &str = "argocd-agent.argoproj-labs.io/self-registered-cluster";
/// Label on the leader's pod: the Service of the principal selects it.
pub const ACTIVE: &str = "argocd-agent.open-cluster-management.io/active";
/// Annotation on the Pods of an Argo CD that we installed: the digest of the forward proxy's certificates that they trust.
pub const PROXY_CA_DIGEST: &str = "argocd-agent.open-cluster-management.io/proxy-ca";
/// Our name in server-side apply and in Events.
pub const FIELD_MANAGER: &str = "argocd-agent-addon-manager";
/// The lease of the leader.
pub const LEASE: &str = "argocd-agent-addon-manager";
