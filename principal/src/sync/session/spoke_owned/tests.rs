use std::sync::Arc;

use protocol::{Facet, Mode, Peer, Role, Source, session::Limits, version::Capabilities};
use serde_json::json;

use super::*;
use crate::{
    settings,
    store::{Memory, Watched},
    sync::session::driver::tests::sessions_on,
    testing::{application, applied, name, with},
};

/// A peer to which only control messages are sent.
struct Nothing;

impl Source for Nothing {
    fn encode(&self, _: &ObjectKey, _: Facet, _: bool) -> Option<Event> {
        None
    }
}

/// A session with cluster `a`, of which the hub has so many mirrors.
struct Listing {
    hub: Arc<Hub>,
    machine: Session,
    claims: Claims,
    /// Sent and not acknowledged.
    unanswered: Vec<Event>,
}

impl Listing {
    fn of(mirrors: usize) -> Self {
        let limits = settings::Limits::default();
        let hub = Arc::clone(&sessions_on(Arc::new(Memory::new()), limits).hub);
        for number in 0..mirrors {
            let live = application("a", &format!("app-{number}"), "uid", 1);
            let source = json!({ "metadata": { "annotations": {
                argocd::keys::MIRRORED_FROM: "a",
                argocd::keys::SOURCE_UID: format!("source-{number}"),
            } } });
            hub.objects
                .report(applied(Watched::Application, with(live, source)));
        }
        let peer = Peer::new(Mode::Autonomous, Capabilities::ours());
        Self {
            machine: Session::new(Role::Principal, peer, Limits::default()),
            claims: Claims::begin(&hub, &name("a"), false),
            hub,
            unanswered: Vec::new(),
        }
    }

    /// Sends what may be sent at this time; returns the number of messages.
    fn send(&mut self, now: Duration) -> usize {
        let mut step = Step {
            session: &mut self.machine,
            hub: &self.hub,
            now,
        };
        self.claims.advance(&mut step);
        let before = self.unanswered.len();
        while let Some(frame) = self.machine.next_outgoing(&Nothing, now) {
            self.unanswered.push(Event::try_from(frame).unwrap());
        }
        self.unanswered.len() - before
    }

    /// The agent acknowledges everything; returns the names of objects, and the ends of lists as `None`.
    fn acknowledge(&mut self, now: Duration) -> Vec<Option<String>> {
        let events = std::mem::take(&mut self.unanswered);
        for event in &events {
            let ack = event.ack().into_cloud_event("agent://agent-managed");
            self.machine.receive(ack, now).unwrap();
        }
        let name = |event: &Event| {
            (event.verb == Verb::RequestUpdate).then(|| {
                let claim: RequestUpdate = payload::decode("claim", &event.payload).unwrap();
                claim.name
            })
        };
        events.iter().map(name).collect()
    }

    /// Sends and acknowledges everything; returns the number of ended lists.
    fn ended_lists(&mut self, now: Duration) -> usize {
        let mut ends = 0;
        while self.send(now) > 0 {
            let names = self.acknowledge(now);
            ends += names.iter().filter(|name| name.is_none()).count();
        }
        ends
    }

    fn request(&mut self, now: Duration) {
        let event = Event::request_resource_resync();
        let mut step = Step {
            session: &mut self.machine,
            hub: &self.hub,
            now,
        };
        assert_eq!(self.claims.take(&mut step, &event), Ok(()));
    }
}

#[test]
fn mirrors_are_listed_as_the_agent_acknowledges_them() {
    let mut listing = Listing::of(3_000);
    let half = Limits::default().window / 2;
    assert_eq!(listing.send(Duration::ZERO), half);
    assert_eq!(listing.send(Duration::ZERO), 0, "nothing more in memory");
    let mut names = Vec::new();
    loop {
        names.extend(listing.acknowledge(Duration::ZERO));
        if listing.send(Duration::ZERO) == 0 {
            break;
        }
        assert!(listing.unanswered.len() <= half);
    }
    assert_eq!(names.pop(), Some(None), "the end is last");
    let count = names.len();
    let names: BTreeSet<String> = names.into_iter().flatten().collect();
    assert_eq!((count, names.len()), (3_000, 3_000));
}

#[test]
fn resync_requests_within_a_minute_are_answered_once() {
    let mut listing = Listing::of(10);
    let at = Duration::from_secs;
    assert_eq!(listing.ended_lists(at(0)), 1, "on connect");
    listing.request(at(1));
    assert_eq!(listing.claims.next_timeout(at(1)), Some(at(0)));
    assert_eq!(listing.ended_lists(at(1)), 1, "the first one at once");
    for second in 2..60 {
        listing.request(at(second));
        assert_eq!(listing.ended_lists(at(second)), 0);
    }
    assert_eq!(listing.claims.next_timeout(at(60)), Some(at(1)));
    assert_eq!(listing.ended_lists(at(61)), 1, "none is lost");
    assert_eq!(listing.ended_lists(at(200)), 0);
    assert_eq!(listing.claims.next_timeout(at(200)), None);
    listing.request(at(200));
    assert_eq!(listing.ended_lists(at(200)), 1);
}

#[test]
fn missing_mirrors_are_judged_after_the_whole_list() {
    let mut listing = Listing::of(300);
    listing.send(Duration::ZERO);
    let key = ObjectKey::new(Kind::Application, "a", "app-0");
    let stub = json!({ "metadata": { "name": "app-0", "uid": "source-0" } });
    let body = stub.to_string().into();
    let gone = Event::about(&key, Verb::Delete, "source-0", "", body);
    let hub = Arc::clone(&listing.hub);
    let verdict = listing.claims.take_message(&hub, &gone, Duration::ZERO);
    assert_eq!(verdict, Some(Verdict::Done));
    let late = Duration::from_secs(10);
    listing.send(late);
    assert!(
        !listing.claims.waiting().is_due(late),
        "the list is not over"
    );
    assert_eq!(listing.ended_lists(late), 0);
    listing.acknowledge(late);
    assert_eq!(listing.ended_lists(late), 1);
    assert!(listing.claims.waiting().is_due(late + SETTLED));
}
