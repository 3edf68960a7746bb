use diagnosis::{status::Connection, testing, why::State};
use serde_json::json;

use super::*;

fn clusters() -> Clusters {
    let server = "https://proxy:9090/?agentName=rome".to_owned();
    Clusters::new([
        ("paris".to_owned(), None),
        ("rome".to_owned(), Some(server)),
    ])
}

fn facts(application: Value) -> PathFacts {
    PathFacts {
        namesakes: vec![application.clone()],
        project: Some(json!({
            "metadata": {"name": "shop", "namespace": "argocd"},
            "spec": {"destinations": [{"name": "*", "namespace": "*", "server": "*"}], "sourceRepos": ["*"]},
        })),
        addons: vec![testing::well("paris")],
        servers: Servers::new(),
        routing: RoutingSettings {
            argocd_namespace: "argocd".to_owned(),
            allowed_namespaces: Vec::new(),
        },
        application,
        doubt: None,
    }
}

fn application() -> Value {
    testing::application(
        "argocd",
        "shop",
        &json!({"name": "paris", "namespace": "x"}),
    )
}

#[test]
fn only_clusters_that_are_named_decide_about_a_route() {
    let of = |destination: Value| {
        let object = testing::application("team", "a", &destination);
        related([&object], &clusters())
    };
    let names = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect();
    assert_eq!(of(json!({"name": "paris"})), names(&["paris", "team"]));
    let by_server = of(json!({"server": "https://proxy:9090/?agentName=rome"}));
    assert_eq!(by_server, names(&["", "rome", "team"]));
    assert_eq!(of(json!({"server": "https://other"})), names(&["", "team"]));
}

#[test]
fn path_has_the_judgement_the_connection_and_the_timeline() {
    let delivery = |version: &str| Delivery {
        version: version.to_owned(),
        is_operation: false,
        written: testing::now(),
        sent: Some(testing::now()),
        acknowledged: None,
        reported: None,
        trace: None,
    };
    let found = path(facts(application()), vec![delivery("2"), delivery("1")]);
    assert_eq!(found.why.cluster.as_deref(), Some("paris"));
    assert_eq!(found.why.verdict, State::Good, "{:?}", found.why);
    assert_eq!(found.why.writers.len(), 2);
    assert_eq!(found.connection.unwrap().state, Connection::Yes);
    let versions: Vec<_> = found
        .timeline
        .iter()
        .map(|it| it.version.as_str())
        .collect();
    assert_eq!(versions, ["2", "1"]);
}

#[test]
fn unread_facts_are_doubts() {
    let mut facts = facts(application());
    facts.doubt = Some("who wrote it: no".to_owned());
    assert_eq!(path(facts, Vec::new()).why.doubts, ["who wrote it: no"]);
}

#[test]
fn hostile_status_is_bounded() {
    let long = "<img src=x onerror=alert(1)>".repeat(1000);
    let mut object = application();
    let condition = json!({"type": "SyncError", "message": long});
    object["status"]["conditions"] = json!(vec![condition; 500]);
    object["status"]["health"] = json!({"status": long, "message": long});
    object["status"]["operationState"]["message"] = json!(long);
    let writer = json!({"manager": long, "fieldsV1": {long.clone(): {}, "f:spec": {}}});
    object["metadata"]["managedFields"] = json!(vec![writer; 200]);
    let found = path(facts(object), Vec::new());
    assert!(found.why.hops.len() <= cut::ENTRIES);
    assert_eq!(found.why.writers.len(), cut::ENTRIES);
    let text = serde_json::to_string(&found).unwrap();
    assert!(text.len() < 500 << 10, "{} bytes", text.len());
}
