//! What the chart offers to Red Hat Advanced Cluster Management: a link in its console, and a label for its backups.

use super::*;

const LINK: &str = "console.open-cluster-management.io/launch-link";
const TEXT: &str = "console.open-cluster-management.io/launch-link-text";

#[test]
fn console_link_is_on_the_definition_only_where_it_is_set() {
    let annotations = |sets: &[&str]| {
        let definition = one(sets, "ClusterManagementAddOn", "argocd-agent-addon");
        definition["metadata"]["annotations"].clone()
    };
    assert_eq!(annotations(&[]), Value::Null);
    assert_eq!(annotations(&["console.launchLinkText=Other"]), Value::Null);
    let link = "console.launchLink=https://argocd.example.org/applications";
    let expected = json!({LINK: "https://argocd.example.org/applications", TEXT: "Argo CD"});
    assert_eq!(annotations(&[link]), expected);
    let path = ["console.launchLink=/argocd", "console.launchLinkText=7"];
    assert!(!template(&["console.launchLink=/argocd", "console.launchLinkText="]).success);
    assert!(!template(&path).success, "a number is no text");
}

#[test]
fn backup_label_grants_patch_of_the_labelled_objects_only() {
    let rules = |sets: &[&str]| {
        let roles = [
            "argocd-agent-addon-manager",
            "argocd-agent-addon-manager-argocd",
        ];
        let roles = roles.map(|name| one(sets, "Role", name)["rules"].clone());
        let listed = roles.iter().filter_map(Value::as_array).flatten();
        listed.cloned().collect::<Vec<_>>()
    };
    let flag = |sets: &[&str]| {
        let manager = one(sets, "Deployment", "argocd-agent-addon-manager");
        let args = &manager["spec"]["template"]["spec"]["containers"][0]["args"];
        let mut args = args.as_array().into_iter().flatten();
        args.find(|it| it.to_string().contains("backup")).cloned()
    };
    let (before, set) = (rules(&[]), ["backup.label=cluster-activation"]);
    let mut added = rules(&set);
    added.retain(|rule| !before.contains(rule));
    let patch = |resource: &str, names: &[&str]| json!({"apiGroups": [""], "resources": [resource], "resourceNames": names, "verbs": ["patch"]});
    let expected = [
        patch("secrets", &["argocd-agent-ca", "argocd-agent-jwt"]),
        patch("configmaps", &["argocd-agent-principal-identity"]),
    ];
    assert_eq!(added, expected);
    assert_eq!(flag(&set), Some(json!("--backup-label=cluster-activation")));
    assert_eq!(flag(&[]), None);
}
