//! One live session per cluster, and what is told about it.
//!
//! A newer session takes the seat of an older one: the older is told to end and is waited for, so that two drivers
//! never write for one cluster at a time. Who leaves the fleet loses the seat at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use protocol::payload::ArgoCd;
use runtime::clock::Clock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    fleet::{ClusterName, Mode},
    gate::Papers,
    report::{HeldDeletion, Refused, SessionReport, Sessions, ShownCertificate, Stuck, Unmirrored},
};

/// A driver ends within one turn of its loop; one that does not is left behind rather than waited for.
const PREDECESSOR: Duration = Duration::from_secs(5);

/// Why the hub ends a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The same cluster has opened another one.
    Superseded,
    /// The cluster has left the fleet.
    LeftFleet,
    /// The recorded mode has changed.
    ModeChanged,
    /// The certificate's time is over, or its CA is not trusted any more.
    Certificate,
    /// A person has revoked what it stands on.
    Revoked,
    /// The password that it stands on was changed or taken away.
    Password,
    /// It has lived as long as a session may.
    Life,
    /// Another replica serves now.
    Inactive,
    /// The program stops.
    Stopping,
}

impl End {
    /// A word for metrics and logs.
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::Superseded => "superseded",
            Self::LeftFleet => "left_fleet",
            Self::ModeChanged => "mode_changed",
            Self::Certificate => "certificate",
            Self::Revoked => "revoked",
            Self::Password => "password",
            Self::Life => "life",
            Self::Inactive => "inactive",
            Self::Stopping => "stopping",
        }
    }
}

/// The seats of all clusters; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Registry {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    clock: Clock,
    /// Guards the seats; held for a lookup, never over an await.
    state: Mutex<State>,
    reports: watch::Sender<Sessions>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    live: BTreeMap<ClusterName, Live>,
}

#[derive(Debug)]
struct Live {
    id: u64,
    mode: Mode,
    papers: Arc<Papers>,
    end: watch::Sender<Option<End>>,
    gone: CancellationToken,
}

/// The right to drive the session of a cluster; dropped, the seat is free.
#[derive(Debug)]
#[must_use = "dropped, the session counts as ended"]
pub(crate) struct Seat {
    registry: Registry,
    cluster: ClusterName,
    id: u64,
    end: watch::Receiver<Option<End>>,
    gone: CancellationToken,
    why: Option<String>,
}

impl Registry {
    pub(crate) fn new(clock: Clock) -> (Self, watch::Receiver<Sessions>) {
        let (reports, receiver) = watch::channel(Sessions::default());
        let shared = Shared {
            clock,
            state: Mutex::default(),
            reports,
        };
        (
            Self {
                shared: Arc::new(shared),
            },
            receiver,
        )
    }

    /// Takes the seat of `cluster`, ending whoever sits there, and waits for that end.
    ///
    /// Cancel safety: dropped while waiting, the seat is free again.
    pub(crate) async fn take_seat(
        &self,
        cluster: &ClusterName,
        mode: Mode,
        papers: &Arc<Papers>,
    ) -> Seat {
        let (seat, predecessor) = self.sit_down(cluster, mode, papers);
        if let Some(predecessor) = predecessor
            && tokio::time::timeout(PREDECESSOR, predecessor.cancelled())
                .await
                .is_err()
        {
            tracing::warn!(%cluster, "the older session does not end; going on without it");
        }
        seat.report_connected(mode, papers);
        seat
    }

    fn sit_down(
        &self,
        cluster: &ClusterName,
        mode: Mode,
        papers: &Arc<Papers>,
    ) -> (Seat, Option<CancellationToken>) {
        let mut state = self.lock();
        let id = state.next;
        state.next = state.next.wrapping_add(1);
        let (end, ended) = watch::channel(None);
        let gone = CancellationToken::new();
        let live = Live {
            id,
            mode,
            papers: Arc::clone(papers),
            end,
            gone: gone.clone(),
        };
        let predecessor = state.live.insert(cluster.clone(), live).map(|older| {
            older.end.send_replace(Some(End::Superseded));
            older.gone
        });
        drop(state);
        let seat = Seat {
            registry: self.clone(),
            cluster: cluster.clone(),
            id,
            end: ended,
            gone,
            why: None,
        };
        (seat, predecessor)
    }

    /// Ends every session for which `verdict` has a reason.
    pub(crate) fn end_where(&self, verdict: impl Fn(&ClusterName, Mode, &Papers) -> Option<End>) {
        for (cluster, live) in &self.lock().live {
            if let Some(end) = verdict(cluster, live.mode, &live.papers) {
                live.end.send_replace(Some(end));
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn reports(&self) -> Sessions {
        Arc::clone(&self.shared.reports.borrow())
    }

    /// Forgets what was reported about clusters that are not wanted any more.
    pub(crate) fn keep_reports(&self, keep: impl Fn(&str) -> bool) {
        self.shared.reports.send_if_modified(|reports| {
            if reports.keys().all(|cluster| keep(cluster)) {
                return false;
            }
            Arc::make_mut(reports).retain(|cluster, _| keep(cluster));
            true
        });
    }

    /// Records that an enrolled cluster authenticated.
    pub(crate) fn report_authenticated(&self, cluster: &ClusterName, mode: Mode, version: &str) {
        self.report(cluster, |report, _now| {
            report.agent_version = Some(version.to_owned());
            report.mode = Some(mode);
        });
    }

    /// Records that an enrolled cluster was refused.
    pub(crate) fn report_refused(&self, cluster: &ClusterName, why: &str) {
        self.report(cluster, |report, now| {
            report.last_seen = Some(now);
            report.last_error = Some(why.to_owned());
        });
    }

    fn report(
        &self,
        cluster: &ClusterName,
        change: impl FnOnce(&mut SessionReport, jiff::Timestamp),
    ) {
        let now = self.shared.clock.now();
        self.shared.reports.send_if_modified(|reports| {
            let before = reports.get(cluster.as_str()).cloned();
            let mut after = before.clone().unwrap_or_else(|| SessionReport {
                since: now,
                ..SessionReport::default()
            });
            change(&mut after, now);
            if before.as_ref() == Some(&after) {
                return false;
            }
            Arc::make_mut(reports).insert(cluster.to_string(), after);
            true
        });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// Resolves when the hub wants this session to end. Cancel-safe.
    pub(crate) async fn ended(&mut self) -> End {
        match self.end.wait_for(Option::is_some).await {
            Ok(end) => (*end).unwrap_or(End::Stopping),
            // The sender lives in the seat's entry: gone without a word means that another took it.
            Err(_closed) => End::Superseded,
        }
    }

    /// A number that no other session of this process has.
    pub(crate) const fn id(&self) -> u64 {
        self.id
    }

    /// Says why the session ends, for the report.
    pub(crate) fn ends_because(&mut self, why: impl Into<String>) {
        self.why = Some(why.into());
    }

    /// Records what is held back on this cluster now.
    pub(crate) fn report_held(&self, held: Option<HeldDeletion>) {
        self.registry.report(&self.cluster, |report, _now| {
            if let Some(held) = held
                .as_ref()
                .filter(|held| report.held.as_ref() != Some(held))
            {
                let (cluster, count, digest) = (&self.cluster, held.count, &held.digest);
                tracing::warn!(%cluster, count, digest, "too much would be deleted; held");
            }
            report.held = held;
        });
    }

    /// Records what of the cluster is not shown on the hub.
    pub(crate) fn report_unmirrored(&self, unmirrored: Option<Unmirrored>) {
        self.registry.report(&self.cluster, |report, _now| {
            report.unmirrored = unmirrored;
        });
    }

    /// Records what cannot be written for this cluster for some time.
    pub(crate) fn report_stuck(&self, stuck: Option<Stuck>) {
        self.registry.report(&self.cluster, |report, _now| {
            report.stuck = stuck;
        });
    }

    /// Records what the agent does that no agent should.
    pub(crate) fn report_misconduct(&self, misconduct: Option<String>) {
        if let Some(misconduct) = &misconduct {
            tracing::warn!(cluster = %self.cluster, misconduct, "an agent misbehaves");
        }
        self.registry.report(&self.cluster, |report, _now| {
            report.misconduct = misconduct;
        });
    }

    /// Records what the cluster cannot take or do.
    pub(crate) fn report_refused(&self, refused: Option<Refused>) {
        self.registry.report(&self.cluster, |report, _now| {
            report.refused = refused;
        });
    }

    /// Records what the agent says of its cluster and of itself.
    pub(crate) fn report_spoke(&self, argocd: Option<ArgoCd>, trusts: Option<BTreeSet<String>>) {
        let trusts = trusts.filter(is_modest);
        self.registry.report(&self.cluster, |report, _now| {
            report.argocd = argocd;
            report.trusts = trusts;
        });
    }

    fn report_connected(&self, mode: Mode, papers: &Papers) {
        let shown = papers.certificate.as_ref().map(|it| ShownCertificate {
            not_before: it.not_before(),
            not_after: it.not_after(),
            authority: it.authority().cloned(),
        });
        self.registry.report(&self.cluster, |report, now| {
            report.connected = true;
            report.since = now;
            report.last_seen = Some(now);
            report.last_error = None;
            report.mode = Some(mode);
            report.certificate = shown;
        });
    }
}

/// More than a few fingerprints are not a trust but a way to fill our memory.
fn is_modest(trusts: &BTreeSet<String>) -> bool {
    trusts.len() <= 32 && trusts.iter().all(|it| it.len() == 64)
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.registry.lock();
        let mine = state
            .live
            .get(&self.cluster)
            .is_some_and(|live| live.id == self.id);
        if mine {
            state.live.remove(&self.cluster);
        }
        drop(state);
        if mine && *self.end.borrow() == Some(End::LeftFleet) {
            // Whoever is not enrolled has no report; this one would be the last to forget it.
            self.registry
                .keep_reports(|cluster| cluster != self.cluster.as_str());
        } else if mine {
            let why = self.why.take();
            self.registry.report(&self.cluster, |report, now| {
                report.connected = false;
                report.stuck = None;
                report.since = now;
                report.last_seen = Some(now);
                report.last_error = why.or_else(|| Some("the session was abandoned".to_owned()));
            });
        }
        self.gone.cancel();
    }
}

#[cfg(test)]
mod tests;
