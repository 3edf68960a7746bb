//! One cluster as the API shows it. Pure.

use diagnosis::{
    facts::Addon,
    status::{Standing, Trouble, trouble_since},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;
use serde_json::Value;

use super::{cut, fleet::ClusterRow, history::Minute};

/// The most Applications in trouble of one answer.
pub const TROUBLES: usize = 100;

/// The answer about one cluster.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAnswer {
    /// Its row of the fleet.
    pub cluster: ClusterRow,
    /// The conditions of its add-on.
    pub conditions: Vec<ShownCondition>,
    /// Its agent's certificate.
    pub certificate: Option<Certificate>,
    /// Its Applications that need attention, by namespace and name.
    pub troubles: Vec<Trouble>,
    /// Whether there are more of them.
    pub troubles_cut: bool,
    /// Its last hour, the oldest minute first.
    pub history: Vec<Minute>,
}

/// A condition of the add-on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownCondition {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Its reason.
    pub reason: String,
    /// Its message.
    pub message: String,
    /// Since when its status is as it is.
    pub last_transition_time: Timestamp,
}

impl From<&Condition> for ShownCondition {
    fn from(condition: &Condition) -> Self {
        Self {
            kind: cut::word(condition.type_.clone()),
            status: cut::word(condition.status.clone()),
            reason: cut::word(condition.reason.clone()),
            message: cut::message(condition.message.clone()),
            last_transition_time: condition.last_transition_time.0,
        }
    }
}

/// An agent's certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Certificate {
    /// As OCM's registration agent describes it.
    pub description: String,
    /// When it ends, if that is known.
    pub expires: Option<Timestamp>,
}

impl Certificate {
    /// That of an add-on.
    pub fn of(addon: &Addon) -> Option<Self> {
        let description = addon.certificate()?.to_owned();
        Some(Self {
            description: cut::message(description),
            expires: addon.certificate_expires(),
        })
    }
}

/// The conditions of an add-on, bounded.
pub fn conditions(addon: &Addon) -> Vec<ShownCondition> {
    let first = addon.conditions.iter().take(cut::ENTRIES);
    first.map(ShownCondition::from).collect()
}

/// The trouble of an Application with this standing.
///
/// The principal keeps no managed fields, in which the API server notes when the spec was written.
pub fn shown_trouble(object: &Value, standing: &Standing, now: Timestamp) -> Option<Trouble> {
    let cluster = Some(standing.cluster.to_string());
    let found = trouble_since(object, cluster, standing.behind_since, now)?;
    Some(Trouble {
        reason: cut::word(found.reason),
        cause: cut::message(found.cause),
        sync: found.sync.map(cut::word),
        health: found.health.map(cut::word),
        ..found
    })
}

#[cfg(test)]
mod tests;
