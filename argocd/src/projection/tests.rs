use proptest::prelude::*;
use serde_json::json;

use super::*;

const CONTEXT: SpokeContext<'_> = SpokeContext {
    argocd_namespace: "spoke-argocd",
    principal_namespace: "argocd",
    principal_uid: Some("p-1"),
    cluster: "spoke1",
};

fn hub() -> Value {
    json!({
        "apiVersion": keys::API_VERSION,
        "kind": "Application",
        "metadata": {
            "name": "guestbook",
            "namespace": "spoke1",
            "uid": "u-1",
            "resourceVersion": "7",
            "labels": { "team": "a" },
            "annotations": { "note": "x", keys::LAST_APPLIED: "{}", keys::REFRESH: "normal" },
            "finalizers": [keys::RESOURCES_FINALIZER, "example.com/hub-only"],
            "ownerReferences": [{ "kind": "ApplicationSet" }],
            "managedFields": [{}],
        },
        "spec": {
            "project": "default",
            "source": { "repoURL": "https://git/x", "helm": { "valuesObject": { "a": null } } },
            "destination": { "name": "spoke1", "namespace": "web" },
            "futureField": [1, 2],
        },
        "status": { "sync": { "status": "Synced" } },
        "operation": { "sync": {} },
    })
}

fn desired() -> Value {
    desired_on_spoke(&wire_application(&hub()), &CONTEXT).unwrap()
}

/// A new object as an API server stores it.
fn stored(mut object: Value) -> Value {
    object["metadata"]["uid"] = json!("spoke-uid");
    object["metadata"]["resourceVersion"] = json!("100");
    object
}

#[test]
fn wire_form_has_exactly_the_fields_that_the_hub_owns() {
    let wire = wire_application(&hub());
    assert_eq!(wire.get("status"), None);
    assert_eq!(wire.get("operation"), None);
    assert_eq!(wire["metadata"].get("managedFields"), None);
    assert_eq!(wire["metadata"].get("ownerReferences"), None);
    assert_eq!(
        wire["metadata"]["annotations"],
        json!({ "note": "x", keys::REFRESH: "normal" })
    );
    assert_eq!(wire["spec"], hub()["spec"]);
}

/// It pauses the Application on both sides: docs/hybrid.md.
#[test]
fn skip_reconcile_of_an_application_travels_to_the_cluster() {
    let mut paused = hub();
    paused["metadata"]["annotations"][keys::SKIP_RECONCILE] = json!("true");
    let copy = desired_on_spoke(&wire_application(&paused), &CONTEXT).unwrap();
    assert_eq!(
        copy["metadata"]["annotations"][keys::SKIP_RECONCILE],
        "true"
    );
}

#[test]
fn the_replica_is_stamped_and_its_destination_is_the_cluster_itself() {
    let desired = desired();
    assert_eq!(desired["metadata"]["namespace"], "spoke-argocd");
    assert_eq!(
        desired["metadata"]["annotations"],
        json!({
            "note": "x",
            keys::SOURCE_UID: "u-1",
            keys::PRINCIPAL_UID: "p-1",
            keys::APPLIED_ANNOTATIONS: "note",
        })
    );
    assert_eq!(
        desired["metadata"]["finalizers"],
        json!([keys::RESOURCES_FINALIZER])
    );
    assert_eq!(
        desired["spec"]["destination"],
        json!({ "name": "in-cluster", "namespace": "web" })
    );
    assert_eq!(desired["spec"]["futureField"], json!([1, 2]));
    assert_eq!(
        desired["spec"]["source"]["helm"]["valuesObject"],
        json!({ "a": null })
    );
}

#[test]
fn namespaces_are_those_of_the_routing_table() {
    for (on_hub, on_spoke, remapped) in [
        ("spoke1", "spoke-argocd", false),
        ("argocd", "spoke-argocd", true),
        ("team-a", "team-a", false),
    ] {
        let mut incoming = wire_application(&hub());
        incoming["metadata"]["namespace"] = json!(on_hub);
        let desired = desired_on_spoke(&incoming, &CONTEXT).unwrap();
        assert_eq!(desired["metadata"]["namespace"], on_spoke);
        let mark = Meta::of(&desired).annotation(keys::NAMESPACE_REMAPPED);
        assert_eq!(mark, remapped.then_some("true"));
        assert_eq!(CONTEXT.hub_namespace(&desired), on_hub);
    }
    // also if both namespaces have the same name
    let same = SpokeContext {
        argocd_namespace: "argocd",
        ..CONTEXT
    };
    for on_hub in ["spoke1", "argocd", "team-a"] {
        let mut incoming = wire_application(&hub());
        incoming["metadata"]["namespace"] = json!(on_hub);
        let desired = desired_on_spoke(&incoming, &same).unwrap();
        assert_eq!(same.hub_namespace(&desired), on_hub);
    }
}

#[test]
fn unusable_objects_are_rejected_with_a_reason() {
    let fits = |pointer: &str, value: Value| {
        let mut incoming = wire_application(&hub());
        *incoming.pointer_mut(pointer).unwrap() = value;
        desired_on_spoke(&incoming, &CONTEXT).map(drop)
    };
    assert_eq!(fits("/metadata/name", json!(5)), Err(Unusable::NoName));
    assert_eq!(fits("/metadata/uid", json!("")), Err(Unusable::NoUid));
    assert_eq!(fits("/spec", json!("x")), Err(Unusable::NoSpec));
    assert_eq!(
        desired_on_spoke(&json!([]), &CONTEXT),
        Err(Unusable::NoName)
    );
}

#[test]
fn the_hubs_labels_replace_and_local_annotations_stay() {
    let mut live = stored(desired());
    live["metadata"]["labels"] = json!({ "team": "b", "local": "x" });
    live["metadata"]["annotations"][keys::REFRESH] = json!("hard");
    live["metadata"]["annotations"]["local"] = json!("x");
    live["metadata"]["annotations"]["note"] = json!("edited");
    let patched = patch_for_spoke(&live, &desired())
        .unwrap()
        .applied_to(&live);
    assert_eq!(patched["metadata"]["labels"], json!({ "team": "a" }));
    let annotations = Meta::of(&patched).annotations();
    assert_eq!(annotations.get(keys::REFRESH), Some(&"hard"));
    assert_eq!(annotations.get("local"), Some(&"x"));
    assert_eq!(annotations.get("note"), Some(&"x"));
}

#[test]
fn an_annotation_taken_away_on_the_hub_goes_on_the_spoke() {
    let live = stored(desired());
    let mut changed = hub();
    changed["metadata"]["annotations"] = json!({});
    let desired = desired_on_spoke(&wire_application(&changed), &CONTEXT).unwrap();
    let Some(Patch::Merge(patch)) = patch_for_spoke(&live, &desired) else {
        panic!("expected a merge patch")
    };
    assert_eq!(
        patch,
        json!({ "metadata": { "annotations": { "note": null, keys::APPLIED_ANNOTATIONS: null } } })
    );
}

#[test]
fn finalizers_that_argo_cd_sets_on_the_spoke_are_left_to_it() {
    let mut live = stored(desired());
    live["metadata"]["finalizers"] = json!([
        "post-delete-finalizer.argocd.argoproj.io",
        keys::RESOURCES_FINALIZER
    ]);
    assert_eq!(patch_for_spoke(&live, &desired()), None);
    let mut without = desired();
    without["metadata"]["finalizers"] = json!([]);
    let patched = patch_for_spoke(&live, &without).unwrap().applied_to(&live);
    assert_eq!(
        patched["metadata"]["finalizers"],
        json!(["post-delete-finalizer.argocd.argoproj.io"])
    );
}

#[test]
fn a_replica_that_is_being_deleted_is_left_alone() {
    let mut live = stored(desired());
    live["metadata"]["deletionTimestamp"] = json!("2026-11-20T20:00:00Z");
    live["spec"] = json!({});
    assert_eq!(patch_for_spoke(&live, &desired()), None);
}

#[test]
fn normalised_spec_is_not_written_again() {
    let mut incoming = wire_application(&hub());
    incoming["spec"]["syncPolicy"] = json!({ "syncOptions": [] });
    incoming["spec"]["source"]["directory"] = json!({ "recurse": false, "jsonnet": {} });
    incoming["spec"]["source"]["kustomize"] = json!({ "images": [] });
    incoming["spec"]["project"] = json!("");
    let desired = desired_on_spoke(&incoming, &CONTEXT).unwrap();
    assert_eq!(desired["spec"].get("syncPolicy"), None);
    assert_eq!(desired["spec"]["source"].get("directory"), None);
    assert_eq!(desired["spec"]["project"], "default");
    let mut live = stored(desired.clone());
    live["spec"]["syncPolicy"] = json!({});
    live["spec"]["source"]["directory"] = json!({});
    assert_eq!(patch_for_spoke(&live, &desired), None);
}

/// Config management plugins, such as KSOPS, interpret these fields in their own way.
#[test]
fn plugin_environment_is_delivered_verbatim() {
    let plugin = json!({
        "name": "",
        "env": [{ "name": "SOPS_AGE_KEY_FILE", "value": "/keys/age.txt" }, { "name": "EMPTY", "value": "" }],
        "parameters": [
            { "name": "files", "array": ["./secret.enc.yaml", ""] },
            { "name": "options", "map": {}, "string": null },
        ],
        "fieldOfTheFuture": { "z": 1.50, "a": [] },
    });
    let source = json!({ "repoURL": "https://git/x", "path": "overlay", "plugin": plugin });
    for sources in [
        json!({ "source": source }),
        json!({ "sources": [source, { "repoURL": "https://git/y", "plugin": {} }] }),
    ] {
        let mut app = hub();
        app["spec"] = sources;
        app["spec"]["project"] = "p".into();
        app["spec"]["destination"] = json!({ "name": "spoke1", "namespace": "web" });
        let travelled: Value = serde_json::from_str(&wire_application(&app).to_string()).unwrap();
        let mut desired = desired_on_spoke(&travelled, &CONTEXT).unwrap();
        // Only the destination has another name there.
        desired["spec"]["destination"]["name"] = "spoke1".into();
        assert_eq!(desired["spec"].to_string(), app["spec"].to_string());
    }
}

#[test]
fn settings_with_a_meaning_survive_normalisation() {
    for spec in [
        json!({ "project": "x", "syncPolicy": { "automated": {} } }),
        json!({ "project": "x", "syncPolicy": { "newField": null } }),
        json!({ "project": "x", "source": { "helm": { "valuesObject": {} } } }),
        json!({ "project": "x", "source": { "helm": { "releaseName": "r" } } }),
        json!({ "project": "x", "source": { "directory": { "exclude": "*" } } }),
        json!({ "project": "x", "syncPolicy": "odd", "source": ["odd"] }),
    ] {
        assert_eq!(normal_spec(&spec), spec);
    }
}

#[test]
fn pruned_object_is_the_normal_form() {
    let desired = desired();
    let mut answer = stored(desired.clone());
    answer["spec"]
        .as_object_mut()
        .unwrap()
        .remove("futureField");
    let written = Written::new(&desired, &answer);
    assert!(patch_for_spoke(&answer, &desired).is_some());
    assert!(written.is_normal_form(&answer, &desired));
    // changes by the spoke itself do not matter
    let mut refreshed = answer.clone();
    refreshed["metadata"]["annotations"][keys::REFRESH] = json!("normal");
    refreshed["metadata"]["finalizers"]
        .as_array_mut()
        .unwrap()
        .push(json!("post-delete-finalizer.argocd.argoproj.io"));
    assert!(written.is_normal_form(&refreshed, &desired));
    let mut drifted = answer.clone();
    drifted["spec"]["project"] = json!("other");
    assert!(!written.is_normal_form(&drifted, &desired));
    let mut newer = desired;
    newer["spec"]["project"] = json!("other");
    assert!(!written.is_normal_form(&answer, &newer));
}

#[test]
fn a_project_keeps_its_spec_and_gets_our_stamps() {
    let incoming = json!({
        "metadata": { "name": "team", "namespace": "argocd", "uid": "u-2", "resourceVersion": "1" },
        "spec": { "sourceRepos": ["*"] },
    });
    let desired = desired_project_on_spoke(&incoming, &CONTEXT).unwrap();
    assert_eq!(desired["metadata"]["namespace"], "spoke-argocd");
    assert_eq!(Meta::of(&desired).source_uid(), Some("u-2"));
    assert_eq!(desired["spec"], incoming["spec"]);
    assert_eq!(patch_for_spoke(&stored(desired.clone()), &desired), None);
}

#[test]
fn only_argo_cds_finalizers_are_released() {
    let released = release_patch_for_hub(&hub()).unwrap().applied_to(&hub());
    assert_eq!(
        released["metadata"]["finalizers"],
        json!(["example.com/hub-only"])
    );
    assert_eq!(release_patch_for_hub(&released), None);
    let spoke = stored(desired());
    assert!(release_patch_for_spoke(&spoke).is_some());
    let mut deleting = spoke;
    deleting["metadata"]["deletionTimestamp"] = json!("2026-11-20T20:00:00Z");
    assert_eq!(release_patch_for_spoke(&deleting), None);
}

proptest! {
    #[test]
    fn a_second_patch_finds_nothing_to_do(
        hub in crate::testing::application(),
        live in crate::testing::application(),
    ) {
        let desired = desired_on_spoke(&wire_application(&hub), &CONTEXT).unwrap();
        let live_uid = live["metadata"]["uid"].clone();
        let reached = match patch_for_spoke(&live, &desired) {
            Some(patch) => patch.applied_to(&live),
            None => live,
        };
        prop_assert_eq!(patch_for_spoke(&reached, &desired), None);
        prop_assert_eq!(&reached["metadata"]["uid"], &live_uid);
        prop_assert_eq!(patch_for_spoke(&stored(desired.clone()), &desired), None);
    }

    #[test]
    fn any_plugin_environment_converges_to_a_no_op(
        hub in crate::testing::application(), live in crate::testing::application(),
    ) {
        let stated = |app: &Value| {
            let spec = &app["spec"];
            format!("{} {}", spec["source"]["plugin"], spec["other"])
        };
        let travelled: Value = serde_json::from_str(&wire_application(&hub).to_string()).unwrap();
        let desired = desired_on_spoke(&travelled, &CONTEXT).unwrap();
        prop_assert_eq!(stated(&desired), stated(&hub));
        let reached = match patch_for_spoke(&live, &desired) {
            Some(patch) => patch.applied_to(&live),
            None => live,
        };
        prop_assert_eq!(stated(&reached), stated(&hub));
    }

    #[test]
    fn projection_depends_only_on_the_agreed_value(hub in crate::testing::application()) {
        let once = wire_application(&hub);
        prop_assert_eq!(wire_application(&once), once.clone());
        prop_assert_eq!(crate::digest::agreed(&once), crate::digest::agreed(&hub));
        let desired = desired_on_spoke(&once, &CONTEXT).unwrap();
        prop_assert_eq!(normal_spec(&desired["spec"]), desired["spec"].clone());
    }

    #[test]
    fn any_json_is_projected_without_a_panic(object in crate::testing::json(), live in crate::testing::json()) {
        drop((desired_on_spoke(&object, &CONTEXT), desired_project_on_spoke(&object, &CONTEXT)));
        let _ = (patch_for_spoke(&live, &object), wire_termination(&object), report_application(&object));
        let _ = (release_patch_for_hub(&object), stub(&object));
    }
}
