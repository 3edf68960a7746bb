use proptest::prelude::*;
use serde_json::json;

use super::*;

const SPOKE: Cluster<'_> = Cluster {
    name: "spoke1",
    server: Some("https://proxy:9090?agentName=spoke1"),
};

fn project(destinations: &Value) -> Value {
    json!({
        "metadata": {
            "name": "team",
            "namespace": "argocd",
            "uid": "u",
            "finalizers": ["resources-finalizer.argocd.argoproj.io"],
            "annotations": { "a": "b", crate::keys::LAST_APPLIED: "{}" },
        },
        "spec": {
            "destinations": destinations,
            "sourceRepos": ["*"],
            "sourceNamespaces": ["team-a"],
            "roles": [{ "name": "ci", "jwtTokens": [{ "iat": 1 }] }],
            "futureField": { "x": 1 },
        },
        "status": { "jwtTokensByRole": {} },
    })
}

fn compiled(destinations: &Value) -> Option<Value> {
    compile(&project(destinations), SPOKE).map(|project| project["spec"]["destinations"].clone())
}

#[test]
fn only_the_clusters_own_destinations_remain_as_it_calls_itself() {
    let destinations = json!([
        { "name": "spoke*", "namespace": "web" },
        { "name": "other", "namespace": "*" },
        { "server": "*", "namespace": "any" },
        { "server": "https://proxy:9090?agentName=spoke1", "namespace": "by-server" },
        { "server": "https://elsewhere", "namespace": "x" },
        { "server": "https://other-proxy?agentName=spoke?", "namespace": "by-pattern" },
    ]);
    let own = |namespace: &str| json!({ "name": "in-cluster", "server": "https://kubernetes.default.svc", "namespace": namespace });
    let expected = json!([own("web"), own("any"), own("by-server"), own("by-pattern")]);
    assert_eq!(compiled(&destinations), Some(expected));
}

#[test]
fn several_names_of_the_cluster_are_one_destination_there() {
    let destinations = json!([
        { "name": "spoke1", "namespace": "web" },
        { "name": "spoke1", "namespace": "shop" },
        { "server": "*", "namespace": "web" },
        { "server": "https://proxy:9090?agentName=spoke1", "namespace": "shop" },
    ]);
    let own = |namespace: &str| json!({ "name": "in-cluster", "server": "https://kubernetes.default.svc", "namespace": namespace });
    let expected = json!([own("web"), own("shop")]);
    assert_eq!(compiled(&destinations), Some(expected));
}

#[test]
fn a_project_of_other_clusters_does_not_travel() {
    assert_eq!(
        compiled(&json!([{ "name": "other", "namespace": "*" }])),
        None
    );
    assert_eq!(compiled(&json!([])), None);
    assert_eq!(compiled(&json!("*")), None);
    assert_eq!(
        compiled(&json!([{ "name": "in-cluster", "namespace": "*" }])),
        None
    );
}

#[test]
fn a_denied_cluster_gets_nothing_of_the_project() {
    let denied =
        json!([{ "name": "*", "namespace": "*" }, { "name": "!spoke1", "namespace": "x" }]);
    assert_eq!(compiled(&denied), None);
    let by_server = json!([{ "name": "*", "namespace": "*" }, { "server": "!https://proxy*", "namespace": "x" }]);
    assert_eq!(compiled(&by_server), None);
    let another = json!([{ "name": "!other", "namespace": "*" }]);
    assert_eq!(compiled(&another).unwrap().as_array().unwrap().len(), 1);
}

#[test]
fn roles_status_and_finalizers_stay_on_the_hub_and_unknown_fields_do_not() {
    let compiled = compile(&project(&json!([{ "name": "*", "namespace": "*" }])), SPOKE).unwrap();
    assert_eq!(compiled["spec"].get("roles"), None);
    assert_eq!(compiled.get("status"), None);
    assert_eq!(compiled["metadata"].get("finalizers"), None);
    assert_eq!(compiled["metadata"]["annotations"], json!({ "a": "b" }));
    assert_eq!(compiled["metadata"]["uid"], "u");
    assert_eq!(compiled["spec"]["futureField"], json!({ "x": 1 }));
    assert_eq!(compiled["spec"]["sourceNamespaces"], json!(["team-a"]));
}

#[test]
fn service_accounts_of_other_clusters_stay_on_the_hub() {
    let mut project = project(&json!([{ "name": "*", "namespace": "*" }]));
    project["spec"]["destinationServiceAccounts"] = json!([
        { "server": "https://proxy:9090?agentName=spoke1", "namespace": "a", "defaultServiceAccount": "x" },
        { "server": "https://elsewhere", "namespace": "a", "defaultServiceAccount": "y" },
    ]);
    let compiled = compile(&project, SPOKE).unwrap();
    let expected = json!([
        { "server": "https://kubernetes.default.svc", "namespace": "a", "defaultServiceAccount": "x" },
    ]);
    assert_eq!(compiled["spec"]["destinationServiceAccounts"], expected);
}

proptest! {
    #[test]
    fn any_json_is_compiled_without_a_panic(spec in crate::testing::json(), destinations in crate::testing::json()) {
        let _ = compile(&json!({ "spec": spec }), SPOKE);
        let _ = compile(&project(&destinations), SPOKE);
    }
}
