//! The trait that an add-on author implements.

use std::{future::Future, sync::Arc, time::Duration};

use k8s_openapi::api::rbac::v1::PolicyRule;

use super::{
    Admission, ConfigKind, Health, HealthInput, HealthMode, Hosts, Registration, Removal,
    RemovalInput, RenderError, RenderInput, Rendered, SigningCa, Target,
};
use crate::name::{AddonName, ClusterName};

/// An error of an author's method; the SDK logs and reports it, and retries.
pub type HookError = Box<dyn std::error::Error + Send + Sync>;

/// An add-on: the SDK calls these methods in its reconciles.
///
/// The methods that grant access ([`registrations`](Self::registrations),
/// [`signing_ca`](Self::signing_ca)) must decide by trusted input: the target's name and the author's
/// own settings. A cluster may write the `ManagedClusterAddOn`'s status and the ManagedCluster's labels,
/// annotations and claims itself: never use the former, and the latter only with care.
pub trait Addon: Send + Sync + 'static {
    /// The add-on's name, the same for the whole life of the process.
    fn name(&self) -> &AddonName;

    /// Kinds of configuration that the add-on understands.
    fn supported_configs(&self) -> Vec<ConfigKind> {
        vec![ConfigKind::addon_deployment_config()]
    }

    /// Which component checks the health of the agent.
    ///
    /// With [`HealthMode::Lease`] the SDK ignores `Available` in the result of
    /// [`conditions`](Self::conditions).
    fn health_mode(&self) -> HealthMode {
        HealthMode::Customized
    }

    /// Whether the add-on serves this cluster.
    ///
    /// With [`Admission::Hold`] the cluster keeps its objects, and `Degraded` has the reason.
    fn admit(&self, target: Target<'_>) -> Admission {
        let Target { .. } = target;
        Admission::Serve
    }

    /// The identities of the agent on this cluster.
    fn registrations(&self, target: Target<'_>) -> Vec<Registration>;

    /// The permissions of an agent with a [`Registration::KubeClient`] in its cluster's namespace on the
    /// hub, the same for the whole life of the process.
    ///
    /// The SDK keeps a Role and a `RoleBinding` there, for this cluster's agent alone. The process
    /// needs these permissions itself (or `escalate` and `bind`), and list and watch for both kinds.
    fn hub_permissions(&self) -> Vec<PolicyRule> {
        Vec::new()
    }

    /// The clusters that may host agents of others (hosted mode).
    fn hosts(&self) -> Hosts {
        Hosts::None
    }

    /// How long pre-delete hooks may take, from the deletion; then the SDK removes the add-on without them.
    ///
    /// Hooks are rendered Jobs and Pods with the annotation [`PRE_DELETE`](crate::keys::PRE_DELETE). A
    /// lost cluster cannot run them.
    fn hook_deadline(&self) -> Duration {
        Duration::from_mins(10)
    }

    /// Custom signers that belong to this add-on alone, the same for the whole life of the process.
    ///
    /// The SDK also watches requests to these signers without the add-on's label. They stay pending, and
    /// an Event on each names the missing label.
    fn own_signers(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether requests of clusters that joined with OCM's registration driver `awsirsa` count, the same for the whole life
    /// of the process.
    ///
    /// The user of such a cluster is its name, and its only group is `open-cluster-management:<cluster>`. Neither begins with
    /// `system:`, so another source of identities on the hub could issue both: accept them only as a setting of
    /// the administrator. The Event on a refused request names the flag `--accept-awsirsa`.
    fn accepts_awsirsa(&self) -> bool {
        false
    }

    /// The CA of a custom signer that a registration names.
    ///
    /// `None` means that the CA is not available yet: the SDK retries the request.
    fn signing_ca(&self, signer: &str) -> Option<Arc<SigningCa>>;

    /// The longest validity of a certificate of a custom signer.
    fn certificate_lifetime(&self) -> Duration {
        Duration::from_hours(720)
    }

    /// Creates the objects on the hub that the cluster needs before its works (a namespace, a Secret, an
    /// entry in a list). Every reconcile of a served cluster calls it, so a no-op must be cheap.
    fn prepare_hub(
        &self,
        target: Target<'_>,
    ) -> impl Future<Output = Result<(), HookError>> + Send {
        let Target { .. } = target;
        async { Ok(()) }
    }

    /// The objects for one cluster. Pure: the same input gives the same objects in the same order.
    fn render(&self, input: RenderInput<'_>) -> Result<Rendered, RenderError>;

    /// The conditions of the add-on on this cluster: `Available`, `Degraded` and the author's own types.
    fn conditions(&self, input: HealthInput<'_>) -> Health;

    /// Called before the SDK removes the add-on from a cluster.
    ///
    /// Each reconcile calls it while the `ManagedClusterAddOn` or the ManagedCluster is being deleted, or
    /// the former is gone. The SDK deletes the works only after [`Removal::Proceed`]; when the
    /// `ManagedClusterAddOn` is already gone, the garbage collector may delete them earlier.
    fn before_removal(
        &self,
        input: &RemovalInput,
    ) -> impl Future<Output = Result<Removal, HookError>> + Send {
        let RemovalInput { .. } = input;
        async { Ok(Removal::Proceed) }
    }

    /// Cleans up after all works of this cluster are gone, and the `ManagedClusterAddOn` too unless the
    /// author [refuses](Admission::Refuse) the cluster.
    ///
    /// Every reconcile of a cluster without the add-on calls it, so it must be idempotent.
    fn after_removal(
        &self,
        cluster: &ClusterName,
    ) -> impl Future<Output = Result<(), HookError>> + Send {
        let _ = cluster;
        async { Ok(()) }
    }
}
