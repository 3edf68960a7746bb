//! The hub's manifests hold together: with each other, with the program, and with the RBAC rules.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test file: every helper is a test's"
)]

use std::{collections::BTreeSet, fs, path::PathBuf};

use addon_manager::{issuer, keys};
use serde_json::Value;

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../manifests")
        .join(name)
}

fn files(name: &str) -> Vec<(String, String)> {
    let mut files: Vec<_> = fs::read_dir(folder(name))
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

fn objects(name: &str) -> Vec<Value> {
    let all = files(name).into_iter();
    all.flat_map(|(file, text)| {
        let documents = text.split("\n---\n").map(str::to_owned).collect::<Vec<_>>();
        documents.into_iter().map(move |document| {
            serde_saphyr::from_str(&document).unwrap_or_else(|error| panic!("{file}: {error}"))
        })
    })
    .collect()
}

fn of_kind(name: &str, kind: &str) -> Vec<Value> {
    objects(name)
        .into_iter()
        .filter(|object| object["kind"] == kind)
        .collect()
}

fn only(name: &str, kind: &str) -> Value {
    let found = of_kind(name, kind);
    assert_eq!(found.len(), 1, "{kind} in {name}");
    found.into_iter().next().unwrap()
}

#[test]
fn every_rule_has_a_reason_and_none_has_a_wildcard() {
    for name in ["hub", "spoke"] {
        for (file, text) in files(name) {
            let mut reason = false;
            let mut rule = false;
            for line in text.lines() {
                let trimmed = line.trim_start();
                if trimmed.starts_with("rules:") {
                    rule = true;
                }
                // A reason may stand over several rules that belong together.
                reason |= rule && trimmed.starts_with('#');
                if rule && trimmed.starts_with("- apiGroups") {
                    assert!(reason, "{file}: {line}");
                }
            }
        }
        let roles = of_kind(name, "ClusterRole")
            .into_iter()
            .chain(of_kind(name, "Role"));
        for role in roles {
            for rule in role["rules"].as_array().unwrap() {
                assert!(!rule.to_string().contains('*'), "{rule}");
                assert!(rule.get("verbs").is_some());
            }
        }
    }
}

#[test]
fn nothing_can_be_granted_that_is_not_held() {
    let forbidden = ["escalate", "bind", "impersonate", "deletecollection"];
    for role in of_kind("hub", "ClusterRole")
        .iter()
        .chain(&of_kind("hub", "Role"))
    {
        let rules = role["rules"].to_string();
        for verb in forbidden {
            assert!(!rules.contains(&format!("\"{verb}\"")), "{verb}");
        }
    }
}

#[test]
fn secrets_of_the_own_namespace_are_granted_by_name() {
    let role = of_kind("hub", "Role")
        .into_iter()
        .find(|role| role["metadata"]["namespace"] == "argocd-agent-addon")
        .unwrap();
    let names: BTreeSet<&str> = role["rules"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|rule| rule["resources"][0] == "secrets" && rule.get("resourceNames").is_some())
        .flat_map(|rule| rule["resourceNames"].as_array().unwrap())
        .map(|name| name.as_str().unwrap())
        .collect();
    let known = [
        issuer::CA_SECRET,
        issuer::PRINCIPAL_SECRET,
        issuer::RESOURCE_PROXY_SECRET,
        issuer::JWT_SECRET,
    ];
    assert_eq!(names, known.into());
}

#[test]
fn the_names_in_the_manifests_are_those_in_the_program() {
    let rules = of_kind("hub", "ClusterRole")[0]["rules"].to_string();
    assert!(rules.contains(keys::SIGNER));
    assert_eq!(
        only("hub", "Service")["metadata"]["name"],
        keys::PRINCIPAL_SERVICE
    );
    assert_eq!(
        only("hub", "Service")["spec"]["selector"][keys::ACTIVE],
        "true"
    );
    for name in ["hub", "hub-placements"] {
        assert_eq!(
            only(name, "ClusterManagementAddOn")["metadata"]["name"],
            keys::ADDON
        );
    }
}

#[test]
fn the_pod_is_selected_by_its_service_and_confined() {
    let deployment = only("hub", "Deployment");
    let pod = &deployment["spec"]["template"];
    let selector = only("hub", "Service")["spec"]["selector"].clone();
    for (label, value) in selector.as_object().unwrap() {
        if label != keys::ACTIVE {
            assert_eq!(&pod["metadata"]["labels"][label], value);
        }
    }
    for (where_from, deployment) in [
        ("hub", deployment.clone()),
        ("spoke", only("spoke", "Deployment")),
    ] {
        let pod = &deployment["spec"]["template"]["spec"];
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true, "{where_from}");
        let container = &pod["containers"][0];
        assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
        assert_eq!(
            container["securityContext"]["allowPrivilegeEscalation"],
            false
        );
        assert!(
            container.get("readinessProbe").is_some() && container.get("livenessProbe").is_some()
        );
    }
}

#[test]
fn the_arguments_in_the_deployment_are_understood() {
    let deployment = only("hub", "Deployment");
    let arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"].clone();
    let arguments = arguments
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it.as_str().unwrap().into());
    let parsed = addon_manager::args::parse(
        [std::ffi::OsString::from("addon-manager")]
            .into_iter()
            .chain(arguments),
    );
    assert!(parsed.is_ok(), "{:?}", parsed.err());
}

#[test]
fn the_placement_tolerates_lost_clusters_and_sees_all() {
    let placement = only("hub-placements", "Placement");
    let tolerations = placement["spec"]["tolerations"].to_string();
    assert!(tolerations.contains(ocm::keys::TAINT_UNREACHABLE));
    assert!(tolerations.contains(ocm::keys::TAINT_UNAVAILABLE));
    let selector = placement["spec"]["predicates"].to_string();
    assert!(selector.contains(keys::MODE));
    let binding = only("hub-placements", "ManagedClusterSetBinding");
    assert_eq!(binding["metadata"]["name"], binding["spec"]["clusterSet"]);
}

#[test]
fn both_styles_differ_in_who_chooses_the_clusters_only() {
    let [mut manual, mut placements] =
        ["hub", "hub-placements"].map(|name| only(name, "ClusterManagementAddOn"));
    for offer in [&mut manual, &mut placements] {
        offer["spec"]["installStrategy"].take();
    }
    assert_eq!(manual, placements);
}
