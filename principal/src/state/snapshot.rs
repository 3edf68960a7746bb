//! A snapshot of the principal, as sums and as pages. Pure.

use std::{fmt, ops::Bound, sync::Arc, time::Duration};

use jiff::Timestamp;
use runtime::{admin::Page, metrics::Gauges};
use serde_json::{Value, json};

use crate::report::{ByCluster, Figures};
use crate::{
    fleet::{Fleet, Mode},
    report::{SessionReport, Sessions},
};

/// Longer texts of agents are cut.
const LONGEST_TEXT: usize = 256;

/// The state at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) is_active: bool,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) reports: Sessions,
    pub(crate) figures: ByCluster<Figures>,
    pub(crate) tunnels: ByCluster<usize>,
}

/// Sums over all clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Enrolled clusters: managed, autonomous.
    pub(crate) enrolled: [usize; 2],
    /// Those with a session.
    pub(crate) connected: [usize; 2],
    pub(crate) outbox_objects: usize,
    pub(crate) inbox_objects: usize,
    /// The age of the oldest event of all sessions.
    pub(crate) unacknowledged: Duration,
    /// Clusters with each [problem](TROUBLE).
    pub(crate) trouble: [usize; TROUBLE.len()],
    /// When the first certificate of a connected agent expires.
    pub(crate) first_expiry: Option<Timestamp>,
}

/// Whether a cluster has a problem.
type HasTrouble = fn(&SessionReport) -> bool;

/// The problems that need the attention of an administrator: a word for each, and whether a cluster has it.
const TROUBLE: [(&str, HasTrouble); 6] = [
    ("deletion_held", |it| it.blocked_deletion.is_some()),
    ("misconduct", |it| it.misconduct.is_some()),
    ("refused", |it| it.refused.is_some()),
    ("shed", |it| it.shed.is_some()),
    ("stuck", |it| it.stuck.is_some()),
    ("unmirrored", |it| it.unmirrored.is_some()),
];

impl Totals {
    /// Writes the gauges; the help texts explain a rise.
    pub(crate) fn encode(&self, gauges: &mut Gauges<'_>) -> fmt::Result {
        self.encode_clusters(gauges)?;
        gauges.one(
            "outbox_objects",
            "Objects queued for agents; a lasting rise means that agents do not keep up",
            float(self.outbox_objects),
        )?;
        gauges.one(
            "outbox_oldest_seconds",
            "Age of the oldest change that an agent has not acknowledged, over all sessions and without commands \
            and deletions, which may take long; a steady rise means that an agent is stuck",
            self.unacknowledged.as_secs_f64(),
        )?;
        gauges.one(
            "inbox_objects",
            "Reported objects not yet written to the hub; a lasting rise means that the hub is slow",
            float(self.inbox_objects),
        )?;
        gauges.one(
            "agent_certificate_expiry_timestamp_seconds",
            "Earliest expiry of a connected agent's certificate in Unix seconds; 0 if there is none; less than a \
            week ahead means that renewal fails on a cluster",
            self.first_expiry
                .map_or(0.0, |at| at.as_duration().as_secs_f64()),
        )
    }

    fn encode_clusters(&self, gauges: &mut Gauges<'_>) -> fmt::Result {
        let modes = |[managed, autonomous]: [usize; 2]| {
            [
                ("managed", float(managed)),
                ("autonomous", float(autonomous)),
            ]
        };
        gauges.each(
            "enrolled_clusters",
            "Clusters that may connect; 0 although clusters are enrolled means that all are rejected",
            "mode",
            &modes(self.enrolled),
        )?;
        gauges.each(
            "sessions",
            "Enrolled clusters with a session, by mode; fewer than enrolled clusters means that some are disconnected",
            "mode",
            &modes(self.connected),
        )?;
        let trouble: Vec<_> = TROUBLE
            .iter()
            .zip(self.trouble)
            .map(|((word, _), count)| (*word, float(count)))
            .collect();
        gauges.each(
            "clusters_in_trouble",
            "Clusters that need attention, by problem: a blocked mass deletion, an agent that violates the \
            protocol, refused objects, reports that cannot be written, an ended session that used too much memory, objects that are not mirrored",
            "trouble",
            &trouble,
        )
    }
}

impl Snapshot {
    /// Sums over all clusters.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for (cluster, enrolment) in &self.fleet.clusters {
            let report = self.reports.get(cluster);
            let is_connected = report.is_some_and(|it| it.connected);
            let of = |[managed, autonomous]: &mut [usize; 2]| match enrolment.mode {
                Mode::Managed => *managed += 1,
                Mode::Autonomous => *autonomous += 1,
            };
            of(&mut totals.enrolled);
            if is_connected {
                of(&mut totals.connected);
            }
        }
        for figures in self.figures.values() {
            totals.outbox_objects += figures.outbox_objects;
            totals.inbox_objects += figures.inbox_objects;
            totals.unacknowledged = totals.unacknowledged.max(figures.unacknowledged);
        }
        for report in self.reports.values() {
            for (count, (_, is_there)) in totals.trouble.iter_mut().zip(TROUBLE) {
                *count += usize::from(is_there(report));
            }
            let shown = report.certificate.as_ref().filter(|_| report.connected);
            totals.first_expiry = [totals.first_expiry, shown.map(|it| it.not_after)]
                .into_iter()
                .flatten()
                .min();
        }
        totals
    }

    /// The clusters of one page, after sums over all.
    pub(crate) fn page(&self, page: &Page) -> Value {
        let totals = self.totals();
        let from = page.after.clone().map_or(Bound::Unbounded, Bound::Excluded);
        let wanted = |name: &&String| page.cluster.as_ref().is_none_or(|it| it == *name);
        let range = (from, Bound::Unbounded);
        let enrolled = self.fleet.clusters.range(range.clone());
        let known = self.reports.range(range).map(|(name, _)| name);
        let all = enrolled.map(|(name, _)| name).chain(known);
        let mut names: Vec<&String> = all.filter(wanted).collect();
        names.sort_unstable();
        names.dedup();
        let is_cut = names.len() > page.limit();
        names.truncate(page.limit());
        let next = names.last().filter(|_| is_cut);
        json!({
            "active": self.is_active,
            "enrolled": totals.enrolled.iter().sum::<usize>(),
            "connected": totals.connected.iter().sum::<usize>(),
            "outboxObjects": totals.outbox_objects,
            "oldestUnacknowledgedSeconds": totals.unacknowledged.as_secs(),
            "inboxObjects": totals.inbox_objects,
            "clusters": names.iter().map(|name| self.row(name)).collect::<Vec<_>>(),
            "next": next,
        })
    }

    fn row(&self, cluster: &str) -> Value {
        let enrolled = self.fleet.clusters.get(cluster).map(|it| it.mode.as_str());
        let unknown = SessionReport::default();
        let report = self.reports.get(cluster).map_or(&unknown, Arc::as_ref);
        // Every field is named, so that a new one needs a decision: a row shows the number of objects, nothing else of
        // them.
        let SessionReport {
            connected,
            since,
            last_seen,
            last_error,
            agent_version,
            mode,
            blocked_deletion,
            stuck,
            misconduct,
            shed,
            refused,
            argocd,
            argocd_runs: _,
            argocd_kinds_installed: _,
            argocd_ails: _,
            unmirrored,
            certificate,
            trusts: _,
        } = report;
        let figures = self.figures.get(cluster).filter(|_| *connected);
        json!({
            "cluster": cluster,
            "enrolled": enrolled,
            "mode": mode.map(Mode::as_str),
            "connected": connected,
            "since": self.reports.contains_key(cluster).then(|| since.to_string()),
            "lastSeen": last_seen.map(|it| it.to_string()),
            "lastError": last_error.as_deref().map(cut),
            "agentVersion": agent_version.as_deref().map(cut),
            "certificateExpires": certificate.as_ref().map(|it| it.not_after.to_string()),
            "argocd": argocd,
            "misconduct": misconduct.as_deref().map(cut),
            "shedMiB": shed.as_ref().map(|it| it.mib),
            "heldDeletions": blocked_deletion.as_ref().map_or(0, |it| it.count),
            "refusedObjects": refused.as_ref().map_or(0, |it| it.count),
            "stuckWrites": stuck.as_ref().map_or(0, |it| it.count),
            "unmirroredObjects": unmirrored.as_ref().map_or(0, |it| it.count),
            "lanes": self.tunnels.get(cluster).copied().unwrap_or_default(),
            "session": figures.map(session),
        })
    }
}

fn session(figures: &Figures) -> Value {
    json!({
        "outboxObjects": figures.outbox_objects,
        "inFlight": figures.in_flight,
        "oldestUnacknowledgedSeconds": figures.unacknowledged.as_secs(),
        "inboxObjects": figures.inbox_objects,
        "inboxBytes": figures.inbox_bytes,
        "lastResyncSecondsAgo": figures.agreed.map(|it| it.as_secs()),
        "heardSecondsAgo": figures.arrived.as_secs(),
    })
}

fn cut(text: &str) -> String {
    text.chars().take(LONGEST_TEXT).collect()
}

#[expect(
    clippy::cast_precision_loss,
    reason = "there are fewer objects than a float counts"
)]
const fn float(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests;
