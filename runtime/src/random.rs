//! Random numbers that a simulation can repeat with the same seed.

use std::cell::RefCell;

use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

thread_local! {
    static SEEDED: RefCell<Option<SmallRng>> = const { RefCell::new(None) };
}

/// Seeds the random numbers of this thread; for simulations, which run on one thread each.
pub fn seed(seed: u64) {
    SEEDED.set(Some(SmallRng::seed_from_u64(seed)));
}

/// A random number in the range; for jitter, not for secrets.
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
    fn equal_seeds_give_equal_numbers() {
        let draw = |number| {
            seed(number);
            [between(0.0, 1.0), between(0.0, 1.0)]
        };
        assert!(draw(1).map(f64::to_bits) == draw(1).map(f64::to_bits));
        assert!(draw(1).map(f64::to_bits) != draw(2).map(f64::to_bits));
    }
}
