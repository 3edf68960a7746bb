//! Received events: work, retries, replacement and acknowledgement.

use super::*;

#[test]
fn work_on_an_object_is_one_at_a_time_and_the_newest_wins() {
    let (mut session, store) = (session(Role::Agent), Store::default());
    take(&mut session, state("a", "1"), at(0));
    let first = session.next_work(at(0)).unwrap();
    take(&mut session, state("a", "2"), at(0));
    take(&mut session, state("a", "3"), at(0));
    assert!(session.next_work(at(0)).is_none());
    // the third replaces the second, which is acknowledged without work
    let acked: Vec<_> = sent(&mut session, &store, at(0))
        .into_iter()
        .map(|ack| ack.event_id)
        .collect();
    assert_eq!(acked, ["a_uid_2"]);
    session.finished(first.id, Verdict::Done, at(0));
    let next = session.next_work(at(0)).unwrap();
    assert_eq!(next.event.event_id, "a_uid_3");
    session.finished(next.id, Verdict::Done, at(0));
    assert_eq!(sent(&mut session, &store, at(0)).len(), 2);
    assert_eq!(session.stats(at(0)).inbox_objects, 0);
}

#[test]
fn the_same_event_twice_is_done_and_acknowledged_once() {
    let (mut session, store) = (session(Role::Agent), Store::default());
    take(&mut session, state("a", "1"), at(0));
    take(&mut session, state("a", "1"), at(0));
    let work = session.next_work(at(0)).unwrap();
    take(&mut session, state("a", "1"), at(0));
    session.finished(work.id, Verdict::Done, at(0));
    assert!(session.next_work(at(0)).is_none());
    assert_eq!(sent(&mut session, &store, at(0)).len(), 1);
}

#[test]
fn another_value_of_the_same_version_is_more_work() {
    let (mut session, store) = (session(Role::Agent), Store::default());
    let other = |value: &'static str| Event {
        payload: Bytes::from_static(value.as_bytes()),
        ..state("a", "1")
    };
    take(&mut session, state("a", "1"), at(0));
    let first = session.next_work(at(0)).unwrap();
    take(&mut session, other("second"), at(0));
    take(&mut session, other("third"), at(0));
    session.finished(first.id, Verdict::Done, at(0));
    let next = session.next_work(at(0)).unwrap();
    assert_eq!(next.event.payload, "third");
    session.finished(next.id, Verdict::Done, at(0));
    assert!(session.next_work(at(0)).is_none());
    assert_eq!(sent(&mut session, &store, at(0)).len(), 3);
}

#[test]
fn a_retry_comes_back_later_or_gives_way_to_a_newer_value() {
    let (mut session, store) = (session(Role::Agent), Store::default());
    take(&mut session, state("a", "1"), at(0));
    let work = session.next_work(at(0)).unwrap();
    session.finished(work.id, Verdict::Retry { after: at(10) }, at(0));
    assert!(session.next_work(at(9)).is_none());
    assert_eq!(session.next_timeout(at(4)), Some(at(6)));
    let again = session.next_work(at(10)).unwrap();
    assert_eq!(again.event.event_id, "a_uid_1");
    session.finished(again.id, Verdict::Retry { after: at(1000) }, at(10));
    take(&mut session, state("a", "2"), at(11));
    assert_eq!(session.next_work(at(11)).unwrap().event.event_id, "a_uid_2");
    assert_eq!(
        verbs(&sent(&mut session, &store, at(11))),
        [Verb::Processed]
    );
}

#[test]
fn end_of_backoff_makes_retries_ready_at_once() {
    let mut session = session(Role::Agent);
    for name in ["a", "b"] {
        take(&mut session, state(name, "1"), at(0));
        let work = session.next_work(at(0)).unwrap();
        session.finished(work.id, Verdict::Retry { after: at(10) }, at(0));
    }
    take(&mut session, state("b", "2"), at(1));
    assert_eq!(session.next_work(at(1)).unwrap().event.event_id, "b_uid_2");
    assert!(session.next_work(at(1)).is_none());
    session.end_backoff();
    assert_eq!(session.next_work(at(1)).unwrap().event.event_id, "a_uid_1");
    assert!(session.next_work(at(20)).is_none());
    assert_eq!(session.stats(at(20)).working, 2);
}

/// Receives a status and retries it after 10s.
fn receive_and_retry(session: &mut Session, name: &str, version: &str) {
    take(session, status(name, version), at(0));
    let work = session.next_work(at(0)).unwrap();
    session.finished(work.id, Verdict::Retry { after: at(10) }, at(0));
}

fn with_our_agent() -> Session {
    let peer = Peer::new(Mode::Managed, Capabilities::ours());
    Session::new(Role::Principal, peer, Limits::default())
}

#[test]
fn replacement_of_a_retry_is_acknowledged_when_applied() {
    let store = Store::default();
    let mut session = with_our_agent();
    receive_and_retry(&mut session, "a", "1");
    assert_eq!(sent(&mut session, &store, at(0)).len(), 1, "on receipt");
    receive_and_retry(&mut session, "a", "2");
    take(&mut session, status("b", "1"), at(0));
    let acked = sent(&mut session, &store, at(0));
    assert_eq!(acked.len(), 1);
    assert_eq!(acked[0].event_id, "b_uid_1");
    let other = session.next_work(at(0)).unwrap();
    session.finished(other.id, Verdict::Done, at(0));
    let work = session.next_work(at(10)).unwrap();
    session.finished(work.id, Verdict::Done, at(10));
    let acked = sent(&mut session, &store, at(10));
    assert_eq!(acked.len(), 1);
    assert_eq!(acked[0].event_id, "a_uid_2");
    take(&mut session, status("a", "3"), at(11));
    assert_eq!(sent(&mut session, &store, at(11)).len(), 1, "on receipt");
}

#[test]
fn early_ack_leaves_window_for_other_objects() {
    let store = Store::default();
    let window = Limits::default().window;
    let mut session = with_our_agent();
    let names: Vec<String> = (0..window).map(|it| it.to_string()).collect();
    for version in ["1", "2"] {
        for name in &names {
            receive_and_retry(&mut session, name, version);
        }
    }
    let acked = sent(&mut session, &store, at(0));
    let newest = acked.iter().filter(|it| it.event_id.ends_with("_2"));
    assert!(newest.count() >= window / 2);
}

#[test]
fn a_command_waits_for_the_state_but_not_the_other_way_round() {
    let mut session = session(Role::Agent);
    let command = Event::about(&app("a"), Verb::SetOperation, "uid", "1", Bytes::new());
    take(&mut session, command, at(0));
    take(&mut session, state("a", "1"), at(0));
    let work = session.next_work(at(0)).unwrap();
    assert_eq!(work.event.verb, Verb::SpecUpdate);
    session.finished(work.id, Verdict::Retry { after: at(5) }, at(0));
    assert!(session.next_work(at(0)).is_none());
    let work = session.next_work(at(5)).unwrap();
    session.finished(work.id, Verdict::Done, at(5));
    let command = session.next_work(at(5)).unwrap();
    session.finished(command.id, Verdict::Retry { after: at(5) }, at(5));
    // a command that waits for another operation blocks neither states nor a termination
    let terminate = Event::about(
        &app("a"),
        Verb::TerminateOperation,
        "uid",
        "2",
        Bytes::new(),
    );
    take(&mut session, terminate, at(5));
    take(&mut session, state("a", "2"), at(5));
    let first = session.next_work(at(5)).unwrap();
    assert_eq!(first.event.verb, Verb::SpecUpdate);
    session.finished(first.id, Verdict::Done, at(5));
    assert_eq!(
        session.next_work(at(5)).unwrap().event.verb,
        Verb::TerminateOperation
    );
}

#[test]
fn a_delete_makes_everything_before_it_needless() {
    let (mut session, store) = (session(Role::Agent), Store::default());
    let command = Event::about(&app("a"), Verb::SetOperation, "uid", "1", Bytes::new());
    take(&mut session, state("a", "1"), at(0));
    take(&mut session, command, at(0));
    take(
        &mut session,
        Event::about(&app("a"), Verb::Delete, "uid", "", Bytes::new()),
        at(0),
    );
    assert_eq!(sent(&mut session, &store, at(0)).len(), 2);
    let work = session.next_work(at(0)).unwrap();
    assert_eq!(work.event.verb, Verb::Delete);
    session.finished(work.id, Verdict::Done, at(0));
    assert!(session.next_work(at(0)).is_none());
}

#[test]
fn control_messages_are_done_in_their_order_and_are_not_starved() {
    let mut session = session(Role::Principal);
    for name in ["x", "y"] {
        let body = crate::payload::RequestUpdate {
            name: name.into(),
            ..Default::default()
        };
        take(&mut session, Event::request_update(&body), at(0));
    }
    for n in 0..50 {
        take(&mut session, status(&n.to_string(), "1"), at(0));
    }
    let mut kinds = Vec::new();
    while let Some(work) = session.next_work(at(0)) {
        kinds.push(work.event.target == Target::Resync);
        session.finished(work.id, Verdict::Done, at(0));
    }
    assert_eq!(kinds.len(), 52);
    assert_eq!(kinds.iter().position(|control| *control), Some(8));
    assert_eq!(kinds.iter().filter(|control| **control).count(), 2);
}

#[test]
fn a_refusal_travels_in_the_acknowledgement_between_our_own_ends_only() {
    let (mut agent, store) = (session(Role::Agent), Store::of([app("a")]));
    let mut principal = session(Role::Principal);
    principal.mark(app("a"), Facet::State);
    for event in sent(&mut principal, &store, at(0)) {
        take(&mut agent, event, at(0));
    }
    let work = agent.next_work(at(0)).unwrap();
    agent.finished(
        work.id,
        Verdict::Refused("spec is missing".to_owned()),
        at(0),
    );
    for ack in sent(&mut agent, &store, at(0)) {
        take(&mut principal, ack, at(0));
    }
    let refusal = PeerRefusal {
        key: app("a"),
        facet: Facet::State,
        reason: "spec is missing".to_owned(),
    };
    assert_eq!(principal.take_refusals(), [refusal]);
    assert_eq!(principal.stats(at(0)).in_flight, 0);

    let go = Peer::new(Mode::Managed, Capabilities::default());
    let mut agent = Session::new(Role::Agent, go, Limits::default());
    take(&mut agent, state("a", "1"), at(0));
    let work = agent.next_work(at(0)).unwrap();
    agent.finished(work.id, Verdict::Refused("no".to_owned()), at(0));
    assert!(sent(&mut agent, &store, at(0))[0].extensions.is_empty());
}

#[test]
fn forbidden_events_are_acknowledged_and_not_applied() {
    let (mut session, store) = (session(Role::Principal), Store::default());
    for event in [
        state("a", "1"),
        Event::about(&app("a"), Verb::Create, "u", "1", Bytes::new()),
        Event::about(&project("p"), Verb::Delete, "u", "1", Bytes::new()),
        Event::control(Target::ApplicationSet, Verb::Create, Bytes::new()),
        Event::request_resource_resync(),
    ] {
        take(&mut session, event, at(0));
    }
    assert!(session.next_work(at(0)).is_none());
    assert_eq!(session.stats(at(0)).refused, 5);
    assert_eq!(sent(&mut session, &store, at(0)).len(), 5);
}

#[test]
fn garbage_is_acknowledged_as_far_as_it_has_a_name() {
    let (mut session, store) = (session(Role::Principal), Store::default());
    session.receive(CloudEvent::default(), at(0)).unwrap();
    let mut raw = status("a", "1").into_cloud_event("");
    raw.r#type = "nonsense".to_owned();
    session.receive(raw, at(0)).unwrap();
    assert_eq!(session.stats(at(0)).malformed, 2);
    let acks = sent(&mut session, &store, at(0));
    assert_eq!(acks.len(), 1);
    assert_eq!(acks[0].event_id, "a_uid_1");
}

#[test]
fn a_peer_that_only_sends_loses_its_session() {
    let limits = Limits {
        acks: 2,
        inbox_entries: 2,
        ..Limits::default()
    };
    let peer = Peer::new(Mode::Managed, Capabilities::of_level(1));
    let mut pinged = Session::new(Role::Principal, peer.clone(), limits.clone());
    let ping = || Event::ping().into_cloud_event("");
    for has_room in [true, false, false, false] {
        assert_eq!(pinged.receive(ping(), at(0)), Ok(()));
        assert_eq!(pinged.has_room(), has_room);
    }
    assert_eq!(pinged.receive(ping(), at(0)), Err(Violation::AcksNotRead));

    let mut flooded = Session::new(Role::Principal, peer, limits);
    let mut answers =
        (0..5).map(|n| flooded.receive(status(&n.to_string(), "1").into_cloud_event(""), at(0)));
    assert!(answers.by_ref().take(4).all(|answer| answer.is_ok()));
    assert_eq!(answers.next(), Some(Err(Violation::TooMuchWork)));
    drop(answers);
    assert!(!flooded.has_room());
}
