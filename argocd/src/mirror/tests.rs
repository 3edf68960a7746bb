use proptest::prelude::*;

use super::*;
use crate::testing;

fn source() -> Value {
    json!({
        "apiVersion": keys::API_VERSION,
        "kind": "Application",
        "metadata": {
            "name": "guestbook", "namespace": "argocd", "uid": "s1", "resourceVersion": "7",
            "labels": {
                "team": "a", "argocd-agent.argoproj-labs.io/agent-name": "other", keys::INSTANCE: "apps",
            },
            "annotations": {
                "note": "kept",
                "notifications.argoproj.io/subscribe.on-sync.slack": "general",
                "link.argocd.argoproj.io/docs": "Docs|https://example.com",
                "link.argocd.argoproj.io/bad": "Docs|javascript:alert(1)",
                keys::MIRRORED_FROM: "other",
                keys::LAST_COMMAND: "x",
                keys::TRACKING_ID: "apps:argoproj.io/Application:argocd/guestbook",
            },
            "finalizers": [keys::RESOURCES_FINALIZER],
            "ownerReferences": [{ "name": "set" }],
        },
        "spec": {
            "project": "team",
            "source": { "repoURL": "https://example.com/r.git" },
            "destination": { "server": keys::IN_CLUSTER_SERVER, "namespace": "work" },
        },
        "status": {
            "sync": { "status": "Synced" },
            "resources": [
                { "group": "argoproj.io", "kind": "Application", "namespace": "argocd", "name": "child" },
                { "kind": "ConfigMap", "namespace": "argocd", "name": "map" },
            ],
        },
    })
}

fn follow() -> Judgement {
    Judgement {
        operation: Operation::Follow(None),
        terminate: false,
        refresh: false,
        refresh_done: false,
    }
}

/// The mirror as an API server stores it.
fn stored(object: &Value) -> Value {
    let mut object = object.clone();
    patch::merge(
        &mut object,
        &json!({ "metadata": { "uid": "hub", "resourceVersion": "1" } }),
    );
    object
}

#[test]
fn mirror_has_namespace_project_and_destination_of_cluster() {
    let mirror = application(&source(), "c").unwrap();
    let meta = Meta::of(&mirror);
    assert_eq!((meta.namespace(), meta.name()), ("c", "guestbook"));
    assert_eq!(meta.source_uid(), Some("s1"));
    assert!(is_of(&mirror, "c") && !is_of(&mirror, "other") && is_mirror(&mirror));
    assert_eq!(mirror["spec"]["project"], "c-team");
    assert_eq!(
        mirror["spec"]["destination"],
        json!({ "name": "c", "namespace": "work" })
    );
    assert!(meta.finalizers().is_empty());
    assert!(mirror["metadata"]["ownerReferences"].is_null());
}

#[test]
fn mirror_drops_fields_that_could_act_on_the_hub() {
    let mirror = application(&source(), "c").unwrap();
    let annotations: Vec<_> = Meta::of(&mirror).annotations().into_keys().collect();
    let stamps = [keys::MIRRORED_FROM, keys::SOURCE_UID];
    let mut expected = vec!["link.argocd.argoproj.io/docs", "note"];
    expected.extend(stamps);
    expected.sort_unstable();
    assert_eq!(annotations, expected);
    assert_eq!(Meta::of(&mirror).labels(), [("team", "a")].into());
}

#[test]
fn children_are_shown_where_their_mirrors_are() {
    let made = created(&application(&source(), "c").unwrap(), &source(), "c");
    assert_eq!(made["status"]["resources"][0]["namespace"], "c");
    assert_eq!(made["status"]["resources"][1]["namespace"], "argocd");
    assert!(made.get("operation").is_none());
}

#[test]
fn names_and_uids_of_a_spoke_are_checked() {
    let with = |path: &str, value: Value| {
        let mut bad = source();
        *bad.pointer_mut(path).unwrap() = value;
        application(&bad, "c")
    };
    let long = "x".repeat(254);
    for name in ["", "..", "a/b", "A", "a b", "-a", long.as_str()] {
        assert_eq!(
            with("/metadata/name", name.into()),
            Err(Unusable::BadName),
            "{name}"
        );
    }
    assert_eq!(with("/metadata/uid", "".into()), Err(Unusable::NoUid));
    assert_eq!(with("/spec", Value::Null), Err(Unusable::NoSpec));
    assert_eq!(with("/spec/project", "../x".into()), Err(Unusable::BadName));
    let long = with("/spec/project", "x".repeat(252).into());
    assert_eq!(long, Err(Unusable::TooLong));
}

#[test]
fn mirror_requires_the_mark_of_its_cluster() {
    let go = |namespace: &str| {
        json!({ "metadata": { "namespace": namespace, "annotations": {
            keys::SOURCE_UID: "s", keys::LAST_UPDATED: "2026-01-01T00:00:00Z" } } })
    };
    assert!(is_of(&go("c"), "c") && !is_of(&go("d"), "c"));
    let copied =
        json!({ "metadata": { "namespace": "c", "annotations": { keys::SOURCE_UID: "s" } } });
    assert!(!is_of(&copied, "c") && !is_mirror(&copied));
    let project = json!({
        "metadata": { "namespace": "argocd", "annotations": {
            keys::SOURCE_UID: "s", keys::LAST_UPDATED: "x" } },
        "spec": { "sourceNamespaces": ["c"] },
    });
    assert!(is_of(&project, "c") && !is_of(&project, "d"));
}

#[test]
fn a_project_governs_the_mirrors_of_its_cluster_and_nothing_else() {
    let source = json!({
        "metadata": { "name": "team", "namespace": "argocd", "uid": "p1" },
        "spec": {
            "sourceNamespaces": ["*"],
            "destinationServiceAccounts": [{ "server": "*" }],
            "destinations": [
                { "server": "*", "namespace": "a" },
                { "name": "in-cluster", "namespace": "a" },
                { "server": format!("!{}", keys::IN_CLUSTER_SERVER), "namespace": "kube-system" },
                { "name": "!elsewhere", "namespace": "b" },
            ],
            "roles": [{
                "name": "dev", "groups": ["devs"], "jwtTokens": [{ "iat": 1 }],
                "policies": [
                    "p, proj:team:dev, applications, sync, team/*, allow",
                    "p, proj:team:dev, applications, *, c-team/argocd/*, allow",
                    "p, proj:other:dev, applications, sync, team/*, allow",
                    "p, proj:team:dev, clusters, get, team/*, allow",
                    "g, someone, role:admin",
                ],
            }],
        },
    });
    let mirror = project(&source, "c", "argocd").unwrap();
    assert_eq!(Meta::of(&mirror).name(), "c-team");
    assert_eq!(
        mirror["spec"],
        json!({
            "sourceNamespaces": ["c"],
            "destinations": [
                { "name": "c", "namespace": "a" },
                { "name": "!c", "namespace": "kube-system" },
            ],
            "roles": [{
                "name": "dev", "groups": ["devs"],
                "policies": ["p, proj:c-team:dev, applications, sync, c-team/c/*, allow"],
            }],
        })
    );
    assert_eq!(source_name("c", "c-team"), Some("team"));
    assert_eq!(source_name("c", "d-team"), None);
}

#[test]
fn rbac_rules_cannot_be_injected_through_a_role() {
    let inject = "x, proj:c-team:dev\np, alice, projects, *, c-team, allow\ng, y";
    let role = json!({
        "name": "dev", "description": "developers", "unknown": { "field": true },
        "groups": ["devs", "devs of team", "", " devs", "a,b", "a\tb", "a\"b", "a\rb", inject, 7],
        "policies": [
            "p, proj:team:dev, applications, action/apps/Deployment/restart, team/*, deny",
            "p, proj:team:dev, applications, sync, team/*, maybe",
            "p, proj:team:dev, applications, everything, team/*, allow",
            "p, proj:team:dev, applications, get, team/x\ng alice, allow",
            "p, proj:team:dev, applications, get, team/\"x, allow",
            7,
        ],
    });
    let bad = |name: &str| json!({ "name": name, "groups": ["devs"] });
    let source = json!({
        "metadata": { "name": "team", "uid": "p1" },
        "spec": { "roles": [role, bad(inject), bad("-dev"), bad("dev_"), bad(""), { "groups": ["devs"] }, "dev"] },
    });
    let mirror = project(&source, "c", "argocd").unwrap();
    assert_eq!(
        mirror["spec"]["roles"],
        json!([{
            "name": "dev", "description": "developers",
            "groups": ["devs", "devs of team"],
            "policies": [
                "p, proj:c-team:dev, applications, action/apps/Deployment/restart, c-team/c/*, deny",
            ],
        }])
    );
}

#[test]
fn tokens_that_the_hub_issued_for_a_mirrored_role_stay() {
    let source = json!({
        "metadata": { "name": "team", "uid": "p1" },
        "spec": { "roles": [{ "name": "dev" }] },
    });
    let desired = project(&source, "c", "argocd").unwrap();
    let mut live = stored(&desired);
    live["spec"]["roles"][0]["jwtTokens"] = json!([{ "iat": 2 }]);
    live["status"] = json!({ "jwtTokensByRole": { "dev": {} } });
    assert_eq!(healing_patch(&live, &desired), None);
    live["spec"]["roles"][0]["groups"] = json!(["mine"]);
    let healed = healing_patch(&live, &desired).unwrap().applied_to(&live);
    assert_eq!(
        healed["spec"]["roles"][0],
        json!({ "name": "dev", "jwtTokens": [{ "iat": 2 }] })
    );
    assert!(healed["status"]["jwtTokensByRole"].is_object());
}

#[test]
fn edit_of_a_mirror_is_reverted_and_fields_of_the_hub_stay() {
    let written = stored(&created(
        &application(&source(), "c").unwrap(),
        &source(),
        "c",
    ));
    let mut live = written.clone();
    live["metadata"]["annotations"][keys::REFRESH] = "hard".into();
    live["metadata"]["annotations"][keys::NOTIFIED] = "{}".into();
    live["metadata"]["finalizers"] = json!(["example.com/mine"]);
    live["operation"] = json!({ "sync": {} });
    assert_eq!(
        healing_patch(&live, &written),
        None,
        "none of this is an edit"
    );
    live["metadata"]["labels"] = Value::Null;
    live["metadata"]["finalizers"] = json!([keys::RESOURCES_FINALIZER, "example.com/mine"]);
    live["spec"]["source"]["path"] = "edited".into();
    let healed = healing_patch(&live, &written).unwrap().applied_to(&live);
    assert_eq!(healed["spec"], written["spec"]);
    assert_eq!(healed["metadata"]["labels"], json!({ "team": "a" }));
    assert_eq!(
        healed["metadata"]["finalizers"],
        json!(["example.com/mine"])
    );
    assert_eq!(healed["metadata"]["annotations"][keys::REFRESH], "hard");
    assert_eq!(healed["operation"], json!({ "sync": {} }));
}

#[test]
fn deleted_mirror_is_recreated_with_status_without_commands() {
    let mut written = stored(&created(
        &application(&source(), "c").unwrap(),
        &source(),
        "c",
    ));
    written["operation"] = json!({ "sync": {} });
    written["metadata"]["annotations"][keys::REFRESH] = "hard".into();
    let again = recreated(&written);
    assert!(Meta::of(&again).uid().is_empty() && again.get("operation").is_none());
    assert!(Meta::of(&again).annotation(keys::REFRESH).is_none());
    assert_eq!(again["status"]["sync"]["status"], "Synced");
    assert_eq!(healing_patch(&again, &written), None);
}

#[test]
fn reports_to_a_go_principal_have_no_commands() {
    let mut live = source();
    live["operation"] = json!({ "sync": {} });
    live["metadata"]["annotations"][keys::REFRESH] = "normal".into();
    live["metadata"]["annotations"][keys::SOURCE_UID] = "from before".into();
    for ours in [true, false] {
        let report = wire(&live, "Application", ours);
        assert_eq!(report.get("operation").is_some(), ours);
        assert_eq!(Meta::of(&report).annotation(keys::REFRESH).is_some(), ours);
        assert_eq!(
            Meta::of(&report).annotation(keys::LAST_COMMAND).is_some(),
            ours
        );
        assert_eq!(Meta::of(&report).source_uid(), None);
        assert_eq!(report["status"]["sync"]["status"], "Synced");
    }
}

#[test]
fn digest_of_a_report_ignores_resource_versions() {
    let mut later = source();
    later["metadata"]["resourceVersion"] = "8".into();
    let digest = |live: &Value| wire_digest(&wire(live, "Application", true));
    assert_eq!(digest(&later), digest(&source()));
    later["status"]["sync"]["status"] = "OutOfSync".into();
    assert_ne!(digest(&later), digest(&source()));
}

proptest! {
    #[test]
    fn mirror_converges_in_one_patch(
        source in testing::application(),
        live in testing::application(),
        status in testing::json(),
    ) {
        let mut source = source;
        source["status"] = json!({ "sync": status });
        let desired = application(&source, "c").unwrap();
        let judgement = follow();
        let reached = application_patch(&live, &desired, &source, &judgement, "c")
            .map_or_else(|| live.clone(), |patch| patch.applied_to(&live));
        prop_assert_eq!(application_patch(&reached, &desired, &source, &judgement, "c"), None);
        prop_assert_eq!(healing_patch(&reached, &stored(&desired)), None);
        prop_assert!(is_of(&reached, "c"));
    }

    #[test]
    fn plugin_environment_is_mirrored_verbatim(
        source in testing::application(), live in testing::application(),
    ) {
        let plugin_of = |app: &Value| {
            let spec = &app["spec"];
            format!("{} {}", spec["source"], spec["other"])
        };
        for ours in [true, false] {
            let report = wire(&source, "Application", ours).to_string();
            let desired = application(&serde_json::from_str(&report).unwrap(), "c").unwrap();
            prop_assert_eq!(plugin_of(&desired), plugin_of(&source));
            let reached = application_patch(&live, &desired, &source, &follow(), "c")
                .map_or_else(|| live.clone(), |patch| patch.applied_to(&live));
            prop_assert_eq!(plugin_of(&reached), plugin_of(&source));
        }
    }

    #[test]
    fn mirrors_never_leave_the_namespace_of_their_cluster(source in testing::json(), cluster in "[a-z]{1,5}") {
        if let Ok(mirror) = application(&source, &cluster) {
            prop_assert_eq!(Meta::of(&mirror).namespace(), cluster.as_str());
        }
        if let Ok(mirror) = project(&source, &cluster, "argocd") {
            prop_assert_eq!(Meta::of(&mirror).namespace(), "argocd");
            let prefix = format!("{cluster}-");
            prop_assert!(Meta::of(&mirror).name().starts_with(&prefix));
        }
    }
}
