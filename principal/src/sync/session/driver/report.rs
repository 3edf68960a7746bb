//! The metrics and the report of a session.

use std::time::Duration;

use super::{Driver, Violation};
use crate::report::{Figures, Update};

impl Driver {
    /// Reports the failing writes.
    pub(super) fn report_stuck(&mut self) {
        let stuck = self.hub.objects.stuck(&self.from.cluster);
        if stuck != self.stuck {
            self.stuck.clone_from(&stuck);
            self.session_slot.report_stuck(stuck);
        }
    }

    /// Updates the metrics and figures with the machine's counters, and reports violations.
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
            self.peer_violations.record(Violation::Contested, now);
        }
        if let Update::Now(misconduct) = self.peer_violations.updates(stats.unacknowledged, now) {
            self.session_slot.report_misconduct(misconduct);
        }
    }

    /// Reports the refused objects, if they have changed.
    pub(super) fn report_refused(&mut self) {
        let (complaints, refused) = self
            .hub
            .objects
            .refused(&self.from.cluster, self.complaints);
        if let Update::Now(refused) = refused {
            self.session_slot.report_refused(refused);
        }
        self.complaints = Some(complaints);
    }
}
