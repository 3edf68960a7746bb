//! How every cluster is doing. Pure.

mod standing;
mod tally;
mod troubles;

use std::collections::BTreeMap;

use argocd::{
    availability::{AGENT_NEVER_CONNECTED, AGENT_NOT_DEPLOYED},
    keys::addon::MODE,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use ocm::condition::addon::{
    AVAILABLE, CONFIGURED, DEGRADED, MANIFEST_APPLIED, REGISTRATION_APPLIED,
};
use serde::Serialize;

pub use standing::{HealthStatus, Standing, SyncStatus, belongs_to, has_trouble};
pub use tally::{Tally, tallies};
pub use troubles::{Trouble, Troubles, trouble, trouble_since};

use crate::{
    facts::{Addon, CERTIFICATE_ROTATED},
    labels::{REASON, Wrong},
};

/// The fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Fleet {
    /// The clusters with the add-on, and those that shall have it by a label that cannot be followed; by name.
    pub clusters: Vec<Cluster>,
    /// Why this may be stale, if the hub program does not run.
    pub silent: Option<String>,
}

/// One cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// Its name.
    pub name: String,
    /// Who owns its Applications; none while that is not recorded.
    pub mode: Option<String>,
    /// The agent's version.
    pub version: Option<String>,
    /// Whether its agent is connected.
    pub connected: Connected,
    /// Its Applications on the hub.
    pub applications: Tally,
    /// When its agent's certificate ends.
    pub certificate_expires: Option<Timestamp>,
    /// Its most urgent problem.
    pub last_error: Option<Problem>,
    /// Whether the cluster or an Application of it needs a look.
    pub degraded: bool,
}

/// Whether an agent is connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Connected {
    /// How it is.
    pub state: Connection,
    /// Since when.
    pub since: Option<Timestamp>,
}

/// How a connection is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Connection {
    /// It is there, and the agent's Pod is ready.
    Yes,
    /// It was there, or there is no ready Pod.
    No,
    /// It was never there.
    #[default]
    NotYet,
    /// The hub has lost the whole cluster.
    Unknown,
    /// The add-on is being taken off.
    Leaving,
}

/// What is wrong, as a condition says it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The condition's type, or the label that is wrong.
    pub condition: String,
    /// Its reason.
    pub reason: String,
    /// Its message.
    pub message: String,
    /// Since when, if known.
    pub since: Option<Timestamp>,
}

/// Conditions of an add-on, the most urgent first, with the status that is bad.
const PROBLEMS: [(&str, &[&str]); 6] = [
    (DEGRADED, &["True"]),
    (AVAILABLE, &["False", "Unknown"]),
    (MANIFEST_APPLIED, &["False"]),
    (REGISTRATION_APPLIED, &["False"]),
    (CONFIGURED, &["False"]),
    (CERTIFICATE_ROTATED, &["False"]),
];

/// The fleet, from what was read. `tallies` are by cluster.
pub fn fleet(addons: &[Addon], mut tallies: BTreeMap<String, Tally>, now: Timestamp) -> Fleet {
    let mut with_tally = |addon: &Addon| {
        let tally = tallies.remove(&addon.cluster).unwrap_or_default();
        Cluster::of(addon, tally, now)
    };
    let mut clusters: Vec<_> = addons.iter().map(&mut with_tally).collect();
    clusters.sort_by(|a, b| a.name.cmp(&b.name));
    Fleet {
        clusters,
        silent: None,
    }
}

impl Cluster {
    /// The cluster of an add-on with its Applications, at this time.
    pub fn of(addon: &Addon, applications: Tally, now: Timestamp) -> Self {
        let last_error = worst(addon);
        let connected = connected(addon);
        let well = matches!(connected.state, Connection::Yes | Connection::Leaving);
        Self {
            name: addon.cluster.clone(),
            mode: addon.mode.clone(),
            version: addon.version(),
            degraded: !well || last_error.is_some() || applications.needs_a_look(now),
            connected,
            applications,
            certificate_expires: addon.certificate_expires(),
            last_error,
        }
    }

    /// A cluster that has no add-on, because its label has no effect.
    pub fn without_add_on(wrong: &Wrong) -> Self {
        Self {
            name: wrong.cluster.clone(),
            last_error: Some(wrong.into()),
            degraded: true,
            ..Self::default()
        }
    }

    /// Adds a label that has no effect: a more urgent problem stays.
    pub fn mislabelled(&mut self, wrong: &Wrong) {
        self.degraded = true;
        self.last_error.get_or_insert_with(|| wrong.into());
    }
}

impl From<&Wrong> for Problem {
    fn from(wrong: &Wrong) -> Self {
        Self {
            condition: MODE.to_owned(),
            reason: REASON.to_owned(),
            message: format!("{}; {}", wrong.cause(), wrong.next()),
            since: wrong.since,
        }
    }
}

/// Whether its agent is connected, by what the hub program says of it.
pub fn connected(addon: &Addon) -> Connected {
    let is = |state, since| Connected { state, since };
    if let Some(at) = addon.deleting {
        return is(Connection::Leaving, Some(at));
    }
    let Some(condition) = condition_of(addon, AVAILABLE) else {
        return is(Connection::NotYet, None);
    };
    // Revocation disconnects it at once; `Available` follows a minute later.
    if addon.revoked.is_some() && condition.status == "True" {
        let degraded = addon.condition(DEGRADED).filter(|it| it.status == "True");
        return is(Connection::No, degraded.map(|it| it.last_transition_time.0));
    }
    let state = match (condition.status.as_str(), condition.reason.as_str()) {
        ("True", _) => Connection::Yes,
        ("False", AGENT_NEVER_CONNECTED | AGENT_NOT_DEPLOYED) => Connection::NotYet,
        ("False", _) => Connection::No,
        _ => Connection::Unknown,
    };
    is(state, Some(condition.last_transition_time.0))
}

/// What OCM's registration agent says of an add-on that has never been heard, before we say anything.
const LEASE_NOT_FOUND: &str = "ManagedClusterAddOnLeaseNotFound";

/// A condition, if it says something.
fn condition_of<'a>(addon: &'a Addon, kind: &str) -> Option<&'a Condition> {
    let condition = addon.condition(kind);
    condition.filter(|it| it.reason != LEASE_NOT_FOUND)
}

/// The most urgent problem of an add-on.
pub fn worst(addon: &Addon) -> Option<Problem> {
    if addon.deleting.is_some() {
        return None;
    }
    let bad = |(kind, bad): &(&str, &[&str])| {
        condition_of(addon, kind).filter(|it| bad.contains(&it.status.as_str()))
    };
    PROBLEMS.iter().find_map(bad).map(|condition| Problem {
        condition: condition.type_.clone(),
        reason: condition.reason.clone(),
        message: condition.message.clone(),
        since: Some(condition.last_transition_time.0),
    })
}

impl Fleet {
    /// Adds the labels that have no effect. A cluster that has the add-on keeps it and shows its most urgent problem.
    pub fn mislabelled(&mut self, labels: &[Wrong]) {
        for wrong in labels {
            let known = self.clusters.iter_mut().find(|it| it.name == wrong.cluster);
            if let Some(cluster) = known {
                cluster.mislabelled(wrong);
            } else {
                let cluster = Cluster::without_add_on(wrong);
                self.clusters.push(cluster);
            }
        }
        self.clusters.sort_by(|a, b| a.name.cmp(&b.name));
    }

    /// Leaves only these clusters; returns those that are not there.
    pub fn keep(&mut self, names: &[String]) -> Vec<String> {
        if names.is_empty() {
            return Vec::new();
        }
        self.clusters.retain(|it| names.contains(&it.name));
        let is_there = |name: &&String| self.clusters.iter().any(|it| it.name == **name);
        let missing = names.iter().filter(|name| !is_there(name));
        missing.cloned().collect()
    }

    /// Whether any of them needs a look.
    pub fn is_degraded(&self) -> bool {
        self.silent.is_some() || self.clusters.iter().any(|cluster| cluster.degraded)
    }
}

#[cfg(test)]
mod tests;
