//! What an add-on author writes.

use std::{future::Future, sync::Arc, time::Duration};

use k8s_openapi::api::rbac::v1::PolicyRule;

use super::{
    Admission, ConfigKind, Health, HealthInput, HealthMode, Hosts, Leaving, Registration, Removal,
    RenderError, RenderInput, Rendered, SigningCa, Target,
};
use crate::name::{AddonName, ClusterName};

/// What goes wrong inside an author's hook; it is logged, shown and tried again.
pub type HookError = Box<dyn std::error::Error + Send + Sync>;

/// What an add-on author writes.
///
/// The answers that grant something ([`registrations`](Self::registrations),
/// [`signing_ca`](Self::signing_ca)) must come from trusted input: the target's name and the
/// author's own settings, not the `ManagedClusterAddOn`'s status, and with care the ManagedCluster's
/// labels, annotations and claims, all of which a cluster may write itself.
pub trait Addon: Send + Sync + 'static {
    /// The add-on's name, the same for the whole life of the process.
    fn name(&self) -> &AddonName;

    /// Kinds of configuration that the add-on understands.
    fn supported_configs(&self) -> Vec<ConfigKind> {
        vec![ConfigKind::addon_deployment_config()]
    }

    /// Who finds out whether the agent is healthy.
    ///
    /// With [`HealthMode::Lease`] a verdict on `Available` from
    /// [`conditions`](Self::conditions) is dropped.
    fn health_mode(&self) -> HealthMode {
        HealthMode::Customized
    }

    /// Whether this cluster is served at all.
    ///
    /// A held cluster keeps what it has, and its `Degraded` says why.
    fn admit(&self, target: Target<'_>) -> Admission {
        let Target { .. } = target;
        Admission::Serve
    }

    /// Identities that the agent on this cluster gets.
    fn registrations(&self, target: Target<'_>) -> Vec<Registration>;

    /// What an agent with a [`Registration::KubeClient`] may do in its cluster's namespace on the
    /// hub, the same for the whole life of the process.
    ///
    /// The SDK keeps a Role and a `RoleBinding` there, for this cluster's agent alone. The process
    /// needs these rights itself (or `escalate` and `bind`), and may list and watch both kinds.
    fn hub_permissions(&self) -> Vec<PolicyRule> {
        Vec::new()
    }

    /// Which clusters may host agents of others.
    fn hosts(&self) -> Hosts {
        Hosts::None
    }

    /// How long hooks may take before the add-on goes without them. Counted from the deletion.
    ///
    /// Hooks are Jobs and Pods among the rendered objects with the annotation
    /// [`PRE_DELETE`](crate::keys::PRE_DELETE). A cluster that is lost cannot run them.
    fn hook_deadline(&self) -> Duration {
        Duration::from_mins(10)
    }

    /// Custom signers that nobody but this add-on signs for, the same for the whole life of the process.
    ///
    /// A request to one of them that lacks the add-on's label is watched, too: it stays pending, and an
    /// Event on it says what is missing. Without a name here nobody would say anything.
    fn own_signers(&self) -> Vec<String> {
        Vec::new()
    }

    /// The CA that signs for one of the custom signers named in a registration.
    ///
    /// `None` means not now: the request waits and is looked at again.
    fn signing_ca(&self, signer: &str) -> Option<Arc<SigningCa>>;

    /// How long a certificate of a custom signer lives at most.
    fn certificate_lifetime(&self) -> Duration {
        Duration::from_hours(720)
    }

    /// Does on the hub what the cluster needs before its works (a namespace, a Secret, a list of who
    /// may connect). Part of every reconcile of a served cluster, so it must be cheap when all is done.
    fn enrolled(&self, target: Target<'_>) -> impl Future<Output = Result<(), HookError>> + Send {
        let Target { .. } = target;
        async { Ok(()) }
    }

    /// The objects for one cluster. Pure: the same input gives the same objects in the same order.
    fn render(&self, input: RenderInput<'_>) -> Result<Rendered, RenderError>;

    /// What the author says of the cluster: `Available`, `Degraded` and conditions of its own.
    fn conditions(&self, input: HealthInput<'_>) -> Health;

    /// The cluster is about to lose the add-on; nothing has been removed yet by the SDK.
    ///
    /// Called (again and again) from the moment the `ManagedClusterAddOn` or the ManagedCluster is
    /// deleting, or the former is gone. The works go only after [`Removal::Proceed`]; when the
    /// `ManagedClusterAddOn` is already gone the garbage collector may be quicker.
    fn leaving(
        &self,
        leaving: &Leaving,
    ) -> impl Future<Output = Result<Removal, HookError>> + Send {
        let Leaving { .. } = leaving;
        async { Ok(Removal::Proceed) }
    }

    /// The `ManagedClusterAddOn` and all works of this cluster are gone; the author cleans up.
    ///
    /// Called again after a failure, after a restart if something woke the cluster up, and whenever
    /// the cluster is woken while it has no add-on.
    fn left(&self, cluster: &ClusterName) -> impl Future<Output = Result<(), HookError>> + Send {
        let _ = cluster;
        async { Ok(()) }
    }
}
