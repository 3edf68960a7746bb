//! The last reported state of a session: only changes are reported.

use protocol::session::Stats;

use crate::{
    admission::registry::SessionSlot,
    fleet::ClusterName,
    metrics::Metrics,
    report::{Stuck, Update},
    sync::hub::Hub,
};

/// The last report of one session.
#[derive(Debug, Default)]
pub(super) struct Reported {
    stuck: Option<Stuck>,
    /// The version of the refusals.
    complaints: Option<u64>,
    resent: u64,
    strays: u64,
}

impl Reported {
    /// Reports the failing writes.
    pub(super) fn stuck(&mut self, slot: &SessionSlot, stuck: Option<Stuck>) {
        if stuck != self.stuck {
            self.stuck.clone_from(&stuck);
            slot.report_stuck(stuck);
        }
    }

    /// Adds the machine's counters to the metrics.
    pub(super) fn counters(&mut self, metrics: &Metrics, stats: &Stats) {
        metrics.session_counted(
            stats.resent.saturating_sub(self.resent),
            stats.strays.saturating_sub(self.strays),
        );
        (self.resent, self.strays) = (stats.resent, stats.strays);
    }

    /// Reports the refused objects, if they have changed.
    pub(super) fn refused(&mut self, slot: &SessionSlot, hub: &Hub, cluster: &ClusterName) {
        let (complaints, refused) = hub.objects.refused(cluster, self.complaints);
        if let Update::Now(refused) = refused {
            slot.report_refused(refused);
        }
        self.complaints = Some(complaints);
    }
}
