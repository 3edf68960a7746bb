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
fn what_was_written_needs_no_second_write() {
    let written = secret(marked(desired("eu")));
    assert!(is_as(&written, &secret(marked(desired("eu")))));
    assert!(!is_as(&written, &secret(marked(desired("us")))));
}

fn reply(uid: &str, version: &str) -> Secret {
    let mut secret = secret(desired(version));
    secret.metadata.uid = Some(uid.to_owned());
    secret.metadata.resource_version = Some(version.to_owned());
    secret
}

#[test]
fn an_answer_that_comes_after_the_deletion_brings_nothing_back() {
    let stored = Mutex::new(SecretCache::default());
    let there = || stored.lock().unwrap().get("c").cloned();
    for before in [None, Some(reply("1", "8"))] {
        let writing = Writing::begin(&stored, "c");
        if let Some(before) = before {
            stored.lock().unwrap().reply("c", before);
        }
        stored.lock().unwrap().gone("c", "1");
        writing.answered(reply("1", "9"));
        assert_eq!(there(), None);
    }
    Writing::begin(&stored, "c").answered(reply("2", "11"));
    stored.lock().unwrap().gone("c", "1");
    assert_eq!(there(), Some(reply("2", "11")), "what took its place stays");
    stored.lock().unwrap().gone("c", "2");
    assert_eq!(there(), None);
}

#[test]
fn secret_deleted_before_its_watch_event_is_noticed_at_relist() {
    let stored = Mutex::new(SecretCache::default());
    let there = || stored.lock().unwrap().get("c").cloned();
    let nobody = Vec::<String>::new();
    Writing::begin(&stored, "c").answered(reply("1", "8"));
    Writing::begin(&stored, "c").answered(reply("1", "9"));
    assert_eq!(there(), Some(reply("1", "9")));
    assert_eq!(stored.lock().unwrap().listed(), ["c"]);
    assert_eq!(there(), None);
    // Told of by the watch, it is one that a later list would be known to lack.
    Writing::begin(&stored, "c").answered(reply("2", "11"));
    stored.lock().unwrap().reply("c", reply("2", "11"));
    Writing::begin(&stored, "c").answered(reply("2", "12"));
    assert_eq!(stored.lock().unwrap().listed(), nobody);
    assert_eq!(there(), Some(reply("2", "12")));
    // Another one in its place is untold again, until it goes.
    stored.lock().unwrap().gone("c", "2");
    Writing::begin(&stored, "c").answered(reply("3", "14"));
    stored.lock().unwrap().gone("c", "3");
    assert_eq!(stored.lock().unwrap().listed(), nobody);
}

#[test]
fn a_watch_that_is_behind_takes_nothing_back() {
    let mut stored = SecretCache::default();
    let mut version_after = |secret| {
        stored.reply("c", secret);
        let stored = stored.get("c").unwrap();
        stored.metadata.resource_version.clone().unwrap()
    };
    assert_eq!(version_after(reply("1", "9")), "9");
    assert_eq!(version_after(reply("1", "8")), "9", "of before our write");
    assert_eq!(version_after(reply("1", "10")), "10");
    assert_eq!(version_after(reply("2", "3")), "3", "another Secret");
    assert_eq!(version_after(reply("2", "opaque")), "opaque");
}

#[test]
fn what_waiting_does_not_mend_is_for_a_person() {
    let refused = |reason| Error::Api {
        action: "write",
        name: "cluster-c".to_owned(),
        source: Box::new(kube::Error::Api(Box::new(kube::core::Status::failure(
            "no right", reason,
        )))),
    };
    let reply = refused("Forbidden").needs_a_person().unwrap();
    for part in [
        "write Secret cluster-c",
        "no right",
        "upgrade the Helm release",
    ] {
        assert!(reply.contains(part), "{reply}");
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
fn a_secret_that_somebody_else_made_is_left_alone() {
    let wanted = secret(marked(desired("eu")));
    // Also when it looks like ours in everything but the mark.
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
fn ours_is_mended_and_nothing_in_its_place() {
    let wanted = secret(marked(desired("eu")));
    let mut live = secret(marked(desired("us")));
    live.metadata.uid = Some("1".to_owned());
    let uid = "1".to_owned();
    assert_eq!(todo("c", Some(&live), &wanted), Todo::Mend { uid });
    assert_eq!(todo("c", Some(&wanted), &wanted), Todo::Nothing);
    let mut patch = marked(desired("eu"));
    demand(&mut patch, "1".to_owned());
    assert_eq!(patch["metadata"]["uid"], "1");
}
