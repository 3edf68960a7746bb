//! How one Application stands, in a record that is small enough to keep for each of 20,000. Pure.

use std::sync::Arc;

use argocd::{
    Application,
    keys::HUB_CONDITION_PREFIX,
    routing::{Clusters, RoutingSettings, route},
};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::Value;

use crate::{
    comparison::is_confirmed,
    object::{app_conditions, text},
    writers::wanted_since,
};

/// How long Argo CD on a cluster may take for a comparison before the Application needs attention.
const LAG_LIMIT: SignedDuration = SignedDuration::from_mins(15);

/// How one Application of a cluster stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The cluster for which it is counted. A caller that keeps many of these can share one name.
    pub cluster: Arc<str>,
    /// Its status of the sync.
    pub sync: SyncStatus,
    /// Its health.
    pub health: HealthStatus,
    /// Whether it has a condition of ours: not delivered, or something is in the way.
    pub troubled: bool,
    /// Whether the cluster's Argo CD has not compared with it as it is now; never if it is troubled.
    pub behind: bool,
    /// The last change of its spec, if it is behind and that is known.
    pub behind_since: Option<Timestamp>,
}

impl Standing {
    /// That of an Application of the hub; none if it is counted for no cluster.
    pub fn of(
        application: &Value,
        clusters: &Clusters,
        settings: &RoutingSettings,
    ) -> Option<Self> {
        let cluster = belongs_to(application, clusters, settings)?;
        Some(Self::counted_for(cluster.into(), application))
    }

    /// That of an Application of the hub, counted for this cluster.
    pub fn counted_for(cluster: Arc<str>, application: &Value) -> Self {
        let troubled = has_trouble(application);
        let behind = !troubled && is_behind(application);
        Self {
            cluster,
            sync: SyncStatus::of(text(application, "/status/sync/status")),
            health: HealthStatus::of(text(application, "/status/health/status")),
            troubled,
            behind,
            behind_since: behind.then(|| wanted_since(application)).flatten(),
        }
    }

    /// Whether it is broken or not delivered, or behind for too long: then [`trouble`](super::trouble) has its cause.
    pub fn needs_a_look(&self, now: Timestamp) -> bool {
        let is_late = |since| is_late(since, now);
        self.troubled || self.health.is_sick() || self.behind_since.is_some_and(is_late)
    }
}

/// A status of the sync, as Argo CD names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum SyncStatus {
    /// The cluster differs from the source.
    OutOfSync,
    /// The cluster has what the source has.
    Synced,
    /// There is none, or a word that Argo CD does not have.
    Unknown,
}

impl SyncStatus {
    fn of(word: &str) -> Self {
        match word {
            "OutOfSync" => Self::OutOfSync,
            "Synced" => Self::Synced,
            _ => Self::Unknown,
        }
    }
}

/// A health, as Argo CD names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum HealthStatus {
    /// A resource failed, or did not become healthy in time.
    Degraded,
    /// All resources are healthy.
    Healthy,
    /// A resource is not on the cluster.
    Missing,
    /// A resource is not healthy yet.
    Progressing,
    /// A resource is suspended.
    Suspended,
    /// There is none, or a word that Argo CD does not have.
    Unknown,
}

impl HealthStatus {
    pub(super) fn of(word: &str) -> Self {
        match word {
            "Degraded" => Self::Degraded,
            "Healthy" => Self::Healthy,
            "Missing" => Self::Missing,
            "Progressing" => Self::Progressing,
            "Suspended" => Self::Suspended,
            _ => Self::Unknown,
        }
    }

    /// Whether it is a person's business.
    pub const fn is_sick(self) -> bool {
        match self {
            Self::Degraded | Self::Missing => true,
            Self::Healthy | Self::Progressing | Self::Suspended | Self::Unknown => false,
        }
    }
}

/// Whether the cluster's Argo CD has not compared with it as it is now.
pub(super) fn is_behind(application: &Value) -> bool {
    !is_confirmed(Application::of(application))
}

/// Whether it is behind for longer than it may be.
pub(super) fn is_late(since: Timestamp, now: Timestamp) -> bool {
    now.duration_since(since) > LAG_LIMIT
}

/// Whether a condition of ours says that something is in its way.
pub fn has_trouble(application: &Value) -> bool {
    app_conditions(application).any(|it| it.kind.starts_with(HUB_CONDITION_PREFIX))
}

/// The cluster that an Application is counted for: where it goes or comes from; in a cluster's namespace, that cluster.
pub fn belongs_to(
    application: &Value,
    clusters: &Clusters,
    settings: &RoutingSettings,
) -> Option<String> {
    let application = Application::of(application);
    let route = route(application, clusters, settings);
    let cluster = route.cluster().map(str::to_owned);
    cluster.or_else(|| {
        let namespace = application.namespace();
        clusters.contains(namespace).then(|| namespace.to_owned())
    })
}
