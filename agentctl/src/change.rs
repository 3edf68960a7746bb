//! What commands write: one merge patch each, decided before it is sent. Pure.
//!
//! All of it is annotations, and the label that opts in, that the hub program already acts on (docs/certificates.md); nothing is done twice if it is
//! asked for twice.

use argocd::keys::addon::{ADDON, CA_SECRET, MODE, REKEY, REVOKED, ROTATE};
use jiff::Timestamp;
use ocm::name::ClusterName;
use serde_json::{Value, json};

use crate::{
    adopt::Mode,
    facts::Addon,
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
    /// What to tell whoever asked, and how to see that it is done.
    pub said: String,
}

/// Why nothing is written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Revoked agents stay out, so their key cannot change.
    #[error(
        "the agent of {cluster} is revoked; `argocd-agentctl agent restore {cluster}` lets it in with another key"
    )]
    IsRevoked {
        /// The cluster.
        cluster: String,
    },
    /// It is done already.
    #[error("the agent of {cluster} is revoked already ({reason:?}); nothing was changed")]
    WasRevoked {
        /// The cluster.
        cluster: String,
        /// Why it was.
        reason: String,
    },
    /// There is nothing to take back.
    #[error("the agent of {cluster} is not revoked; nothing was changed")]
    NotRevoked {
        /// The cluster.
        cluster: String,
    },
}

/// Another CA.
pub fn rotate_authority(own_namespace: &str, now: Timestamp) -> Change {
    Change {
        kind: SECRETS,
        namespace: own_namespace.to_owned(),
        name: CA_SECRET,
        body: annotations(&json!({ ROTATE: now.to_string() })),
        said: "asked for another certificate authority; agents move over without an interruption. `argocd-agentctl \
               certs list` shows the stage until it is settled; a cluster that holds it up says so in `argocd-agentctl \
               status`"
            .to_owned(),
    }
}

/// Another key and certificate for one agent.
pub fn rotate_agent(
    cluster: &ClusterName,
    addon: &Addon,
    now: Timestamp,
) -> Result<Change, Refusal> {
    if addon.revoked.is_some() {
        return Err(Refusal::IsRevoked {
            cluster: cluster.to_string(),
        });
    }
    let body = annotations(&json!({ REKEY: now.to_string() }));
    let said = format!(
        "asked for another key of the agent of {cluster}; certificates from before do not count any more, and it \
         connects with a new one within seconds. `argocd-agentctl certs list` shows when that ends"
    );
    Ok(of_addon(cluster, body, said))
}

/// Keeps an agent out.
pub fn revoke(cluster: &ClusterName, addon: &Addon, reason: &str) -> Result<Change, Refusal> {
    if let Some(reason) = &addon.revoked {
        return Err(Refusal::WasRevoked {
            cluster: cluster.to_string(),
            reason: reason.clone(),
        });
    }
    let said = format!(
        "revoked the agent of {cluster}: its session ends at once, and no certificate of this cluster is let in. What \
         runs there is not touched. `argocd-agentctl agent restore {cluster}` lets it in again"
    );
    Ok(of_addon(
        cluster,
        annotations(&json!({ REVOKED: reason })),
        said,
    ))
}

/// Lets an agent in again, with another key.
pub fn restore(cluster: &ClusterName, addon: &Addon, now: Timestamp) -> Result<Change, Refusal> {
    if addon.revoked.is_none() {
        return Err(Refusal::NotRevoked {
            cluster: cluster.to_string(),
        });
    }
    // In one write: between two, what was stolen would be good again.
    let body = annotations(&json!({ REKEY: now.to_string(), REVOKED: null }));
    let said = format!(
        "let the agent of {cluster} in again, with another key; certificates from before stay worthless. \
         `argocd-agentctl status {cluster}` shows when it is connected"
    );
    Ok(of_addon(cluster, body, said))
}

/// Opts a `ManagedCluster` in.
pub fn opt_in(mode: Mode) -> Value {
    json!({ "metadata": { "labels": { MODE: mode.as_str() } } })
}

fn of_addon(cluster: &ClusterName, body: Value, said: String) -> Change {
    Change {
        kind: ADDONS,
        namespace: cluster.to_string(),
        name: ADDON,
        body,
        said,
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

    fn cluster() -> ClusterName {
        ClusterName::new("c").unwrap()
    }

    fn revoked() -> Addon {
        Addon {
            revoked: Some("stolen".to_owned()),
            ..Addon::default()
        }
    }

    #[test]
    fn an_agent_is_let_in_again_with_another_key_in_one_write() {
        let change = restore(&cluster(), &revoked(), now()).unwrap();
        assert_eq!((change.namespace.as_str(), change.name), ("c", ADDON));
        let annotations = &change.body["metadata"]["annotations"];
        assert_eq!(annotations[REKEY], "2026-11-22T12:00:00Z");
        assert!(annotations.as_object().unwrap().contains_key(REVOKED));
        assert!(annotations[REVOKED].is_null());
    }

    #[test]
    fn what_is_done_already_is_said_and_not_done_again() {
        let free = Addon::default();
        assert!(matches!(
            revoke(&cluster(), &revoked(), "again"),
            Err(Refusal::WasRevoked { reason, .. }) if reason == "stolen"
        ));
        assert!(matches!(
            restore(&cluster(), &free, now()),
            Err(Refusal::NotRevoked { .. })
        ));
        assert!(matches!(
            rotate_agent(&cluster(), &revoked(), now()),
            Err(Refusal::IsRevoked { .. })
        ));
        let change = revoke(&cluster(), &free, "stolen").unwrap();
        assert_eq!(
            change.body["metadata"]["annotations"],
            json!({ REVOKED: "stolen" })
        );
    }

    #[test]
    fn a_rotation_is_asked_for_with_the_annotation_of_the_hub_program() {
        let change = rotate_authority("ours", now());
        assert_eq!((change.kind, change.name), (SECRETS, CA_SECRET));
        let change_of_key = rotate_agent(&cluster(), &Addon::default(), now()).unwrap();
        let name = &change_of_key.body["metadata"]["annotations"][REKEY];
        assert_eq!(name, &change.body["metadata"]["annotations"][ROTATE]);
    }
}
