//! Variables of a configuration that the add-on does not read, such as misspelled ones. Pure.

use std::collections::BTreeSet;

use ocm::api::addon::AddOnDeploymentConfigSpec;
use runtime::names::with_suggestion;

use super::parts::is_further_part;

/// The variables that the add-on reads. A test compares them with the calls that read them.
pub const VARIABLES: &[&str] = &[
    "AGENT_IMAGE",
    "ALLOWED_NAMESPACES",
    "ARGOCD_CM",
    "ARGOCD_CMD_PARAMS",
    "ARGOCD_NAMESPACE",
    "ARGOCD_REPO_SERVER_REPLICAS",
    "HOST_ALIASES",
    "INSTALL_ARGOCD",
    "KEEP_ARGOCD",
    "LOG_LEVEL",
    "MODE",
    "OTLP_ADDRESS",
    "OTLP_CA",
    "OTLP_INSECURE",
    "OTLP_SAMPLE_RATIO",
    "PRINCIPAL_ADDRESS",
    "PRIORITY_CLASS",
    "REDIS_ADDR",
    "REDIS_SECRET",
    "REDIS_SECRET_KEY",
    "REDIS_TLS",
    "REDIS_USERNAME",
    "SHARE_UNSCOPED_REPOSITORIES",
    "UI_ACCESS",
    "UI_READ_GROUPS",
];

/// The number of names in a message.
const LISTED: usize = 5;

/// The length of a name in a message.
const LONGEST: usize = 64;

/// Variables that have no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// Their number.
    pub count: usize,
    /// The first of their names in alphabetical order, each with the variable that may be meant.
    pub names: Vec<String>,
}

/// The variables of a configuration that the add-on does not read, if there are any.
pub fn unknown(config: &AddOnDeploymentConfigSpec) -> Option<Unknown> {
    let names = config.customized_variables.iter();
    let names = names.map(|variable| variable.name.as_str());
    let is_known = |name: &str| VARIABLES.contains(&name) || is_further_part(name);
    let unknown: BTreeSet<&str> = names.filter(|name| !is_known(name)).collect();
    let listed = unknown.iter().take(LISTED).map(|name| suggested(name));
    (!unknown.is_empty()).then(|| Unknown {
        count: unknown.len(),
        names: listed.collect(),
    })
}

/// The name, printable and of limited length, and the variable that may be meant.
fn suggested(name: &str) -> String {
    let shown: String = name.escape_default().take(LONGEST).collect();
    with_suggestion(&[shown], VARIABLES.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addon::settings::tests::config;

    fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<Unknown> {
        let variables: Vec<_> = names.into_iter().map(|name| (name, "x")).collect();
        unknown(&config(&variables))
    }

    #[test]
    fn known_variables_are_not_reported() {
        assert_eq!(of([]), None);
        assert_eq!(of(VARIABLES.iter().copied()), None);
        assert_eq!(of(["ARGOCD_CM_2", "ARGOCD_CMD_PARAMS_64"]), None);
    }

    #[test]
    fn misspelled_variable_is_reported_with_the_one_that_is_meant() {
        for (name, shown) in [
            (
                "ALOWED_NAMESPACES",
                "ALOWED_NAMESPACES (did you mean ALLOWED_NAMESPACES?)",
            ),
            ("log_level", "log_level (did you mean LOG_LEVEL?)"),
            ("LOG_LEVEL ", "LOG_LEVEL  (did you mean LOG_LEVEL?)"),
            ("ARGOCD_CM_1", "ARGOCD_CM_1 (did you mean ARGOCD_CM?)"),
            ("SEVEN", "SEVEN"),
            ("", ""),
        ] {
            let unknown = of([name, "MODE"]).unwrap();
            assert_eq!((unknown.count, unknown.names), (1, vec![shown.to_owned()]));
        }
    }

    #[test]
    fn order_and_repetitions_do_not_change_the_report() {
        let sorted = of(["ALPHA", "BETA", "GAMMA"]);
        assert_eq!(of(["GAMMA", "BETA", "ALPHA", "BETA"]), sorted);
        assert_eq!(sorted.unwrap().count, 3);
    }

    #[test]
    fn many_and_hostile_names_give_a_short_printable_report() {
        let numbered: Vec<String> = (0..1000).map(|it| format!("NUMBER_{it}")).collect();
        let long = "é".repeat(100_000);
        let hostile = ["\u{1b}[31m", "line\nbreak", "\u{202e}txet", long.as_str()];
        let names = numbered.iter().map(String::as_str).chain(hostile);
        let unknown = of(names).unwrap();
        assert_eq!((unknown.count, unknown.names.len()), (1004, LISTED));
        let unknown = of(hostile).unwrap();
        assert_eq!(unknown.names.len(), hostile.len());
        for name in &unknown.names {
            assert!(name.len() <= LONGEST + 50, "{name}");
            assert!(name.bytes().all(|it| matches!(it, b' '..=b'~')), "{name:?}");
        }
    }
}
