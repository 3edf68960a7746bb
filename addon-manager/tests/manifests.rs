//! The spoke's manifests hold together. The hub's are a chart, which `tests/rules/chart.rs` renders.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test file: every helper is a test's"
)]

use std::{fs, path::PathBuf};

use serde_json::Value;

fn files() -> Vec<(String, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../manifests/spoke");
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "yaml"))
        .map(|path| {
            (
                path.display().to_string(),
                fs::read_to_string(&path).unwrap(),
            )
        })
        .collect();
    files.sort();
    files
}

fn of_kind(kind: &str) -> Vec<Value> {
    let all = files().into_iter();
    let objects = all.flat_map(|(file, text)| {
        let documents = text.split("\n---\n").map(str::to_owned).collect::<Vec<_>>();
        documents.into_iter().map(move |document| {
            serde_saphyr::from_str::<Value>(&document)
                .unwrap_or_else(|error| panic!("{file}: {error}"))
        })
    });
    objects.filter(|object| object["kind"] == kind).collect()
}

#[test]
fn every_rule_of_the_spoke_has_a_reason_and_none_has_a_wildcard() {
    for (file, text) in files() {
        let mut reason = false;
        let mut rule = false;
        for line in text.lines() {
            let trimmed = line.trim_start();
            rule |= trimmed.starts_with("rules:");
            // One reason may precede several related rules.
            reason |= rule && trimmed.starts_with('#');
            if rule && trimmed.starts_with("- apiGroups") {
                assert!(reason, "{file}: {line}");
            }
        }
    }
    for role in of_kind("ClusterRole").into_iter().chain(of_kind("Role")) {
        for rule in role["rules"].as_array().unwrap() {
            // Users have the same permissions for every kind of a named group.
            let name = role["metadata"]["name"].as_str().unwrap();
            let for_people = name.starts_with("argocd-agent-addon-ui-")
                && rule["resources"] == serde_json::json!(["*"]);
            assert!(for_people || !rule.to_string().contains('*'), "{rule}");
            assert!(rule.get("verbs").is_some());
        }
    }
}

fn is_called(role: &Value, name: &str) -> bool {
    role.pointer("/metadata/name").and_then(Value::as_str) == Some(name)
}

/// The rules for users of the hub's Argo CD that a level adds.
fn rules_of(level: &str) -> Vec<Value> {
    let name = format!("argocd-agent-addon-ui-{level}");
    let roles = of_kind("ClusterRole").into_iter();
    let roles: Vec<_> = roles.filter(|role| is_called(role, &name)).collect();
    let [role] = roles.as_slice() else {
        panic!("{level}: {roles:?}");
    };
    role["rules"].as_array().unwrap().clone()
}

fn texts(rule: &Value, field: &str) -> Vec<String> {
    let all = rule[field].as_array().unwrap().iter();
    all.map(|it| it.as_str().unwrap().to_owned()).collect()
}

/// Checks the limits on the permissions of users at each level.
fn check_limits(rule: &Value) {
    let (groups, resources) = (texts(rule, "apiGroups"), texts(rule, "resources"));
    let core = groups.iter().any(String::is_empty);
    assert!(!groups.contains(&"*".to_owned()), "{rule}");
    assert!(!core || !resources.contains(&"*".to_owned()), "{rule}");
    for part in ["attach", "portforward", "proxy", "token"] {
        assert!(!resources.iter().any(|it| it.contains(part)), "{rule}");
    }
    for verb in ["*", "impersonate", "escalate", "bind", "deletecollection"] {
        assert!(!texts(rule, "verbs").contains(&verb.to_owned()), "{rule}");
    }
}

#[test]
fn readers_may_look_at_everything_but_secrets_and_change_nothing() {
    let levels = of_kind("ClusterRole");
    // Patterns of namespaces need rights in all of them, for Applications alone.
    let mut names = levels
        .iter()
        .filter(|role| !is_called(role, "argocd-agent-addon-agent-applications"))
        .map(|role| role["metadata"]["name"].to_string());
    let of_people = |name: String| name.contains("argocd-agent-addon-ui-");
    assert!(
        names.all(of_people),
        "the agent itself has no other cluster-wide permission"
    );
    for rule in rules_of("read") {
        assert_eq!(texts(&rule, "verbs"), ["get", "list", "watch"]);
        check_limits(&rule);
        let resources = rule["resources"].to_string();
        assert!(
            !resources.contains("secrets") && !resources.contains("exec"),
            "{rule}"
        );
    }
}

#[test]
fn operate_role_can_change_workloads_but_not_list_secrets() {
    for rule in rules_of("operate") {
        check_limits(&rule);
        let (resources, verbs) = (texts(&rule, "resources"), texts(&rule, "verbs"));
        let changes = verbs == ["patch", "delete"];
        let shows = verbs == ["get"] && resources == ["secrets"];
        let makes = verbs == ["create"] && ["jobs", "workflows"].contains(&&*resources[0]);
        assert!(changes || shows || makes && resources.len() == 1, "{rule}");
        for of_nodes in ["nodes", "events", "exec"] {
            assert!(!resources.iter().any(|it| it.contains(of_nodes)), "{rule}");
        }
        // Certificate requests give identities.
        assert!(!texts(&rule, "apiGroups").contains(&"certificates.k8s.io".to_owned()));
    }
}

#[test]
fn a_terminal_is_all_that_its_level_adds() {
    let rules = rules_of("terminal");
    let [rule] = rules.as_slice() else {
        panic!("{rules:?}");
    };
    check_limits(rule);
    assert_eq!(texts(rule, "resources"), ["pods/exec"]);
    assert_eq!(texts(rule, "verbs"), ["get", "create"]);
}

#[test]
fn the_agents_pod_is_confined() {
    let deployments = of_kind("Deployment");
    assert_eq!(deployments.len(), 1);
    for deployment in deployments {
        let pod = &deployment["spec"]["template"]["spec"];
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        let container = &pod["containers"][0];
        let security = &container["securityContext"];
        assert_eq!(security["readOnlyRootFilesystem"], true);
        assert_eq!(security["allowPrivilegeEscalation"], false);
        assert!(
            container.get("readinessProbe").is_some() && container.get("livenessProbe").is_some()
        );
    }
}
