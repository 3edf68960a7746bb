use proptest::prelude::*;
use serde_json::json;

use super::*;

#[test]
fn equal_values_need_no_patch() {
    assert_eq!(between(&json!({ "a": [1] }), &json!({ "a": [1] })), None);
}

#[test]
fn removed_fields_become_null_and_arrays_are_replaced() {
    let from = json!({ "keep": 1, "gone": { "x": 1 }, "list": [{ "a": 1, "b": 2 }], "deep": { "x": 1, "y": 2 } });
    let to = json!({ "keep": 1, "list": [{ "a": 1 }], "deep": { "x": 1 } });
    let expected = json!({ "gone": null, "list": [{ "a": 1 }], "deep": { "y": null } });
    assert_eq!(between(&from, &to), Some(Patch::Merge(expected)));
}

#[test]
fn a_null_in_an_object_of_a_list_needs_a_json_patch() {
    let from = json!({ "list": [{ "a": 1 }] });
    let to = json!({ "list": [{ "a": null }, null] });
    let patch = between(&from, &to).unwrap();
    let expected = json!([{ "op": "replace", "path": "/list", "value": [{ "a": null }, null] }]);
    assert_eq!(patch, Patch::Json(expected));
    assert_eq!(patch.applied_to(&from), to);
    let pruned = json!({ "list": [{}, null] });
    assert_eq!(
        Patch::Merge(to).applied_to(&from),
        pruned,
        "by an API server"
    );
    let items = json!({ "list": [null, 1] });
    assert_eq!(between(&from, &items), Some(Patch::Merge(items)));
}

#[test]
fn replacing_a_missing_field_adds_it_as_an_api_server_does() {
    let replace = |path| Patch::Json(json!([{ "op": "replace", "path": path, "value": 2 }]));
    let from = json!({ "a": {}, "list": [1] });
    for (path, result) in [
        ("/a/b", Some(json!({ "a": { "b": 2 }, "list": [1] }))),
        ("/list/0", Some(json!({ "a": {}, "list": [2] }))),
        ("/list/1", None),
        ("/none/b", None),
    ] {
        assert_eq!(replace(path).try_applied_to(&from), result, "{path}");
    }
}

#[test]
fn a_null_inside_an_object_needs_a_json_patch() {
    let from = json!({ "helm": { "valuesObject": { "a/b": 1 } } });
    let to = json!({ "helm": { "valuesObject": { "a/b": null } } });
    let expected = json!([{ "op": "replace", "path": "/helm/valuesObject/a~1b", "value": null }]);
    let patch = between(&from, &to).unwrap();
    assert_eq!(patch, Patch::Json(expected));
    assert_eq!(patch.applied_to(&from), to);
}

/// RFC 7396, appendix A.
#[test]
fn merging_is_that_of_the_rfc() {
    for (target, patch, result) in [
        (
            json!({ "a": "b" }),
            json!({ "a": "c" }),
            json!({ "a": "c" }),
        ),
        (
            json!({ "a": "b" }),
            json!({ "b": "c" }),
            json!({ "a": "b", "b": "c" }),
        ),
        (json!({ "a": "b" }), json!({ "a": null }), json!({})),
        (
            json!({ "a": ["b"] }),
            json!({ "a": "c" }),
            json!({ "a": "c" }),
        ),
        (
            json!({ "a": "c" }),
            json!({ "a": ["b"] }),
            json!({ "a": ["b"] }),
        ),
        (
            json!({ "a": { "b": "c" } }),
            json!({ "a": { "b": "d", "c": null } }),
            json!({ "a": { "b": "d" } }),
        ),
        (
            json!({ "a": [{ "b": "c" }] }),
            json!({ "a": [1] }),
            json!({ "a": [1] }),
        ),
        (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
        (json!({ "a": "b" }), json!(["c"]), json!(["c"])),
        (json!({ "a": "foo" }), json!(null), json!(null)),
        (
            json!({ "e": null }),
            json!({ "a": 1 }),
            json!({ "e": null, "a": 1 }),
        ),
        (
            json!([1, 2]),
            json!({ "a": "b", "c": null }),
            json!({ "a": "b" }),
        ),
        (
            json!({}),
            json!({ "a": { "bb": { "ccc": null } } }),
            json!({ "a": { "bb": {} } }),
        ),
    ] {
        let mut merged = target;
        merge(&mut merged, &patch);
        assert_eq!(merged, result);
    }
}

proptest! {
    #[test]
    fn patch_produces_its_target_and_a_second_one_is_empty(
        from in crate::testing::json(),
        to in crate::testing::json(),
    ) {
        let reached = match between(&from, &to) {
            Some(patch) => patch.applied_to(&from),
            None => from,
        };
        prop_assert_eq!(&reached, &to);
        prop_assert_eq!(between(&reached, &to), None);
    }
}
