use ocm::api::addon::{ContainerResourceRequirements, CustomizedVariable};

use super::*;

/// A configuration with these variables and nothing else.
pub(super) fn config(variables: &[(&str, &str)]) -> AddOnDeploymentConfigSpec {
    let variable = |(name, value): &(&str, &str)| CustomizedVariable {
        name: (*name).to_owned(),
        value: (*value).to_owned(),
    };
    AddOnDeploymentConfigSpec {
        customized_variables: variables.iter().map(variable).collect(),
        ..AddOnDeploymentConfigSpec::default()
    }
}

fn defaults() -> Defaults {
    Defaults {
        image: "quay.io/ocm/agent:v1".to_owned(),
        principal: Some("hub.example.org".parse().unwrap()),
        ca_bundle: Some("PEM".to_owned()),
    }
}

fn resolved(variables: &[(&str, &str)]) -> Result<Spoke, Error> {
    spoke(&config(variables), "agents", Mode::Managed, &defaults())
}

#[test]
fn without_any_variable_the_defaults_count() {
    let spoke = resolved(&[]).unwrap();
    assert_eq!(spoke.argocd_namespace, "argocd");
    assert_eq!(spoke.principal.to_string(), "hub.example.org:443");
    assert_eq!(
        (spoke.log_level.as_str(), spoke.mode),
        ("info", Mode::Managed)
    );
}

#[test]
fn variables_win_and_empty_ones_do_not_count() {
    let spoke = resolved(&[
        ("PRINCIPAL_ADDRESS", "10.0.0.1:8443"),
        ("ARGOCD_NAMESPACE", ""),
        ("LOG_LEVEL", "debug"),
    ]);
    let spoke = spoke.unwrap();
    assert_eq!(spoke.principal.to_string(), "10.0.0.1:8443");
    assert_eq!(spoke.argocd_namespace, "argocd");
    assert_eq!(spoke.log_level, "debug");
}

#[test]
fn further_namespaces_are_names_and_patterns_between_commas() {
    for (value, names) in [
        ("", &[][..]),
        (" , ", &[]),
        ("team-b, team-a,team-b", &["team-a", "team-b"]),
        ("/^x$/, team-*", &["/^x$/", "team-*"]),
    ] {
        let spoke = resolved(&[("ALLOWED_NAMESPACES", value)]).unwrap();
        let found: Vec<_> = spoke.allowed_namespaces.iter().collect();
        assert_eq!(found, names, "{value:?}");
    }
}

#[test]
fn the_recorded_mode_wins_over_everything() {
    let recorded = Addon {
        recorded: Some("managed".to_owned()),
        ..Addon::default()
    };
    let (label, addon) = (Some(Mode::Autonomous), Addon::default());
    let autonomous = config(&[("MODE", "autonomous")]);
    let none = config(&[("MODE", "")]);
    for (addon, label, config, expected) in [
        (&recorded, label, &autonomous, Mode::Managed),
        (&addon, label, &none, Mode::Autonomous),
        (&addon, None, &autonomous, Mode::Autonomous),
        (&addon, None, &none, Mode::Managed),
    ] {
        assert_eq!(mode(addon, label, config), Ok(expected));
    }
}

#[test]
fn a_mode_that_does_not_exist_is_refused_where_it_counts() {
    let unknown = config(&[("MODE", "autonomus")]);
    let refused = mode(&Addon::default(), None, &unknown).unwrap_err();
    let message = "the variable MODE of the AddOnDeploymentConfig is \"autonomus\"; it must be \
                   managed or autonomous";
    assert_eq!(refused.to_string(), message);
    let recorded = Addon {
        recorded: Some("managed".to_owned()),
        ..Addon::default()
    };
    assert_eq!(mode(&recorded, None, &unknown), Ok(Mode::Managed));
}

#[test]
fn an_invalid_value_is_refused_with_variable_and_value() {
    for (name, value) in [
        ("PRINCIPAL_ADDRESS", "http://x"),
        ("ARGOCD_NAMESPACE", "A"),
        ("LOG_LEVEL", "loud"),
        ("ALLOWED_NAMESPACES", "team-a,{team-b"),
        ("UI_ACCESS", "everything"),
        ("UI_READ_GROUPS", "kyverno.io,core"),
        ("AGENT_IMAGE", "an agent"),
    ] {
        let message = resolved(&[(name, value)]).unwrap_err().to_string();
        assert!(
            message.contains(name) && message.contains(value),
            "{message}"
        );
    }
}

#[test]
fn install_argocd_and_keep_argocd_accept_few_values() {
    for (value, wanted) in [
        ("", Install::Auto),
        ("auto", Install::Auto),
        ("true", Install::Always),
        ("false", Install::Never),
    ] {
        assert_eq!(installs(&config(&[("INSTALL_ARGOCD", value)])), Ok(wanted));
    }
    assert_eq!(installs(&config(&[])), Ok(Install::Auto));
    let refused = installs(&config(&[("INSTALL_ARGOCD", "yes")])).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the variable INSTALL_ARGOCD of the AddOnDeploymentConfig is \"yes\"; it must be auto, \
         true or false"
    );
    assert_eq!(keeps_argocd(&config(&[])), Ok(false));
    assert_eq!(keeps_argocd(&config(&[("KEEP_ARGOCD", "true")])), Ok(true));
    let refused = keeps_argocd(&config(&[("KEEP_ARGOCD", "1")])).unwrap_err();
    assert!(refused.to_string().contains("KEEP_ARGOCD"), "{refused}");
}

#[test]
fn an_unknown_address_names_the_variable_to_set() {
    let unknown = Defaults {
        principal: None,
        ..defaults()
    };
    let error = spoke(&config(&[]), "agents", Mode::Managed, &unknown).unwrap_err();
    assert!(error.to_string().contains("PRINCIPAL_ADDRESS"));
}

#[test]
fn the_certificates_of_a_proxy_are_checked_and_passed_on() {
    let with = |bundle: &str| AddOnDeploymentConfigSpec {
        proxy_config: Some(ocm::api::addon::ProxyConfig {
            https_proxy: "https://proxy:3129".to_owned(),
            ca_bundle: bundle.to_owned(),
            ..ocm::api::addon::ProxyConfig::default()
        }),
        ..AddOnDeploymentConfigSpec::default()
    };
    let pem = "-----BEGIN CERTIFICATE-----\n";
    assert_eq!(proxy(&with(&STANDARD.encode(pem))).unwrap().ca, pem);
    assert_eq!(proxy(&with("")).unwrap().ca, "");
    for wrong in ["no base64", &STANDARD.encode("no certificate")] {
        assert_eq!(proxy(&with(wrong)), Err(Error::ProxyCa), "{wrong}");
    }
}

#[test]
fn resources_are_those_of_the_agents_container() {
    let entry = |id: &str| ContainerResourceRequirements {
        container_id: id.to_owned(),
        ..ContainerResourceRequirements::default()
    };
    let mut config = config(&[]);
    config.resource_requirements = vec![entry("deployments:other:agent")];
    assert_eq!(resources(&config), None);
    config.resource_requirements.push(entry("*:*:*"));
    assert!(resources(&config).is_some());
}
