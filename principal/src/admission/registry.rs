//! One live session per cluster, and its report.
//!
//! A newer session takes the session slot of an older one. The registry asks the older session to end and waits for it,
//! so that two drivers never write for one cluster at a time. A cluster that leaves the fleet loses its slot at once.
//! Where two agents contest a slot, the newer one waits (`contest`).

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use live::cluster_info::Census;
use parking_lot::Mutex;
use protocol::refusal::Refusal;
use runtime::clock::Clock;
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use crate::{
    admission::credentials::Credentials,
    fleet::{ClusterName, Mode},
    report::{
        BlockedDeletion, ByCluster, Figures, SessionReport, Sessions, Shed, ShownCertificate,
        Traffic,
    },
};

mod contest;
mod counters;
mod end;
mod reports;

use contest::{Contest, Incumbent};
use counters::{Counter, Counters};
pub(crate) use end::End;
use reports::Reports;

/// A driver ends within one turn of its loop. The registry stops waiting for one that does not.
const PREDECESSOR_TIMEOUT: Duration = Duration::from_secs(5);
/// An agent that may not take the slot waits so long for it: a rejected Go agent reconnects at once.
const SLOT_WAIT: Duration = Duration::from_secs(10);
/// How long a cluster whose session used the most memory stays out.
const KEPT_OUT: Duration = Duration::from_mins(1);

/// The session slots of all clusters; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Registry {
    /// Locked for a lookup, never over an await.
    slots: Arc<Mutex<Slots>>,
    pub(crate) reports: Arc<Reports>,
    counters: Arc<Counters>,
}

#[derive(Debug, Default)]
struct Slots {
    next: u64,
    live: BTreeMap<ClusterName, Arc<Live>>,
    /// Bounded by the fleet.
    contests: BTreeMap<ClusterName, Contest>,
    /// Until when a cluster gets no slot. Bounded by the fleet.
    kept_out: BTreeMap<ClusterName, Instant>,
}

/// The session that has a slot.
#[derive(Debug)]
struct Live {
    id: u64,
    mode: Mode,
    peer_credentials: Arc<Credentials>,
    end: watch::Sender<Option<End>>,
    gone: CancellationToken,
    began: Instant,
    arrived: Mutex<Instant>,
    /// Another agent contests the slot. The session takes the flag and reports it.
    is_contested: AtomicBool,
    /// The figures of the session after its last turn, and their time; none before the first.
    figures: Mutex<Option<(Instant, Figures)>>,
}

/// The outcome of one attempt to acquire a slot.
enum Attempt {
    /// The caller has the slot. The token is cancelled when the superseded session has ended.
    Acquired(SessionSlot, Option<CancellationToken>),
    /// The cluster stays out for a while.
    KeptOut,
    /// Another session keeps the slot until this is cancelled.
    Taken(CancellationToken),
}

impl Registry {
    pub(crate) fn new(clock: Clock) -> (Self, watch::Receiver<Sessions>) {
        let reports = Arc::new(Reports::new(clock));
        let receiver = reports.follow();
        let registry = Self {
            slots: Arc::default(),
            reports,
            counters: Arc::default(),
        };
        (registry, receiver)
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
                Attempt::KeptOut => return Err(Refusal::ShortOfMemory),
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
        let certificate = peer_credentials.certificate.as_ref();
        let certificate = certificate.map(|it| ShownCertificate {
            not_before: it.not_before,
            not_after: it.not_after,
            authority: it.authority.clone(),
        });
        session_slot.report(|report, now| {
            report.connected = true;
            report.since = now;
            report.last_seen = Some(now);
            report.last_error = None;
            report.forget_shed(now);
            report.mode = Some(mode);
            report.certificate = certificate;
        });
        Ok(session_slot)
    }

    fn try_acquire(
        &self,
        cluster: &ClusterName,
        mode: Mode,
        peer_credentials: &Arc<Credentials>,
    ) -> Attempt {
        let now = Instant::now();
        let mut slots = self.slots.lock();
        slots.kept_out.retain(|_, until| *until > now);
        if slots.kept_out.contains_key(cluster) {
            return Attempt::KeptOut;
        }
        let mut is_contested = false;
        if let Some(current) = slots.live.get(cluster).cloned() {
            let contest = slots.contests.entry(cluster.clone()).or_default();
            let incumbent = Incumbent {
                began: current.began,
                arrived: *current.arrived.lock(),
            };
            let may_take = contest.may_take(incumbent, now);
            is_contested = contest.is_on(now);
            if !may_take {
                current.is_contested.store(true, Ordering::Relaxed);
                return Attempt::Taken(current.gone.clone());
            }
        }
        let live = Arc::new(Live {
            id: slots.next,
            mode,
            peer_credentials: Arc::clone(peer_credentials),
            end: watch::Sender::default(),
            gone: CancellationToken::new(),
            began: now,
            arrived: Mutex::new(now),
            is_contested: AtomicBool::new(is_contested),
            figures: Mutex::default(),
        });
        slots.next = slots.next.wrapping_add(1);
        let older = slots.live.insert(cluster.clone(), Arc::clone(&live));
        let predecessor = older.map(|older| {
            older.end.send_replace(Some(End::Superseded));
            older.gone.clone()
        });
        let session_slot = SessionSlot {
            registry: self.clone(),
            cluster: cluster.clone(),
            counter: self.counters.count_session(cluster),
            live,
            end_reason: None,
        };
        Attempt::Acquired(session_slot, predecessor)
    }

    /// Ends every session for which `verdict` returns a reason.
    pub(crate) fn end_where(
        &self,
        verdict: impl Fn(&ClusterName, Mode, &Credentials) -> Option<End>,
    ) {
        for (cluster, live) in &self.slots.lock().live {
            if let Some(end) = verdict(cluster, live.mode, &live.peer_credentials) {
                live.end.send_replace(Some(end));
            }
        }
    }

    /// Ends the session of a cluster that uses too much memory, and keeps the cluster out for a while.
    pub(crate) fn shed(&self, cluster: &ClusterName, mib: usize) {
        self.reports
            .change(cluster, |report, at| report.shed = Some(Shed { mib, at }));
        let mut slots = self.slots.lock();
        slots
            .kept_out
            .insert(cluster.clone(), Instant::now() + KEPT_OUT);
        if let Some(live) = slots.live.get(cluster) {
            live.end.send_replace(Some(End::Memory));
        }
    }

    /// The figures of all sessions at this moment.
    pub(crate) fn figures(&self, now: Instant) -> ByCluster<Figures> {
        let slots = self.slots.lock();
        let shown = slots.live.iter().filter_map(|(cluster, live)| {
            let (at, figures) = (*live.figures.lock())?;
            let passed = now.saturating_duration_since(at);
            Some((cluster.to_string(), figures.after(passed)))
        });
        shown.collect()
    }

    /// The bytes of messages that wait in each session.
    pub(crate) fn inbox_bytes(&self) -> Vec<(ClusterName, usize)> {
        let slots = self.slots.lock();
        let shown = slots.live.iter().filter_map(|(cluster, live)| {
            let (_, figures) = (*live.figures.lock())?;
            Some((cluster.clone(), figures.inbox_bytes))
        });
        shown.collect()
    }

    /// Forgets clusters that do not pass `keep`.
    pub(crate) fn keep(&self, keep: impl Fn(&str) -> bool) {
        let mut counted = self.reports.counted.lock();
        counted.retain(|cluster, _| keep(cluster.as_str()));
        drop(counted);
        self.counters.keep(&keep);
        let mut slots = self.slots.lock();
        slots.contests.retain(|cluster, _| keep(cluster.as_str()));
        slots.kept_out.retain(|cluster, _| keep(cluster.as_str()));
        drop(slots);
        self.reports.keep(keep);
    }

    /// The sessions and reports of each cluster that had a session.
    pub(crate) fn traffic(&self) -> BTreeMap<String, Traffic> {
        self.counters.traffic()
    }
}

/// The permission to drive the session of a cluster, and the reports of its holder; dropped, the slot is free.
#[derive(Debug)]
#[must_use = "dropped, the session counts as ended"]
pub(crate) struct SessionSlot {
    registry: Registry,
    cluster: ClusterName,
    live: Arc<Live>,
    counter: Arc<Counter>,
    /// The reason of the end, for the report.
    pub(crate) end_reason: Option<String>,
}

impl SessionSlot {
    /// Resolves when the hub wants this session to end. Cancel-safe.
    pub(crate) fn ended(&self) -> impl Future<Output = End> + use<> {
        let mut end = self.live.end.subscribe();
        async move {
            let end = end.wait_for(Option::is_some).await;
            // Closed without a reason: another session took the slot.
            end.map_or(End::Superseded, |end| (*end).unwrap_or(End::Stopping))
        }
    }

    /// A number that no other session of this process has.
    pub(crate) fn id(&self) -> u64 {
        self.live.id
    }

    /// Records that a message of the agent arrived.
    pub(crate) fn arrived(&self) {
        *self.live.arrived.lock() = Instant::now();
    }

    /// Publishes the figures of the session after this turn.
    pub(crate) fn show(&self, figures: Figures) {
        *self.live.figures.lock() = Some((Instant::now(), figures));
    }

    /// Whether another agent contested this slot since the last call.
    pub(crate) fn take_contested(&self) -> bool {
        self.live.is_contested.swap(false, Ordering::Relaxed)
    }

    /// Changes the report of the cluster. What an agent states is a claim.
    pub(crate) fn report(&self, change: impl FnOnce(&mut SessionReport, Timestamp)) {
        self.registry.reports.change(&self.cluster, change);
    }

    /// Records the deletion that the brake blocks on this cluster now.
    pub(crate) fn report_blocked_deletion(&self, blocked: Option<BlockedDeletion>) {
        self.report(|report, _now| {
            if let Some(it) = &blocked
                && report.blocked_deletion != blocked
            {
                let (cluster, count, digest) = (&self.cluster, it.count, &it.digest);
                tracing::warn!(%cluster, count, digest, "mass deletion blocked; confirmation required");
            }
            report.blocked_deletion = blocked;
        });
    }

    /// Records how the agent violates the protocol.
    pub(crate) fn report_misconduct(&self, misconduct: Option<String>) {
        if let Some(misconduct) = &misconduct {
            tracing::warn!(cluster = %self.cluster, misconduct, "an agent violates the protocol");
        }
        self.report(|report, _now| report.misconduct = misconduct);
    }

    /// Records the counts of Argo CD on the cluster. A claim.
    pub(crate) fn report_census(&self, census: Census) {
        let mut counted = self.registry.reports.counted.lock();
        counted.insert(self.cluster.clone(), census);
    }

    /// The counters of its cluster.
    pub(crate) fn counter(&self) -> Arc<Counter> {
        Arc::clone(&self.counter)
    }
}

impl Drop for SessionSlot {
    fn drop(&mut self) {
        let mut slots = self.registry.slots.lock();
        let current = slots.live.get(&self.cluster);
        let mine = current.is_some_and(|live| Arc::ptr_eq(live, &self.live));
        if mine {
            slots.live.remove(&self.cluster);
        }
        drop(slots);
        if mine && *self.live.end.borrow() == Some(End::LeftFleet) {
            // A cluster that is not enrolled has no report.
            let reports = &self.registry.reports;
            let is_other = |cluster: &str| cluster != self.cluster.as_str();
            reports.keep(is_other);
            self.registry.counters.keep(is_other);
        } else if mine {
            let end_reason = self.end_reason.take();
            self.report(|report, now| {
                report.connected = false;
                report.stuck = None;
                report.since = now;
                report.last_seen = Some(now);
                report.last_error =
                    end_reason.or_else(|| Some("the session was abandoned".to_owned()));
            });
        }
        self.live.gone.cancel();
    }
}

#[cfg(test)]
mod tests;
