//! `openapi.json` against answers, in both directions.

use std::collections::BTreeSet;

use diagnosis::testing::{self, now};
use principal::Delivery;
use serde_json::{Value, json};

use crate::ui_api::{
    OPENAPI,
    guard::{self, Route},
    testing::{World, application, cluster, path},
};

fn document() -> Value {
    serde_json::from_str(OPENAPI).unwrap()
}

/// Follows a reference.
fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(reference) => document.pointer(reference.trim_start_matches('#')).unwrap(),
        None => schema,
    }
}

/// What a value does not fulfil; properties that it has are added to `seen`.
fn problems(
    document: &Value,
    schema: &Value,
    (value, at): (&Value, &str),
    seen: &mut BTreeSet<String>,
) -> Vec<String> {
    let name = schema["$ref"].as_str().unwrap_or(at).to_owned();
    let schema = resolved(document, schema);
    if let Some(several) = schema["oneOf"].as_array() {
        let all = several.iter();
        let all = all.map(|it| problems(document, it, (value, at), seen));
        let all: Vec<_> = all.collect();
        let fits = all.iter().any(Vec::is_empty);
        return if fits { Vec::new() } else { all.concat() };
    }
    let mut found = form(schema, value, at);
    for item in value.as_array().into_iter().flatten() {
        let place = format!("{at}[]");
        found.extend(problems(document, &schema["items"], (item, &place), seen));
    }
    for (field, value) in value.as_object().into_iter().flatten() {
        let place = format!("{at}.{field}");
        let known = schema["properties"].get(field);
        let others = &schema["additionalProperties"];
        let Some(of) = known.or_else(|| others.is_object().then_some(others)) else {
            found.push(format!("{place} is not documented"));
            continue;
        };
        if known.is_some() && !value.is_null() {
            seen.insert(format!("{name}.{field}"));
        }
        found.extend(problems(document, of, (value, &place), seen));
    }
    found
}

/// What a value itself does not fulfil, without its items and fields.
fn form(schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let kinds = &schema["type"];
    let is_listed = |all: &Vec<Value>| all.contains(&json!(kind));
    if kinds != kind && !kinds.as_array().is_some_and(is_listed) {
        return vec![format!("{at}: {kind} instead of {kinds}")];
    }
    let mut found = Vec::new();
    let words = schema["enum"].as_array();
    if words.is_some_and(|words| !words.contains(value)) {
        found.push(format!("{at}: {value} is not in the list"));
    }
    let is_time = |text: &str| text.parse::<jiff::Timestamp>().is_ok();
    if schema["format"] == "date-time" && !value.as_str().is_none_or(is_time) {
        found.push(format!("{at}: {value} is no time"));
    }
    let required = schema["required"].as_array().into_iter().flatten();
    let required = required.filter_map(Value::as_str);
    let missing = required.filter(|field| value.is_object() && value.get(field).is_none());
    found.extend(missing.map(|field| format!("{at}.{field} is missing")));
    found
}

/// All properties of all schemas.
fn documented(document: &Value) -> BTreeSet<String> {
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let properties = schemas.iter().flat_map(|(name, schema)| {
        let fields = schema["properties"].as_object().into_iter().flatten();
        fields.map(move |(field, _)| format!("#/components/schemas/{name}.{field}"))
    });
    properties.collect()
}

/// A hub on which each field of each answer has a value.
fn everything() -> World {
    let world = World::new();
    let rotated = (
        "ClusterCertificateRotated",
        "True",
        "ClientCertificateUpdated",
        "client certificate rotated starting from 2026-11-19 11:55:00 +0000 UTC to 2026-12-19 12:00:00 +0000 UTC",
        "2026-11-19T12:00:00Z",
    );
    let broken = (
        "Degraded",
        "True",
        "ObjectsRefused",
        "one object",
        "2026-11-22T10:00:00Z",
    );
    let labels = json!({"cluster.open-cluster-management.io/clusterset": "europe"});
    world
        .hub
        .enrol("paris", &labels, &[testing::CONNECTED, rotated, broken]);
    let mut sick = application("argocd", "sick", "paris");
    sick["status"]["health"]["status"] = json!("Degraded");
    world.hub.put(sick);
    let mut behind = testing::application("argocd", "shop", &json!({"name": "paris"}));
    behind["spec"]["source"]["targetRevision"] = json!("v3");
    world.hub.put(behind);
    world.hub.change(|state| {
        state.deliveries = vec![Delivery {
            version: "7".to_owned(),
            is_operation: false,
            written: now(),
            sent: Some(now()),
            acknowledged: Some(now()),
            reported: Some(now()),
            trace: Some("4bf92f3577b34da6a3ce929d0e0e4736".to_owned()),
        }];
    });
    world
}

fn schema<'a>(document: &'a Value, path: &str, status: &str) -> &'a Value {
    &document["paths"][path]["get"]["responses"][status]["content"]["application/json"]["schema"]
}

#[tokio::test]
async fn description_and_answers_have_the_same_fields() {
    let (document, world) = (document(), everything());
    world.answers.end_minute().await;
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (described, route) in [
        ("/api/v1/fleet", Route::Fleet),
        ("/api/v1/clusters/{name}", cluster("paris")),
        ("/api/v1/clusters/{name}", cluster("rome")),
        (
            "/api/v1/applications/{namespace}/{name}/path",
            path("argocd", "shop"),
        ),
        (
            "/api/v1/applications/{namespace}/{name}/path",
            path("argocd", "sick"),
        ),
    ] {
        let (status, answer) = world.ask(&route).await;
        assert_eq!(status.as_u16(), 200, "{answer}");
        let schema = schema(&document, described, "200");
        found.extend(problems(&document, schema, (&answer, described), &mut seen));
    }
    let (status, missing) = world.ask(&cluster("none")).await;
    assert_eq!(status.as_u16(), 404);
    let error = schema(&document, "/api/v1/fleet", "404");
    found.extend(problems(&document, error, (&missing, "error"), &mut seen));
    assert!(found.is_empty(), "{}", found.join("\n"));
    let unseen: Vec<_> = documented(&document).difference(&seen).cloned().collect();
    assert!(unseen.is_empty(), "no answer has {unseen:?}");
}

#[test]
fn every_refusal_is_described() {
    let document = document();
    let paths = document["paths"].as_object().unwrap();
    assert_eq!(paths.len(), 3);
    for refusal in [
        guard::Refusal::Method,
        guard::Refusal::Duplicate,
        guard::Refusal::NoToken,
        guard::Refusal::Token,
        guard::Refusal::Parameters,
        guard::Refusal::Unknown,
        guard::Refusal::Application,
    ] {
        let status = refusal.answer().0.as_u16().to_string();
        for path in paths.keys() {
            assert!(
                schema(&document, path, &status).is_object(),
                "{path} {status}"
            );
        }
    }
}

#[test]
fn a_description_that_differs_is_found() {
    let document = document();
    let mut seen = BTreeSet::new();
    let schema = schema(&document, "/api/v1/fleet", "404");
    for (answer, problem) in [
        (
            json!({"error": "a", "next": "b", "more": 1}),
            "is not documented",
        ),
        (json!({"error": "a"}), "is missing"),
        (json!({"error": "a", "next": null}), "null instead of"),
        (json!([]), "array instead of"),
    ] {
        let found = problems(&document, schema, (&answer, "error"), &mut seen);
        assert!(found.concat().contains(problem), "{found:?}");
    }
}
