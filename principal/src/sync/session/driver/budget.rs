//! How much a session may do before it lets other tasks run, and how much it may read.

use tokio::time::Instant;

use crate::{
    fleet::ClusterName,
    sync::session::intake::{Intake, MESSAGE, Rest},
};

/// Bytes that a session decodes before it lets other tasks run: a few milliseconds.
const BUDGET: usize = 256 << 10;

/// The bytes that a session may still decode before it lets other tasks run, and when it is read.
#[derive(Debug)]
pub(super) struct Budget {
    left: usize,
    rest: Rest,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            left: BUDGET,
            rest: Rest::none(Instant::now()),
        }
    }
}

impl Budget {
    /// Counts a message that was read, also against the reserve of its cluster.
    pub(super) fn read(&mut self, bytes: usize, intake: &Intake, cluster: &ClusterName) {
        self.charge(bytes);
        let now = Instant::now();
        self.rest.extend(intake.charge(cluster, bytes, now), now);
    }

    /// Counts one message.
    pub(super) const fn charge(&mut self, bytes: usize) {
        let cost = bytes.saturating_add(MESSAGE);
        self.left = self.left.saturating_sub(cost);
    }

    /// Whether the session must not be read now.
    pub(super) fn is_resting(&self) -> bool {
        self.rests_until() > Instant::now()
    }

    /// When it is read again.
    pub(super) const fn rests_until(&self) -> Instant {
        self.rest.until()
    }

    /// Whether its cluster sends more than the principal reads, for longer than any connect takes.
    pub(super) fn is_flooded(&self) -> bool {
        self.rest.is_lasting(Instant::now())
    }

    /// Lets other tasks run if the budget is used up. Cancel-safe.
    pub(super) async fn settle(&mut self) {
        if self.left == 0 {
            tokio::task::yield_now().await;
            self.left = BUDGET;
        }
    }
}
