//! API groups of which users of the hub's Argo CD may read every kind, besides those of the manifest. Pure.
//!
//! The hub does not know the groups of a cluster, so `all` adds no group: it binds Kubernetes' `ClusterRole` `view`, which
//! each operator extends by its own kinds and which never has Secrets (docs/decisions/0041).

use std::collections::BTreeSet;

use argocd::name::is_name;
use ocm::api::addon::AddOnDeploymentConfigSpec;
use serde_json::{Value, json};

use super::{Error, variable};

/// The largest number of groups: their rule is one part of a `ManifestWork`, whose size OCM limits.
const MOST: usize = 50;

/// Groups whose names have no dot. The core group, which has the Secrets, is not one of them: its name is empty.
const WITHOUT_DOT: [&str; 5] = ["apps", "autoscaling", "batch", "extensions", "policy"];

/// The entry for the kinds that Kubernetes' `ClusterRole` `view` has on the cluster.
const ALL: &str = "all";

/// The valid form of `UI_READ_GROUPS`.
const WANTED: &str = "at most 50 API groups by their full names, separated by commas, such as \
                      cert-manager.io,monitoring.coreos.com, without versions and patterns, or \
                      all for the kinds that operators add to the ClusterRole view; the core \
                      group (an empty entry, core or v1) and Secrets are never part of it";

/// API groups of which users of the hub's Argo CD may read every kind; never the core group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadGroups {
    /// In alphabetical order.
    groups: BTreeSet<String>,
    /// Whether they may read what the `ClusterRole` `view` has, too.
    views_all: bool,
}

impl ReadGroups {
    /// Parses names between commas. An empty one would be the core group.
    pub(in crate::addon) fn parse(text: &str) -> Option<Self> {
        let mut found = Self::default();
        for name in text.split(',').map(str::trim) {
            if name == ALL {
                found.views_all = true;
            } else {
                found.groups.insert(group(name)?);
            }
        }
        (found.groups.len() <= MOST).then_some(found)
    }

    /// Whether the `ClusterRole` `view` is bound.
    pub(in crate::addon) const fn views_all(&self) -> bool {
        self.views_all
    }

    /// Adds a rule for these groups to the `ClusterRole` of readers.
    pub(in crate::addon) fn grant(&self, role: &mut Value) {
        let rules = role.get_mut("rules").and_then(Value::as_array_mut);
        if let Some(rules) = rules
            && !self.groups.is_empty()
        {
            rules.push(json!({
                "apiGroups": self.groups, "resources": ["*"], "verbs": ["get", "list", "watch"],
            }));
        }
    }
}

/// Reads the variable.
pub(super) fn read_groups(config: &AddOnDeploymentConfigSpec) -> Result<ReadGroups, Error> {
    let groups = variable("UI_READ_GROUPS", config, WANTED, ReadGroups::parse)?;
    Ok(groups.unwrap_or_default())
}

fn group(name: &str) -> Option<String> {
    let is_group = is_name(name) && (name.contains('.') || WITHOUT_DOT.contains(&name));
    is_group.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addon::settings::tests::config;

    fn of(value: &str) -> Result<ReadGroups, Error> {
        read_groups(&config(&[("UI_READ_GROUPS", value)]))
    }

    /// This many different groups.
    fn numbered(count: usize) -> String {
        let names: Vec<_> = (0..count).map(|it| format!("g{it}.example.com")).collect();
        names.join(",")
    }

    #[test]
    fn groups_are_sorted_and_merged() {
        let none = read_groups(&AddOnDeploymentConfigSpec::default());
        assert_eq!(none, Ok(ReadGroups::default()));
        for (value, expected) in [
            ("", &[][..]),
            ("cert-manager.io", &["cert-manager.io"]),
            (
                " networking.istio.io , cert-manager.io,networking.istio.io",
                &["cert-manager.io", "networking.istio.io"],
            ),
            (
                "policy,apps,batch,extensions,autoscaling",
                &["apps", "autoscaling", "batch", "extensions", "policy"],
            ),
        ] {
            let found = of(value).unwrap();
            assert!(!found.views_all, "{value}");
            let groups: Vec<_> = found.groups.into_iter().collect();
            assert_eq!(groups, expected, "{value}");
        }
    }

    #[test]
    fn all_adds_no_group_and_stands_beside_names() {
        for (value, names) in [
            ("all", ""),
            (" all , all", ""),
            ("kyverno.io,all", "kyverno.io"),
            (
                "all,kyverno.io,all,cert-manager.io",
                "cert-manager.io,kyverno.io",
            ),
        ] {
            let found = of(value).unwrap();
            assert!(found.views_all(), "{value}");
            assert_eq!(found.groups, of(names).unwrap().groups, "{value}");
        }
        let most = numbered(MOST);
        assert!(of(&format!("all,{most}")).is_ok());
    }

    #[test]
    fn number_of_groups_is_limited_after_duplicates_are_merged() {
        let most = numbered(MOST);
        assert_eq!(of(&most).unwrap().groups.len(), MOST);
        assert_eq!(of(&format!("{most},{most}")).unwrap().groups.len(), MOST);
        assert!(of(&numbered(MOST + 1)).is_err());
        assert!(WANTED.contains(&format!("at most {MOST} ")));
    }

    #[test]
    fn core_group_patterns_and_malformed_names_are_refused() {
        let long = format!("{}.io", "a".repeat(251));
        for value in [
            " ",
            ",",
            "cert-manager.io,",
            ",cert-manager.io",
            "cert-manager.io,,kyverno.io",
            "\"\"",
            "''",
            "core",
            "v1",
            "secrets",
            "Core",
            "cert-manager.io,core",
            "*",
            "All",
            "all.",
            "all,",
            "all,*",
            "all,core",
            "all kyverno.io",
            "all/v1",
            "*.io",
            "cert-manager.*",
            "cert-manager.io,*",
            "cert-manager.io/v1",
            "v1/secrets",
            "apps/v1",
            "cert-manager",
            ".",
            ".io",
            "io.",
            "cert..io",
            "-cert.io",
            "cert-.io",
            "Cert-Manager.io",
            "cert_manager.io",
            "cert-manager.io kyverno.io",
            "cert-manager.io;kyverno.io",
            "cert-manager.io\u{0}",
            "cert-manager.io\n- apiGroups: ['']",
            "cert\u{2011}manager.io",
            &long,
        ] {
            let message = of(value).unwrap_err().to_string();
            for part in ["UI_READ_GROUPS", "core group", "Secrets"] {
                assert!(message.contains(part), "{value}: {message}");
            }
        }
    }
}
