//! Seeded randomness, and the trace of a history.

use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use tokio::time::Instant;

/// One source of chance for everything in a history; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Dice(Arc<Mutex<SmallRng>>);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(SmallRng::seed_from_u64(seed))))
    }

    /// A number below `sides`.
    pub(crate) fn below(&self, sides: usize) -> usize {
        self.lock().random_range(0..sides.max(1))
    }

    /// True that often, of one.
    pub(crate) fn probability(&self, often: f64) -> bool {
        self.lock().random_bool(often)
    }

    pub(crate) fn millis(&self, (least, most): (u64, u64)) -> Duration {
        Duration::from_millis(self.lock().random_range(least..=most))
    }

    pub(crate) fn pick<'a, T>(&self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    fn lock(&self) -> MutexGuard<'_, SmallRng> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The steps of a history, in order, with the time of the simulation.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    begun: Instant,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Trace {
    pub(crate) fn new() -> Self {
        Self {
            begun: Instant::now(),
            lines: Arc::default(),
        }
    }

    pub(crate) fn emit(&self, what: impl Display) {
        let line = format!("{:>10.3}  {what}", self.begun.elapsed().as_secs_f64());
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push(line);
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.clone()
    }
}
