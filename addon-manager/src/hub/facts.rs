//! The hub as this program sees it: what decisions need of each object, and no more. Pure.

use std::collections::{BTreeMap, BTreeSet};

use ocm::api::cluster::{ID_CLAIM, is_itself};
use principal::{Certificates, Mode};
use sha2::{Digest as _, Sha256};

use crate::keys;

/// Everything that opting in and the fleet are decided from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct World {
    /// The `ManagedClusters`, by name.
    pub clusters: BTreeMap<String, Cluster>,
    /// The `ManagedClusterAddOns` of ours, by the cluster's name.
    pub addons: BTreeMap<String, Addon>,
    /// The `ClusterManagementAddOn`; none while there is none.
    pub install: Option<Install>,
    /// Clusters whose `ManagedClusterAddOn` was seen and is gone.
    pub left: BTreeSet<String>,
    /// The mode that each cluster had when it was last enrolled, as far as this process has seen it.
    pub former: BTreeMap<String, Mode>,
}

/// A ManagedCluster. Labels and claims can be written by the cluster itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// UID, for Events.
    pub uid: String,
    /// Whether the hub lets it in.
    pub accepted: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether the hub has heard nothing of it for long.
    pub lost: bool,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// What it says of itself.
    pub claims: BTreeMap<String, String>,
}

/// A `ManagedClusterAddOn`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts about one object, each read by itself"
)]
pub struct Addon {
    /// UID.
    pub uid: String,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether OCM has made the `ClusterManagementAddOn` its owner, so that it is in force.
    pub adopted: bool,
    /// The mode recorded on it.
    pub recorded: Option<String>,
    /// The mode that was recorded on it before somebody wiped it.
    pub recalled: Option<String>,
    /// Whether we made it because of the label.
    pub made_for_label: bool,
    /// The mode that a person allows to change to.
    pub confirmed: Option<String>,
    /// The list of deletions that a person has confirmed.
    pub confirm_delete: Option<String>,
    /// Whether a person has revoked its certificates.
    pub revoked: bool,
    /// A name for its key; a certificate counts only if it was issued under that name.
    pub rekey: Option<String>,
    /// The configuration to be used (namespace, name), once OCM has said so.
    pub config: Option<(String, String)>,
    /// Whether OCM has worked out the configuration.
    pub configured: bool,
    /// Whether it is served by an `AddOnTemplate`, and so not by us.
    pub by_template: bool,
    /// Whether an agent was connected once, by our own condition.
    pub was_connected: bool,
}

/// How clusters are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Install {
    /// Whether OCM Placements choose, rather than people and the label.
    pub by_placements: bool,
    /// Whether the add-on is an `AddOnTemplate`'s, and so not ours.
    pub by_template: bool,
}

/// What is known about the hub itself, to tell it from a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// Argo CD's namespace here.
    pub argocd_namespace: String,
    /// Our own namespace.
    pub own_namespace: String,
    /// Namespaces besides those two kinds whose Applications are delivered by destination.
    pub other_namespaces: Vec<String>,
    /// UID of the namespace `kube-system`, by which a cluster is known.
    pub cluster_uid: Option<String>,
}

/// Reads a mode; none for any other word.
pub fn mode_of(word: &str) -> Option<Mode> {
    word.parse().ok()
}

/// Whether a namespace of this name belongs to Kubernetes itself.
pub fn is_of_kubernetes(namespace: &str) -> bool {
    namespace.starts_with("kube-")
}

impl Cluster {
    /// The value of the opt-in label.
    pub fn label(&self) -> Option<&str> {
        self.labels.get(keys::MODE).map(String::as_str)
    }

    /// Whether the hub lets it in and it is there to stay.
    pub const fn is_admitted(&self) -> bool {
        self.accepted && !self.deleting
    }
}

impl Addon {
    /// The organizational unit that its certificates must have, if a person had the key changed.
    pub fn key_unit(&self) -> Option<String> {
        let name = self.rekey.as_ref().filter(|name| !name.is_empty())?;
        let digest = hex::encode(Sha256::digest(name));
        let short: String = digest.chars().take(16).collect();
        Some(format!("key-{short}"))
    }

    /// Which of its certificates count.
    pub fn certificates(&self) -> Certificates {
        if self.revoked {
            return Certificates::Revoked;
        }
        self.key_unit()
            .map_or(Certificates::All, Certificates::WithUnit)
    }

    /// The recorded mode, if it is one.
    pub fn mode(&self) -> Option<Mode> {
        mode_of(self.recorded.as_deref()?)
    }
}

impl World {
    /// Whether an `AddOnTemplate` serves this cluster, so that we must not.
    pub fn is_by_template(&self, cluster: &str) -> bool {
        self.install.is_some_and(|install| install.by_template)
            || self
                .addons
                .get(cluster)
                .is_some_and(|addon| addon.by_template)
    }

    /// Why a cluster of this name cannot be served, in one sentence.
    ///
    /// Its namespace would be one that belongs to somebody else, or it is the hub itself: then its
    /// Applications would be delivered into the namespace that they come from.
    pub fn reserved(&self, cluster: &str, own: &Own) -> Option<String> {
        let Own {
            argocd_namespace,
            own_namespace,
            other_namespaces: _,
            cluster_uid,
        } = own;
        if cluster == argocd_namespace || cluster == own_namespace || is_of_kubernetes(cluster) {
            return Some(format!("the namespace {cluster} on the hub is reserved"));
        }
        let claimed = self.clusters.get(cluster)?.claims.get(ID_CLAIM);
        is_itself(claimed.map(String::as_str), cluster_uid.as_deref()).then(|| {
            "this cluster is the hub itself; deploy there with Applications whose destination is \
             in-cluster"
                .to_owned()
        })
    }

    /// Whether an agent of this cluster may come in, and in which mode.
    pub fn enrolled(&self, cluster: &str, own: &Own) -> Option<Mode> {
        let addon = self.addons.get(cluster)?;
        let admitted = self.clusters.get(cluster).is_some_and(Cluster::is_admitted);
        let ours = admitted
            && addon.adopted
            && !addon.deleting
            && !self.is_by_template(cluster)
            && self.reserved(cluster, own).is_none();
        addon.mode().filter(|_| ours)
    }

    /// Whether this cluster has the add-on no more (or not yet).
    pub fn is_opted_out(&self, cluster: &str) -> bool {
        self.addons.get(cluster).is_none_or(|addon| addon.deleting)
            || self
                .clusters
                .get(cluster)
                .is_none_or(|cluster| cluster.deleting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Own {
        Own {
            argocd_namespace: "argocd".to_owned(),
            own_namespace: "ours".to_owned(),
            other_namespaces: Vec::new(),
            cluster_uid: Some("hub-uid".to_owned()),
        }
    }

    fn world(name: &str) -> World {
        let cluster = Cluster {
            accepted: true,
            ..Cluster::default()
        };
        let addon = Addon {
            adopted: true,
            recorded: Some("managed".to_owned()),
            ..Addon::default()
        };
        World {
            clusters: [(name.to_owned(), cluster)].into(),
            addons: [(name.to_owned(), addon)].into(),
            ..World::default()
        }
    }

    #[test]
    fn a_cluster_with_the_add_on_is_enrolled_in_its_recorded_mode() {
        assert_eq!(world("c").enrolled("c", &own()), Some(Mode::Managed));
        assert_eq!(world("c").enrolled("other", &own()), None);
    }

    #[test]
    fn whatever_takes_a_right_away_ends_the_enrolment() {
        let ends: [fn(&mut Cluster, &mut Addon); 6] = [
            |cluster, _| cluster.accepted = false,
            |cluster, _| cluster.deleting = true,
            |_, addon| addon.deleting = true,
            |_, addon| addon.adopted = false,
            |_, addon| addon.by_template = true,
            |_, addon| addon.recorded = Some("x".to_owned()),
        ];
        for (number, end) in ends.into_iter().enumerate() {
            let mut world = world("c");
            let World {
                clusters, addons, ..
            } = &mut world;
            end(clusters.get_mut("c").unwrap(), addons.get_mut("c").unwrap());
            assert_eq!(world.enrolled("c", &own()), None, "case {number}");
        }
    }

    #[test]
    fn another_name_for_the_key_is_another_unit_and_a_revocation_outweighs_it() {
        let named = |name: &str| Addon {
            rekey: Some(name.to_owned()),
            ..Addon::default()
        };
        assert_eq!(Addon::default().certificates(), Certificates::All);
        assert_eq!(named("").certificates(), Certificates::All);
        let (one, other) = (
            named("1").certificates(),
            named("any text, 2").certificates(),
        );
        assert_ne!(one, other);
        assert!(matches!(other, Certificates::WithUnit(unit) if unit.len() == 20));
        let revoked = Addon {
            revoked: true,
            ..named("1")
        };
        assert_eq!(revoked.certificates(), Certificates::Revoked);
    }

    #[test]
    fn the_hub_and_namespaces_with_another_use_are_reserved() {
        for name in ["argocd", "ours", "kube-system", "kube-x"] {
            assert_eq!(world(name).enrolled(name, &own()), None, "{name}");
        }
        let mut itself = world("c");
        for cluster in itself.clusters.values_mut() {
            cluster
                .claims
                .insert(ID_CLAIM.to_owned(), "hub-uid".to_owned());
        }
        assert!(
            itself
                .reserved("c", &own())
                .unwrap()
                .contains("the hub itself")
        );
    }
}
