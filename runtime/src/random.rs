//! Chance as a thing that can be repeated: a simulation that starts with the same seed takes the same turns.

use std::cell::RefCell;

use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

thread_local! {
    static SEEDED: RefCell<Option<SmallRng>> = const { RefCell::new(None) };
}

/// From now on this thread's chance follows from `seed`; for simulations, which run on one thread each.
pub fn seed(seed: u64) {
    SEEDED.set(Some(SmallRng::seed_from_u64(seed)));
}

/// A number between the two, by chance; for jitter, and for nothing that must not be guessed.
pub fn between(low: f64, high: f64) -> f64 {
    SEEDED.with_borrow_mut(|seeded| {
        seeded.as_mut().map_or_else(
            || rand::rng().random_range(low..=high),
            |seeded| seeded.random_range(low..=high),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_chance() {
        let draw = |number| {
            seed(number);
            [between(0.0, 1.0), between(0.0, 1.0)]
        };
        assert!(draw(1).map(f64::to_bits) == draw(1).map(f64::to_bits));
        assert!(draw(1).map(f64::to_bits) != draw(2).map(f64::to_bits));
    }
}
