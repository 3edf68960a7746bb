//! Applications of a cluster, counted. Pure.

use std::collections::BTreeMap;

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
    output::{age, or_nothing},
    writers::wanted_since,
};

/// How long Argo CD on a cluster may take for a comparison before the Application needs attention.
pub(super) const LAG_LIMIT: SignedDuration = SignedDuration::from_mins(15);

/// States of health that are a person's business.
pub(super) const SICK: [&str; 2] = ["Degraded", "Missing"];

/// The Applications of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tally {
    /// How many there are.
    pub total: u32,
    /// By sync status, as Argo CD names it; `Unknown` if there is none.
    pub sync: BTreeMap<String, u32>,
    /// By health.
    pub health: BTreeMap<String, u32>,
    /// Those with a condition of ours: not delivered, or something is in the way.
    pub troubled: u32,
    /// Those of the others with which the cluster's Argo CD has not compared as they are now.
    pub behind: u32,
    /// Since when the oldest of these is as it is.
    pub behind_since: Option<Timestamp>,
}

impl Tally {
    /// Takes in one Application.
    pub fn count(&mut self, application: &Value) {
        let word = |pointer: &str| match text(application, pointer) {
            "" => "Unknown".to_owned(),
            word => word.to_owned(),
        };
        let (sync, health) = (word("/status/sync/status"), word("/status/health/status"));
        self.total += 1;
        *self.sync.entry(sync).or_default() += 1;
        *self.health.entry(health).or_default() += 1;
        let troubled = has_trouble(application);
        self.troubled += u32::from(troubled);
        if !troubled && is_behind(application) {
            self.behind += 1;
            let since = [self.behind_since, wanted_since(application)];
            self.behind_since = since.into_iter().flatten().min();
        }
    }

    /// How many there are, and how many of them have a condition of ours.
    pub fn all(&self) -> String {
        match self.troubled {
            0 => self.total.to_string(),
            troubled => format!("{} ({troubled} in trouble)", self.total),
        }
    }

    /// How far the cluster is behind: how many, and for how long.
    pub fn lag(&self, now: Timestamp) -> String {
        match (self.behind, self.behind_since) {
            (0, _) => "-".to_owned(),
            (behind, None) => behind.to_string(),
            (behind, Some(since)) => format!("{behind} ({})", age(since, now)),
        }
    }

    /// How many are in sync.
    pub fn synced(&self) -> u32 {
        self.sync.get("Synced").copied().unwrap_or_default()
    }

    /// How many are healthy.
    pub fn healthy(&self) -> u32 {
        self.health.get("Healthy").copied().unwrap_or_default()
    }

    /// Whether one of them is broken or not delivered, or behind for too long. Being out of sync is not: a user may want
    /// it so.
    pub fn needs_a_look(&self, now: Timestamp) -> bool {
        self.troubled > 0
            || SICK.iter().any(|word| self.health.contains_key(*word))
            || self.behind_since.is_some_and(|since| is_late(since, now))
    }

    /// All that is not as it should be, in words.
    pub fn detail(&self) -> String {
        let others = |map: &BTreeMap<String, u32>, good: &str, kind: &str| {
            let others = map.iter().filter(|(word, _)| *word != good);
            let parts = others.map(|(word, count)| match word.as_str() {
                "Unknown" => format!("{count} of unknown {kind}"),
                word => format!("{count} {word}"),
            });
            parts.collect::<Vec<_>>()
        };
        let mut parts = others(&self.sync, "Synced", "sync");
        parts.extend(others(&self.health, "Healthy", "health"));
        if self.troubled > 0 {
            parts.push(format!("{} with a condition of the add-on", self.troubled));
        }
        or_nothing((!parts.is_empty()).then(|| parts.join(", ")))
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
