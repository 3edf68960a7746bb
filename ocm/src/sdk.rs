//! The add-on SDK: an author writes an [`Addon`], [`run`] does everything else.
//!
//! ```text
//!   watches ──► World ◄────────── View (for the author)
//!                │ keys: a cluster, a certificate request, the configurations
//!                ▼
//!              Queue ──► at most N reconciles at a time, one a key
//!                           cluster: observe ► plan ► apply ► report
//!                           request: check ► approve ► sign   (or an Event that says why not)
//!                           configs: hashes into the ClusterManagementAddOn
//! ```
//!
//! Reconciles look at what is, never at what happened: any of them may run at any time, and one that
//! finds nothing to change writes nothing. The status of a `ManagedClusterAddOn`, the ManagedCluster's
//! metadata and status, and the feedback in works are claims of the cluster; everything that
//! grants something is computed from the author's answers and the cluster's name.
//!
//! Pure parts: `hash`, `settled`, `registration`, `render`, `pack`, `health`,
//! `csr`, `sign`, `queue` and `reconcile`'s plan and report. The rest moves bytes.

use std::{future::Future, sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::api::ApiResource;
use serde_json::Value;

use crate::{
    api::{
        addon::{AddOnDeploymentConfigSpec, ManagedClusterAddOn, Subject},
        cluster::ManagedCluster,
        work::{ManifestCondition, ManifestConfig, ManifestWorkStatus},
    },
    condition::Verdict,
    name::{AddonName, ClusterName},
};

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

/// A cluster with the add-on switched on.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The cluster's name, which is also its namespace on the hub.
    pub name: &'a ClusterName,
    /// The cluster.
    pub cluster: &'a ManagedCluster,
    /// The add-on there, in the v1beta1 model.
    pub addon: &'a ManagedClusterAddOn,
}

/// Whether a cluster is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Yes.
    Serve,
    /// No: nothing is changed there, and `Degraded` says why.
    Hold {
        /// A word in camel case.
        reason: String,
        /// For people, with the next step.
        message: String,
    },
}

/// A kind of configuration: where its objects are on the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigKind(pub ApiResource);

impl ConfigKind {
    /// The configuration that every add-on may take.
    pub fn addon_deployment_config() -> Self {
        Self(ApiResource::erase::<crate::api::addon::AddOnDeploymentConfig>(&()))
    }
}

/// Who finds out whether the agent is healthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthMode {
    /// OCM's registration agent, by a lease that the agent renews on its cluster.
    Lease,
    /// The author, in [`Addon::conditions`].
    Customized,
}

impl HealthMode {
    /// The text in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lease => "Lease",
            Self::Customized => "Customized",
        }
    }
}

/// An identity that an agent gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Registration {
    /// A client of the hub's API server with OCM's default user and groups.
    KubeClient,
    /// A certificate of a signer of the author's own.
    CustomSigner {
        /// The signer's name, `domain/path`.
        signer_name: String,
        /// The certificate's subject: at most two groups and two units.
        subject: Subject,
    },
}

impl Registration {
    /// A custom signer with OCM's default user and groups of one cluster.
    pub fn custom_signer(
        signer_name: impl Into<String>,
        addon: &AddonName,
        cluster: &ClusterName,
    ) -> Self {
        let subject = registration::default_subject(addon, cluster);
        Self::CustomSigner {
            signer_name: signer_name.into(),
            subject,
        }
    }
}

/// What [`Addon::render`] is given.
#[derive(Clone, Copy, Debug)]
pub struct RenderInput<'a> {
    /// The cluster.
    pub target: Target<'a>,
    /// The agent's namespace on the cluster.
    pub install_namespace: &'a str,
    /// The configuration whose hash is rolled out to this cluster.
    pub config: &'a Config,
}

/// The configuration of one cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// The `AddOnDeploymentConfig`, if there is one.
    pub deployment: Option<AddOnDeploymentConfigSpec>,
    /// All configuration objects as served, in the order of the references.
    pub objects: Vec<Value>,
}

impl Config {
    /// A customized variable by name.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.deployment.as_ref()?.variable(name)
    }
}

/// What an author has rendered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    /// Whole objects. The SDK adds feedback for Deployments and `DaemonSets` and applies everything
    /// but CRDs with server-side apply.
    pub manifests: Vec<Value>,
    /// How single objects are applied and watched, where the SDK's choice does not fit.
    pub configs: Vec<ManifestConfig>,
}

impl From<Vec<Value>> for Rendered {
    fn from(manifests: Vec<Value>) -> Self {
        Self {
            manifests,
            configs: Vec::new(),
        }
    }
}

/// Why objects cannot be rendered. Shown in `ManifestApplied`; what was there stays.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RenderError {
    /// For people, with the next step.
    pub message: String,
}

/// What [`Addon::conditions`] is given.
#[derive(Clone, Copy, Debug)]
pub struct HealthInput<'a> {
    /// The cluster.
    pub target: Target<'a>,
    /// The add-on's works and what the cluster says of them.
    pub works: &'a [WorkReport],
    /// What the author's last [`Addon::render`] said, if it failed.
    pub render_error: Option<&'a RenderError>,
    /// The time.
    pub now: Timestamp,
}

impl HealthInput<'_> {
    /// When the first of the works was made.
    pub fn deployed_at(&self) -> Option<Timestamp> {
        self.works.iter().filter_map(|work| work.created).min()
    }

    /// What is known of one object on the cluster.
    pub fn object(&self, kind: &str, namespace: &str, name: &str) -> Option<&ManifestCondition> {
        let objects = self
            .works
            .iter()
            .flat_map(|work| &work.status.resource_status.manifests);
        objects.into_iter().find(|object| {
            let meta = &object.resource_meta;
            meta.kind == kind && meta.namespace == namespace && meta.name == name
        })
    }

    /// Whether a Deployment has a ready replica (or wants none); `None` if nothing is known of it.
    pub fn deployment_ready(&self, namespace: &str, name: &str) -> Option<bool> {
        let deployment = self.object("Deployment", namespace, name)?;
        deployment.status_feedback.as_ref()?;
        let (wanted, ready) = (
            deployment.integer("Replicas"),
            deployment.integer("ReadyReplicas"),
        );
        Some(wanted == 0 || ready >= 1)
    }
}

/// A work and what the cluster says of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkReport {
    /// The work's name.
    pub name: String,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// Its generation; a condition is about it only if its `observedGeneration` is the same.
    pub generation: i64,
    /// What the cluster says.
    pub status: ManifestWorkStatus,
}

/// What an author says of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// One verdict a condition. One that is no longer given vanishes with the next write, so
    /// rather say `False`.
    pub verdicts: Vec<Verdict>,
    /// When to ask again if nothing happens; for verdicts that depend on the time.
    pub recheck: Option<Duration>,
}

/// A cluster that is about to lose the add-on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// The cluster.
    pub cluster: ClusterName,
    /// How far it is.
    pub phase: LeavingPhase,
    /// How many works are left.
    pub works: usize,
}

/// How far a removal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeavingPhase {
    /// The ManagedCluster is not there or not accepted: its agent must not come in. The works stay,
    /// whatever the answer.
    NotAdmitted,
    /// The ManagedCluster is being deleted; OCM will delete the `ManagedClusterAddOn`, so the works
    /// stay for now, whatever the answer.
    ClusterDeleting,
    /// The `ManagedClusterAddOn` is being deleted but still there.
    AddonDeleting,
    /// The `ManagedClusterAddOn` is gone.
    AddonGone,
}

/// What comes next in a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The works may go.
    Proceed,
    /// The works stay; ask again after this time.
    Wait(Duration),
}

mod cache;
mod configs;
mod csr;
mod drive;
mod error;
mod event;
mod hash;
mod health;
mod metrics;
mod pack;
mod queue;
mod reconcile;
mod registration;
mod render;
mod request;
mod settled;
mod sign;
mod view;
mod watches;
mod world;

pub use self::{
    csr::Refusal,
    drive::{Setup, discover, run},
    error::Error,
    metrics::Metrics,
    sign::{SigningCa, SigningCaError},
    view::View,
};
