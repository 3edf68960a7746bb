//! The steps of tracked values.

use super::*;

fn principal() -> Session {
    let peer = Peer::new(Mode::Managed, Capabilities::ours());
    let mut session = Session::new(Role::Principal, peer, Limits::default());
    session.tracker().track(Kind::Application);
    session
}

/// Version and step, as the driver gets them.
fn steps(session: &mut Session) -> Vec<(String, Milestone)> {
    let taken = session.tracker().take().into_iter();
    taken.map(|it| (it.version, it.milestone)).collect()
}

fn refusal(event: &Event, about: Option<&ObjectKey>) -> Event {
    let mut ack = event.ack();
    ack.extensions.insert("refused".to_owned(), "no".to_owned());
    if let Some(key) = about {
        ack.extensions.insert("about".to_owned(), key.to_string());
    }
    ack
}

const SENT: Milestone = Milestone::Sent { traceparent: None };

#[test]
fn tracked_value_is_sent_then_acknowledged() {
    let (mut session, mut store, now) = (principal(), Store::of([app("a")]), at(0));
    session.mark(app("a"), Facet::State);
    assert!(steps(&mut session).is_empty(), "nothing is sent yet");
    let first = sent(&mut session, &store, now).remove(0);
    assert_eq!(steps(&mut session), [("1".to_owned(), SENT)]);
    take(&mut session, first.ack(), now);
    assert_eq!(
        steps(&mut session),
        [("1".to_owned(), Milestone::Acknowledged)]
    );
    store.change(&app("a"));
    session.mark(app("a"), Facet::Command);
    let command = sent(&mut session, &store, now).remove(0);
    let progress = session.tracker().take().remove(0);
    assert_eq!(
        (progress.key, progress.facet, progress.version.as_str()),
        (app("a"), Facet::Command, "2")
    );
    take(&mut session, command.ack(), now);
    take(&mut session, command.ack(), now);
    assert_eq!(steps(&mut session).len(), 1, "a repeated one counts once");
}

#[test]
fn sent_step_has_the_trace_of_its_event() {
    struct Traced(Store);
    impl Source for Traced {
        fn encode(&self, key: &ObjectKey, facet: Facet, stated_before: bool) -> Option<Event> {
            let mut event = self.0.encode(key, facet, stated_before)?;
            event.set_trace(("00-parent".to_owned(), None));
            Some(event)
        }
    }
    let mut session = principal();
    session.mark(app("a"), Facet::State);
    let store = Traced(Store::of([app("a")]));
    assert!(session.next_outgoing(&store, at(0)).is_some());
    let traceparent = Some("00-parent".to_owned());
    assert_eq!(
        steps(&mut session),
        [("1".to_owned(), Milestone::Sent { traceparent })]
    );
}

#[test]
fn refused_value_is_not_acknowledged() {
    let (mut session, store, now) = (principal(), Store::of([app("a")]), at(0));
    session.mark(app("a"), Facet::State);
    let event = sent(&mut session, &store, now).remove(0);
    take(&mut session, refusal(&event, None), now);
    assert_eq!(steps(&mut session), [("1".to_owned(), SENT)]);
    take(&mut session, refusal(&event, Some(&app("a"))), now);
    assert_eq!(steps(&mut session), [("1".to_owned(), Milestone::Refused)]);
}

#[test]
fn only_the_tracked_kind_is_recorded() {
    let keys = [app("a"), project("p")];
    let (mut tracking, mut other) = (principal(), session(Role::Agent));
    for session in [&mut tracking, &mut other] {
        for key in &keys {
            session.mark(key, Facet::State);
        }
        for event in sent(session, &Store::of(keys.clone()), at(0)) {
            take(session, event.ack(), at(0));
        }
    }
    let progress = tracking.tracker().take();
    assert_eq!(progress.len(), 2);
    assert!(progress.iter().all(|it| it.key == app("a")));
    assert!(other.tracker().take().is_empty());
}

#[test]
fn recorded_steps_are_bounded() {
    let mut session = principal();
    for number in 0..5_000 {
        let event = state("a", &number.to_string());
        take(&mut session, refusal(&event, Some(&app("a"))), at(0));
    }
    assert_eq!(steps(&mut session).len(), 1024);
}

#[test]
fn version_is_read_from_the_ids_of_an_event() {
    let about = |verb, version| Event::about(&app("a"), verb, "uid", version, Bytes::new());
    for verb in [
        Verb::SpecUpdate,
        Verb::SetOperation,
        Verb::TerminateOperation,
        Verb::Delete,
    ] {
        assert_eq!(about(verb, "12").ack().version(), Some("12"), "{verb}");
    }
    assert_eq!(Event::ping().version(), None);
}
