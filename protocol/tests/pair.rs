//! Two sessions over a bad link end equal.
//!
//! A hub and a spoke in memory, each driving its end of the protocol as the programs do. The link loses
//! frames, doubles them, lets frames of different objects overtake each other, and breaks; pieces of work
//! fail and are tried again. Users change things on both sides all the while. When the faults stop, the two
//! sides must come to agree by themselves, and no command may have been carried out twice.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "a test ends here"
)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use protocol::payload::{self, RequestUpdate, SyncedResourceList};
use protocol::resync::Unconfirmed;
use protocol::version::Capabilities;
use protocol::wire::cloudevents::CloudEvent;
use protocol::{
    Event, Facet, Kind, Limits, Mode, ObjectKey, Peer, Role, Session, Source, Verb, Verdict, Work,
};
use serde::{Deserialize, Serialize};

/// Small and repeatable; a test needs no better one.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.roll(100) < percent
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(Kind::Application, "agent-a", name)
}

/// Body of an object's events, in both directions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Body {
    uid: u64,
    spec: u64,
    status: u64,
    command: Option<String>,
    last_command: Option<String>,
}

impl Body {
    fn read(event: &Event) -> Self {
        payload::decode("body", &event.payload).unwrap()
    }
}

#[derive(Clone, Debug, Default)]
struct HubObject {
    uid: u64,
    version: u64,
    spec: u64,
    status: u64,
    /// The version that introduced the command that is set.
    command: Option<u64>,
}

impl HubObject {
    fn event(&self, key: &ObjectKey, verb: Verb, version: u64) -> Event {
        let body = Body {
            uid: self.uid,
            spec: self.spec,
            ..Body::default()
        };
        Event::about(
            key,
            verb,
            &self.uid.to_string(),
            &version.to_string(),
            payload::encode(&body),
        )
    }

    fn digest(&self) -> String {
        format!("{}/{}", self.uid, self.spec)
    }
}

#[derive(Default)]
struct Hub {
    objects: BTreeMap<String, HubObject>,
    version: u64,
    asked: BTreeSet<String>,
    unconfirmed: Unconfirmed,
}

impl Source for Hub {
    fn encode(&self, key: &ObjectKey, facet: Facet, said_before: bool) -> Option<Event> {
        let object = self.objects.get(&key.name)?;
        match facet {
            Facet::State if said_before => {
                Some(object.event(key, Verb::SpecUpdate, object.version))
            }
            Facet::State => Some(object.event(key, Verb::Create, object.version)),
            Facet::Command => Some(object.event(key, Verb::SetOperation, object.command?)),
            Facet::Status => None,
        }
    }
}

impl Hub {
    fn user_acts(&mut self, dice: &mut Dice, session: &mut Session) {
        let name = dice.roll(6).to_string();
        self.version += 1;
        let version = self.version;
        match dice.roll(10) {
            0 => {
                if let Some(object) = self.objects.remove(&name) {
                    session.say(object.event(&key(&name), Verb::Delete, version));
                }
            }
            1 | 2 => {
                if let Some(object) = self.objects.get_mut(&name)
                    && object.command.is_none()
                {
                    (object.command, object.version) = (Some(version), version);
                    let event = object.event(&key(&name), Verb::SetOperation, version);
                    self.asked.insert(event.event_id);
                    session.mark(key(&name), Facet::Command);
                }
            }
            _ => {
                let object = self
                    .objects
                    .entry(name.clone())
                    .or_insert_with(|| HubObject {
                        uid: version,
                        ..HubObject::default()
                    });
                (object.spec, object.version) = (version, version);
                session.mark(key(&name), Facet::State);
            }
        }
    }

    fn connected(&mut self, session: &mut Session) {
        self.unconfirmed = Unconfirmed::new(self.objects.keys().map(|name| key(name)));
        session.say(Event::request_resource_resync());
    }

    fn work(&mut self, event: &Event, session: &mut Session) {
        match event.verb {
            Verb::StatusUpdate => self.take_status(event, session),
            Verb::RequestUpdate => self.compare(event, session),
            Verb::RequestSyncedResourceList => {
                for key in self.unconfirmed.finish() {
                    session.mark(key, Facet::State);
                }
                let commanded = self
                    .objects
                    .iter()
                    .filter(|(_, object)| object.command.is_some());
                for (name, _) in commanded {
                    session.mark(key(name), Facet::Command);
                }
            }
            other => panic!("the session let {other} through"),
        }
    }

    fn take_status(&mut self, event: &Event, session: &mut Session) {
        let (key, body) = (event.object().unwrap(), Body::read(event));
        let Some(object) = self.objects.get_mut(&key.name) else {
            return;
        };
        if object.uid != body.uid {
            return;
        }
        object.status = body.status;
        if let Some(version) = object.command {
            let id = object.event(&key, Verb::SetOperation, version).event_id;
            if body.last_command.as_deref() == Some(&id) {
                object.command = None;
                session.unmark(&key, Facet::Command);
            }
        }
    }

    fn compare(&mut self, event: &Event, session: &mut Session) {
        let body: RequestUpdate = payload::decode("request-update", &event.payload).unwrap();
        let key = key(&body.name);
        match self.objects.get(&body.name) {
            None => session.say(Event::about(
                &key,
                Verb::Delete,
                &body.uid,
                "",
                stub(&body.uid),
            )),
            Some(object) if body.digest == Some(object.digest()) => {
                self.unconfirmed.confirm(&key);
            }
            Some(_) => {
                self.unconfirmed.forget(&key);
                session.mark(key, Facet::State);
            }
        }
    }
}

fn stub(uid: &str) -> Bytes {
    payload::encode(&Body {
        uid: uid.parse().unwrap(),
        ..Body::default()
    })
}

#[derive(Clone, Debug, Default)]
struct SpokeObject {
    uid: u64,
    spec: u64,
    status: u64,
    last_command: Option<String>,
}

#[derive(Default)]
struct Spoke {
    objects: BTreeMap<String, SpokeObject>,
    carried_out: Vec<String>,
}

impl Source for Spoke {
    fn encode(&self, key: &ObjectKey, facet: Facet, _: bool) -> Option<Event> {
        let object = self
            .objects
            .get(&key.name)
            .filter(|_| facet == Facet::Status)?;
        let body = Body {
            uid: object.uid,
            status: object.status,
            last_command: object.last_command.clone(),
            ..Body::default()
        };
        let (uid, version) = (object.uid.to_string(), object.status.to_string());
        Some(Event::about(
            key,
            Verb::StatusUpdate,
            &uid,
            &version,
            payload::encode(&body),
        ))
    }
}

impl Spoke {
    /// The spoke's own controller.
    fn controller_acts(&mut self, dice: &mut Dice, session: &mut Session) {
        let name = dice.roll(6).to_string();
        if let Some(object) = self.objects.get_mut(&name) {
            object.status += 1;
            session.mark(key(&name), Facet::Status);
        }
    }

    fn work(&mut self, event: &Event, session: &mut Session) -> Verdict {
        match event.verb {
            Verb::Create | Verb::SpecUpdate => {
                let (key, body) = (event.object().unwrap(), Body::read(event));
                let object = self.objects.entry(key.name.clone()).or_default();
                (object.uid, object.spec) = (body.uid, body.spec);
                object.status += 1;
                session.mark(key, Facet::Status);
            }
            Verb::Delete => {
                // whatever its UID: between our own ends the order of events about one name is kept, so
                // this is the owner's last word about the name
                let key = event.object().unwrap();
                self.objects.remove(&key.name);
                session.unmark(&key, Facet::Status);
            }
            Verb::SetOperation => {
                let (key, body) = (event.object().unwrap(), Body::read(event));
                // the state that goes with it is still on its way
                let Some(object) = self
                    .objects
                    .get_mut(&key.name)
                    .filter(|object| object.uid == body.uid)
                else {
                    return Verdict::Retry {
                        after: Duration::from_secs(1),
                    };
                };
                if object.last_command.as_deref() != Some(&event.event_id) {
                    object.last_command = Some(event.event_id.clone());
                    object.status += 1;
                    self.carried_out.push(event.event_id.clone());
                }
                session.mark(key, Facet::Status);
            }
            Verb::RequestResourceResync => self.name_all(session),
            other => panic!("the session let {other} through"),
        }
        Verdict::Done
    }

    fn name_all(&self, session: &mut Session) {
        for (name, object) in &self.objects {
            session.say(Event::request_update(&RequestUpdate {
                name: name.clone(),
                uid: object.uid.to_string(),
                kind: Kind::Application.to_string(),
                digest: Some(format!("{}/{}", object.uid, object.spec)),
                ..RequestUpdate::default()
            }));
            session.mark(key(name), Facet::Status);
        }
        session.say(Event::request_synced_resource_list(
            &SyncedResourceList::default(),
        ));
    }
}

/// One direction of the link.
#[derive(Default)]
struct Lane(VecDeque<CloudEvent>);

impl Lane {
    fn send(&mut self, frame: CloudEvent, faulty: bool, dice: &mut Dice) {
        if faulty && dice.chance(15) {
            return;
        }
        if faulty && dice.chance(15) {
            self.0.push_back(frame.clone());
        }
        self.0.push_back(frame);
    }

    /// Any frame may arrive next, but those about one object keep their order, as on a stream.
    fn arrive(&mut self, faulty: bool, dice: &mut Dice) -> Option<CloudEvent> {
        let mut chosen = 0;
        if faulty && !self.0.is_empty() {
            let wish = usize::try_from(dice.roll(self.0.len() as u64)).unwrap();
            let line = line(&self.0[wish]);
            chosen = self.0.iter().position(|frame| self::line(frame) == line)?;
        }
        self.0.remove(chosen)
    }
}

fn line(frame: &CloudEvent) -> String {
    let event = Event::try_from(frame.clone()).unwrap();
    event.subject.unwrap_or(event.resource_id)
}

fn session(role: Role) -> Session {
    let peer = Peer {
        mode: Mode::Managed,
        capabilities: Capabilities::ours(),
    };
    Session::new(
        role,
        peer,
        Limits {
            window: 4,
            ..Limits::default()
        },
    )
}

struct World {
    hub: Hub,
    spoke: Spoke,
    principal: Session,
    agent: Session,
    down: Lane,
    up: Lane,
    hub_work: Vec<Work>,
    spoke_work: Vec<Work>,
    now: Duration,
    faulty: bool,
    dice: Dice,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            hub: Hub::default(),
            spoke: Spoke::default(),
            principal: session(Role::Principal),
            agent: session(Role::Agent),
            down: Lane::default(),
            up: Lane::default(),
            hub_work: Vec::new(),
            spoke_work: Vec::new(),
            now: Duration::ZERO,
            faulty: true,
            dice: Dice(seed | 1),
        };
        world.reconnect();
        world
    }

    /// The stream breaks: whatever was in it or in work is lost, and both ends begin anew.
    fn reconnect(&mut self) {
        (self.principal, self.agent) = (session(Role::Principal), session(Role::Agent));
        (self.down, self.up) = (Lane::default(), Lane::default());
        (self.hub_work, self.spoke_work) = (Vec::new(), Vec::new());
        self.now = Duration::ZERO;
        self.hub.connected(&mut self.principal);
    }

    fn step(&mut self) {
        match self.dice.roll(8) {
            0 => {
                if let Some(frame) = self.principal.next_outgoing(&self.hub, self.now) {
                    self.down.send(frame, self.faulty, &mut self.dice);
                }
            }
            1 => {
                if let Some(frame) = self.agent.next_outgoing(&self.spoke, self.now) {
                    self.up.send(frame, self.faulty, &mut self.dice);
                }
            }
            2 => {
                if let Some(frame) = self.down.arrive(self.faulty, &mut self.dice) {
                    self.agent.receive(frame, self.now).unwrap();
                }
            }
            3 => {
                if let Some(frame) = self.up.arrive(self.faulty, &mut self.dice) {
                    self.principal.receive(frame, self.now).unwrap();
                }
            }
            4 => self.hub_work.extend(self.principal.next_work(self.now)),
            5 => self.spoke_work.extend(self.agent.next_work(self.now)),
            6 => self.finish_on_hub(),
            _ => self.finish_on_spoke(),
        }
    }

    fn finish_on_hub(&mut self) {
        let Some(work) = pick(&mut self.hub_work, &mut self.dice) else {
            return;
        };
        let verdict = self.verdict();
        if verdict == Verdict::Done {
            self.hub.work(&work.event, &mut self.principal);
        }
        self.principal.finished(work.id, verdict, self.now);
    }

    fn finish_on_spoke(&mut self) {
        let Some(work) = pick(&mut self.spoke_work, &mut self.dice) else {
            return;
        };
        let mut verdict = self.verdict();
        if verdict == Verdict::Done {
            verdict = self.spoke.work(&work.event, &mut self.agent);
        }
        self.agent.finished(work.id, verdict, self.now);
    }

    fn verdict(&mut self) -> Verdict {
        if self.faulty && self.dice.chance(20) {
            Verdict::Retry {
                after: Duration::from_secs(self.dice.roll(10)),
            }
        } else {
            Verdict::Done
        }
    }

    fn chaos(&mut self, steps: u32) {
        for _ in 0..steps {
            match self.dice.roll(100) {
                0 => self.reconnect(),
                1..=9 => self.hub.user_acts(&mut self.dice, &mut self.principal),
                10..=15 => self.spoke.controller_acts(&mut self.dice, &mut self.agent),
                16..=20 => self.now += Duration::from_secs(self.dice.roll(8)),
                _ => self.step(),
            }
        }
    }

    /// Without faults and without a reconnect: only time passes.
    fn heal(&mut self) {
        self.faulty = false;
        for _ in 0..200 {
            for _ in 0..200 {
                self.step();
            }
            self.now += Duration::from_secs(10);
        }
    }

    fn assert_equal(&self) {
        let hub: Vec<_> = self
            .hub
            .objects
            .iter()
            .map(|(name, object)| (name, object.uid, object.spec, object.status))
            .collect();
        let spoke: Vec<_> = self
            .spoke
            .objects
            .iter()
            .map(|(name, object)| (name, object.uid, object.spec, object.status))
            .collect();
        assert_eq!(hub, spoke);
        assert!(
            self.hub
                .objects
                .values()
                .all(|object| object.command.is_none())
        );
        let once: BTreeSet<_> = self.spoke.carried_out.iter().cloned().collect();
        assert_eq!(
            once.len(),
            self.spoke.carried_out.len(),
            "a command was carried out twice"
        );
        assert!(once.is_subset(&self.hub.asked));
        for end in [&self.principal, &self.agent] {
            let stats = end.stats(self.now);
            assert_eq!(
                (stats.outbox_objects, stats.in_flight, stats.inbox_objects),
                (0, 0, 0)
            );
        }
    }
}

fn pick(works: &mut Vec<Work>, dice: &mut Dice) -> Option<Work> {
    if works.is_empty() {
        return None;
    }
    let index = usize::try_from(dice.roll(works.len() as u64)).unwrap();
    Some(works.swap_remove(index))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn two_sessions_over_a_bad_link_end_equal(seed in any::<u64>(), steps in 50_u32..1500) {
        let mut world = World::new(seed);
        world.chaos(steps);
        world.heal();
        world.assert_equal();
    }
}

#[test]
fn without_faults_nothing_is_sent_twice() {
    let mut world = World::new(7);
    world.faulty = false;
    for _ in 0..500 {
        world.hub.user_acts(&mut world.dice, &mut world.principal);
        for _ in 0..60 {
            world.step();
        }
    }
    world.heal();
    world.assert_equal();
    assert_eq!(world.principal.stats(world.now).resent, 0);
    assert_eq!(world.agent.stats(world.now).resent, 0);
}

#[test]
fn a_delete_while_the_resync_still_waits_for_the_object_is_not_taken_back() {
    let mut world = World::new(5_873_367_736_473_529_188);
    world.chaos(295);
    world.heal();
    world.assert_equal();
}
