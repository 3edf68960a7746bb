//! The spoke's manifests hold together. The hub's are a chart, which `tests/tests/chart.rs` renders.

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
            // A reason may stand over several rules that belong together.
            reason |= rule && trimmed.starts_with('#');
            if rule && trimmed.starts_with("- apiGroups") {
                assert!(reason, "{file}: {line}");
            }
        }
    }
    for role in of_kind("ClusterRole").into_iter().chain(of_kind("Role")) {
        for rule in role["rules"].as_array().unwrap() {
            // People may look at every kind of a group that is named.
            let looks = role["metadata"]["name"] == "argocd-agent-addon-ui-read"
                && rule["resources"] == serde_json::json!(["*"]);
            assert!(looks || !rule.to_string().contains('*'), "{rule}");
            assert!(rule.get("verbs").is_some());
        }
    }
}

#[test]
fn people_may_look_at_everything_but_secrets_and_change_nothing() {
    let roles = of_kind("ClusterRole");
    assert_eq!(roles.len(), 1, "the agent itself has no right everywhere");
    for rule in roles
        .iter()
        .flat_map(|role| role["rules"].as_array().unwrap())
    {
        assert_eq!(rule["verbs"], serde_json::json!(["get", "list", "watch"]));
        let groups: Vec<_> = rule["apiGroups"].as_array().unwrap().iter().collect();
        let named = groups.iter().all(|group| *group != "*");
        let core = groups.iter().any(|group| *group == "");
        let resources = rule["resources"].to_string();
        assert!(named && !resources.contains("secrets"), "{rule}");
        assert!(!core || !resources.contains('*'), "{rule}");
        for leads_elsewhere in ["exec", "attach", "portforward", "proxy", "token"] {
            assert!(!resources.contains(leads_elsewhere), "{rule}");
        }
    }
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
