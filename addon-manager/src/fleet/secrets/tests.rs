use serde_json::json;

use super::{todo::is_as, *};

fn desired(label: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": "cluster-c", "labels": { "region": label } },
        "data": { "name": "Yw==" },
    })
}

fn secret(value: Value) -> Secret {
    serde_json::from_value(value).unwrap()
}

#[test]
fn an_unchanged_secret_needs_no_second_write() {
    let written = secret(marked(desired("eu")));
    assert!(is_as(&written, &secret(marked(desired("eu")))));
    assert!(!is_as(&written, &secret(marked(desired("us")))));
}

fn response(uid: &str, version: &str) -> Secret {
    let mut secret = secret(desired(version));
    secret.metadata.uid = Some(uid.to_owned());
    secret.metadata.resource_version = Some(version.to_owned());
    secret
}

#[test]
fn a_late_response_does_not_restore_a_deleted_secret() {
    let cache = Mutex::new(SecretCache::default());
    let there = || cache.lock().unwrap().get("c").cloned();
    for before in [None, Some(response("1", "8"))] {
        let writing = Writing::begin(&cache, "c");
        if let Some(before) = before {
            cache.lock().unwrap().observed("c", before);
        }
        cache.lock().unwrap().gone("c", "1");
        writing.answered(response("1", "9"));
        assert_eq!(there(), None);
    }
    Writing::begin(&cache, "c").answered(response("2", "11"));
    cache.lock().unwrap().gone("c", "1");
    assert_eq!(there(), Some(response("2", "11")), "its replacement stays");
    cache.lock().unwrap().gone("c", "2");
    assert_eq!(there(), None);
}

#[test]
fn secret_deleted_before_its_watch_event_is_noticed_at_relist() {
    let cache = Mutex::new(SecretCache::default());
    let there = || cache.lock().unwrap().get("c").cloned();
    let none = Vec::<String>::new();
    Writing::begin(&cache, "c").answered(response("1", "8"));
    Writing::begin(&cache, "c").answered(response("1", "9"));
    assert_eq!(there(), Some(response("1", "9")));
    assert_eq!(cache.lock().unwrap().listed(), ["c"]);
    assert_eq!(there(), None);
    // The watch has reported this one, so it would notice its absence in a later list.
    Writing::begin(&cache, "c").answered(response("2", "11"));
    cache.lock().unwrap().observed("c", response("2", "11"));
    Writing::begin(&cache, "c").answered(response("2", "12"));
    assert_eq!(cache.lock().unwrap().listed(), none);
    assert_eq!(there(), Some(response("2", "12")));
    // The watch has not reported its replacement, until that is deleted.
    cache.lock().unwrap().gone("c", "2");
    Writing::begin(&cache, "c").answered(response("3", "14"));
    cache.lock().unwrap().gone("c", "3");
    assert_eq!(cache.lock().unwrap().listed(), none);
}

#[test]
fn a_stale_watch_event_does_not_revert_our_write() {
    let mut cache = SecretCache::default();
    let mut version_after = |secret| {
        cache.observed("c", secret);
        let secret = cache.get("c").unwrap();
        secret.metadata.resource_version.clone().unwrap()
    };
    assert_eq!(version_after(response("1", "9")), "9");
    assert_eq!(
        version_after(response("1", "8")),
        "9",
        "from before our write"
    );
    assert_eq!(version_after(response("1", "10")), "10");
    assert_eq!(version_after(response("2", "3")), "3", "another Secret");
    assert_eq!(version_after(response("2", "opaque")), "opaque");
}

#[test]
fn errors_that_a_retry_does_not_resolve_need_a_person() {
    let refused = |reason| {
        let status = kube::core::Status::failure("no right", reason);
        Error::from(failed("write Secret", "cluster-c")(kube::Error::Api(
            Box::new(status),
        )))
    };
    let message = refused("Forbidden").needs_a_person().unwrap();
    for part in [
        "write Secret cluster-c",
        "no right",
        "upgrade the Helm release",
    ] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(refused("InternalError").needs_a_person(), None);
    assert_eq!(Error::NotListed.needs_a_person(), None);
}

#[test]
fn a_label_that_is_no_longer_wanted_is_noticed() {
    let mut more = desired("eu");
    more["metadata"]["labels"]["old"] = json!("x");
    assert!(!is_as(
        &secret(marked(more)),
        &secret(marked(desired("eu")))
    ));
}

#[test]
fn labels_of_users_do_not_matter_and_edits_of_ours_do() {
    let wanted = secret(marked(desired("eu")));
    let mut live = wanted.clone();
    live.metadata
        .labels
        .as_mut()
        .unwrap()
        .insert("team".to_owned(), "a".to_owned());
    assert!(is_as(&live, &wanted));
    live.metadata
        .labels
        .as_mut()
        .unwrap()
        .insert("region".to_owned(), "x".to_owned());
    assert!(!is_as(&live, &wanted));
}

#[test]
fn a_foreign_secret_is_left_alone() {
    let wanted = secret(marked(desired("eu")));
    // Even if only the mark is missing.
    assert_eq!(
        todo("c", Some(&secret(desired("eu"))), &wanted),
        Todo::LeaveAlone
    );
    assert_eq!(todo("c", None, &wanted), Todo::Make);
}

#[test]
fn cluster_secret_of_a_replaced_program_is_adopted() {
    let wanted = secret(marked(desired("eu")));
    let mut theirs = secret(desired("eu"));
    theirs.metadata.uid = Some("1".to_owned());
    let uid = || "1".to_owned();
    let labels = [
        (argocd::keys::SECRET_TYPE, "cluster"),
        (argocd::keys::AGENT_NAME, "c"),
    ];
    let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    theirs.metadata.labels = Some(labels.map(owned).into());
    assert_eq!(todo("c", Some(&theirs), &wanted), Todo::LeaveAlone);
    let mark = [owned((
        argocd::keys::MANAGED_BY,
        argocd::keys::MANAGED_BY_US,
    ))];
    theirs.metadata.annotations = Some(mark.into());
    assert_eq!(
        todo("c", Some(&theirs), &wanted),
        Todo::TakeOver { uid: uid() }
    );
    assert_eq!(todo("d", Some(&theirs), &wanted), Todo::LeaveAlone);
    theirs.metadata.annotations = Some([owned((WRITTEN, ""))].into());
    assert_eq!(
        todo("c", Some(&theirs), &wanted),
        Todo::TakeOver { uid: uid() }
    );
}

#[test]
fn contested_label_is_yielded_but_required_fields_are_not() {
    let field = |name: &str| Field(name.to_owned());
    for (name, may) in [
        (".metadata.labels.region", true),
        (".metadata.labels.topology.kubernetes.io/region", true),
        (
            ".metadata.annotations.claim.argocd-agent.open-cluster-management.io/x",
            true,
        ),
        (".metadata.labels.argocd.argoproj.io/secret-type", false),
        (
            ".metadata.annotations.argocd.argoproj.io/skip-reconcile",
            false,
        ),
        (".data.config", false),
        (".metadata.labels", false),
    ] {
        assert_eq!(field(name).may_differ(), may, "{name}");
    }
    let region = field(".metadata.labels.region");
    assert_eq!(region.in_json(&desired("eu")).as_deref(), Some("eu"));
    assert_eq!(region.of(&secret(desired("us"))).as_deref(), Some("us"));
    let given_up = without(desired("eu"), &[region].into());
    assert_eq!(given_up["metadata"]["labels"], json!({}));
}

#[test]
fn our_secret_is_repaired_but_not_its_replacement() {
    let wanted = secret(marked(desired("eu")));
    let mut live = secret(marked(desired("us")));
    live.metadata.uid = Some("1".to_owned());
    let uid = "1".to_owned();
    assert_eq!(todo("c", Some(&live), &wanted), Todo::Mend { uid });
    assert_eq!(todo("c", Some(&wanted), &wanted), Todo::Nothing);
    let mut patch = marked(desired("eu"));
    demand(&mut patch, "1");
    assert_eq!(patch["metadata"]["uid"], "1");
}
