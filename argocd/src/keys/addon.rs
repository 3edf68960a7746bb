//! Names of the add-on that its hub program and its command line both use.

/// The add-on: name of its `ClusterManagementAddOn` and of every `ManagedClusterAddOn`.
pub const ADDON: &str = "argocd-agent-addon";
/// The hub program's Deployment.
pub const MANAGER: &str = "argocd-agent-addon-manager";
/// The Service of the principal in the hub program's namespace.
pub const PRINCIPAL_SERVICE: &str = "argocd-agent-principal";
/// The Service that Argo CD on the hub takes for its redis.
pub const REDIS_PROXY_SERVICE: &str = "argocd-agent-redis-proxy";

/// The agent's Deployment on a cluster.
pub const AGENT: &str = "argocd-agent-addon-agent";
/// The `ConfigMap` beside it with those whom it believes, in `ca.crt`.
pub const AGENT_TRUST: &str = "argocd-agent-addon-ca";

/// Label on a ManagedCluster: opts in, with the mode as its value. Annotation on a
/// `ManagedClusterAddOn`: the mode that was recorded for it.
pub const MODE: &str = "argocd-agent.open-cluster-management.io/mode";
/// Annotation on a `ManagedClusterAddOn` by which a person revokes the agent's certificates: its session
/// ends at once, and it stays out until the annotation is gone. Any value.
pub const REVOKED: &str = "argocd-agent.open-cluster-management.io/revoked";
/// Annotation on a `ManagedClusterAddOn` by which a person has the agent's key changed: certificates that
/// were issued under another value do not count any more. Any value.
pub const REKEY: &str = "argocd-agent.open-cluster-management.io/rekey";

/// Annotation on a `ManagedClusterAddOn`: whose Argo CD the cluster has, as it was decided once: `brought`,
/// `brought-without-crds` or `found`.
pub const ARGOCD: &str = "argocd-agent.open-cluster-management.io/argocd";
/// Annotation beside it: the namespace on the cluster that the Argo CD was brought into, which it does not leave.
pub const ARGOCD_PLACE: &str = "argocd-agent.open-cluster-management.io/argocd-namespace";
/// Label on what the add-on has brought of Argo CD to a cluster.
pub const BROUGHT: &str = "argocd-agent.open-cluster-management.io/brought";
/// What the definitions say of Argo CD's kinds that the add-on has brought to a cluster. It stands in the schema, so
/// whoever applies a definition of their own takes it out; and everybody who knows the API can read it.
pub const INSTALLED_KIND: &str =
    "Brought by argocd-agent-addon as it is on the hub, without descriptions.";

/// The Secret of the CA.
pub const CA_SECRET: &str = "argocd-agent-ca";
/// The Secret of the principal's serving certificate.
pub const PRINCIPAL_SECRET: &str = "argocd-agent-principal-tls";
/// The Secret of the resource proxy's serving certificate.
pub const RESOURCE_PROXY_SECRET: &str = "argocd-agent-resource-proxy-tls";
/// Annotation on the CA's Secret by which a person asks for another CA; any value that is not the
/// one taken up last.
pub const ROTATE: &str = "argocd-agent.open-cluster-management.io/rotate";
/// Annotation on the CA's Secret: the last value of [`ROTATE`] that was taken up.
pub const ROTATE_TAKEN: &str = "argocd-agent.open-cluster-management.io/rotate-taken";
/// Annotation on the CA's Secret: since when a rotation is where it is.
pub const ROTATING_SINCE: &str = "argocd-agent.open-cluster-management.io/rotating-since";
/// In the CA's Secret: the next CA while it is not the one that signs.
pub const NEXT_CA: &str = "next.crt";
