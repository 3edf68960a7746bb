//! What the SDK hands to an author's answers, and what it gets back.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::Target;
use crate::{
    api::{
        addon::AddOnDeploymentConfigSpec,
        work::{ManifestCondition, ManifestConfig, ManifestWorkStatus},
    },
    condition::Verdict,
    name::ClusterName,
};

/// What [`Addon::render`](super::Addon::render) is given.
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
    ///
    /// Annotations of OCM on an object are honoured: `deletion-orphan`, `addon-pre-delete`, and in
    /// hosted mode `hosted-manifest-location`, see [`crate::keys`].
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

/// What [`Addon::conditions`](super::Addon::conditions) is given.
#[derive(Clone, Copy, Debug)]
pub struct HealthInput<'a> {
    /// The cluster.
    pub target: Target<'a>,
    /// The add-on's works and what the cluster says of them.
    pub works: &'a [WorkReport],
    /// Since when a work is on its way out that has to be gone before the add-on's works are as they should be: one of an
    /// earlier life of the add-on, or one that somebody has deleted. It is not among the works.
    pub going_since: Option<Timestamp>,
    /// What the author's last [`Addon::render`](super::Addon::render) said, if it failed.
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
    /// The namespace on the hub, which says on which cluster its objects are.
    pub namespace: String,
    /// Whether it is on the cluster that hosts the agent (hosted mode).
    pub hosted: bool,
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
    /// `Available` is not known yet and will be, when asked again at the latest. The first good news
    /// of the works then waits for it, and the two share a write.
    pub pending: bool,
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
    /// The author [refuses](super::Admission::Refuse) the cluster; the `ManagedClusterAddOn` stays.
    Refused,
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
