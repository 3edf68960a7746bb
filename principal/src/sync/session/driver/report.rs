//! The metrics and the report of a session.

use std::time::Duration;

use super::{Driver, Violation};
use crate::{
    report::{Figures, Update},
    sync::session::spoke_info,
};

impl Driver {
    /// Reports the failing writes.
    pub(super) fn report_stuck(&mut self) {
        let stuck = self.hub.stuck(&self.from.cluster);
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

    /// Records the facts of the agent if they are due: each record reaches the whole hub program.
    pub(super) fn record_facts(&mut self, now: Duration) {
        if let Some(event) = self.facts.take_due(now) {
            spoke_info::record(&self.session_slot, &event);
        }
    }

    /// Reports the refused objects, if they have changed.
    pub(super) fn report_refused(&mut self) {
        let (complaints, refused) = self.hub.refused(&self.from.cluster, self.complaints);
        if let Update::Now(refused) = refused {
            self.session_slot.report_refused(refused);
        }
        self.complaints = Some(complaints);
    }
}
