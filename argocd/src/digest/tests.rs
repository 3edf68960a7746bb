use base64::{Engine as _, engine::general_purpose::STANDARD};
use proptest::prelude::*;
use serde_json::json;

use super::*;

#[test]
fn the_list_checksum_is_gos() {
    let entries = [
        (
            "Application",
            "guestbook",
            "11111111-1111-1111-1111-111111111111",
        ),
        (
            "AppProject",
            "default",
            "22222222-2222-2222-2222-222222222222",
        ),
    ];
    let expected = "Op2E0Lf8YQwIbcAp3Yum48KdvT9twzePU6OTQaPV9io=";
    assert_eq!(STANDARD.encode(list_checksum(entries).unwrap()), expected);
    assert_eq!(list_checksum([]), None);
}

#[test]
fn the_spec_checksum_is_gos() {
    let app = json!({ "spec": {
        "destination": { "name": "agent-a", "namespace": "guestbook" },
        "project": "default",
        "revisionHistoryLimit": 10,
        "source": {
            "path": "a&b<c>",
            "repoURL": "https://example.com/r.git",
            "targetRevision": "HEAD",
        },
    } });
    let expected = "eb34f658f5ef84c9e7703f9636fa9bb394ee632f9fc25fcd741f5acc550375e0";
    assert_eq!(hex::encode(spec_checksum(&app).unwrap()), expected);
    assert_eq!(spec_checksum(&json!({})), None);
    assert_eq!(spec_checksum(&json!({ "spec": null })), None);
}

#[test]
fn the_canonical_text_is_that_of_gos_encoder() {
    for (value, text) in [
        (
            json!({ "b": 1, "a": [true, null], "B": {} }),
            r#"{"B":{},"a":[true,null],"b":1}"#,
        ),
        (
            json!("\u{8}\u{c}\u{1}\u{7f}\u{2028}\"\\é"),
            r#""\b\f\u0001?\u2028\"\\é""#,
        ),
        (json!("<&>\n\r\t"), r#""\u003c\u0026\u003e\n\r\t""#),
        (json!(1.0), "1"),
        (json!(0.1), "0.1"),
        (json!(-0.0), "-0"),
        (json!(1e20), "100000000000000000000"),
        (json!(1e21), "1e+21"),
        (json!(1.5e-7), "1.5e-7"),
        (json!(1e-6), "0.000001"),
        (json!(-9_007_199_254_740_993_i64), "-9007199254740993"),
        (json!(u64::MAX), "18446744073709552000"),
    ] {
        assert_eq!(canonical(&value), text.replace('?', "\u{7f}"));
    }
}

fn app() -> Value {
    json!({
        "metadata": {
            "name": "guestbook",
            "namespace": "spoke1",
            "uid": "u",
            "resourceVersion": "7",
            "labels": { "team": "a" },
            "annotations": { "keep": "yes", keys::REFRESH: "normal" },
            "finalizers": [keys::RESOURCES_FINALIZER],
        },
        "spec": { "project": "default" },
        "status": { "health": "Healthy" },
    })
}

#[test]
fn wire_form_has_the_digest_of_the_stored_object() {
    assert_eq!(
        agreed(&app()),
        agreed(&crate::projection::wire_application(&app()))
    );
}

#[test]
fn agreed_digest_covers_exactly_the_desired_state() {
    let digest = agreed(&app());
    for (pointer, value) in [
        ("/metadata/resourceVersion", json!("8")),
        (
            "/metadata/annotations/argocd.argoproj.io~1refresh",
            json!("hard"),
        ),
        ("/status", json!({})),
    ] {
        let mut changed = app();
        *changed.pointer_mut(pointer).unwrap() = value;
        assert_eq!(agreed(&changed), digest, "{pointer}");
    }
    for (pointer, value) in [
        ("/metadata/uid", json!("v")),
        ("/metadata/labels/team", json!("b")),
        ("/metadata/annotations/keep", json!("no")),
        ("/metadata/finalizers", json!([])),
        ("/spec/project", json!("other")),
    ] {
        let mut changed = app();
        *changed.pointer_mut(pointer).unwrap() = value;
        assert_ne!(agreed(&changed), digest, "{pointer}");
    }
    let mut deleting = app();
    deleting["metadata"]["deletionTimestamp"] = json!("2026-11-20T20:00:00Z");
    assert_ne!(agreed(&deleting), digest);
}

proptest! {
    #[test]
    fn canonical_text_reads_back_as_the_same_value(value in crate::testing::json()) {
        let again: Value = serde_json::from_str(&canonical(&value)).unwrap();
        prop_assert_eq!(canonical(&again), canonical(&value));
    }

    #[test]
    fn a_digest_of_anything_is_a_digest(value in crate::testing::json()) {
        prop_assert_eq!(agreed(&value).len(), 64);
        prop_assert_eq!(short(&value).len(), 16);
    }
}
