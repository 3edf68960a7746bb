//! Describes the remaining objects of the add-on. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::keys::UI_SECRET;

/// The number of clusters to name; further ones are only counted.
const NAMED: usize = 10;

/// The remaining objects, by cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// The clusters with remaining objects.
    pub clusters: BTreeMap<String, Left>,
    /// Whether the Secret of the UI was there at the last look.
    pub ui_secret: bool,
}

/// The remaining objects of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Its `ManagedClusterAddOn`.
    pub addon: bool,
    /// Its `ManifestWorks` of the add-on, which disappear after the cluster's work agent has removed their objects.
    pub works: BTreeSet<String>,
    /// Its Argo CD cluster Secret, which the manager removes last.
    pub secret: bool,
    /// Whether OCM has lost the cluster.
    pub lost: bool,
}

impl Rest {
    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.clusters.is_empty() && !self.ui_secret
    }

    /// The entry of `cluster`, created if it is missing.
    pub fn of(&mut self, cluster: &str) -> &mut Left {
        self.clusters.entry(cluster.to_owned()).or_default()
    }

    /// One line for each cluster.
    pub fn lines(&self) -> Vec<String> {
        let named = self.clusters.iter().take(NAMED);
        let mut lines: Vec<String> = named
            .map(|(cluster, left)| format!("{cluster}: {}", left.words()))
            .collect();
        let more = self.clusters.len().saturating_sub(NAMED);
        if more > 0 {
            lines.push(format!("and {more} more"));
        }
        if self.ui_secret {
            lines.push(format!("the Secret {UI_SECRET} is being deleted"));
        }
        lines
    }

    /// The next steps for a user after a timeout.
    pub fn advice(&self, argocd_namespace: &str) -> Vec<String> {
        let mut lines = Vec::new();
        let lost: Vec<&str> = self.named(|left| left.lost);
        if !lost.is_empty() {
            lines.push(format!(
                "reconnect the clusters that OCM lost ({}) and run `helm uninstall` again; or remove them from the \
                hub for good with `kubectl delete managedcluster`",
                lost.join(", ")
            ));
        }
        let slow = self.named(|left| !left.lost && (left.addon || !left.works.is_empty()));
        if !slow.is_empty() {
            lines.push(format!(
                "check OCM's work agent on {}, and run `helm uninstall` again; many clusters need more time: raise \
                 uninstall.timeout with `helm upgrade`, and give `helm uninstall` a longer --timeout",
                slow.join(", ")
            ));
        }
        let secrets = self.named(|left| left.secret && !left.addon && left.works.is_empty());
        if !secrets.is_empty() {
            lines.push(format!(
                "the manager should have removed the cluster Secrets of {}: check the log of the Deployment \
                argocd-agent-addon-manager",
                secrets.join(", ")
            ));
        }
        if self.ui_secret {
            lines.push(format!(
                "another client creates the Secret of the UI again; delete it when the hub program is gone: `kubectl -n \
                {argocd_namespace} delete secret {UI_SECRET}`"
            ));
        }
        lines.push(format!(
            "to uninstall without waiting: `helm uninstall --no-hooks`; work agents then remove the agents when \
            they reconnect, and the cluster Secrets stay until you delete them with \
             `kubectl -n {argocd_namespace} delete secrets -l argocd-agent.argoproj-labs.io/agent-name`"
        ));
        lines
    }

    fn named(&self, which: impl Fn(&Left) -> bool) -> Vec<&str> {
        let all = self.clusters.iter().filter(|(_, left)| which(left));
        all.map(|(cluster, _)| cluster.as_str())
            .take(NAMED)
            .collect()
    }
}

impl Left {
    fn words(&self) -> String {
        let mut parts = Vec::new();
        if self.lost {
            parts.push("OCM lost contact with this cluster".to_owned());
        }
        if self.addon {
            parts.push("its ManagedClusterAddOn is being deleted".to_owned());
        }
        if !self.works.is_empty() {
            let works: Vec<&str> = self.works.iter().map(String::as_str).collect();
            parts.push(format!(
                "its work agent has not removed the objects of ManifestWork {}",
                works.join(", ")
            ));
        }
        if self.secret {
            parts.push("its cluster Secret still exists".to_owned());
        }
        parts.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest(clusters: &[(&str, Left)]) -> Rest {
        let clusters = clusters
            .iter()
            .map(|(name, left)| ((*name).to_owned(), left.clone()));
        Rest {
            clusters: clusters.collect(),
            ..Rest::default()
        }
    }

    fn work() -> BTreeSet<String> {
        ["addon-x-deploy-0".to_owned()].into()
    }

    #[test]
    fn the_remaining_objects_of_each_cluster_are_described() {
        let lost = Left {
            works: work(),
            secret: true,
            lost: true,
            ..Left::default()
        };
        let going = Left {
            addon: true,
            ..Left::default()
        };
        assert_eq!(
            rest(&[("a", going), ("b", lost)]).lines(),
            [
                "a: its ManagedClusterAddOn is being deleted",
                "b: OCM lost contact with this cluster; its work agent has not removed the objects of ManifestWork \
                 addon-x-deploy-0; its cluster Secret still exists",
            ]
        );
    }

    #[test]
    fn the_advice_matches_the_remaining_objects() {
        let lost = Left {
            works: work(),
            lost: true,
            ..Left::default()
        };
        let slow = Left {
            works: work(),
            ..Left::default()
        };
        let secret = Left {
            secret: true,
            ..Left::default()
        };
        for (left, words) in [
            (lost, "reconnect the clusters that OCM lost (c)"),
            (slow, "check OCM's work agent on c"),
            (secret, "removed the cluster Secrets of c"),
        ] {
            let advice = rest(&[("c", left)]).advice("argocd");
            assert_eq!(advice.len(), 2, "{advice:?}");
            assert!(advice[0].contains(words), "{advice:?}");
            assert!(advice[1].contains("--no-hooks"), "{advice:?}");
        }
    }

    #[test]
    fn secret_of_the_ui_remains_until_a_look_finds_none() {
        let mut rest = Rest {
            ui_secret: true,
            ..Rest::default()
        };
        assert!(!rest.is_empty());
        assert_eq!(
            rest.lines(),
            ["the Secret argocd-agent-addon-ui is being deleted"]
        );
        let advice = rest.advice("cd").concat();
        assert!(advice.contains("kubectl -n cd delete secret argocd-agent-addon-ui"));
        rest.ui_secret = false;
        assert!(rest.is_empty());
    }

    #[test]
    fn of_a_large_fleet_only_some_are_named() {
        let names: Vec<String> = (0..25).map(|number| format!("c{number:02}")).collect();
        let mut rest = Rest::default();
        for name in &names {
            rest.of(name).addon = true;
        }
        let lines = rest.lines();
        assert_eq!(lines.len(), 11);
        assert_eq!(lines.last().map(String::as_str), Some("and 15 more"));
        assert!(!rest.advice("argocd").concat().contains("c10"));
    }
}
