//! Fields of Pods that only a variable can set. Pure.

use std::{collections::BTreeMap, net::IpAddr};

use argocd::name::is_name;
use ocm::api::addon::AddOnDeploymentConfigSpec;
use serde_json::{Value, json};

use super::{Error, variable};

/// The valid form of `HOST_ALIASES`.
const ALIASES: &str = "IP addresses with their host names, such as \
                       10.0.0.1=hub.example.com,proxy.example.com;10.0.0.2=otel.example.com";

/// Fields of Pods that only a variable can set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodOptions {
    /// The priority class of the agent's Pod, and of an Argo CD that we install.
    pub priority_class: Option<String>,
    /// Names of hosts that the agent resolves without DNS, by their addresses.
    pub host_aliases: BTreeMap<IpAddr, Vec<String>>,
}

impl PodOptions {
    /// A merge patch for the spec of the agent's Pod. Null omits a field.
    pub(in crate::addon) fn for_agent(&self) -> Value {
        let aliases = self.host_aliases.iter();
        let aliases = aliases.map(|(ip, names)| json!({ "ip": ip, "hostnames": names }));
        let aliases = Some(aliases.collect::<Vec<_>>()).filter(|all| !all.is_empty());
        json!({ "priorityClassName": self.priority_class, "hostAliases": aliases })
    }

    /// A merge patch for the spec of a Pod of Argo CD. Null omits a field.
    pub(in crate::addon) fn for_argocd(&self) -> Value {
        json!({ "priorityClassName": self.priority_class })
    }
}

/// Reads the variables.
pub(super) fn options(config: &AddOnDeploymentConfigSpec) -> Result<PodOptions, Error> {
    let class = |value: &str| is_name(value).then(|| value.to_owned());
    let wanted = "the name of a PriorityClass";
    Ok(PodOptions {
        priority_class: variable("PRIORITY_CLASS", config, wanted, class)?,
        host_aliases: variable("HOST_ALIASES", config, ALIASES, aliases)?.unwrap_or_default(),
    })
}

/// One entry for each address: the API server refuses an address that occurs twice.
fn aliases(text: &str) -> Option<BTreeMap<IpAddr, Vec<String>>> {
    let mut all: BTreeMap<IpAddr, Vec<String>> = BTreeMap::new();
    let entries = text.split(';').map(str::trim);
    for entry in entries.filter(|entry| !entry.is_empty()) {
        let (ip, names) = entry.split_once('=')?;
        let known = all.entry(ip.trim().parse().ok()?).or_default();
        for name in names.split(',').map(str::trim) {
            if !is_name(name) {
                return None;
            }
            if known.iter().all(|other| other != name) {
                known.push(name.to_owned());
            }
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addon::settings::tests::config;

    fn of(name: &str, value: &str) -> Result<PodOptions, Error> {
        options(&config(&[(name, value)]))
    }

    #[test]
    fn pod_options_are_absent_by_default() {
        for name in ["MODE", "PRIORITY_CLASS", "HOST_ALIASES"] {
            let options = of(name, "").unwrap();
            assert_eq!(options, PodOptions::default(), "{name}");
            let mut pod = json!({ "containers": [] });
            argocd::patch::merge(&mut pod, &options.for_agent());
            argocd::patch::merge(&mut pod, &options.for_argocd());
            assert_eq!(pod, json!({ "containers": [] }));
        }
    }

    #[test]
    fn priority_class_applies_to_agent_and_argo_cd() {
        let options = of("PRIORITY_CLASS", "system-cluster-critical").unwrap();
        let expected = json!("system-cluster-critical");
        assert_eq!(options.for_agent()["priorityClassName"], expected);
        assert_eq!(
            options.for_argocd(),
            json!({ "priorityClassName": expected })
        );
    }

    #[test]
    fn host_aliases_have_each_address_once() {
        for (value, expected) in [
            (
                "10.0.0.1=hub.example.com",
                json!([{ "ip": "10.0.0.1", "hostnames": ["hub.example.com"] }]),
            ),
            (
                " 10.0.0.2 = b , c ; 10.0.0.1=a;;10.0.0.2=c,d;",
                json!([
                    { "ip": "10.0.0.1", "hostnames": ["a"] }, { "ip": "10.0.0.2", "hostnames": ["b", "c", "d"] },
                ]),
            ),
            (
                "fd00:0::1=hub;fd00::1=git",
                json!([{ "ip": "fd00::1", "hostnames": ["hub", "git"] }]),
            ),
        ] {
            let options = of("HOST_ALIASES", value).unwrap();
            assert_eq!(options.for_agent()["hostAliases"], expected, "{value}");
            let of_argocd = options.for_argocd();
            assert_eq!(of_argocd.get("hostAliases"), None, "only the agent's Pod");
        }
    }

    #[test]
    fn an_invalid_pod_option_is_refused_with_the_variable() {
        let long = "a".repeat(254);
        for (name, value) in [
            ("PRIORITY_CLASS", "High"),
            ("PRIORITY_CLASS", "a b"),
            ("PRIORITY_CLASS", "-a"),
            ("PRIORITY_CLASS", "a..b"),
            ("PRIORITY_CLASS", "../a"),
            ("PRIORITY_CLASS", &long),
            ("HOST_ALIASES", "hub.example.com"),
            ("HOST_ALIASES", "hub=10.0.0.1"),
            ("HOST_ALIASES", "10.0.0.1="),
            ("HOST_ALIASES", "10.0.0.1=a,,b"),
            ("HOST_ALIASES", "10.0.0.1=Hub"),
            ("HOST_ALIASES", "10.0.0.1=a b"),
            ("HOST_ALIASES", "10.0.0.1=a\nb"),
            ("HOST_ALIASES", "10.0.0.256=a"),
            ("HOST_ALIASES", "10.0.0.0/8=a"),
            ("HOST_ALIASES", "fe80::1%eth0=a"),
            ("HOST_ALIASES", "10.0.0.1=a,10.0.0.2=b"),
        ] {
            let message = of(name, value).unwrap_err().to_string();
            assert!(message.contains(name), "{value}: {message}");
        }
    }
}
