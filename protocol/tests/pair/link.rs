//! A pseudo-random generator, and a link with random faults.

use std::collections::VecDeque;

use protocol::Event;
use protocol::wire::cloudevents::CloudEvent;

/// A small generator with repeatable results.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }

    /// True in `percent` of a hundred cases.
    pub(crate) fn happens(&mut self, percent: u64) -> bool {
        self.roll(100) < percent
    }
}

/// One direction of the link.
#[derive(Default)]
pub(crate) struct Channel(VecDeque<CloudEvent>);

impl Channel {
    pub(crate) fn send(&mut self, frame: CloudEvent, faulty: bool, dice: &mut Dice) {
        if faulty && dice.happens(15) {
            return;
        }
        if faulty && dice.happens(15) {
            self.0.push_back(frame.clone());
        }
        self.0.push_back(frame);
    }

    /// Any frame may arrive next, but those about one object keep their order, as on a stream.
    pub(crate) fn arrive(&mut self, faulty: bool, dice: &mut Dice) -> Option<CloudEvent> {
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
