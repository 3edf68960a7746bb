use serde_json::{Value, json};

use super::*;

const TARGET: Target<'_> = Target {
    argocd_namespace: "argocd",
    cluster: "spoke1",
    server: Some("https://proxy"),
};

fn app(namespace: &str, to: &str) -> Value {
    json!({
        "metadata": { "name": "guestbook", "namespace": namespace },
        "spec": { "project": "team", "destination": { "name": "in-cluster", "namespace": to } },
    })
}

fn project(destinations: &Value) -> Value {
    json!({ "spec": { "sourceNamespaces": ["spoke1", "/^team-/"], "destinations": destinations } })
}

fn admitted(namespace: &str, to: &str, destinations: &Value) -> Result<(), &'static str> {
    let (app, project) = (app(namespace, to), project(destinations));
    admit(
        Application::of(&app),
        Some(AppProject::of(&project)),
        TARGET,
    )
    .map_err(|no| no.field)
}

#[test]
fn a_project_that_does_not_exist_admits_nothing() {
    let app = app("spoke1", "web");
    let refusal = admit(Application::of(&app), None, TARGET).unwrap_err();
    assert_eq!(refusal.project, "team");
    assert!(refusal.to_string().contains("no such project"), "{refusal}");
}

#[test]
fn the_namespace_of_the_application_must_be_a_source_namespace() {
    let any = || json!([{ "name": "*", "server": "*", "namespace": "*" }]);
    for namespace in ["argocd", "spoke1", "team-x"] {
        assert_eq!(admitted(namespace, "web", &any()), Ok(()), "{namespace}");
    }
    assert_eq!(
        admitted("spoke2", "web", &any()),
        Err("spec.sourceNamespaces")
    );
}

#[test]
fn destination_is_rewritten_to_the_target_cluster() {
    for (destinations, expected) in [
        (json!([{ "name": "spoke1", "namespace": "web" }]), Ok(())),
        (
            json!([{ "server": "https://proxy", "namespace": "*" }]),
            Ok(()),
        ),
        (json!([{ "server": "*", "namespace": "w*" }]), Ok(())),
        (
            json!([{ "name": "in-cluster", "namespace": "*" }]),
            Err("spec.destinations"),
        ),
        (
            json!([{ "name": "spoke1", "namespace": "db" }]),
            Err("spec.destinations"),
        ),
        (
            json!([{ "name": "spoke1", "namespace": "!web" }, { "name": "*", "namespace": "*" }]),
            Err("spec.destinations"),
        ),
        (
            json!([{ "name": "!spoke1", "namespace": "*" }, { "name": "*", "namespace": "*" }]),
            Err("spec.destinations"),
        ),
        (json!([]), Err("spec.destinations")),
        (json!({}), Err("spec.destinations")),
    ] {
        assert_eq!(
            admitted("argocd", "web", &destinations),
            expected,
            "{destinations}"
        );
    }
}

#[test]
fn hub_is_admitted_only_as_a_whole() {
    let admits = |destinations: Value| admits_hub(AppProject::of(&project(&destinations)));
    for whole in [
        json!([{ "name": "*", "server": "*", "namespace": "*" }]),
        json!([{ "name": "in-cluster", "namespace": "*" }]),
        json!([{ "server": "https://kubernetes.default.svc", "namespace": "*" }]),
        json!([{ "name": "spoke1", "server": "*", "namespace": "*" }]),
    ] {
        assert!(admits(whole.clone()), "{whole}");
    }
    let all = json!({ "name": "*", "namespace": "*" });
    for not in [
        json!([]),
        json!([{ "name": "spoke1", "namespace": "*" }]),
        json!([{ "server": "https://proxy", "namespace": "*" }]),
        json!([{ "name": "in-cluster", "namespace": "web" }]),
        json!([{ "name": "in-cluster", "namespace": "web-*" }]),
        json!([{ "name": "in-cluster", "namespace": "?" }]),
        json!([{ "name": "in-cluster", "namespace": "[!a]" }]),
        json!([all, { "name": "!in-cluster", "namespace": "web" }]),
        json!([all, { "name": "!in-cluster", "namespace": "*" }]),
        json!([all, { "name": "in-cluster", "namespace": "!argocd" }]),
    ] {
        assert!(!admits(not.clone()), "{not}");
    }
}
