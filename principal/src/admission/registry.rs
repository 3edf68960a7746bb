//! One live session per cluster, and what is told about it.
//!
//! A newer session takes the seat of an older one: the older is told to end and is waited for, so that two drivers
//! never write for one cluster at a time. Who leaves the fleet loses the seat at once. Where two agents fight for it,
//! the newer one waits in line (`contest`).

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

/// A driver ends within one turn of its loop; one that does not is left behind rather than waited for.
const PREDECESSOR: Duration = Duration::from_secs(5);
/// Whoever may not take a seat waits so long for it to become free: a Go agent that is refused comes again at once.
const IN_LINE: Duration = Duration::from_secs(10);

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
    /// The hub is back at an earlier state, and everything is compared anew.
    Rewound,
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
    /// What agents have counted, for whoever asks; nobody is woken by it. Bounded by the fleet.
    counted: Mutex<BTreeMap<ClusterName, Census>>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    live: BTreeMap<ClusterName, Live>,
    /// Bounded by the fleet.
    contests: BTreeMap<ClusterName, Contest>,
}

#[derive(Debug)]
struct Live {
    id: u64,
    mode: Mode,
    peer_credentials: Arc<Credentials>,
    end: watch::Sender<Option<End>>,
    gone: CancellationToken,
    began: Instant,
    signs: Arc<Signs>,
}

/// What a session and those who want its seat show each other.
#[derive(Debug)]
struct Signs {
    arrived: Mutex<Instant>,
    /// Somebody fights for the seat; taken by the session, which tells a person.
    is_contested: AtomicBool,
    /// How the session stood at its last turn, and when that was; none before the first.
    figures: Mutex<Option<(Instant, Figures)>>,
}

impl Live {
    fn incumbent(&self) -> Incumbent {
        let arrived = *self
            .signs
            .arrived
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        Incumbent {
            began: self.began,
            arrived,
        }
    }
}

/// What somebody finds who comes for a seat.
enum Found {
    /// It is its own; whoever sat there before is told to go.
    SessionSlot(SessionSlot, Option<CancellationToken>),
    /// It is somebody else's until this is cancelled.
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

    /// Takes the seat of `cluster`, ending whoever sits there, and waits for that end; refused where two fight for it and
    /// it is not this one's turn.
    ///
    /// Cancel safety: dropped while waiting, the seat is free again.
    pub(crate) async fn acquire_slot(
        &self,
        cluster: &ClusterName,
        mode: Mode,
        peer_credentials: &Arc<Credentials>,
    ) -> Result<SessionSlot, Refusal> {
        let response_timeout = Instant::now() + IN_LINE;
        let (session_slot, predecessor) = loop {
            match self.sit_down(cluster, mode, peer_credentials) {
                Found::SessionSlot(session_slot, predecessor) => break (session_slot, predecessor),
                Found::Taken(until) => timeout_at(response_timeout, until.cancelled())
                    .await
                    .map_err(|_elapsed| Refusal::Contested)?,
            }
        };
        if let Some(predecessor) = predecessor
            && tokio::time::timeout(PREDECESSOR, predecessor.cancelled())
                .await
                .is_err()
        {
            tracing::warn!(%cluster, "the older session did not end in time; continuing without it");
        }
        session_slot.report_connected(mode, peer_credentials);
        Ok(session_slot)
    }

    fn sit_down(
        &self,
        cluster: &ClusterName,
        mode: Mode,
        peer_credentials: &Arc<Credentials>,
    ) -> Found {
        let now = Instant::now();
        let mut state = self.lock();
        let State {
            next,
            live,
            contests,
        } = &mut *state;
        let mut is_contested = false;
        if let Some(sitting) = live.get(cluster) {
            let contest = contests.entry(cluster.clone()).or_default();
            let may_take = contest.may_take(sitting.incumbent(), now);
            is_contested = contest.is_on(now);
            if !may_take {
                sitting.signs.is_contested.store(true, Ordering::Relaxed);
                return Found::Taken(sitting.gone.clone());
            }
        }
        let id = *next;
        *next = next.wrapping_add(1);
        let (end, ended) = watch::channel(None);
        let gone = CancellationToken::new();
        let signs = Arc::new(Signs {
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
            signs: Arc::clone(&signs),
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
            signs,
            why: None,
        };
        Found::SessionSlot(session_slot, predecessor)
    }

    /// Ends every session for which `verdict` has a reason.
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

    /// How the sessions stand at this moment.
    pub(crate) fn figures(&self, now: Instant) -> ByCluster<Figures> {
        let state = self.lock();
        let shown = state.live.iter().filter_map(|(cluster, live)| {
            let figures = live.signs.figures.lock();
            let (at, figures) = (*figures.unwrap_or_else(PoisonError::into_inner))?;
            let passed = now.saturating_duration_since(at);
            Some((cluster.to_string(), figures.after(passed)))
        });
        shown.collect()
    }

    #[cfg(test)]
    pub(crate) fn reports(&self) -> Sessions {
        Arc::clone(&self.shared.reports.borrow())
    }

    /// What is known of a cluster now, and what its agent has counted last; none where no agent was heard of.
    pub(crate) fn known(&self, cluster: &ClusterName) -> (Option<SessionReport>, Option<Census>) {
        let report = self.shared.reports.borrow().get(cluster.as_str()).cloned();
        (report, self.counted().get(cluster).cloned())
    }

    fn counted(&self) -> MutexGuard<'_, BTreeMap<ClusterName, Census>> {
        let counted = self.shared.counted.lock();
        counted.unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what is known about clusters that are not wanted any more.
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

mod slot;
#[cfg(test)]
mod tests;
