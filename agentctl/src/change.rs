//! What commands write: one merge patch each, decided before it is sent. Pure.
//!
//! All of it is annotations, and the label that opts in, that the hub program already acts on (docs/certificates.md); nothing is done twice if it is
//! asked for twice.

use argocd::keys::addon::{ADDON, CA_SECRET, MODE, REKEY, REVOKED, ROTATE};
use diagnosis::facts::Addon;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    adopt::Mode,
    hub::{ADDONS, Kind, SECRETS},
};

/// One write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The kind of the object.
    pub kind: Kind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: &'static str,
    /// What is merged into it.
    pub body: Value,
    /// The answer for the caller, with the command that shows the result.
    pub confirmation: String,
}

/// Why nothing is written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Revoked agents stay out, so their key cannot change.
    #[error(
        "the agent of {0} is revoked; restore it with a new key: `argocd-agentctl agent restore {0}`"
    )]
    IsRevoked(String),
    /// It is done already: the cluster, and why it was.
    #[error("the agent of {0} is already revoked ({1:?}); nothing changed")]
    WasRevoked(String, String),
    /// There is nothing to take back.
    #[error("the agent of {0} is not revoked; nothing changed")]
    NotRevoked(String),
}

/// Another CA.
pub fn rotate_authority(own_namespace: &str, now: Timestamp) -> Change {
    Change {
        kind: SECRETS,
        namespace: own_namespace.to_owned(),
        name: CA_SECRET,
        body: annotations(&json!({ ROTATE: now.to_string() })),
        confirmation: "requested a new certificate authority; agents move to it without interruption. \
        `argocd-agentctl certs list` shows the stage; `argocd-agentctl status` names a cluster that delays it"
            .to_owned(),
    }
}

/// Another key and certificate for one agent.
pub fn rotate_agent(addon: &Addon, now: Timestamp) -> Result<Change, Refusal> {
    let cluster = &addon.cluster;
    if addon.revoked.is_some() {
        return Err(Refusal::IsRevoked(cluster.clone()));
    }
    let confirmation = format!(
        "requested a new key for the agent of {cluster}; its earlier certificates are rejected from now on, and it \
        reconnects with a new one within seconds. `argocd-agentctl certs list` shows the new expiry"
    );
    Ok(of_addon(
        addon,
        &json!({ REKEY: now.to_string() }),
        confirmation,
    ))
}

/// Keeps an agent out.
pub fn revoke(addon: &Addon, reason: &str) -> Result<Change, Refusal> {
    let cluster = &addon.cluster;
    if let Some(reason) = &addon.revoked {
        return Err(Refusal::WasRevoked(cluster.clone(), reason.clone()));
    }
    let confirmation = format!(
        "revoked the agent of {cluster}: its session ends now, and all certificates of this cluster are rejected. \
        Workloads keep running. To undo: `argocd-agentctl agent restore {cluster}`"
    );
    Ok(of_addon(addon, &json!({ REVOKED: reason }), confirmation))
}

/// Lets an agent in again, with another key.
pub fn restore(addon: &Addon, now: Timestamp) -> Result<Change, Refusal> {
    let cluster = &addon.cluster;
    if addon.revoked.is_none() {
        return Err(Refusal::NotRevoked(cluster.clone()));
    }
    // In one write: between two, what was stolen would be good again.
    let both = json!({ REKEY: now.to_string(), REVOKED: null });
    let confirmation = format!(
        "restored the agent of {cluster} with a new key; its earlier certificates stay rejected. `argocd-agentctl \
        status {cluster}` shows when it is connected"
    );
    Ok(of_addon(addon, &both, confirmation))
}

/// Opts a `ManagedCluster` in.
pub fn opt_in(mode: Mode) -> Value {
    json!({ "metadata": { "labels": { MODE: mode } } })
}

fn of_addon(addon: &Addon, changed: &Value, confirmation: String) -> Change {
    Change {
        kind: ADDONS,
        namespace: addon.cluster.clone(),
        name: ADDON,
        body: annotations(changed),
        confirmation,
    }
}

fn annotations(annotations: &Value) -> Value {
    json!({ "metadata": { "annotations": annotations } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-11-22T12:00:00Z".parse().unwrap()
    }

    fn free() -> Addon {
        Addon {
            cluster: "c".to_owned(),
            ..Addon::default()
        }
    }

    fn revoked() -> Addon {
        Addon {
            revoked: Some("stolen".to_owned()),
            ..free()
        }
    }

    #[test]
    fn an_agent_is_let_in_again_with_another_key_in_one_write() {
        let change = restore(&revoked(), now()).unwrap();
        assert_eq!((change.namespace.as_str(), change.name), ("c", ADDON));
        let annotations = &change.body["metadata"]["annotations"];
        assert_eq!(annotations[REKEY], "2026-11-22T12:00:00Z");
        assert!(annotations.as_object().unwrap().contains_key(REVOKED));
        assert!(annotations[REVOKED].is_null());
    }

    #[test]
    fn repeated_request_reports_no_change() {
        assert!(matches!(
            revoke(&revoked(), "again"),
            Err(Refusal::WasRevoked(_, reason)) if reason == "stolen"
        ));
        assert!(matches!(
            restore(&free(), now()),
            Err(Refusal::NotRevoked(_))
        ));
        assert!(matches!(
            rotate_agent(&revoked(), now()),
            Err(Refusal::IsRevoked(_))
        ));
        let change = revoke(&free(), "stolen").unwrap();
        assert_eq!(
            change.body["metadata"]["annotations"],
            json!({ REVOKED: "stolen" })
        );
    }

    #[test]
    fn a_rotation_is_asked_for_with_the_annotation_of_the_hub_program() {
        let change = rotate_authority("ours", now());
        assert_eq!((change.kind, change.name), (SECRETS, CA_SECRET));
        let change_of_key = rotate_agent(&free(), now()).unwrap();
        let name = &change_of_key.body["metadata"]["annotations"][REKEY];
        assert_eq!(name, &change.body["metadata"]["annotations"][ROTATE]);
    }
}
