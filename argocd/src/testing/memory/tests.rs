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
    assert_eq!(objects.patch(&"a", &other), Err(Denied::OtherObject));
    let version = Meta::of(&made).resource_version();
    for (uid, version) in [(Some("other"), None), (None, Some(version))] {
        assert_eq!(objects.delete(&"a", uid, version), Err(Denied::Conflict));
    }
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
    objects.delete(&"a", None, None).unwrap();
    let deleting = objects.get(&"a").cloned().unwrap();
    assert!(Meta::of(&deleting).is_deleting());
    let more = Patch::Merge(json!({ "metadata": { "finalizers": ["f", "g"] } }));
    assert_eq!(objects.patch(&"a", &more), Err(Denied::NewFinalizer));
    let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    let (last, changed) = objects.patch(&"a", &free).unwrap();
    assert!(changed);
    assert_eq!(
        Meta::of(&last).resource_version(),
        Meta::of(&deleting).resource_version(),
        "a removed object has no version of its own"
    );
    assert_eq!(objects.get(&"a"), None);
}

#[test]
fn a_copy_is_created_as_a_new_object_without_empty_collections() {
    let (mut objects, made) = with_one();
    let mut copy = made.clone();
    let empty = json!({ "metadata": { "deletionTimestamp": "2026-01-02T00:00:00Z",
        "labels": {}, "annotations": {}, "finalizers": [] }, "data": {} });
    patch::merge(&mut copy, &empty);
    let other = objects.create("b", copy).unwrap();
    assert_ne!(Meta::of(&other).uid(), Meta::of(&made).uid());
    assert!(!Meta::of(&other).is_deleting());
    for path in [
        "/metadata/labels",
        "/metadata/annotations",
        "/metadata/finalizers",
        "/data",
    ] {
        assert_eq!(other.pointer(path), None, "{path}");
    }
    let emptied = Patch::Merge(json!({ "metadata": { "labels": {}, "finalizers": [] } }));
    assert_eq!(objects.patch(&"b", &emptied), Ok((other, false)));
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
    objects.delete(&"a", None, None).unwrap();
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

#[test]
fn restored_objects_have_their_versions_and_new_ones_new_uids() {
    let (mut objects, made) = with_one();
    let (earlier, mut seen) = (objects.clone(), Seen::new());
    let patch = Patch::Merge(json!({ "spec": { "a": 2 } }));
    objects.patch(&"a", &patch).unwrap();
    let lost = objects.create("b", object("b")).unwrap();
    objects.updates(&mut seen, |_| true);
    let before = objects.version();
    objects.put_back(earlier);
    assert!(objects.version() > before);
    seen.list_again();
    let gone = Change::Gone("b", Meta::of(&lost).uid().to_owned());
    assert_eq!(
        objects.updates(&mut seen, |_| true),
        [gone, Change::Applied("a", made)]
    );
    assert_eq!(objects.updates(&mut seen, |_| true), []);
    let again = objects.create("b", object("b")).unwrap();
    assert_ne!(Meta::of(&again).uid(), Meta::of(&lost).uid());
    assert_eq!(
        objects.updates(&mut seen, |_| true),
        [Change::Applied("b", again)]
    );
}
