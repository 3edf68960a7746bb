use std::collections::BTreeMap;

use bytes::Bytes;

use super::*;

mod receipt;
use crate::object::{Kind, Mode};
use crate::version::Capabilities;

const fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn app(name: &str) -> ObjectKey {
    ObjectKey::new(Kind::Application, "agent-a", name)
}

fn project(name: &str) -> ObjectKey {
    ObjectKey::new(Kind::AppProject, "argocd", name)
}

/// Says of every object its version; those without one are gone.
#[derive(Default)]
struct Store(BTreeMap<ObjectKey, u64>);

impl Store {
    fn of(keys: impl IntoIterator<Item = ObjectKey>) -> Self {
        Self(keys.into_iter().map(|key| (key, 1)).collect())
    }

    fn change(&mut self, key: &ObjectKey) {
        *self.0.entry(key.clone()).or_default() += 1;
    }
}

impl Source for Store {
    fn encode(&self, key: &ObjectKey, facet: Facet, said_before: bool) -> Option<Event> {
        let verb = match facet {
            Facet::State if said_before => Verb::SpecUpdate,
            Facet::State => Verb::Create,
            Facet::Status => Verb::StatusUpdate,
            Facet::Command => Verb::SetOperation,
        };
        let version = self.0.get(key)?.to_string();
        Some(Event::about(
            key,
            verb,
            "uid",
            &version,
            Bytes::from(version.clone()),
        ))
    }
}

fn session(role: Role) -> Session {
    let peer = Peer {
        mode: Mode::Managed,
        capabilities: Capabilities::of_level(1),
    };
    Session::new(role, peer, Limits::default())
}

fn sent(session: &mut Session, store: &Store, now: Duration) -> Vec<Event> {
    std::iter::from_fn(|| session.next_outgoing(store, now))
        .map(|raw| Event::try_from(raw).unwrap())
        .collect()
}

fn verbs(events: &[Event]) -> Vec<Verb> {
    events.iter().map(|event| event.verb).collect()
}

fn take(session: &mut Session, event: Event, now: Duration) {
    session.receive(event.into_cloud_event(""), now).unwrap();
}

fn state(name: &str, version: &str) -> Event {
    Event::about(&app(name), Verb::SpecUpdate, "uid", version, Bytes::new())
}

fn status(name: &str, version: &str) -> Event {
    Event::about(&app(name), Verb::StatusUpdate, "uid", version, Bytes::new())
}

#[test]
fn a_thousand_changes_are_one_word() {
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
fn state_is_said_before_the_command_and_projects_before_applications() {
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
fn a_late_second_acknowledgement_of_the_state_leaves_the_command_in_flight() {
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
fn what_is_not_acknowledged_is_sent_again_ever_more_slowly() {
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
fn a_delete_wipes_all_else_about_its_object_and_waits_for_nothing() {
    let (mut session, store) = (session(Role::Principal), Store::of([app("a")]));
    session.mark(app("a"), Facet::State);
    let create = sent(&mut session, &store, at(0)).remove(0);
    session.mark(app("a"), Facet::State);
    session.mark(app("a"), Facet::Command);
    session.say(Event::about(
        &app("a"),
        Verb::Delete,
        "uid",
        "",
        Bytes::new(),
    ));
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
    session.say(Event::about(
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
    session.say(Event::about(
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
    session.say(Event::about(
        &project("p"),
        Verb::Delete,
        "u",
        "",
        Bytes::new(),
    ));
    session.say(Event::about(&app("a"), Verb::Delete, "u", "", Bytes::new()));
    let deletes = sent(&mut session, &store, at(0));
    assert_eq!(deletes[0].target, Target::Object(Kind::Application));
}

#[test]
fn no_more_than_the_window_is_in_flight() {
    let limits = Limits {
        window: 3,
        ..Limits::default()
    };
    let peer = Peer {
        mode: Mode::Managed,
        capabilities: Capabilities::of_level(1),
    };
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
fn an_object_that_changes_all_the_time_lets_the_others_speak() {
    let limits = Limits {
        window: 1,
        ..Limits::default()
    };
    let peer = Peer {
        mode: Mode::Managed,
        capabilities: Capabilities::of_level(1),
    };
    let mut session = Session::new(Role::Agent, peer, limits);
    let store = Store::of([app("busy"), app("calm")]);
    session.mark(app("busy"), Facet::Status);
    session.mark(app("calm"), Facet::Status);
    let mut said = Vec::new();
    for _ in 0..3 {
        let event = sent(&mut session, &store, at(0)).remove(0);
        said.push(event.object().unwrap().name);
        session.mark(app("busy"), Facet::Status);
        take(&mut session, event.ack(), at(0));
    }
    assert_eq!(said, ["busy", "calm", "busy"]);
}

#[test]
fn a_mark_whose_object_is_gone_says_nothing() {
    let (mut session, store) = (session(Role::Agent), Store::default());
    session.mark(app("a"), Facet::Status);
    assert!(sent(&mut session, &store, at(0)).is_empty());
    assert_eq!(session.stats(at(0)).outbox_objects, 0);
}

#[test]
fn what_need_not_be_said_any_more_is_not() {
    let (mut session, store) = (session(Role::Agent), Store::of([app("a")]));
    session.mark(app("a"), Facet::Status);
    session.unmark(&app("a"), Facet::Status);
    assert!(sent(&mut session, &store, at(0)).is_empty());
}

#[test]
fn of_two_equal_control_messages_the_later_is_said() {
    let (mut session, store) = (session(Role::Agent), Store::default());
    let body = crate::payload::RequestUpdate {
        name: "a".into(),
        ..Default::default()
    };
    session.say(Event::request_update(&body));
    session.say(Event::request_synced_resource_list(
        &crate::payload::SyncedResourceList::default(),
    ));
    session.say(Event::request_update(&body));
    session.say(Event::request_synced_resource_list(
        &crate::payload::SyncedResourceList::default(),
    ));
    let said = verbs(&sent(&mut session, &store, at(0)));
    assert_eq!(said, [Verb::RequestUpdate, Verb::RequestSyncedResourceList]);
}

#[test]
fn work_on_an_object_is_one_at_a_time_and_the_newest_wins() {
    let (mut session, store) = (session(Role::Agent), Store::default());
    take(&mut session, state("a", "1"), at(0));
    let first = session.next_work(at(0)).unwrap();
    take(&mut session, state("a", "2"), at(0));
    take(&mut session, state("a", "3"), at(0));
    assert!(session.next_work(at(0)).is_none());
    // nobody waits for the second any more
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
    // the command waits for another operation to end; states and a termination pass it
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

    let go = Peer {
        mode: Mode::Managed,
        capabilities: Capabilities::default(),
    };
    let mut agent = Session::new(Role::Agent, go, Limits::default());
    take(&mut agent, state("a", "1"), at(0));
    let work = agent.next_work(at(0)).unwrap();
    agent.finished(work.id, Verdict::Refused("no".to_owned()), at(0));
    assert!(sent(&mut agent, &store, at(0))[0].extensions.is_empty());
}

#[test]
fn what_the_peer_may_not_say_is_acknowledged_and_not_done() {
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
    let peer = Peer {
        mode: Mode::Managed,
        capabilities: Capabilities::of_level(1),
    };
    let mut pinged = Session::new(Role::Principal, peer.clone(), limits.clone());
    let ping = || Event::ping().into_cloud_event("");
    assert_eq!(pinged.receive(ping(), at(0)), Ok(()));
    assert_eq!(pinged.receive(ping(), at(0)), Ok(()));
    assert_eq!(pinged.receive(ping(), at(0)), Err(Violation::AcksNotRead));

    let mut flooded = Session::new(Role::Principal, peer, limits);
    let mut answers =
        (0..5).map(|n| flooded.receive(status(&n.to_string(), "1").into_cloud_event(""), at(0)));
    assert!(answers.by_ref().take(4).all(|answer| answer.is_ok()));
    assert_eq!(answers.next(), Some(Err(Violation::TooMuchWork)));
    drop(answers);
    assert!(!flooded.has_room());
}

#[test]
fn an_agent_pings_and_the_principal_answers() {
    let limits = Limits {
        heartbeat: Some(at(30)),
        ..Limits::default()
    };
    let peer = Peer {
        mode: Mode::Managed,
        capabilities: Capabilities::of_level(1),
    };
    let mut agent = Session::new(Role::Agent, peer, limits);
    let mut principal = session(Role::Principal);
    let store = Store::default();
    assert!(sent(&mut agent, &store, at(29)).is_empty());
    assert_eq!(agent.next_timeout(at(29)), Some(at(1)));
    let ping = sent(&mut agent, &store, at(30)).remove(0);
    take(&mut principal, ping, at(31));
    assert_eq!(principal.stats(at(31)).last_heard, at(31));
    assert_eq!(
        verbs(&sent(&mut principal, &store, at(31))),
        [Verb::Processed]
    );
    assert!(sent(&mut agent, &store, at(31)).is_empty());
}

#[test]
fn draining_ends_what_is_under_way_and_begins_nothing() {
    let (mut session, store) = (session(Role::Agent), Store::of([app("a"), app("b")]));
    take(&mut session, state("x", "1"), at(0));
    take(&mut session, state("y", "1"), at(0));
    session.mark(app("a"), Facet::Status);
    let out = sent(&mut session, &store, at(0)).remove(0);
    let work = session.next_work(at(0)).unwrap();
    session.mark(app("b"), Facet::Status);
    session.drain();
    assert!(session.next_work(at(0)).is_none());
    assert!(sent(&mut session, &store, at(0)).is_empty());
    assert!(!session.is_drained());
    session.finished(work.id, Verdict::Done, at(0));
    take(&mut session, out.ack(), at(0));
    assert_eq!(sent(&mut session, &store, at(0)).len(), 1);
    assert!(session.is_drained());
}

#[test]
fn a_body_that_no_message_can_hold_is_reported_and_not_sent() {
    let limits = Limits {
        message_bytes: 0,
        ..Limits::default()
    };
    let peer = Peer {
        mode: Mode::Managed,
        capabilities: Capabilities::of_level(1),
    };
    let mut session = Session::new(Role::Principal, peer, limits);
    session.mark(app("a"), Facet::State);
    assert!(sent(&mut session, &Store::of([app("a")]), at(0)).is_empty());
    assert_eq!(session.take_refusals().len(), 1);
    assert_eq!(session.stats(at(0)).outbox_objects, 0);
}

#[test]
fn a_command_that_a_go_agent_has_done_is_not_said_again() {
    let peer = Peer {
        mode: Mode::Managed,
        capabilities: Capabilities::default(),
    };
    let mut session = Session::new(Role::Principal, peer, Limits::default());
    let key = app("a");
    let mut store = Store::of([key.clone()]);
    let said = |session: &mut Session, store: &Store, now| {
        session.mark(&key, Facet::Command);
        let events = sent(session, store, now);
        for event in &events {
            take(session, event.ack(), now);
        }
        verbs(&events)
    };
    assert_eq!(said(&mut session, &store, at(0)), [Verb::SetOperation]);
    // a status from before it asks for it once more
    assert_eq!(said(&mut session, &store, at(1)), []);
    store.change(&app("a"));
    assert_eq!(said(&mut session, &store, at(2)), [Verb::SetOperation]);
}

#[test]
fn a_sync_that_waits_does_not_hold_up_what_a_go_principal_says_next() {
    let retry = Verdict::Retry { after: at(1) };
    for (capabilities, acks) in [
        (Capabilities::default(), [1, 0, 0]),
        (Capabilities::of_level(1), [0, 0, 1]),
    ] {
        let mode = Mode::Managed;
        let peer = Peer { mode, capabilities };
        let mut session = Session::new(Role::Agent, peer, Limits::default());
        let store = Store::default();
        let sync = Event::about(&app("a"), Verb::SetOperation, "uid", "1", Bytes::new());
        take(&mut session, sync, at(0));
        let verdicts = [(0, retry.clone()), (1, retry.clone()), (2, Verdict::Done)];
        let said = verdicts.map(|(second, verdict)| {
            let work = session.next_work(at(second)).unwrap();
            session.finished(work.id, verdict, at(second));
            sent(&mut session, &store, at(second)).len()
        });
        assert_eq!(said, acks);
    }
}

#[test]
fn a_peer_is_not_told_of_kinds_that_it_has_no_word_for() {
    let key = ObjectKey::new(Kind::TlsCerts, "argocd", "argocd-tls-certs-cm");
    let store = Store::of([key.clone()]);
    for (capabilities, told) in [
        (Capabilities::default(), false),
        (Capabilities::ours(), true),
    ] {
        let peer = Peer {
            mode: Mode::Managed,
            capabilities,
        };
        let mut session = Session::new(Role::Principal, peer, Limits::default());
        session.mark(&key, Facet::State);
        assert_eq!(session.next_outgoing(&store, at(0)).is_some(), told);
        session.say(Event::about(&key, Verb::Delete, "uid", "", Bytes::new()));
        assert_eq!(session.next_outgoing(&store, at(0)).is_some(), told);
    }
}
