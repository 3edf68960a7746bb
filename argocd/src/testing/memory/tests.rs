use super::*;

fn object(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": { "a": 1 } })
}

fn with_one() -> (Objects<&'static str>, Value) {
    let mut objects = Objects::new("uid");
    let made = objects.create("a", object("a")).unwrap();
    (objects, made)
}

#[test]
fn a_write_that_changes_nothing_makes_no_version() {
    let (mut objects, made) = with_one();
    let same = Patch::Merge(json!({ "spec": { "a": 1 } }));
    assert_eq!(objects.patch(&"a", &same), Ok((made.clone(), false)));
    let other = Patch::Merge(json!({ "spec": { "a": 2 } }));
    let (now, changed) = objects.patch(&"a", &other).unwrap();
    assert!(changed);
    assert_ne!(
        Meta::of(&now).resource_version(),
        Meta::of(&made).resource_version()
    );
    assert_eq!(Meta::of(&now).uid(), Meta::of(&made).uid());
}

#[test]
fn a_write_for_another_version_or_object_is_a_conflict() {
    let (mut objects, made) = with_one();
    let patch = Patch::Merge(json!({ "spec": { "a": 2 } }));
    let old = patch.clone().under(Meta::of(&made).resource_version());
    objects.patch(&"a", &patch).unwrap();
    assert_eq!(objects.patch(&"a", &old), Err(Denied::Conflict));
    let other = Patch::Merge(json!({ "metadata": { "uid": "other" } }));
    assert_eq!(objects.patch(&"a", &other), Err(Denied::Conflict));
    assert_eq!(objects.delete(&"a", Some("other")), Err(Denied::Conflict));
    assert_eq!(objects.create("a", object("a")), Err(Denied::Exists));
    assert_eq!(objects.patch(&"b", &patch), Err(Denied::NotFound));
    let misfit = Patch::Json(json!([{ "op": "remove", "path": "/spec/none" }]));
    assert_eq!(objects.patch(&"a", &misfit), Err(Denied::Misfit));
    let below_nothing = json!([{ "op": "add", "path": "/spec/none/a", "value": 1 }]);
    let misfit = Patch::Json(below_nothing).under("0");
    assert_eq!(objects.patch(&"a", &misfit), Err(Denied::Misfit));
}

#[test]
fn object_with_finalizers_stays_until_they_are_removed() {
    let (mut objects, _) = with_one();
    let kept = Patch::Merge(json!({ "metadata": { "finalizers": ["f"] } }));
    objects.patch(&"a", &kept).unwrap();
    objects.delete(&"a", None).unwrap();
    assert!(
        objects
            .get(&"a")
            .is_some_and(|object| Meta::of(object).is_deleting())
    );
    let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    objects.patch(&"a", &free).unwrap();
    assert_eq!(objects.get(&"a"), None);
}

#[test]
fn watch_reports_each_version_once_and_a_recreated_object_as_new() {
    let (mut objects, made) = with_one();
    let mut seen = Seen::new();
    assert_eq!(
        objects.updates(&mut seen, |_| true),
        [Change::Applied("a", made.clone())]
    );
    assert!(objects.updates(&mut seen, |_| true).is_empty());
    objects.delete(&"a", None).unwrap();
    let again = objects.create("a", object("a")).unwrap();
    let uid = Meta::of(&made).uid().to_owned();
    let expected = [Change::Gone("a", uid), Change::Applied("a", again)];
    assert_eq!(objects.updates(&mut seen, |_| true), expected);
    assert!(
        objects
            .updates(&mut Seen::new(), |key| *key == "b")
            .is_empty()
    );
}
