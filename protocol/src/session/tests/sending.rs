//! Sent events: order, window, resends.

use super::*;

#[test]
fn a_thousand_changes_are_one_event() {
    let (mut session, store) = (session(Role::Principal), Store::of([app("a")]));
    for _ in 0..1000 {
        session.mark(app("a"), Facet::State);
    }
    assert_eq!(session.stats(at(0)).outbox_objects, 1);
    assert_eq!(verbs(&sent(&mut session, &store, at(0))), [Verb::Create]);
}

#[test]
fn one_event_of_an_object_is_in_flight_and_the_next_has_the_newest_body() {
    let (mut session, mut store) = (session(Role::Principal), Store::of([app("a")]));
    session.mark(app("a"), Facet::State);
    let first = sent(&mut session, &store, at(0));
    for _ in 0..3 {
        store.change(&app("a"));
        session.mark(app("a"), Facet::State);
    }
    assert!(sent(&mut session, &store, at(1)).is_empty());
    take(&mut session, first[0].ack(), at(1));
    let second = sent(&mut session, &store, at(1));
    assert_eq!(verbs(&second), [Verb::SpecUpdate]);
    assert_eq!(second[0].payload.as_ref(), b"4");
}

#[test]
fn final_state_is_sent_once_before_its_delete() {
    let (mut session, store) = (session(Role::Principal), Store::of([app("a"), app("b")]));
    session.mark(app("a"), Facet::State);
    session.mark(app("b"), Facet::State);
    sent(&mut session, &store, at(0));
    session.emit(state("a", "2"));
    session.emit(deletion("a"));
    let last = sent(&mut session, &store, at(1));
    assert_eq!(verbs(&last), [Verb::SpecUpdate, Verb::Delete]);
    // After the delete, it would recreate the object.
    let again = sent(&mut session, &store, at(30));
    assert_eq!(verbs(&again), [Verb::Create, Verb::Delete]);
    assert_eq!(again[0].object(), Some(app("b")));
}

#[test]
fn state_precedes_command_and_projects_precede_applications() {
    let mut session = session(Role::Principal);
    let store = Store::of([app("a"), project("p")]);
    session.mark(app("a"), Facet::Command);
    session.mark(app("a"), Facet::State);
    session.mark(project("p"), Facet::State);
    let first = sent(&mut session, &store, at(0));
    let names: Vec<_> = first
        .iter()
        .map(|event| event.subject.clone().unwrap())
        .collect();
    assert_eq!(names, ["argocd/p", "agent-a/a"]);
    assert_eq!(verbs(&first), [Verb::Create, Verb::Create]);
    take(&mut session, first[1].ack(), at(0));
    assert_eq!(
        verbs(&sent(&mut session, &store, at(0))),
        [Verb::SetOperation]
    );
}

#[test]
fn a_command_that_waits_on_the_other_side_does_not_hold_up_the_state() {
    let (mut session, mut store) = (session(Role::Principal), Store::of([app("a")]));
    session.mark(app("a"), Facet::Command);
    assert_eq!(
        verbs(&sent(&mut session, &store, at(0))),
        [Verb::SetOperation]
    );
    store.change(&app("a"));
    session.mark(app("a"), Facet::State);
    session.mark(app("a"), Facet::Command);
    assert_eq!(verbs(&sent(&mut session, &store, at(1))), [Verb::Create]);
    assert_eq!(session.stats(at(1)).in_flight, 2);
}

#[test]
fn late_duplicate_ack_does_not_complete_the_command() {
    let (mut session, store) = (session(Role::Principal), Store::of([app("a")]));
    session.mark(app("a"), Facet::State);
    session.mark(app("a"), Facet::Command);
    let state = sent(&mut session, &store, at(0)).remove(0);
    take(&mut session, state.ack(), at(0));
    sent(&mut session, &store, at(0));
    take(&mut session, state.ack(), at(0));
    assert_eq!(session.stats(at(0)).in_flight, 1);
}

#[test]
fn unacknowledged_event_is_resent_with_backoff() {
    let (mut session, store) = (session(Role::Principal), Store::of([app("a")]));
    session.mark(app("a"), Facet::State);
    let mut times = Vec::new();
    for second in 0..400 {
        if !sent(&mut session, &store, at(second)).is_empty() {
            times.push(second);
        }
    }
    assert_eq!(times, [0, 5, 25, 105, 225, 345]);
    assert_eq!(session.stats(at(400)).oldest, at(400));
}

#[test]
fn a_newer_value_does_not_wait_for_the_long_pause_of_the_older() {
    let (mut session, mut store) = (session(Role::Principal), Store::of([app("a")]));
    session.mark(app("a"), Facet::State);
    sent(&mut session, &store, at(0));
    sent(&mut session, &store, at(5));
    store.change(&app("a"));
    session.mark(app("a"), Facet::State);
    assert_eq!(session.next_timeout(at(6)), Some(at(4)));
    let newer = sent(&mut session, &store, at(10));
    assert_eq!(newer[0].payload.as_ref(), b"2");
    take(&mut session, newer[0].ack(), at(10));
    assert_eq!(session.stats(at(10)).outbox_objects, 0);
}

#[test]
fn delete_replaces_all_events_of_its_object_and_waits_for_none() {
    let (mut session, store) = (session(Role::Principal), Store::of([app("a")]));
    session.mark(app("a"), Facet::State);
    let create = sent(&mut session, &store, at(0)).remove(0);
    session.mark(app("a"), Facet::State);
    session.mark(app("a"), Facet::Command);
    session.emit(deletion("a"));
    let delete = sent(&mut session, &store, at(0));
    assert_eq!(verbs(&delete), [Verb::Delete]);
    take(&mut session, create.ack(), at(0));
    assert_eq!(session.stats(at(0)).in_flight, 1);
    take(&mut session, delete[0].ack(), at(0));
    assert_eq!(session.stats(at(0)).outbox_objects, 0);
}

#[test]
fn an_object_that_comes_back_takes_back_a_delete_that_was_not_sent() {
    let (mut session, store) = (session(Role::Principal), Store::of([app("a")]));
    session.emit(Event::about(
        &app("a"),
        Verb::Delete,
        "old",
        "",
        Bytes::new(),
    ));
    session.mark(app("a"), Facet::State);
    assert_eq!(verbs(&sent(&mut session, &store, at(0))), [Verb::Create]);
}

#[test]
fn a_mark_without_a_state_does_not_take_back_a_delete() {
    let (mut session, store) = (session(Role::Principal), Store::default());
    session.emit(Event::about(
        &app("a"),
        Verb::Delete,
        "old",
        "",
        Bytes::new(),
    ));
    session.mark(app("a"), Facet::State);
    assert_eq!(verbs(&sent(&mut session, &store, at(0))), [Verb::Delete]);
}

#[test]
fn an_application_is_deleted_before_its_project() {
    let (mut session, store) = (session(Role::Principal), Store::default());
    session.emit(Event::about(
        &project("p"),
        Verb::Delete,
        "u",
        "",
        Bytes::new(),
    ));
    session.emit(Event::about(&app("a"), Verb::Delete, "u", "", Bytes::new()));
    let deletes = sent(&mut session, &store, at(0));
    assert_eq!(deletes[0].target, Target::Object(Kind::Application));
}

#[test]
fn no_more_than_the_window_is_in_flight() {
    let limits = Limits {
        window: 3,
        ..Limits::default()
    };
    let peer = Peer::new(Mode::Managed, Capabilities::of_level(1));
    let mut session = Session::new(Role::Principal, peer, limits);
    let store = Store::of((0..9).map(|n| app(&n.to_string())));
    for n in 0..9 {
        session.mark(app(&n.to_string()), Facet::State);
    }
    let first = sent(&mut session, &store, at(0));
    assert_eq!(first.len(), 3);
    take(&mut session, first[0].ack(), at(0));
    assert_eq!(sent(&mut session, &store, at(0)).len(), 1);
}

#[test]
fn constantly_changing_object_does_not_starve_others() {
    let limits = Limits {
        window: 1,
        ..Limits::default()
    };
    let peer = Peer::new(Mode::Managed, Capabilities::of_level(1));
    let mut session = Session::new(Role::Agent, peer, limits);
    let store = Store::of([app("busy"), app("calm")]);
    session.mark(app("busy"), Facet::Status);
    session.mark(app("calm"), Facet::Status);
    let mut stated = Vec::new();
    for _ in 0..3 {
        let event = sent(&mut session, &store, at(0)).remove(0);
        stated.push(event.object().unwrap().name);
        session.mark(app("busy"), Facet::Status);
        take(&mut session, event.ack(), at(0));
    }
    assert_eq!(stated, ["busy", "calm", "busy"]);
}

#[test]
fn mark_of_a_deleted_object_sends_nothing() {
    let (mut session, store) = (session(Role::Agent), Store::default());
    session.mark(app("a"), Facet::Status);
    assert!(sent(&mut session, &store, at(0)).is_empty());
    assert_eq!(session.stats(at(0)).outbox_objects, 0);
}

#[test]
fn unmarked_facet_is_not_sent() {
    let (mut session, store) = (session(Role::Agent), Store::of([app("a")]));
    session.mark(app("a"), Facet::Status);
    session.unmark(&app("a"), Facet::Status);
    assert!(sent(&mut session, &store, at(0)).is_empty());
}

#[test]
fn later_duplicate_control_message_replaces_the_earlier() {
    let (mut session, store) = (session(Role::Agent), Store::default());
    let body = crate::payload::RequestUpdate {
        name: "a".into(),
        ..Default::default()
    };
    session.emit(Event::request_update(&body));
    session.emit(Event::request_synced_resource_list(
        &crate::payload::SyncedResourceList::default(),
    ));
    session.emit(Event::request_update(&body));
    session.emit(Event::request_synced_resource_list(
        &crate::payload::SyncedResourceList::default(),
    ));
    let stated = verbs(&sent(&mut session, &store, at(0)));
    assert_eq!(
        stated,
        [Verb::RequestUpdate, Verb::RequestSyncedResourceList]
    );
}

#[test]
fn control_queue_keeps_order_and_drops_duplicates() {
    let mut outbox = Outbox::default();
    let request = |number: usize| {
        Event::request_update(&crate::payload::RequestUpdate {
            name: number.to_string(),
            ..Default::default()
        })
    };
    let decoded = crate::payload::DECODED.get();
    // An autonomous cluster with 10,000 mirrors that reconnects while nothing was sent.
    for number in (0..10_000).chain(0..5_000) {
        outbox.control(request(number));
    }
    assert_eq!(crate::payload::DECODED.get() - decoded, 15_000, "once each");
    let names: Vec<usize> = std::iter::from_fn(|| outbox.next_control())
        .map(|event| {
            let body: crate::payload::RequestUpdate =
                crate::payload::decode("request", &event.payload).unwrap();
            body.name.parse().unwrap()
        })
        .collect();
    assert!(names.into_iter().eq((5_000..10_000).chain(0..5_000)));
    outbox.control(request(1));
    assert!(
        outbox.next_control().is_some(),
        "a sent one does not block its successor"
    );
}

#[test]
fn live_request_is_sent_once_and_dropped_unacknowledged() {
    let (mut session, store) = (session(Role::Principal), Store::of([]));
    let get = Verb::Http(event::Method::Get);
    let request = Event::live_request(Target::Resource, get, "u", Bytes::from_static(b"{}"));
    assert!(session.can_emit_at_once());
    session.emit(request);
    assert!(!session.can_emit_at_once(), "one waits already");
    let first = sent(&mut session, &store, at(0));
    assert_eq!((first.len(), first[0].event_id.as_str()), (1, "u"));
    assert_eq!(session.stats(at(0)).in_flight, 1);
    assert!(session.can_emit_at_once());
    assert!(sent(&mut session, &store, at(600)).is_empty());
    assert_eq!(session.stats(at(600)).in_flight, 0);
    take(&mut session, first[0].ack(), at(601));
    assert_eq!(session.stats(at(601)).strays, 1);
}
