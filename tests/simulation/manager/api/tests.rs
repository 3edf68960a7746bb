use super::*;

fn key() -> Key {
    let kind = "managedclusteraddons.addon.open-cluster-management.io";
    (kind.to_owned(), "c".to_owned(), "x".to_owned())
}

fn object(spec: &Value) -> Value {
    json!({
        "apiVersion": "addon.open-cluster-management.io/v1beta1", "kind": "ManagedClusterAddOn",
        "metadata": { "name": "x", "namespace": "c" }, "spec": spec,
    })
}

fn write(api: &Api, manager: &str, write: Write) -> Result<Arc<Value>, (u16, &'static str)> {
    let written = api.write(&key(), "", manager, write);
    written.map_err(|refusal| (refusal.code, refusal.reason))
}

#[test]
fn preconditions_decide() {
    let api = Api::new();
    let made = write(&api, "a", Write::Create(object(&json!({ "n": 1 })))).unwrap();
    let again = write(&api, "a", Write::Create(object(&json!({}))));
    assert_eq!(again, Err((409, "AlreadyExists")));
    let at = |version: &str, uid: &str| {
        Write::Merge(
            json!({ "metadata": { "resourceVersion": version, "uid": uid }, "spec": { "n": 2 } }),
        )
    };
    let uid = made["metadata"]["uid"].as_str().unwrap();
    assert_eq!(write(&api, "a", at("9", uid)), Err((409, "Conflict")));
    assert_eq!(write(&api, "a", at("1", "other")), Err((422, "Invalid")));
    let changed = write(&api, "a", at("1", uid)).unwrap();
    assert_eq!(changed["metadata"]["generation"], 2);
    let same = write(&api, "a", Write::Merge(json!({ "spec": { "n": 2 } }))).unwrap();
    assert_eq!(
        (&same, api.version()),
        (&changed, 2),
        "a no-op changes nothing"
    );
    let deleted = write(&api, "a", Write::Delete(Some("other".to_owned()), None));
    assert_eq!(deleted, Err((409, "Conflict")));
    write(&api, "a", Write::Delete(Some(uid.to_owned()), None)).unwrap();
    assert_eq!(api.list(&key().0, ""), []);
}

#[test]
fn apply_keeps_the_fields_of_others_and_removes_its_own() {
    let api = Api::new();
    let apply = |manager: &str, spec: Value, force| {
        write(&api, manager, Write::Apply(object(&spec), force)).map(|it| it["spec"].clone())
    };
    let first = apply("a", json!({ "x": 1, "y": 1 }), false);
    assert_eq!(first, Ok(json!({ "x": 1, "y": 1 })));
    let second = apply("b", json!({ "z": 1 }), false);
    assert_eq!(second, Ok(json!({ "x": 1, "y": 1, "z": 1 })));
    assert_eq!(
        apply("b", json!({ "x": 2, "z": 1 }), false),
        Err((409, "Conflict"))
    );
    let taken = apply("b", json!({ "x": 2, "z": 1 }), true);
    assert_eq!(taken, Ok(json!({ "x": 2, "y": 1, "z": 1 })));
    assert_eq!(
        apply("a", json!({ "x": 2 }), false),
        Ok(json!({ "x": 2, "z": 1 }))
    );
}

#[test]
fn conditions_of_managers_stand_side_by_side() {
    let api = Api::new();
    write(&api, "a", Write::Create(object(&json!({})))).unwrap();
    let apply = |manager: &str, types: &[&str]| {
        let conditions: Vec<Value> = types
            .iter()
            .map(|it| json!({ "type": it, "status": "True" }))
            .collect();
        let status = json!({ "status": { "conditions": conditions } });
        let written = api
            .write(&key(), "status", manager, Write::Apply(status, true))
            .unwrap();
        let all = written["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        all.iter()
            .map(|it| it["type"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(apply("a", &["A", "B"]), ["A", "B"]);
    assert_eq!(apply("b", &["C"]), ["A", "B", "C"]);
    assert_eq!(apply("a", &["B"]), ["B", "C"]);
}

#[test]
fn an_object_with_finalizers_stays_until_they_are_gone() {
    let api = Api::new();
    let mut made = object(&json!({}));
    made["metadata"]["finalizers"] = json!(["f"]);
    write(&api, "a", Write::Create(made)).unwrap();
    let deleting = write(&api, "a", Write::Delete(None, None)).unwrap();
    assert!(is_deleting(&deleting));
    let more = Write::Merge(json!({ "metadata": { "finalizers": ["f", "g"] } }));
    assert_eq!(write(&api, "a", more), Err((422, "Invalid")));
    write(
        &api,
        "a",
        Write::Merge(json!({ "metadata": { "finalizers": [] } })),
    )
    .unwrap();
    assert_eq!(api.list(&key().0, ""), []);
}

#[test]
fn watch_reports_objects_that_enter_and_leave_its_selection() {
    let api = Api::new();
    let label = |value: &str| Write::Merge(json!({ "metadata": { "labels": { "l": value } } }));
    write(&api, "a", Write::Create(object(&json!({})))).unwrap();
    for value in ["yes", "yes", "no"] {
        write(&api, "a", label(value)).unwrap();
    }
    let selector = select::Selector::new(&key().0, "", "l=yes", "metadata.name=x");
    let (_, events) = api.changes(0, |it| http::event(it, &selector));
    let types: Vec<_> = events
        .iter()
        .map(|it| it["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(types, ["ADDED", "DELETED"]);
}
