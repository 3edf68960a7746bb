//! Variables of the agents whose values are longer than OCM permits.

use std::fs;

use addon_manager::addon::settings::{self, Defaults};
use lab::helm;
use principal::Mode;
use serde_json::Value;

use super::rendered::{RELEASE, one, parsed, template_for};
use crate::shared::sources;

/// The names and values of the variables with these values of the chart.
fn variables(sets: &[&str]) -> Vec<(String, String)> {
    let config = one(sets, "AddOnDeploymentConfig", RELEASE);
    let variables = config["spec"]["customizedVariables"].as_array();
    let variables = variables.expect("variables").iter();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    variables
        .map(|it| (text(&it["name"]), text(&it["value"])))
        .collect()
}

#[test]
fn long_settings_of_argo_cd_continue_in_further_variables() {
    let long = format!("globalProjects: {}\u{e4}\"", "0123456789".repeat(250));
    let set = format!("agent.variables.ARGOCD_CM={long}");
    let variables = variables(&[&set, "agent.variables.LOG_LEVEL=debug"]);
    let names: Vec<_> = variables.iter().map(|(name, _)| name.as_str()).collect();
    let expected = ["ARGOCD_CM", "ARGOCD_CM_2", "ARGOCD_CM_3", "LOG_LEVEL"];
    assert_eq!(names, expected);
    let texts: Vec<_> = variables.into_iter().map(|(_, value)| value).collect();
    assert!(texts.iter().all(|it| it.chars().count() <= 1024));
    assert_eq!(texts.concat(), long + "debug");
}

#[test]
fn short_and_other_variables_stay_whole() {
    for (name, value) in [
        ("ARGOCD_CM", "{}".to_owned()),
        ("ARGOCD_CM", String::new()),
        ("AGENT_IMAGE", "a".repeat(1010)),
    ] {
        // Braces would be a list.
        let escaped = value.replace('{', "\\{").replace('}', "\\}");
        let set = format!("agent.variables.{name}={escaped}");
        assert_eq!(variables(&[&set]), [(name.to_owned(), value)]);
    }
}

#[test]
fn example_of_the_page_is_accepted_by_the_manager() {
    let page = sources::file("docs/configuration.md");
    let section = page.split_once("## Settings of installed Argo CDs");
    let example = section.and_then(|(_, rest)| rest.split_once("```yaml\n"));
    let example = example.and_then(|(_, rest)| rest.split_once("```"));
    let (example, _) = example.expect("the example");
    let folder = tempfile::tempdir().expect("a folder");
    let values = folder.path().join("values.yaml");
    fs::write(&values, example).expect("a file");
    let values = helm::text(&values).expect("a path");
    let only = "templates/addondeploymentconfig.yaml";
    let output = template_for(&["--values", values, "--show-only", only], &[]);
    assert!(output.success, "{}", output.err);
    let spec = parsed(output.out.trim_start_matches("---\n"))["spec"].take();
    let config = serde_json::from_value(spec).expect("a configuration");
    let defaults = Defaults {
        image: "agent:v1".to_owned(),
        principal: "hub.example.org".parse().ok(),
        ca_bundle: Some("PEM".to_owned()),
    };
    let spoke = settings::spoke(&config, "agents", Mode::Managed, &defaults);
    let tuning = spoke.expect("valid settings").tuning;
    let cm = tuning.cm.expect("keys of argocd-cm");
    let keys: Vec<_> = cm.keys().map(String::as_str).collect();
    let health = "resource.customizations.health.example.com_Database";
    assert_eq!(keys, [health, "timeout.reconciliation"]);
    assert!(cm[health].ends_with("return hs\n"));
    assert_eq!(tuning.parameters.len(), 2);
    assert_eq!(tuning.repo_servers, Some(2));
}
