//! The last reported state of a session: only changes are reported.

use std::time::Duration;

use protocol::session::Stats;

use crate::{
    admission::registry::SessionSlot,
    fleet::ClusterName,
    metrics::Metrics,
    report::{SessionReport, Stuck},
    sync::{hub::Hub, session::pace::Newest},
};

/// For how long a new session still reports that the one before used too much memory.
const SHED_SHOWN: Duration = Duration::from_mins(10);

/// The last report of one session.
#[derive(Debug, Default)]
pub(super) struct Reported {
    stuck: Option<Stuck>,
    /// The version of the refusals.
    complaints: Option<u64>,
    /// Refusals that are not reported yet. An agent can change them all the time, and each report reaches the whole fleet.
    refusals: Newest<()>,
    /// Whether an earlier end because memory was short is forgotten.
    is_shed_forgotten: bool,
    resent: u64,
    strays: u64,
}

impl Reported {
    /// Reports the failing writes.
    pub(super) fn stuck(&mut self, slot: &SessionSlot, stuck: Option<Stuck>) {
        if stuck != self.stuck {
            self.stuck.clone_from(&stuck);
            slot.report(|report, _now| report.stuck = stuck);
        }
    }

    /// Forgets an earlier end because memory was short, once this session has lasted.
    pub(super) fn forget_shed(&mut self, slot: &SessionSlot, now: Duration) {
        if now >= SHED_SHOWN && !std::mem::replace(&mut self.is_shed_forgotten, true) {
            slot.report(SessionReport::forget_shed);
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

    /// Reports the refused objects, if they have changed and a report is due.
    pub(super) fn refused(
        &mut self,
        slot: &SessionSlot,
        hub: &Hub,
        cluster: &ClusterName,
        now: Duration,
    ) {
        let complaints = Some(hub.objects.complaints(cluster));
        if self.complaints != complaints {
            self.complaints = complaints;
            self.refusals.set(());
        }
        if self.refusals.take_due(now).is_some() {
            let refused = hub.objects.refused(cluster);
            slot.report(|report, _now| report.refused = refused);
        }
    }

    /// The time until the next report is due.
    pub(super) fn next_timeout(&self, now: Duration) -> Option<Duration> {
        let shed = (!self.is_shed_forgotten).then(|| SHED_SHOWN.saturating_sub(now));
        self.refusals
            .next_timeout(now)
            .into_iter()
            .chain(shed)
            .min()
    }
}
