use std::collections::BTreeMap;

use bytes::Bytes;

use super::*;

mod liveness;
mod progress;
mod receipt;
mod receiving;
mod sending;
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

/// Encodes the version of each object; objects without one do not exist.
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
    fn encode(&self, key: &ObjectKey, facet: Facet, stated_before: bool) -> Option<Event> {
        let verb = match facet {
            Facet::State if stated_before => Verb::SpecUpdate,
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
    let peer = Peer::new(Mode::Managed, Capabilities::of_level(1));
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

fn deletion(name: &str) -> Event {
    Event::about(&app(name), Verb::Delete, "uid", "", Bytes::new())
}

fn status(name: &str, version: &str) -> Event {
    Event::about(&app(name), Verb::StatusUpdate, "uid", version, Bytes::new())
}

#[test]
fn an_agent_pings_and_the_principal_answers() {
    let limits = Limits {
        heartbeat: Some(at(30)),
        ..Limits::default()
    };
    let peer = Peer::new(Mode::Managed, Capabilities::of_level(1));
    let mut agent = Session::new(Role::Agent, peer, limits);
    let mut principal = session(Role::Principal);
    let store = Store::default();
    assert!(sent(&mut agent, &store, at(29)).is_empty());
    assert_eq!(agent.next_timeout(at(29)), Some(at(1)));
    let ping = sent(&mut agent, &store, at(30)).remove(0);
    take(&mut principal, ping, at(31));
    assert_eq!(principal.stats(at(31)).last_received, at(31));
    assert_eq!(
        verbs(&sent(&mut principal, &store, at(31))),
        [Verb::Processed]
    );
    assert!(sent(&mut agent, &store, at(31)).is_empty());
}

#[test]
fn drain_finishes_started_work_and_starts_none() {
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
fn oversized_body_is_reported_and_not_sent() {
    let limits = Limits {
        message_bytes: 0,
        ..Limits::default()
    };
    let peer = Peer::new(Mode::Managed, Capabilities::of_level(1));
    let mut session = Session::new(Role::Principal, peer, limits);
    session.mark(app("a"), Facet::State);
    assert!(sent(&mut session, &Store::of([app("a")]), at(0)).is_empty());
    assert_eq!(session.take_refusals().len(), 1);
    assert_eq!(session.stats(at(0)).outbox_objects, 0);
}

#[test]
fn acknowledged_command_is_not_resent_to_a_go_agent() {
    let peer = Peer::new(Mode::Managed, Capabilities::default());
    let mut session = Session::new(Role::Principal, peer, Limits::default());
    let key = app("a");
    let mut store = Store::of([key.clone()]);
    let stated = |session: &mut Session, store: &Store, now| {
        session.mark(&key, Facet::Command);
        let events = sent(session, store, now);
        for event in &events {
            take(session, event.ack(), now);
        }
        verbs(&events)
    };
    assert_eq!(stated(&mut session, &store, at(0)), [Verb::SetOperation]);
    // an older status marks it again
    assert_eq!(stated(&mut session, &store, at(1)), []);
    store.change(&app("a"));
    assert_eq!(stated(&mut session, &store, at(2)), [Verb::SetOperation]);
}

#[test]
fn waiting_sync_does_not_block_events_of_a_go_principal() {
    let retry = Verdict::Retry { after: at(1) };
    for (capabilities, acks) in [
        (Capabilities::default(), [1, 0, 0]),
        (Capabilities::of_level(1), [0, 0, 1]),
    ] {
        let mode = Mode::Managed;
        let peer = Peer::new(mode, capabilities);
        let mut session = Session::new(Role::Agent, peer, Limits::default());
        let store = Store::default();
        let sync = Event::about(&app("a"), Verb::SetOperation, "uid", "1", Bytes::new());
        take(&mut session, sync, at(0));
        let verdicts = [(0, retry.clone()), (1, retry.clone()), (2, Verdict::Done)];
        let stated = verdicts.map(|(second, verdict)| {
            let work = session.next_work(at(second)).unwrap();
            session.finished(work.id, verdict, at(second));
            sent(&mut session, &store, at(second)).len()
        });
        assert_eq!(stated, acks);
    }
}

#[test]
fn operation_travels_in_an_update_before_0_9() {
    let store = Store::of([app("a")]);
    for (capabilities, version, verb) in [
        (Capabilities::default(), "0.8.1", Verb::SpecUpdate),
        (Capabilities::default(), "0.9.0", Verb::SetOperation),
        // Our agent presents the version of a principal that it replaces.
        (Capabilities::ours(), "0.8.1", Verb::SetOperation),
    ] {
        let peer = Peer::new(Mode::Managed, capabilities).of_version(version);
        let mut session = Session::new(Role::Principal, peer, Limits::default());
        session.mark(app("a"), Facet::Command);
        let first = sent(&mut session, &store, at(0));
        assert_eq!(verbs(&first), [verb]);
        assert!(first.iter().all(|it| it.event_id.ends_with("_operation")));
        // It stays a command: a state does not replace it, and its acknowledgement ends it.
        session.mark(app("a"), Facet::State);
        let again = sent(&mut session, &store, at(60));
        assert!(verbs(&again).contains(&verb), "{again:?}");
        take(&mut session, first[0].ack(), at(61));
        let after = sent(&mut session, &store, at(600));
        assert!(after.iter().all(|it| it.event_id != first[0].event_id));
    }
}

#[test]
fn unknown_kinds_are_not_sent_to_a_peer() {
    let key = ObjectKey::new(Kind::TlsCerts, "argocd", "argocd-tls-certs-cm");
    let store = Store::of([key.clone()]);
    for (capabilities, reply) in [
        (Capabilities::default(), false),
        (Capabilities::ours(), true),
    ] {
        let peer = Peer::new(Mode::Managed, capabilities);
        let mut session = Session::new(Role::Principal, peer, Limits::default());
        session.mark(&key, Facet::State);
        assert_eq!(session.next_outgoing(&store, at(0)).is_some(), reply);
        session.emit(Event::about(&key, Verb::Delete, "uid", "", Bytes::new()));
        assert_eq!(session.next_outgoing(&store, at(0)).is_some(), reply);
    }
}
