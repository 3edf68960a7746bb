//! Parameters and results of the methods of [`Addon`](super::Addon).

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

/// The input of [`Addon::render`](super::Addon::render).
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

/// The result of [`Addon::render`](super::Addon::render).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    /// Whole objects. The SDK adds feedback for Deployments and `DaemonSets` and applies everything
    /// but CRDs with server-side apply.
    ///
    /// Annotations of OCM on an object are honoured: `deletion-orphan`, `addon-pre-delete`, and in
    /// hosted mode `hosted-manifest-location`, see [`crate::keys`].
    pub manifests: Vec<Value>,
    /// How to apply and watch single objects, where the SDK's defaults do not fit.
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

/// Why objects cannot be rendered. `ManifestApplied` shows it; the deployed objects stay.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RenderError {
    /// For people, with the next step.
    pub message: String,
}

/// The input of [`Addon::conditions`](super::Addon::conditions).
#[derive(Clone, Copy, Debug)]
pub struct HealthInput<'a> {
    /// The cluster.
    pub target: Target<'a>,
    /// The add-on's works and the cluster's reports about them.
    pub works: &'a [WorkReport],
    /// Since when the add-on waits for the removal of a work: one of an earlier `ManagedClusterAddOn`, or one that another
    /// client has deleted. It is not among `works`.
    pub going_since: Option<Timestamp>,
    /// The error of the last [`Addon::render`](super::Addon::render), if it failed.
    pub render_error: Option<&'a RenderError>,
    /// The time.
    pub now: Timestamp,
}

impl HealthInput<'_> {
    /// When the first of the works was created.
    pub fn deployed_at(&self) -> Option<Timestamp> {
        self.works.iter().filter_map(|work| work.created).min()
    }

    /// The reported state of one object on the cluster.
    pub fn object(&self, kind: &str, namespace: &str, name: &str) -> Option<&ManifestCondition> {
        let mut works = self.works.iter();
        works.find_map(|work| work.object(kind, namespace, name))
    }

    /// Whether a Deployment has a ready replica (or wants none); `None` if its state is unknown.
    pub fn deployment_ready(&self, namespace: &str, name: &str) -> Option<bool> {
        let deployment = self.object("Deployment", namespace, name)?;
        deployment.status_feedback.as_ref()?;
        Some(is_deployment_ready(deployment))
    }
}

/// Whether a Deployment has a ready replica, or wants none. The cluster does not report values that are zero.
pub(crate) fn is_deployment_ready(deployment: &ManifestCondition) -> bool {
    deployment.integer("Replicas") == 0 || deployment.integer("ReadyReplicas") >= 1
}

/// A work and the cluster's report about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkReport {
    /// The work's name.
    pub name: String,
    /// The namespace on the hub, which is the name of the cluster with its objects.
    pub namespace: String,
    /// Whether it is on the cluster that hosts the agent (hosted mode).
    pub hosted: bool,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Its generation; a condition is about it only if its `observedGeneration` is the same.
    pub generation: i64,
    /// The report of the cluster.
    pub status: ManifestWorkStatus,
}

impl WorkReport {
    /// The reported states of its objects.
    pub(crate) fn objects(&self) -> &[ManifestCondition] {
        &self.status.resource_status.manifests
    }

    /// The reported state of one object.
    pub(crate) fn object(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Option<&ManifestCondition> {
        self.objects().iter().find(|object| {
            let meta = &object.resource_meta;
            meta.kind == kind && meta.namespace == namespace && meta.name == name
        })
    }
}

/// The result of [`Addon::conditions`](super::Addon::conditions).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// One verdict per condition. The next write removes a condition without a verdict, so return
    /// `False` instead of omitting one.
    pub verdicts: Vec<Verdict>,
    /// When to reconcile again without an event; for verdicts that depend on the time.
    pub recheck: Option<Duration>,
    /// `Available` is not known yet but will be at the recheck. The first success of the works then
    /// waits for it, so that both share a write.
    pub pending: bool,
}

/// The input of [`Addon::before_removal`](super::Addon::before_removal).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovalInput {
    /// The cluster.
    pub cluster: ClusterName,
    /// The progress of the removal.
    pub phase: RemovalPhase,
    /// The number of remaining works.
    pub works: usize,
}

/// The progress of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalPhase {
    /// The ManagedCluster does not exist or is not accepted: its agent must not connect. The works stay
    /// even after [`Removal::Proceed`].
    NotAdmitted,
    /// The author [refuses](super::Admission::Refuse) the cluster; the `ManagedClusterAddOn` stays.
    Refused,
    /// The ManagedCluster is being deleted; OCM will delete the `ManagedClusterAddOn`. The works stay
    /// until then, even after [`Removal::Proceed`].
    ClusterDeleting,
    /// The `ManagedClusterAddOn` is being deleted but still exists.
    AddonDeleting,
    /// The `ManagedClusterAddOn` is gone.
    AddonGone,
}

/// The next step of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The SDK may delete the works.
    Proceed,
    /// The works stay; the SDK calls again after this time.
    Wait(Duration),
}
