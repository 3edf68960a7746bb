//! The fleet as the API shows it: one row for each cluster. Pure.

use std::collections::BTreeMap;

use argocd::availability::{self, AGENT_CONNECTED, AGENT_DISCONNECTED, AGENT_NEVER_CONNECTED};
use diagnosis::{
    facts::Addon,
    status::{Cluster, Tally},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use ocm::condition::addon::AVAILABLE;
use principal::SessionReport;
use serde::{Serialize, Serializer};

use super::cut;

/// OCM's label on a ManagedCluster with its cluster set.
const CLUSTER_SET: &str = "cluster.open-cluster-management.io/clusterset";

/// One cluster.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRow {
    /// As `argocd-agentctl status` judges it.
    #[serde(flatten)]
    pub cluster: Cluster,
    /// The labels of its ManagedCluster, cut.
    pub labels: BTreeMap<String, String>,
    /// Its cluster set.
    pub cluster_set: Option<String>,
}

/// The answer about all clusters. `rows` makes them when they are written, because 5,000 of them at once need much memory.
#[derive(derive_more::Debug, Serialize)]
#[serde(bound(serialize = "I: IntoIterator<Item = ClusterRow> + Clone"))]
pub struct FleetAnswer<'a, I> {
    /// The Pod that answers.
    pub replica: &'a str,
    /// Its version.
    pub version: &'a str,
    /// The clusters, by name.
    #[debug(skip)]
    #[serde(rename = "clusters", serialize_with = "written")]
    pub rows: I,
}

fn written<S, I>(rows: &I, serializer: S) -> Result<S::Ok, S::Error>
where
    S: Serializer,
    I: IntoIterator<Item = ClusterRow> + Clone,
{
    serializer.collect_seq(rows.clone())
}

impl ClusterRow {
    /// The row of a cluster with these labels.
    pub fn new(mut cluster: Cluster, labels: Option<&BTreeMap<String, String>>) -> Self {
        if let Some(problem) = &mut cluster.last_error {
            problem.message = cut::message(std::mem::take(&mut problem.message));
            problem.reason = cut::word(std::mem::take(&mut problem.reason));
        }
        cluster.mode = cluster.mode.map(cut::word);
        let set = labels.and_then(|labels| labels.get(CLUSTER_SET));
        Self {
            cluster,
            cluster_set: set.cloned().map(cut::word),
            labels: labels.map(cut::labels).unwrap_or_default(),
        }
    }
}

/// A cluster as its add-on, its session and its Applications show it.
pub fn cluster(
    addon: &Addon,
    session: Option<&SessionReport>,
    applications: Tally,
    now: Timestamp,
) -> Cluster {
    let mut cluster = Cluster::of(addon, applications, now);
    let claimed = session.and_then(|session| session.agent_version.as_deref());
    let claimed = claimed.and_then(argocd::claim::version);
    // A disconnected agent has no version in the condition.
    cluster.version = cluster.version.or_else(|| claimed.map(str::to_owned));
    cluster
}

/// Corrects the condition `Available` by the session: the condition follows a minute later, because short interruptions shall
/// cause no writes.
pub fn amend(addon: &mut Addon, session: Option<&SessionReport>) {
    let Some(session) = session else {
        // The agent was not here since this program started; the condition is of an earlier one.
        return;
    };
    let Some(condition) = addon.conditions.iter_mut().find(|it| it.type_ == AVAILABLE) else {
        return;
    };
    let absent = [AGENT_DISCONNECTED, AGENT_NEVER_CONNECTED];
    if session.connected && condition.status == "False" && absent.contains(&&*condition.reason) {
        let message = availability::works(session.agent_version.as_deref());
        *condition = amended(condition, "True", AGENT_CONNECTED, message, session.since);
    } else if !session.connected && condition.status == "True" {
        let message = match &session.last_error {
            Some(error) => format!("the session of its agent ended: {error}"),
            None => "the session of its agent ended".to_owned(),
        };
        *condition = amended(
            condition,
            "False",
            AGENT_DISCONNECTED,
            message,
            session.since,
        );
    }
}

fn amended(
    before: &Condition,
    status: &str,
    reason: &str,
    message: String,
    since: Timestamp,
) -> Condition {
    Condition {
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: Time(since),
        ..before.clone()
    }
}

#[cfg(test)]
mod tests;
