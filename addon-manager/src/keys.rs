//! Names, labels and annotations of this add-on that Kubernetes sees, each spelled once.

/// The add-on: name of its `ClusterManagementAddOn` and of every `ManagedClusterAddOn`.
pub const ADDON: &str = "argocd-agent-addon";
/// The custom signer of the agents' certificates.
pub const SIGNER: &str = "open-cluster-management.io/argocd-agent-addon";
/// Label on a ManagedCluster: opts in, with the mode as its value.
/// Annotation on a `ManagedClusterAddOn`: the mode that was recorded for it.
pub const MODE: &str = "argocd-agent.open-cluster-management.io/mode";
/// Annotation on a `ManagedClusterAddOn` that the manager made because of the label.
pub const MADE_FOR_LABEL: &str = "argocd-agent.open-cluster-management.io/made-for-label";
/// Annotation on a `ManagedClusterAddOn` by which a person allows a change of mode; its value is the
/// mode to change to.
pub const CONFIRM_MODE: &str = "argocd-agent.open-cluster-management.io/confirm-mode";
/// Annotation on a `ManagedClusterAddOn` by which a person allows a large deletion that was held; its value is
/// the digest that the condition names.
pub const CONFIRM_DELETE: &str = "argocd-agent.open-cluster-management.io/confirm-delete";
/// Label on a cluster Secret that an agent got by registering itself; upstream's.
pub const SELF_REGISTERED: &str = "argocd-agent.argoproj-labs.io/self-registered-cluster";
/// Annotation on a `ManagedClusterAddOn` by which a person revokes the agent's certificates: its session
/// ends at once, and it stays out until the annotation is gone. Any value.
pub const REVOKED: &str = "argocd-agent.open-cluster-management.io/revoked";
/// Annotation on a `ManagedClusterAddOn` by which a person has the agent's key changed: certificates that
/// were issued under another value do not count any more. Any value.
pub const REKEY: &str = "argocd-agent.open-cluster-management.io/rekey";
/// Label on the pod that leads: the Service of the principal selects it.
pub const ACTIVE: &str = "argocd-agent.open-cluster-management.io/active";
/// Who we are to server-side apply and in Events.
pub const FIELD_MANAGER: &str = "argocd-agent-addon-manager";
/// The lease by which one replica leads.
pub const LEASE: &str = "argocd-agent-addon-manager";
/// The Service of the principal in our own namespace.
pub const PRINCIPAL_SERVICE: &str = "argocd-agent-principal";
