//! One live session per cluster, and its report.
//!
//! A newer session takes the session slot of an older one. The registry asks the older session to end and waits for it,
//! so that two drivers never write for one cluster at a time. A cluster that leaves the fleet loses its slot at once.
//! Where two agents contest a slot, the newer one waits (`contest`).

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use live::cluster_info::Census;
use protocol::refusal::Refusal;
use runtime::clock::Clock;
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use crate::{
    admission::admit::Credentials,
    fleet::{ClusterName, Mode},
    report::{ByCluster, Figures},
    report::{SessionReport, Sessions},
};

mod contest;

use contest::{Contest, Incumbent};
pub(crate) use slot::{SessionSlot, SpokeFacts};

/// A driver ends within one turn of its loop. The registry stops waiting for one that does not.
const PREDECESSOR_TIMEOUT: Duration = Duration::from_secs(5);
/// An agent that may not take the slot waits so long for it: a rejected Go agent reconnects at once.
const SLOT_WAIT: Duration = Duration::from_secs(10);
/// How long a cluster whose session used the most memory stays out.
const HELD: Duration = Duration::from_mins(1);

/// Why the hub ends a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The same cluster opened another session.
    Superseded,
    /// The cluster has left the fleet.
    LeftFleet,
    /// The recorded mode has changed.
    ModeChanged,
    /// The certificate has expired, or its CA is not trusted any more.
    Certificate,
    /// An administrator revoked its credentials.
    Revoked,
    /// The password of the session was changed or removed.
    Password,
    /// The session reached its maximum age.
    Life,
    /// Another replica is active now.
    Inactive,
    /// The hub was restored to an earlier state: all objects are compared again.
    Rewound,
    /// It used the most memory while the program was near its limit.
    Memory,
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
            Self::Rewound => "rewound",
            Self::Memory => "memory",
            Self::Stopping => "stopping",
        }
    }
}

/// The session slots of all clusters; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Registry {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    clock: Clock,
    /// Guards the slots. Locked for a lookup, never over an await.
    state: Mutex<State>,
    reports: watch::Sender<Sessions>,
    /// The counts that agents reported, for readers that poll. Bounded by the fleet.
    counted: Mutex<BTreeMap<ClusterName, Census>>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    live: BTreeMap<ClusterName, Live>,
    /// Bounded by the fleet.
    contests: BTreeMap<ClusterName, Contest>,
    /// Until when a cluster gets no slot. Bounded by the fleet.
    held: BTreeMap<ClusterName, Instant>,
}

#[derive(Debug)]
struct Live {
    id: u64,
    mode: Mode,
    peer_credentials: Arc<Credentials>,
    end: watch::Sender<Option<End>>,
    gone: CancellationToken,
    began: Instant,
    signals: Arc<Signals>,
}

/// Signals between a session and the agents that want its slot.
#[derive(Debug)]
struct Signals {
    arrived: Mutex<Instant>,
    /// Another agent contests the slot. The session takes the flag and reports it.
    is_contested: AtomicBool,
    /// The figures of the session after its last turn, and their time; none before the first.
    figures: Mutex<Option<(Instant, Figures)>>,
}

impl Live {
    fn incumbent(&self) -> Incumbent {
        let arrived = *self
            .signals
            .arrived
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        Incumbent {
            began: self.began,
            arrived,
        }
    }
}

/// The outcome of one attempt to acquire a slot.
enum Attempt {
    /// The caller has the slot. The token is cancelled when the superseded session has ended.
    Acquired(SessionSlot, Option<CancellationToken>),
    /// The cluster stays out for a while.
    Held,
    /// Another session keeps the slot until this is cancelled.
    Taken(CancellationToken),
}

impl Registry {
    pub(crate) fn new(clock: Clock) -> (Self, watch::Receiver<Sessions>) {
        let (reports, receiver) = watch::channel(Sessions::default());
        let shared = Shared {
            clock,
            state: Mutex::default(),
            reports,
            counted: Mutex::default(),
        };
        (
            Self {
                shared: Arc::new(shared),
            },
            receiver,
        )
    }

    /// Takes the session slot of `cluster`: supersedes its session and waits for the end of it. Refused while two
    /// agents contest the slot and the other one may keep it.
    ///
    /// Cancel safety: dropped while waiting, the slot is free again.
    pub(crate) async fn acquire_slot(
        &self,
        cluster: &ClusterName,
        mode: Mode,
        peer_credentials: &Arc<Credentials>,
    ) -> Result<SessionSlot, Refusal> {
        let deadline = Instant::now() + SLOT_WAIT;
        let (session_slot, predecessor) = loop {
            match self.try_acquire(cluster, mode, peer_credentials) {
                Attempt::Held => return Err(Refusal::ShortOfMemory),
                Attempt::Acquired(session_slot, predecessor) => break (session_slot, predecessor),
                Attempt::Taken(until) => timeout_at(deadline, until.cancelled())
                    .await
                    .map_err(|_elapsed| Refusal::Contested)?,
            }
        };
        if let Some(predecessor) = predecessor
            && tokio::time::timeout(PREDECESSOR_TIMEOUT, predecessor.cancelled())
                .await
                .is_err()
        {
            tracing::warn!(%cluster, "the older session did not end in time; continuing without it");
        }
        session_slot.report_connected(mode, peer_credentials);
        Ok(session_slot)
    }

    fn try_acquire(
        &self,
        cluster: &ClusterName,
        mode: Mode,
        peer_credentials: &Arc<Credentials>,
    ) -> Attempt {
        let now = Instant::now();
        let mut state = self.lock();
        let State {
            next,
            live,
            contests,
            held,
        } = &mut *state;
        held.retain(|_, until| *until > now);
        if held.contains_key(cluster) {
            return Attempt::Held;
        }
        let mut is_contested = false;
        if let Some(current) = live.get(cluster) {
            let contest = contests.entry(cluster.clone()).or_default();
            let may_take = contest.may_take(current.incumbent(), now);
            is_contested = contest.is_on(now);
            if !may_take {
                current.signals.is_contested.store(true, Ordering::Relaxed);
                return Attempt::Taken(current.gone.clone());
            }
        }
        let id = *next;
        *next = next.wrapping_add(1);
        let (end, ended) = watch::channel(None);
        let gone = CancellationToken::new();
        let signals = Arc::new(Signals {
            arrived: Mutex::new(now),
            is_contested: AtomicBool::new(is_contested),
            figures: Mutex::default(),
        });
        let newer = Live {
            id,
            mode,
            peer_credentials: Arc::clone(peer_credentials),
            end,
            gone: gone.clone(),
            began: now,
            signals: Arc::clone(&signals),
        };
        let predecessor = live.insert(cluster.clone(), newer).map(|older| {
            older.end.send_replace(Some(End::Superseded));
            older.gone
        });
        drop(state);
        let session_slot = SessionSlot {
            registry: self.clone(),
            cluster: cluster.clone(),
            id,
            end: ended,
            gone,
            signals,
            end_reason: None,
        };
        Attempt::Acquired(session_slot, predecessor)
    }

    /// Ends every session for which `verdict` returns a reason.
    pub(crate) fn end_where(
        &self,
        verdict: impl Fn(&ClusterName, Mode, &Credentials) -> Option<End>,
    ) {
        for (cluster, live) in &self.lock().live {
            if let Some(end) = verdict(cluster, live.mode, &live.peer_credentials) {
                live.end.send_replace(Some(end));
            }
        }
    }

    /// Ends the session of a cluster that uses too much memory, and keeps the cluster out for a while.
    pub(crate) fn shed(&self, cluster: &ClusterName, mib: usize) {
        self.report(cluster, |report, _now| report.shed = Some(mib));
        let mut state = self.lock();
        let until = Instant::now() + HELD;
        state.held.insert(cluster.clone(), until);
        if let Some(live) = state.live.get(cluster) {
            live.end.send_replace(Some(End::Memory));
        }
    }

    /// The figures of all sessions at this moment.
    pub(crate) fn figures(&self, now: Instant) -> ByCluster<Figures> {
        let state = self.lock();
        let shown = state.live.iter().filter_map(|(cluster, live)| {
            let figures = live.signals.figures.lock();
            let (at, figures) = (*figures.unwrap_or_else(PoisonError::into_inner))?;
            let passed = now.saturating_duration_since(at);
            Some((cluster.to_string(), figures.after(passed)))
        });
        shown.collect()
    }

    /// The bytes of messages that wait in each session.
    pub(crate) fn inbox_bytes(&self) -> Vec<(ClusterName, usize)> {
        let state = self.lock();
        let shown = state.live.iter().filter_map(|(cluster, live)| {
            let figures = live.signals.figures.lock();
            let (_, figures) = (*figures.unwrap_or_else(PoisonError::into_inner))?;
            Some((cluster.clone(), figures.inbox_bytes))
        });
        shown.collect()
    }

    #[cfg(test)]
    pub(crate) fn reports(&self) -> Sessions {
        Arc::clone(&self.shared.reports.borrow())
    }

    /// The report of a cluster, and the last counts of its agent; none before an agent connected.
    pub(crate) fn known(
        &self,
        cluster: &ClusterName,
    ) -> (Option<Arc<SessionReport>>, Option<Census>) {
        let report = self.shared.reports.borrow().get(cluster.as_str()).cloned();
        (report, self.counted().get(cluster).cloned())
    }

    fn counted(&self) -> MutexGuard<'_, BTreeMap<ClusterName, Census>> {
        let counted = self.shared.counted.lock();
        counted.unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets clusters that do not pass `keep`.
    pub(crate) fn keep(&self, keep: impl Fn(&str) -> bool) {
        self.counted().retain(|cluster, _| keep(cluster.as_str()));
        self.lock()
            .contests
            .retain(|cluster, _| keep(cluster.as_str()));
        self.keep_reports(keep);
    }

    fn keep_reports(&self, keep: impl Fn(&str) -> bool) {
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
            let before = reports.get(cluster.as_str()).map(Arc::as_ref);
            let mut after = before.cloned().unwrap_or_else(|| SessionReport {
                since: now,
                ..SessionReport::default()
            });
            change(&mut after, now);
            if before == Some(&after) {
                return false;
            }
            Arc::make_mut(reports).insert(cluster.to_string(), Arc::new(after));
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

mod slot;
#[cfg(test)]
mod tests;
