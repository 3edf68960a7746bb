//! The limits of reports: large statuses, and bodies of foreign objects.

use super::*;

/// A report about the Application of cluster `a` with this UID, with a status of about so many bytes.
fn large(uid: &str, bytes: usize) -> Event {
    let change = json!({
        "metadata": { "annotations": { keys::SOURCE_UID: uid } },
        "status": { "summary": { "images": ["x".repeat(bytes)] } },
    });
    event(Verb::StatusUpdate, change)
}

#[tokio::test]
async fn large_statuses_of_a_cluster_are_bounded_together() {
    let mut settings = Settings::usual(([127, 0, 0, 1], 0).into());
    settings.limits.large_statuses = 200 << 10;
    let setup = setup_with(&settings, &application("a", "app", "1", 1));
    let second = application("a", "second", "2", 1);
    setup.memory.put(Watched::Application, second);
    let second = || setup.memory.application("a", "second").unwrap();
    setup.hub.report(applied(Watched::Application, second()));
    let apply = async |event: Event| setup.hub.reports.apply(&sender("a"), &event).await;

    assert_eq!(apply(large("1", 150 << 10)).await, Verdict::Done);
    let refused = apply(large("2", 100 << 10)).await;
    assert!(
        matches!(&refused, Verdict::Refused(why) if why.contains("204800 bytes together")),
        "{refused:?}"
    );
    assert_eq!(second().get("status"), None);
    let report = |uid| {
        let state = setup.hub.objects.lock();
        state.index.by_uid(uid).unwrap().1.report.clone()
    };
    let shown = report("2").unwrap();
    assert!(shown.contains("is not shown"), "{shown}");

    assert_eq!(apply(large("2", 60 << 10)).await, Verdict::Done);
    assert!(second()["status"]["summary"].is_object());
    assert_eq!(report("2"), None);
    assert_eq!(apply(large("1", 190 << 10)).await, Verdict::Done);

    // They exceed the limit together, as those from before a limit do: a smaller one is shown, a larger one is not.
    let status = json!({ "status": { "summary": { "images": ["x".repeat(100 << 10)] } } });
    setup
        .memory
        .edit(Watched::Application, "a", "second", status);
    setup.hub.report(applied(Watched::Application, second()));
    assert_eq!(apply(large("2", 99 << 10)).await, Verdict::Done);
    assert!(matches!(
        apply(large("2", 110 << 10)).await,
        Verdict::Refused(_)
    ));
}

/// The body of a foreign report is not decoded: its status would exceed the limit of memory.
#[tokio::test]
async fn report_about_a_foreign_object_is_refused_before_it_is_decoded() {
    let setup = setup(&application("a", "app", "1", 1));
    let bomb = vec![json!({ "": 0 }); 200_000];
    let change = |uid: &str| {
        json!({
            "metadata": { "annotations": { keys::SOURCE_UID: uid } },
            "status": { "resources": bomb },
        })
    };
    let reason = async |uid: &str| {
        let event = event(Verb::StatusUpdate, change(uid));
        setup.hub.reports.apply_for(&sender("a"), &event).await.1
    };
    assert_eq!(reason("foreign").await, Some("not_theirs"));
    assert_eq!(reason("1").await, Some("malformed"));
}
