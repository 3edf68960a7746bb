//! Random variants of inputs.

use rand::{Rng as _, SeedableRng as _, rngs::SmallRng, seq::IndexedRandom as _};

/// The longest variant, in bytes.
const LONGEST: usize = 64 << 10;
/// Bytes at the borders of ranges and with a meaning in most formats.
const SPECIAL: &[u8] = b"\0\x01\x7f\x80\xff\r\n /.:%&?+-*$\"{}[]";

/// A source of variants; the seed decides them all.
pub(crate) struct Mutation(SmallRng);

impl Mutation {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SmallRng::seed_from_u64(seed))
    }

    /// One of the inputs after one to eight changes.
    pub(crate) fn variant(&mut self, inputs: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = inputs.choose(&mut self.0).cloned().unwrap_or_default();
        for _ in 0..self.0.random_range(1..=8) {
            self.change(&mut bytes, inputs);
        }
        bytes.truncate(LONGEST);
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, inputs: &[Vec<u8>]) {
        let at = self.0.random_range(0..=bytes.len());
        let end = (at + self.0.random_range(0..=16)).min(bytes.len());
        match self.0.random_range(0..7) {
            0 => {
                let bit = 1 << self.0.random_range(0..8);
                bytes.iter_mut().skip(at).take(1).for_each(|it| *it ^= bit);
            }
            1 => {
                let special = SPECIAL.choose(&mut self.0).copied().unwrap_or_default();
                bytes.splice(at..end.min(at + 1), [special]);
            }
            2 => bytes.insert(at, self.0.random()),
            3 => drop(bytes.drain(at..end)),
            4 => {
                let again = bytes.get(at..end).unwrap_or_default().to_vec();
                bytes.splice(at..at, again);
            }
            5 => bytes.truncate(at),
            _ => {
                let other = inputs.choose(&mut self.0).cloned().unwrap_or_default();
                let from = self.0.random_range(0..=other.len());
                bytes.splice(at..end, other.into_iter().skip(from).take(64));
            }
        }
    }
}
