//! What a session tells of itself: metrics, and what its report says to a person.

use std::time::Duration;

use super::{Driver, Violation};
use crate::report::{Figures, Update};

impl Driver {
    /// Tells what cannot be written.
    pub(super) fn tell_stuck(&mut self) {
        let stuck = self.hub.stuck(&self.from.cluster);
        if stuck != self.stuck {
            self.stuck.clone_from(&stuck);
            self.session_slot.report_stuck(stuck);
        }
    }

    /// Passes on what the machine has counted since the last time.
    pub(super) fn count(&mut self, now: Duration) {
        let stats = self.machine.stats(now);
        let (resent, strays) = self.counted;
        self.sessions.metrics.session_counted(
            stats.resent.saturating_sub(resent),
            stats.strays.saturating_sub(strays),
        );
        self.counted = (stats.resent, stats.strays);
        self.session_slot.show(Figures {
            outbox_objects: stats.outbox_objects,
            in_flight: stats.in_flight,
            unacknowledged: stats.unacknowledged,
            inbox_objects: stats.inbox_objects,
            agreed: self.resync.agreed().map(|at| now.saturating_sub(at)),
            arrived: now.saturating_sub(stats.last_received),
        });
        if self.session_slot.take_contested() {
            self.peer_violations.offended(Violation::Contested, now);
        }
        if let Update::Now(misconduct) = self.peer_violations.updates(stats.unacknowledged, now) {
            self.session_slot.report_misconduct(misconduct);
        }
    }

    /// What the cluster refuses is looked through only when something about that has changed.
    pub(super) fn tell_refused(&mut self) {
        let (complaints, refused) = self.hub.refused(&self.from.cluster, self.complaints);
        if let Update::Now(refused) = refused {
            self.session_slot.report_refused(refused);
        }
        self.complaints = Some(complaints);
    }
}
