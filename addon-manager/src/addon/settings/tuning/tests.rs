use super::*;
use crate::addon::settings::tests::config;

fn of(name: &str, value: &str) -> Result<Tuning, Error> {
    tuning(&config(&[(name, value)]))
}

fn entries(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn unset_variables_change_nothing() {
    for name in [
        "MODE",
        "ARGOCD_CM",
        "ARGOCD_CMD_PARAMS",
        "ARGOCD_REPO_SERVER_REPLICAS",
    ] {
        let tuning = of(name, "").unwrap();
        assert_eq!(tuning, Tuning::default(), "{name}");
        assert_eq!(tuning.environment("argocd-repo-server"), []);
    }
}

#[test]
fn an_empty_map_of_argocd_cm_differs_from_none() {
    assert_eq!(of("ARGOCD_CM", "{}").unwrap().cm, Some(BTreeMap::new()));
    assert_eq!(of("ARGOCD_CMD_PARAMS", "{}"), Ok(Tuning::default()));
}

#[test]
fn maps_of_strings_numbers_and_booleans_are_read() {
    let text = "timeout.reconciliation: 300s\n\
                resource.respectRBAC: strict\n\
                resource.ignoreResourceUpdatesEnabled: true\n\
                resource.exclusions: \"\"\n\
                kustomize.buildOptions.v5.0.0: --enable-helm\n\
                resource.customizations.health.cert-manager.io_Certificate: |\n  \
                  hs = {}\n  \
                  return hs\n";
    let expected = entries(&[
        ("timeout.reconciliation", "300s"),
        ("resource.respectRBAC", "strict"),
        ("resource.ignoreResourceUpdatesEnabled", "true"),
        ("resource.exclusions", ""),
        ("kustomize.buildOptions.v5.0.0", "--enable-helm"),
        (
            "resource.customizations.health.cert-manager.io_Certificate",
            "hs = {}\nreturn hs\n",
        ),
    ]);
    assert_eq!(of("ARGOCD_CM", text).unwrap().cm, Some(expected));
    // JSON is YAML.
    let json = r#"{"controller.status.processors": 50, "reposerver.log.level": "debug"}"#;
    let expected = [
        ("controller.status.processors", "50"),
        ("reposerver.log.level", "debug"),
    ];
    assert_eq!(
        of("ARGOCD_CMD_PARAMS", json).unwrap().parameters,
        entries(&expected)
    );
}

#[test]
fn a_map_may_be_cut_anywhere_into_parts() {
    let whole = "timeout.reconciliation: 300s\nglobalProjects: a\n";
    for at in 1..whole.len() {
        let (first, rest) = whole.split_at(at);
        let tuning = tuning(&config(&[("ARGOCD_CM_2", rest), ("ARGOCD_CM", first)]));
        assert_eq!(tuning, of("ARGOCD_CM", whole), "{first:?}");
    }
}

#[test]
fn each_program_gets_its_own_variables() {
    let tuning = Tuning {
        cm: Some(entries(&[
            ("timeout.reconciliation", "300s"),
            ("globalProjects", "a"),
        ])),
        parameters: entries(&[
            ("controller.status.processors", "50"),
            ("controller.default.cache.expiration", "1h"),
            ("reposerver.default.cache.expiration", "2h"),
        ]),
        repo_servers: None,
    };
    let controller = [
        ("ARGOCD_DEFAULT_CACHE_EXPIRATION", "1h"),
        ("ARGOCD_APPLICATION_CONTROLLER_STATUS_PROCESSORS", "50"),
        ("ARGOCD_RECONCILIATION_TIMEOUT", "300s"),
    ];
    assert_eq!(
        tuning.environment("argocd-application-controller"),
        controller
    );
    let repo_server = [
        ("ARGOCD_DEFAULT_CACHE_EXPIRATION", "2h"),
        ("ARGOCD_RECONCILIATION_TIMEOUT", "300s"),
    ];
    assert_eq!(tuning.environment("argocd-repo-server"), repo_server);
    assert_eq!(tuning.environment("argocd-redis"), []);
}

/// Settings that are refused, and a part of the message.
const INVALID_CM: [(&str, &str); 25] = [
    ("timeout.reconciliation", "not a YAML map"),
    ("- a", "not a YAML map"),
    ("null", "not a YAML map"),
    ("globalProjects: [", "not valid YAML"),
    ("globalProjects: a\nglobalProjects: b", "line 2"),
    ("globalProjects: &a x\ninstallationID: *a", "an alias"),
    ("globalProjects: {a: b}", "no string"),
    ("globalProjects: [a]", "no string"),
    ("globalProjects:", "no string"),
    ("installationID: 1.10", "no string"),
    ("url: https://x", "\"url\" cannot be set"),
    ("oidc.config: a", "cannot be set"),
    ("dex.config: a", "cannot be set"),
    ("accounts.alice: apiKey", "cannot be set"),
    ("admin.enabled: true", "cannot be set"),
    ("webhook.github.secret: a", "cannot be set"),
    ("resource.customizations.: a", "cannot be set"),
    ("resource.customizations.a/b: a", "cannot be set"),
    ("controller.log.level: debug", "cannot be set"),
    ("globalProjects: \"a\\a\"", "control characters"),
    ("globalProjects: \"a\\e[31m\"", "control characters"),
    ("timeout.reconciliation: $(REDIS_PASSWORD)", "without $"),
    ("timeout.reconciliation: 180", "needs a duration"),
    ("resource.respectRBAC: true", "needs normal or strict"),
    (
        "resource.ignoreResourceUpdatesEnabled: 2",
        "needs true or false",
    ),
];

/// Parameters that are refused, and a part of the message.
const INVALID_PARAMS: [(&str, &str); 14] = [
    ("redis.server: evil:6379", "cannot be set"),
    ("repo.server: evil:8081", "cannot be set"),
    ("application.namespaces: '*'", "cannot be set"),
    ("server.insecure: true", "cannot be set"),
    ("reposerver.disable.tls: true", "cannot be set"),
    ("reposerver.listen.address: 0.0.0.0", "cannot be set"),
    ("controller.repo.server.plaintext: true", "cannot be set"),
    ("controller.status.procesors: 50", "cannot be set"),
    ("timeout.reconciliation: 50s", "cannot be set"),
    ("controller.log.level: $(REDIS_PASSWORD)", "without $"),
    ("controller.log.level: \"a\\nb\"", "one line"),
    ("controller.log.level: ä", "printable ASCII"),
    ("controller.status.processors: 0", "1 or more"),
    ("reposerver.log.level: loud", "needs a log level"),
];

#[test]
fn an_invalid_map_is_refused_with_variable_and_problem() {
    let deep = "[".repeat(5000);
    let long_key = format!("resource.customizations.health.{}: a", "a".repeat(300));
    let long = [
        (deep.as_str(), "not valid YAML"),
        (long_key.as_str(), "cannot be set"),
    ];
    let settings = INVALID_CM.into_iter().chain(long);
    let settings = settings.map(|case| ("ARGOCD_CM", case));
    let params = INVALID_PARAMS.map(|case| ("ARGOCD_CMD_PARAMS", case));
    for (name, (value, problem)) in settings.chain(params) {
        let message = of(name, value).unwrap_err().to_string();
        assert!(
            message.contains(name) && message.contains(problem),
            "{value}: {message}"
        );
        assert!(message.len() < 300, "{message}");
        assert!(!message.chars().any(char::is_control), "{message:?}");
    }
}

#[test]
fn a_gap_between_parts_is_refused() {
    let gap = tuning(&config(&[("ARGOCD_CM", "{}"), ("ARGOCD_CM_3", "\n")]));
    assert!(gap.unwrap_err().to_string().contains("ARGOCD_CM_2"));
}

#[test]
fn replicas_of_the_repo_server_are_limited() {
    for (value, expected) in [("1", 1), ("10", 10)] {
        let tuning = of("ARGOCD_REPO_SERVER_REPLICAS", value).unwrap();
        assert_eq!(tuning.repo_servers, Some(expected));
    }
    for value in ["0", "11", "-1", "1.5", "256", "two", " 2"] {
        let message = of("ARGOCD_REPO_SERVER_REPLICAS", value)
            .unwrap_err()
            .to_string();
        assert!(message.contains("from 1 to 10"), "{value}: {message}");
    }
}

#[test]
fn known_keys_are_sorted_and_unique() {
    for (program, read) in keys::PROGRAMS {
        let names: Vec<_> = read.iter().map(|(key, _)| *key).collect();
        assert!(names.is_sorted_by(|a, b| a < b), "{program}");
        let mut variables: Vec<_> = read.iter().map(|(_, variable)| *variable).collect();
        variables.sort_unstable();
        assert!(variables.is_sorted_by(|a, b| a < b), "{program}");
        for key in names {
            assert!(keys::is_in_cm(key) != keys::is_parameter(key), "{key}");
        }
    }
}
