//! What is read of objects on the hub, and no more. Pure and lenient: a field of another form is absent.

use argocd::{
    availability,
    keys::addon::{ADDON, MODE, REKEY, REVOKED},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use ocm::condition::{self, addon::AVAILABLE};
use serde_json::Value;

use crate::object::{list, text};

/// The `ManagedClusterAddOn` of one cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Addon {
    /// The cluster.
    pub cluster: String,
    /// The recorded mode.
    pub mode: Option<String>,
    /// Whether OCM has made the `ClusterManagementAddOn` its owner, so that it is in force.
    pub adopted: bool,
    /// Since when it is being deleted.
    pub deleting: Option<Timestamp>,
    /// Why a user revoked the agent, if one did.
    pub revoked: Option<String>,
    /// The name of its key, if a person had it changed.
    pub rekey: Option<String>,
    /// Its conditions.
    pub conditions: Vec<Condition>,
}

impl Addon {
    /// Reads one.
    pub fn read(object: &Value) -> Self {
        let meta = argocd::Meta::of(object);
        let annotation = |key: &str| meta.annotation(key).map(str::to_owned);
        let mut owners = list(object, "/metadata/ownerReferences").iter();
        let is_offer = |owner: &Value| {
            text(owner, "/kind") == "ClusterManagementAddOn" && text(owner, "/name") == ADDON
        };
        Self {
            cluster: meta.namespace().to_owned(),
            mode: annotation(MODE),
            adopted: owners.any(is_offer),
            deleting: meta.deletion_timestamp().and_then(|at| at.parse().ok()),
            revoked: annotation(REVOKED),
            rekey: annotation(REKEY).filter(|name| !name.is_empty()),
            conditions: conditions(object),
        }
    }

    /// A condition by type.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        condition::find(&self.conditions, kind)
    }

    /// Whether its agent is admitted, by this object.
    pub fn is_in_force(&self) -> bool {
        self.adopted && self.deleting.is_none() && self.mode.is_some()
    }

    /// Whether the cluster owns its Applications itself.
    pub fn is_autonomous(&self) -> bool {
        self.mode.as_deref() == Some("autonomous")
    }

    /// The version that its agent gave when it connected.
    pub fn version(&self) -> Option<String> {
        let condition = self.condition(AVAILABLE)?;
        availability::version(&condition.message).map(str::to_owned)
    }

    /// The agent's certificate, as OCM's registration agent describes it.
    pub fn certificate(&self) -> Option<&str> {
        let condition = self.condition(CERTIFICATE_ROTATED)?;
        (condition.status == "True").then_some(&condition.message)
    }

    /// When it ends.
    pub fn certificate_expires(&self) -> Option<Timestamp> {
        time(self.certificate()?.rsplit_once(" to ")?.1)
    }
}

/// OCM's condition: the registration agent holds a certificate of the add-on.
pub const CERTIFICATE_ROTATED: &str = "ClusterCertificateRotated";

/// A time as Kubernetes writes it, or as Go prints it.
fn time(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    let of_go = || Timestamp::strptime("%Y-%m-%d %H:%M:%S %z", text.trim_end_matches(" UTC"));
    text.parse().or_else(|_other| of_go()).ok()
}

/// The conditions of an OCM object.
pub fn conditions(object: &Value) -> Vec<Condition> {
    let all = list(object, "/status/conditions").iter();
    all.filter_map(|item| serde_json::from_value(item.clone()).ok())
        .collect()
}

#[cfg(test)]
mod tests;
