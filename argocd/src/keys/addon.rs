//! Names of the add-on that its hub program and its command line both use.

/// The add-on: name of its `ClusterManagementAddOn` and of every `ManagedClusterAddOn`.
pub const ADDON: &str = "argocd-agent-addon";
/// The hub program's Deployment.
pub const MANAGER: &str = "argocd-agent-addon-manager";
/// Label on the Lease of each replica of the hub program, with [`MANAGER`] as its value. The leader's Lease has the name
/// [`MANAGER`] and no label.
pub const REPLICA_OF: &str = "argocd-agent.open-cluster-management.io/replica-of";
/// Annotation on the Lease of a replica: the version of its program.
pub const VERSION: &str = "argocd-agent.open-cluster-management.io/version";
/// The Service of the principal in the hub program's namespace.
pub const PRINCIPAL_SERVICE: &str = "argocd-agent-principal";
/// The Service that Argo CD on the hub uses as its redis.
pub const REDIS_PROXY_SERVICE: &str = "argocd-agent-redis-proxy";
/// The Service of the data of the pages in Argo CD's UI, in the hub program's namespace.
pub const UI_SERVICE: &str = "argocd-agent-addon-ui";
/// The Secret in the hub's Argo CD namespace with the token of these pages, by which the hub program knows the requests of
/// argocd-server.
pub const UI_SECRET: &str = "argocd-agent-addon-ui";
/// The key of [`UI_SECRET`] with the token.
pub const UI_TOKEN: &str = "token";
/// The header of a request with that token.
pub const UI_TOKEN_HEADER: &str = "Argocd-Agent-Token";
/// The port of the hub program and of [`UI_SERVICE`] for the data of these pages.
pub const UI_PORT: u16 = 8081;
/// The `ConfigMap` in the hub's Argo CD namespace with the JavaScript of these pages.
pub const UI_EXTENSION: &str = "argocd-agent-addon-ui-extension";
/// The proxy extension of argocd-server for the data of one Application.
pub const APPLICATION_EXTENSION: &str = "argocd-agent";
/// The proxy extension of argocd-server for the data of the fleet; and, in the hub's Argo CD namespace, the Application for
/// which it authorises these requests, and the `AppProject` of that.
pub const FLEET_GUARD: &str = "argocd-agent-fleet";

/// The agent's Deployment on a cluster.
pub const AGENT: &str = "argocd-agent-addon-agent";
/// The `ConfigMap` with the CA certificates that the agent trusts, in `ca.crt`.
pub const AGENT_TRUST: &str = "argocd-agent-addon-ca";

/// Label on a ManagedCluster: opts in, with the mode as its value. Annotation on a
/// `ManagedClusterAddOn`: the recorded mode.
pub const MODE: &str = "argocd-agent.open-cluster-management.io/mode";
/// Annotation on a `ManagedClusterAddOn` with which an administrator revokes the agent's certificates: its session
/// ends at once, and the principal rejects it until the annotation is removed. Any value.
pub const REVOKED: &str = "argocd-agent.open-cluster-management.io/revoked";
/// Annotation on a `ManagedClusterAddOn` with which an administrator replaces the agent's key: certificates that were
/// issued under another value are invalid. Any value.
pub const REKEY: &str = "argocd-agent.open-cluster-management.io/rekey";

/// Annotation on a `ManagedClusterAddOn`: the recorded decision about the cluster's Argo CD: `brought` (installed by
/// the add-on), `brought-without-crds` or `found`.
pub const ARGOCD: &str = "argocd-agent.open-cluster-management.io/argocd";
/// Annotation on a `ManagedClusterAddOn`: the fixed namespace of the Argo CD that the add-on installed.
pub const ARGOCD_PLACE: &str = "argocd-agent.open-cluster-management.io/argocd-namespace";
/// Label on the objects of Argo CD that the add-on installed on a cluster.
pub const INSTALLED: &str = "argocd-agent.open-cluster-management.io/brought";
/// The description of the CRDs of Argo CD that the add-on installed on a cluster. It is in the schema, so a user who
/// applies another CRD removes it, and every client that may read the API can see it.
pub const INSTALLED_KIND: &str =
    "Brought by argocd-agent-addon as it is on the hub, without descriptions.";

/// Annotation on the object with the settings of the hub's argocd-server: the values that `argocd-agentctl hub setup` found
/// and those that it set, as JSON.
pub const HUB_SETUP: &str = "argocd-agent.open-cluster-management.io/hub-setup";

/// The `ConfigMap` with the principal's identity in Argo CD's namespace on the hub; upstream's name.
pub const IDENTITY: &str = "argocd-agent-principal-identity";
/// The Secret of the CA.
pub const CA_SECRET: &str = "argocd-agent-ca";
/// The Secret of the principal's serving certificate.
pub const PRINCIPAL_SECRET: &str = "argocd-agent-principal-tls";
/// The Secret of the resource proxy's serving certificate.
pub const RESOURCE_PROXY_SECRET: &str = "argocd-agent-resource-proxy-tls";
/// Annotation on the CA's Secret with which an administrator requests another CA; any value other than the last
/// handled one.
pub const ROTATE: &str = "argocd-agent.open-cluster-management.io/rotate";
/// Annotation on the CA's Secret: the last handled value of [`ROTATE`].
pub const ROTATE_TAKEN: &str = "argocd-agent.open-cluster-management.io/rotate-taken";
/// Annotation on the CA's Secret: the start of the current stage of a rotation.
pub const ROTATING_SINCE: &str = "argocd-agent.open-cluster-management.io/rotating-since";
/// Key of the CA's Secret: the next CA, until it signs.
pub const NEXT_CA: &str = "next.crt";
