//! Between our own ends: acknowledged when received, refused later.

use super::*;

fn ours(role: Role) -> Session {
    let peer = Peer::new(Mode::Managed, Capabilities::ours());
    Session::new(role, peer, Limits::default())
}

fn app() -> ObjectKey {
    ObjectKey::new(Kind::Application, "argocd", "app")
}

fn stated(verb: Verb, version: &str) -> Event {
    Event::about(&app(), verb, "uid", version, Bytes::from_static(b"{}"))
}

#[test]
fn ack_precedes_apply_for_state_but_not_for_commands() {
    let (mut agent, store) = (ours(Role::Agent), Store::default());
    let now = Duration::ZERO;
    take(&mut agent, stated(Verb::SpecUpdate, "1"), now);
    assert_eq!(verbs(&sent(&mut agent, &store, now)), [Verb::Processed]);
    let work = agent.next_work(now).unwrap();
    agent.finished(work.id, Verdict::Done, now);
    assert!(sent(&mut agent, &store, now).is_empty(), "one ack only");
    for verb in [Verb::SetOperation, Verb::Delete] {
        take(&mut agent, stated(verb, "2"), now);
        assert!(sent(&mut agent, &store, now).is_empty(), "{verb}");
        let work = agent.next_work(now).unwrap();
        agent.finished(work.id, Verdict::Done, now);
        assert_eq!(verbs(&sent(&mut agent, &store, now)), [Verb::Processed]);
    }
}

#[test]
fn refusal_after_the_early_ack_is_sent_too() {
    let (mut agent, mut principal) = (ours(Role::Agent), ours(Role::Principal));
    let (mut store, now) = (Store::default(), Duration::ZERO);
    store.change(&app());
    principal.mark(app(), Facet::State);
    for event in sent(&mut principal, &store, now) {
        take(&mut agent, event, now);
    }
    let receipts = sent(&mut agent, &store, now);
    let work = agent.next_work(now).unwrap();
    agent.finished(work.id, Verdict::Refused("no".to_owned()), now);
    let refusals = sent(&mut agent, &store, now);
    assert_eq!((receipts.len(), refusals.len()), (1, 1));
    for event in receipts.into_iter().chain(refusals) {
        take(&mut principal, event, now);
    }
    let refused = principal.take_refusals();
    assert_eq!(refused.len(), 1);
    assert_eq!(
        (&refused[0].key, refused[0].reason.as_str()),
        (&app(), "no")
    );
    assert_eq!(principal.stats(now).strays, 0);
}

#[test]
fn unknown_ack_is_counted_and_ignored() {
    let (mut principal, mut store) = (ours(Role::Principal), Store::default());
    let now = Duration::ZERO;
    store.change(&app());
    principal.mark(app(), Facet::State);
    assert_eq!(sent(&mut principal, &store, now).len(), 1);
    for number in 0..1000 {
        take(
            &mut principal,
            stated(Verb::SpecUpdate, &format!("never-{number}")).ack(),
            now,
        );
    }
    let stats = principal.stats(now);
    assert_eq!(
        (stats.in_flight, stats.outbox_objects, stats.strays),
        (1, 1, 1000)
    );
}
