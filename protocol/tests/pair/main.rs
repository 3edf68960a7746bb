//! Two sessions converge over a faulty link.
//!
//! A hub and a spoke in memory drive their ends of the protocol as the programs do. The link drops and duplicates
//! frames, reorders frames of different objects, and breaks; work items fail and are retried. Meanwhile users change
//! objects on both sides. After the faults stop, both sides must become equal without a reconnect, and no command may
//! have run twice.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "a test ends here"
)]

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use protocol::version::Capabilities;
use protocol::{Event, Kind, Limits, Mode, ObjectKey, Peer, Role, Session, Verdict, Work, payload};
use serde::{Deserialize, Serialize};

mod hub;
mod link;
mod spoke;

use hub::Hub;
use link::{Channel, Dice};
use spoke::Spoke;

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::new(Kind::Application, "agent-a", name)
}

/// Body of an object's events, in both directions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Body {
    pub(crate) uid: u64,
    pub(crate) spec: u64,
    pub(crate) status: u64,
    pub(crate) command: Option<String>,
    pub(crate) last_command: Option<String>,
}

impl Body {
    pub(crate) fn read(event: &Event) -> Self {
        payload::decode("body", &event.payload).unwrap()
    }
}

fn session(role: Role) -> Session {
    let peer = Peer::new(Mode::Managed, Capabilities::ours());
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
    down: Channel,
    up: Channel,
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
            down: Channel::default(),
            up: Channel::default(),
            hub_work: Vec::new(),
            spoke_work: Vec::new(),
            now: Duration::ZERO,
            faulty: true,
            dice: Dice(seed | 1),
        };
        world.reconnect();
        world
    }

    /// The stream breaks: everything in transit or in progress is lost, and both ends start new sessions.
    fn reconnect(&mut self) {
        (self.principal, self.agent) = (session(Role::Principal), session(Role::Agent));
        (self.down, self.up) = (Channel::default(), Channel::default());
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
        if self.faulty && self.dice.happens(20) {
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

    /// Runs without faults and reconnects while time passes.
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
    fn two_sessions_converge_over_a_faulty_link(seed in any::<u64>(), steps in 50_u32..1500) {
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
fn delete_during_resync_is_not_reverted() {
    let mut world = World::new(5_873_367_736_473_529_188);
    world.chaos(295);
    world.heal();
    world.assert_equal();
}
