//! The facts about hub objects that decisions use. Pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use ocm::api::cluster::{ID_CLAIM, is_itself};
use principal::{Certificates, Mode};
use sha2::{Digest as _, Sha256};

use crate::keys;

/// The input of all decisions on opting in and on the fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct World {
    /// The `ManagedClusters`, by name.
    pub clusters: BTreeMap<String, Cluster>,
    /// Our `ManagedClusterAddOns`, by the cluster's name.
    pub addons: BTreeMap<String, Addon>,
    /// The `ClusterManagementAddOn`, if it exists.
    pub install: Option<Install>,
    /// Clusters that had a `ManagedClusterAddOn` earlier and have none now.
    pub left: BTreeSet<String>,
    /// The mode of each cluster at its last enrolment, as far as this process observed it.
    pub former: BTreeMap<String, Mode>,
}

/// A ManagedCluster. The cluster itself can write its labels and claims.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// UID, for Events.
    pub uid: String,
    /// Whether the hub accepts it (`hubAcceptsClient`).
    pub accepted: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether the hub has lost it: its condition `Available` is `Unknown`.
    pub lost: bool,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its cluster claims.
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
    /// The resource version that these facts are of.
    pub version: String,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether OCM has made the `ClusterManagementAddOn` its owner, so that it is in force.
    pub adopted: bool,
    /// The mode recorded on it.
    pub recorded: Option<String>,
    /// Whether we made it because of the label.
    pub made_for_label: bool,
    /// The new mode that a user has confirmed.
    pub confirmed: Option<String>,
    /// The digest of the deletions that a user has confirmed.
    pub confirm_delete: Option<String>,
    /// The reason, if an administrator has revoked its certificates.
    pub revoked: Option<String>,
    /// The name of its key; only certificates issued under that name are valid.
    pub rekey: Option<String>,
    /// The decision about the cluster's Argo CD.
    pub argocd: Option<String>,
    /// The namespace of the Argo CD that the add-on installed.
    pub argocd_place: Option<String>,
    /// Since when its removal waits until the cluster has applied that this Argo CD stays.
    pub keeping_since: Option<Timestamp>,
    /// Whether the ManagedCluster has another UID than before and may be another cluster.
    pub unidentified: bool,
    /// Annotations that record decisions and were removed, with their values.
    pub missing: BTreeMap<&'static str, String>,
    /// The `AddOnDeploymentConfig` for it (namespace, name), if one is configured and OCM has resolved it.
    pub config: Option<(String, String)>,
    /// Whether OCM has resolved the configuration.
    pub configured: bool,
    /// Whether an `AddOnTemplate` serves it instead of us.
    pub by_template: bool,
    /// Whether an agent was connected earlier, according to our own condition.
    pub was_connected: bool,
}

/// How clusters are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Install {
    /// Whether OCM Placements choose, instead of users and the label.
    pub by_placements: bool,
    /// Whether an `AddOnTemplate` serves the add-on instead of us.
    pub by_template: bool,
}

/// Facts about the hub itself, to distinguish it from a managed cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// Argo CD's namespace here.
    pub argocd_namespace: String,
    /// Our own namespace.
    pub own_namespace: String,
    /// Namespaces besides those two kinds whose Applications are delivered by destination.
    pub other_namespaces: Vec<String>,
    /// UID of the namespace `kube-system`, which identifies a cluster.
    pub cluster_uid: Option<String>,
}

/// Parses a mode.
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

    /// Its claim about its identity, the UID of its namespace `kube-system`.
    pub fn id(&self) -> Option<&str> {
        self.claims.get(ID_CLAIM).map(String::as_str)
    }

    /// Whether the hub accepts it and it is not being deleted.
    pub const fn is_admitted(&self) -> bool {
        self.accepted && !self.deleting
    }
}

impl Addon {
    /// The organizational unit that its certificates must have, if an administrator rotated the key.
    pub fn key_unit(&self) -> Option<String> {
        let name = self.rekey.as_ref().filter(|name| !name.is_empty())?;
        let digest = hex::encode(Sha256::digest(name));
        let short: String = digest.chars().take(16).collect();
        Some(format!("key-{short}"))
    }

    /// Which of its certificates are valid.
    pub fn certificates(&self) -> Certificates {
        if self.revoked.is_some() {
            return Certificates::Revoked;
        }
        self.key_unit()
            .map_or(Certificates::All, Certificates::WithUnit)
    }

    /// The recorded mode, if it is valid.
    pub fn mode(&self) -> Option<Mode> {
        mode_of(self.recorded.as_deref()?)
    }
}

impl World {
    /// Whether an `AddOnTemplate` serves this cluster; then we must not.
    pub fn is_by_template(&self, cluster: &str) -> bool {
        let addon = self.addons.get(cluster);
        self.install.is_some_and(|it| it.by_template) || addon.is_some_and(|it| it.by_template)
    }

    /// The reason, in one sentence, why we cannot serve a cluster of this name.
    ///
    /// Its namespace belongs to another component, or it is the hub itself: then its Applications would be
    /// delivered into the namespace that they come from.
    pub fn reserved(&self, cluster: &str, own: &Own) -> Option<String> {
        let ours = cluster == own.argocd_namespace || cluster == own.own_namespace;
        if ours || is_of_kubernetes(cluster) {
            return Some(format!("the namespace {cluster} on the hub is reserved"));
        }
        let claimed = self.clusters.get(cluster)?.id();
        is_itself(claimed, own.cluster_uid.as_deref()).then(|| {
            "this cluster is the hub itself; deploy there with Applications whose destination is \
             in-cluster"
                .to_owned()
        })
    }

    /// Whether an agent of this cluster may connect, and in which mode.
    pub fn enrolled(&self, cluster: &str, own: &Own) -> Option<Mode> {
        let addon = self.addons.get(cluster)?;
        let admitted = self.clusters.get(cluster).is_some_and(Cluster::is_admitted);
        let ours = admitted
            && addon.adopted
            && !addon.deleting
            && !addon.unidentified
            && !self.is_by_template(cluster)
            && self.reserved(cluster, own).is_none();
        addon.mode().filter(|_| ours)
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
    fn each_missing_precondition_ends_the_enrolment() {
        let ends: [fn(&mut Cluster, &mut Addon); 7] = [
            |cluster, _| cluster.accepted = false,
            |cluster, _| cluster.deleting = true,
            |_, addon| addon.deleting = true,
            |_, addon| addon.adopted = false,
            |_, addon| addon.by_template = true,
            |_, addon| addon.unidentified = true,
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
    fn rekey_changes_the_certificate_unit_and_revocation_overrides_it() {
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
            revoked: Some("stolen".to_owned()),
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
