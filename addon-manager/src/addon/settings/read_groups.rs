//! API groups of which users of the hub's Argo CD may read every kind, besides those of the manifest. Pure.

use std::collections::BTreeSet;

use argocd::claim::is_name;
use ocm::api::addon::AddOnDeploymentConfigSpec;
use serde_json::{Value, json};

use super::{Error, variable};

/// The largest number of groups: their rule is one part of a `ManifestWork`, whose size OCM limits.
const MOST: usize = 50;

/// Groups whose names have no dot. The core group, which has the Secrets, is not one of them: its name is empty.
const WITHOUT_DOT: [&str; 5] = ["apps", "autoscaling", "batch", "extensions", "policy"];

/// The valid form of `UI_READ_GROUPS`.
const WANTED: &str = "at most 50 API groups by their full names, separated by commas, such as \
                      cert-manager.io,monitoring.coreos.com, without versions and patterns; the \
                      core group (an empty entry, core or v1) and Secrets are never part of it";

/// API groups of which users of the hub's Argo CD may read every kind, in alphabetical order; never the core group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadGroups(BTreeSet<String>);

impl ReadGroups {
    /// Parses names between commas. An empty one would be the core group.
    pub(in crate::addon) fn parse(text: &str) -> Option<Self> {
        let names = text.split(',').map(str::trim);
        let groups: Option<BTreeSet<String>> = names.map(group).collect();
        groups.filter(|all| all.len() <= MOST).map(Self)
    }

    /// Adds a rule for these groups to the `ClusterRole` of readers.
    pub(in crate::addon) fn grant(&self, role: &mut Value) {
        let rules = role.get_mut("rules").and_then(Value::as_array_mut);
        if let Some(rules) = rules
            && !self.0.is_empty()
        {
            rules.push(json!({
                "apiGroups": self.0, "resources": ["*"], "verbs": ["get", "list", "watch"],
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
            let groups: Vec<_> = of(value).unwrap().0.into_iter().collect();
            assert_eq!(groups, expected, "{value}");
        }
    }

    #[test]
    fn number_of_groups_is_limited_after_duplicates_are_merged() {
        let most = numbered(MOST);
        assert_eq!(of(&most).unwrap().0.len(), MOST);
        assert_eq!(of(&format!("{most},{most}")).unwrap().0.len(), MOST);
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
