//! Deletions from the time before the enrolment of their cluster.

use super::*;

/// An Application of cluster `a` that was deleted on 2026-01-01 at noon.
fn deleted() -> Value {
    let change = json!({ "metadata": {
        "finalizers": [keys::RESOURCES_FINALIZER], "deletionTimestamp": "2026-01-01T12:00:00Z",
    } });
    with(application("a", "app", "1", 1), change)
}

fn enrolled_at(time: &str) -> crate::Fleet {
    let mut fleet = fleet(&["a"]);
    fleet.clusters.get_mut("a").unwrap().since = Some(time.parse().unwrap());
    fleet
}

/// The number of Applications with something to send.
fn notes(subscription: &crate::sync::hub::Subscription) -> usize {
    let notes = subscription.mailbox.take();
    let kinds = notes.keys().map(|key| key.kind);
    kinds.filter(|kind| *kind == Kind::Application).count()
}

#[tokio::test(start_paused = true)]
async fn deletion_from_before_the_enrolment_needs_a_confirmation() {
    let setup = setup(vec![]);
    setup.hub.set_fleet(&enrolled_at("2026-01-01T12:00:01Z"));
    let mailbox = setup.hub.subscribe(&crate::testing::name("a"));
    setup.memory.put(Watched::Application, deleted());
    setup
        .until("unconfirmed", |memory| {
            kinds(memory, "a", "app") == [keys::CONDITION_DELETION_UNCONFIRMED]
        })
        .await;
    assert_eq!(notes(&mailbox), 0);
    let annotation = json!({ "metadata": { "annotations": {
        keys::CONFIRM_DELETE: "2026-01-01T12:00:00Z",
    } } });
    let confirmed = with(setup.memory.application("a", "app").unwrap(), annotation);
    setup.memory.put(Watched::Application, confirmed);
    setup
        .until("confirmed", |memory| kinds(memory, "a", "app").is_empty())
        .await;
    assert_eq!(notes(&mailbox), 1);
    drop(mailbox);
    setup.stop().await;
}

#[tokio::test(start_paused = true)]
async fn unconfirmed_deletion_that_ends_takes_no_copy_back() {
    let alive = application("a", "app", "1", 1);
    let setup = setup(vec![alive]);
    setup.hub.set_fleet(&enrolled_at("2026-01-01T12:00:01Z"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mailbox = setup.hub.subscribe(&crate::testing::name("a"));
    assert_eq!(
        mailbox.delivered.len(),
        2,
        "the Application and its project"
    );
    let newer = json!({ "metadata": { "resourceVersion": "9" } });
    setup
        .memory
        .put(Watched::Application, with(deleted(), newer));
    setup
        .until("unconfirmed", |memory| {
            kinds(memory, "a", "app") == [keys::CONDITION_DELETION_UNCONFIRMED]
        })
        .await;
    mailbox.mailbox.take();
    let free = json!({ "metadata": { "finalizers": null } });
    setup.memory.edit(Watched::Application, "a", "app", free);
    assert!(setup.memory.application("a", "app").is_none());
    let elsewhere = json!({ "spec": { "destination": { "name": "b" } } });
    let marker = with(application("a", "marker", "2", 1), elsewhere);
    setup.memory.put(Watched::Application, marker);
    setup
        .until("marked", |memory| !kinds(memory, "a", "marker").is_empty())
        .await;
    let sent = mailbox.mailbox.take();
    let gone = sent.values().filter(|note| note.gone.is_some());
    assert_eq!(gone.count(), 0);
    drop(mailbox);
    setup.stop().await;
}

#[tokio::test(start_paused = true)]
async fn deletion_after_the_enrolment_needs_no_confirmation() {
    let setup = setup(vec![]);
    setup.hub.set_fleet(&enrolled_at("2026-01-01T12:00:00Z"));
    setup.memory.put(Watched::Application, deleted());
    setup
        .until("waits for the cluster", |memory| {
            kinds(memory, "a", "app") == [DISCONNECTED]
        })
        .await;
    setup.stop().await;
}

#[tokio::test(start_paused = true)]
async fn deletion_for_a_cluster_that_left_is_reported() {
    let routed = json!({ "spec": { "destination": { "name": "a" } } });
    let named = |object| with(object, json!({ "metadata": { "namespace": "argocd" } }));
    let alive = named(with(application("a", "app", "1", 1), routed.clone()));
    let setup = setup(vec![alive]);
    // A condition of another object shows that the first one is known.
    let elsewhere = json!({ "spec": { "destination": { "name": "b" } } });
    let other = with(application("a", "other", "2", 1), elsewhere);
    setup.memory.put(Watched::Application, other);
    setup
        .until("listed", |memory| !kinds(memory, "a", "other").is_empty())
        .await;
    setup.hub.set_fleet(&fleet(&[]));
    let left = with(
        named(with(deleted(), routed)),
        json!({ "metadata": { "resourceVersion": "9" } }),
    );
    setup.memory.put(Watched::Application, left);
    let is_reported = |memory: &Memory| {
        let shown = conditions(memory, "argocd", "app");
        matches!(&shown[..], [(kind, why)] if kind == DISCONNECTED && why.contains("cluster a, which left"))
    };
    setup.until("reported", is_reported).await;
    setup.hub.set_fleet(&enrolled_at("2026-01-02T00:00:00Z"));
    setup
        .until("unconfirmed", |memory| {
            kinds(memory, "argocd", "app") == [keys::CONDITION_DELETION_UNCONFIRMED]
        })
        .await;
    setup.stop().await;
}
