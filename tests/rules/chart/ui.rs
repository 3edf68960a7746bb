//! The pages in Argo CD's UI: what the chart has for them, and what of it the program and the JavaScript know by name.

use argocd::keys::{IGNORE_SYNC, SKIP_RECONCILE, addon};

use super::*;
use crate::shared::sources;

const ON: [&str; 2] = ["ui.enabled=true", "argocd.namespace=gitops"];
const MANAGER: &str = "argocd-agent-addon-manager";
const POLICY: &str = "ValidatingAdmissionPolicy";

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[test]
fn pages_in_the_ui_are_off_by_default() {
    for object in objects(&[]) {
        let name = text(&object["metadata"]["name"]);
        assert!(!name.starts_with(addon::UI_SERVICE) && name != addon::FLEET_GUARD);
        let content = object.to_string();
        for part in ["--ui-api-port", "\"port\":\"ui\"", addon::UI_EXTENSION] {
            assert!(!content.contains(part), "{part} in {content}");
        }
    }
}

#[test]
fn data_of_the_pages_comes_from_the_active_replica() {
    let service = one(&ON, "Service", addon::UI_SERVICE);
    let principal = one(&ON, "Service", addon::PRINCIPAL_SERVICE);
    assert_eq!(service["spec"]["selector"], principal["spec"]["selector"]);
    assert_eq!(service["spec"]["type"], "ClusterIP");
    let port = &service["spec"]["ports"][0];
    assert_eq!(
        (&port["port"], &port["targetPort"]),
        (&json!(addon::UI_PORT), &json!("ui"))
    );
    let deployment = one(&ON, "Deployment", MANAGER);
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let flag = json!(format!("--ui-api-port={}", addon::UI_PORT));
    let args = container["args"].as_array().expect("arguments");
    assert!(args.contains(&flag), "{args:?}");
    let listens = json!({"name": "ui", "containerPort": addon::UI_PORT});
    let ports = container["ports"].as_array().expect("ports");
    assert!(ports.contains(&listens), "{ports:?}");
}

#[test]
fn network_policy_admits_argocd_server_alone_to_the_pages() {
    let policy = one(&ON, "NetworkPolicy", MANAGER);
    let rules = policy["spec"]["ingress"].as_array().expect("rules").iter();
    let rules: Vec<_> = rules
        .filter(|it| it["ports"].to_string().contains("\"ui\""))
        .collect();
    let namespace = json!({"matchLabels": {"kubernetes.io/metadata.name": "gitops"}});
    let pods = json!({"matchLabels": {"app.kubernetes.io/name": "argocd-server"}});
    let from = json!([{"namespaceSelector": namespace, "podSelector": pods}]);
    assert_eq!(rules, [&json!({"ports": [{"port": "ui"}], "from": from})]);
}

#[test]
fn javascript_of_the_pages_is_the_built_file() {
    let map = one(&ON, "ConfigMap", addon::UI_EXTENSION);
    assert_eq!(map["metadata"]["namespace"], "gitops");
    let data = map["data"].as_object().expect("files");
    let names: Vec<_> = data.keys().map(String::as_str).collect();
    // argocd-server serves files of this form, in this order.
    let expected = [
        "extension-0-argocd-agent-settings.js",
        "extension-argocd-agent.js",
    ];
    assert_eq!(names, expected);
    let settings = text(&data[expected[0]]);
    assert_eq!(
        settings,
        "window.argocdAgentAddon = {\"namespace\":\"gitops\"};\n"
    );
    let built = sources::file("manifests/hub/extension/extension-argocd-agent.js");
    assert_eq!(text(&data[expected[1]]), built);
    // A ConfigMap holds 1 MiB.
    assert!(built.len() < 900 << 10, "{} bytes", built.len());
}

#[test]
fn names_of_the_pages_are_those_of_program_and_javascript() {
    let built = sources::file("manifests/hub/extension/extension-argocd-agent.js");
    let fleet = format!("extensions/{}/api/v1/fleet", addon::FLEET_GUARD);
    let application = format!(
        "extensions/{}/api/v1/applications/",
        addon::APPLICATION_EXTENSION
    );
    for part in [
        fleet.as_str(),
        &application,
        "argocdAgentAddon",
        addon::FLEET_GUARD,
    ] {
        assert!(built.contains(part), "{part}");
    }
    for kind in ["Application", "AppProject"] {
        let object = one(&ON, kind, addon::FLEET_GUARD);
        assert_eq!(object["metadata"]["namespace"], "gitops", "{kind}");
    }
}

#[test]
fn guard_of_the_fleet_page_can_deploy_nothing() {
    let guard = one(&ON, "Application", addon::FLEET_GUARD);
    let project = one(&ON, "AppProject", addon::FLEET_GUARD);
    for object in [&guard, &project] {
        assert_eq!(
            object["metadata"]["labels"][IGNORE_SYNC], "true",
            "{object}"
        );
    }
    assert_eq!(guard["metadata"]["annotations"][SKIP_RECONCILE], "true");
    assert!(guard["spec"]["syncPolicy"].is_null());
    let source = text(&guard["spec"]["source"]["repoURL"]);
    assert!(source.contains(".invalid/"), "{source}");
    let none = json!([]);
    assert_eq!(project["spec"]["sourceRepos"], none);
    assert_eq!(project["spec"]["clusterResourceWhitelist"], none);
    let all = json!([{"group": "*", "kind": "*"}]);
    assert_eq!(project["spec"]["namespaceResourceBlacklist"], all);
    // argocd-server forwards only where the project admits the destination.
    assert_eq!(guard["spec"]["project"], addon::FLEET_GUARD);
    let destination = &guard["spec"]["destination"];
    assert_eq!(project["spec"]["destinations"], json!([destination]));
}

#[test]
fn token_of_the_pages_needs_no_right_but_its_deletion() {
    let roles = |sets: &[&str]| {
        let all = objects(sets).into_iter();
        let all = all.filter(|it| it["metadata"]["labels"]["app.kubernetes.io/name"] == MANAGER);
        let rules = all.map(|it| it["rules"].clone());
        rules.filter(|it| !it.is_null()).collect::<Vec<_>>()
    };
    assert_eq!(roles(&ON[..1]), roles(&[]));
    // A release without the pages may have the token from before.
    for sets in [&[][..], &ON] {
        let role = one(sets, "Role", "argocd-agent-addon-uninstall");
        let granted = role["rules"].as_array().expect("rules").iter();
        let of_token = |it: &&Value| it["resourceNames"] == json!([addon::UI_SECRET]);
        let verbs: Vec<_> = granted.filter(of_token).map(|it| &it["verbs"]).collect();
        assert_eq!(verbs, [&json!(["delete"])]);
    }
}

#[test]
fn admission_policy_admits_the_token_of_the_pages_only_where_they_are_on() {
    let spec = |sets: &[&str]| one(sets, POLICY, MANAGER)["spec"].clone();
    let off = spec(&[]).to_string();
    assert!(!off.contains(addon::UI_SECRET) && !off.contains("isToken"));
    let on = spec(&ON);
    let variables = on["variables"].as_array().expect("variables").iter();
    let mut token = variables.filter(|it| it["name"] == "isToken");
    let token = text(&token.next().expect("isToken")["expression"]);
    for part in ["!= 'DELETE'", addon::UI_SECRET, "'Opaque'", "secret-type"] {
        assert!(token.contains(part), "{part} in {token}");
    }
    for validation in on["validations"].as_array().expect("validations") {
        let expression = text(&validation["expression"]);
        assert!(expression.contains("variables.isToken"), "{expression}");
    }
}

#[test]
fn configure_for_the_pages_alone_grants_argocd_server_nothing() {
    let sets = [ON[0], ON[1], "argocd.configure=true"];
    let granted = "argocd-agent-addon-server-applications";
    let of = |kind: &str| {
        let all = objects(&sets).into_iter();
        all.filter(|it| it["kind"] == kind && it["metadata"]["name"] == granted)
            .count()
    };
    // The ClusterRole shows the next upgrade that the Job was on.
    assert_eq!((of("ClusterRole"), of("ClusterRoleBinding")), (1, 0));
    let patched = |sets: &[&str]| {
        let role = one(sets, "Role", "argocd-agent-addon-configure-argocd");
        let rules = role["rules"]
            .as_array()
            .cloned()
            .unwrap_or_default()
            .into_iter();
        let rules = rules.filter(|it| it["verbs"].to_string().contains("patch"));
        let names = rules.map(|it| text(&it["resourceNames"][0]).to_owned());
        names.collect::<Vec<_>>()
    };
    let without = ["redisProxy.enabled=true", "argocd.configure=true"];
    assert_eq!(patched(&without), ["argocd-cmd-params-cm", "argocd-server"]);
    let expected = [
        "argocd-cmd-params-cm",
        "argocd-cm",
        "argocd-server",
        "argocd-rbac-cm",
    ];
    assert_eq!(patched(&sets), expected);
}
