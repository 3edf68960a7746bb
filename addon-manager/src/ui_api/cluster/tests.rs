use argocd::routing::{Clusters, RoutingSettings};
use diagnosis::testing;
use serde_json::json;

use super::*;

fn standing(object: &Value) -> Standing {
    let clusters = Clusters::new([("paris".to_owned(), None)]);
    let settings = RoutingSettings {
        argocd_namespace: "argocd".to_owned(),
        allowed_namespaces: Vec::new(),
    };
    Standing::of(object, &clusters, &settings).unwrap()
}

/// An Application of two days ago whose source has changed since its comparison, as the principal keeps it.
fn behind() -> Value {
    let mut object = testing::application("argocd", "shop", &json!({"name": "paris"}));
    object["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("managedFields");
    object["spec"]["source"]["targetRevision"] = json!("v3");
    object
}

#[test]
fn an_application_is_late_since_its_change_and_not_since_its_creation() {
    let now = testing::now();
    let object = behind();
    let mut standing = standing(&object);
    for (since, late) in [
        ("2026-11-22T11:50:00Z", false),
        ("2026-11-22T11:40:00Z", true),
    ] {
        let since = testing::at(since);
        standing.behind_since = Some(since);
        let found = shown_trouble(&object, &standing, now);
        assert_eq!(
            found.as_ref().map(|it| it.since),
            late.then_some(Some(since))
        );
    }
}

#[test]
fn messages_of_a_trouble_are_cut() {
    let long = "x".repeat(1 << 20);
    let mut object = behind();
    object["status"]["conditions"] = json!([{"type": "ArgoCDAgentError", "message": long}]);
    object["status"]["health"]["status"] = json!(long);
    object["status"]["sync"]["status"] = json!(long);
    let found = shown_trouble(&object, &standing(&object), testing::now()).unwrap();
    assert_eq!(found.reason, "ArgoCDAgentError");
    assert!(serde_json::to_string(&found).unwrap().len() < 6000);
}

#[test]
fn conditions_are_bounded() {
    let mut addon = testing::well("paris");
    let mut one = addon.conditions[0].clone();
    one.message = "ä".repeat(10 << 10);
    addon.conditions = vec![one; 100];
    let found = conditions(&addon);
    assert_eq!(found.len(), cut::ENTRIES);
    assert!(found.iter().all(|it| it.message.len() <= cut::MESSAGE));
}

#[test]
fn certificate_has_its_end() {
    let found = Certificate::of(&testing::well("paris")).unwrap();
    assert_eq!(found.expires, Some(testing::at("2026-12-19T12:00:00Z")));
    assert!(found.description.starts_with("client certificate rotated"));
    assert_eq!(
        Certificate::of(&testing::addon("paris", "managed", &[])),
        None
    );
}
