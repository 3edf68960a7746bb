//! The permission to drive the session of a cluster, and the reports of its holder.

use std::{
    collections::BTreeSet,
    sync::{Arc, PoisonError, atomic::Ordering},
};

use live::cluster_info::Census;
use protocol::payload::{ArgoCd, HealthProblem, Runs};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{End, Registry, Signals};
use crate::{
    admission::admit::Credentials,
    fleet::{ClusterName, Mode},
    report::Figures,
    report::{BlockedDeletion, Refused, ShownCertificate, Stuck, Unmirrored},
};

/// The permission to drive the session of a cluster; dropped, the slot is free.
#[derive(Debug)]
#[must_use = "dropped, the session counts as ended"]
pub(crate) struct SessionSlot {
    pub(super) registry: Registry,
    pub(super) cluster: ClusterName,
    pub(super) id: u64,
    pub(super) end: watch::Receiver<Option<End>>,
    pub(super) gone: CancellationToken,
    pub(super) signals: Arc<Signals>,
    pub(super) end_reason: Option<String>,
}

impl SessionSlot {
    /// Resolves when the hub wants this session to end. Cancel-safe.
    pub(crate) async fn ended(&mut self) -> End {
        ended_with(&mut self.end).await
    }

    /// Resolves like [`Self::ended`], without a borrow of the slot.
    pub(crate) fn end(&self) -> impl Future<Output = End> + use<> {
        let mut end = self.end.clone();
        async move { ended_with(&mut end).await }
    }

    /// A number that no other session of this process has.
    pub(crate) const fn id(&self) -> u64 {
        self.id
    }

    /// Records that a message of the agent arrived.
    pub(crate) fn arrived(&self) {
        let mut arrived = self
            .signals
            .arrived
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *arrived = Instant::now();
    }

    /// Publishes the figures of the session after this turn.
    pub(crate) fn show(&self, figures: Figures) {
        let mut shown = self
            .signals
            .figures
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *shown = Some((Instant::now(), figures));
    }

    /// Whether another agent contested this slot since the last call.
    pub(crate) fn take_contested(&self) -> bool {
        self.signals.is_contested.swap(false, Ordering::Relaxed)
    }

    /// Sets the reason of the end, for the report.
    pub(crate) fn set_end_reason(&mut self, end_reason: impl Into<String>) {
        self.end_reason = Some(end_reason.into());
    }

    /// Records the deletion that the brake blocks on this cluster now.
    pub(crate) fn report_blocked_deletion(&self, blocked_deletion: Option<BlockedDeletion>) {
        self.registry.report(&self.cluster, |report, _now| {
            if let Some(blocked_deletion) = blocked_deletion
                .as_ref()
                .filter(|blocked_deletion| report.blocked_deletion.as_ref() != Some(blocked_deletion))
            {
                let (cluster, count, digest) = (&self.cluster, blocked_deletion.count, &blocked_deletion.digest);
                tracing::warn!(%cluster, count, digest, "mass deletion blocked; confirmation required");
            }
            report.blocked_deletion = blocked_deletion;
        });
    }

    /// Records the objects of the cluster that the hub does not show.
    pub(crate) fn report_unmirrored(&self, unmirrored: Option<Unmirrored>) {
        self.registry.report(&self.cluster, |report, _now| {
            report.unmirrored = unmirrored;
        });
    }

    /// Records the write for this cluster that keeps failing.
    pub(crate) fn report_stuck(&self, stuck: Option<Stuck>) {
        self.registry.report(&self.cluster, |report, _now| {
            report.stuck = stuck;
        });
    }

    /// Records how the agent violates the protocol.
    pub(crate) fn report_misconduct(&self, misconduct: Option<String>) {
        if let Some(misconduct) = &misconduct {
            tracing::warn!(cluster = %self.cluster, misconduct, "an agent violates the protocol");
        }
        self.registry.report(&self.cluster, |report, _now| {
            report.misconduct = misconduct;
        });
    }

    /// Records that the cluster has not used too much memory lately.
    pub(crate) fn clear_shed(&self) {
        self.registry
            .report(&self.cluster, |report, _now| report.shed = None);
    }

    /// Records the objects that the cluster refuses.
    pub(crate) fn report_refused(&self, refused: Option<Refused>) {
        self.registry.report(&self.cluster, |report, _now| {
            report.refused = refused;
        });
    }

    /// Records the facts that the agent states about its cluster and itself.
    pub(crate) fn report_spoke(&self, stated: SpokeFacts) {
        let SpokeFacts {
            argocd,
            runs,
            kinds_installed,
            health_problem,
            trusts,
        } = stated;
        let trusts = trusts.filter(is_plausible);
        self.registry.report(&self.cluster, |report, _now| {
            report.argocd = argocd;
            report.argocd_runs = runs;
            report.argocd_kinds_installed = kinds_installed;
            report.argocd_ails = health_problem;
            report.trusts = trusts;
        });
    }

    /// Records the counts of Argo CD on the cluster. A claim.
    pub(crate) fn report_census(&self, census: Census) {
        let mut counted = self.registry.counted();
        counted.insert(self.cluster.clone(), census);
    }

    pub(super) fn report_connected(&self, mode: Mode, peer_credentials: &Credentials) {
        let shown = peer_credentials
            .certificate
            .as_ref()
            .map(|it| ShownCertificate {
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

async fn ended_with(end: &mut watch::Receiver<Option<End>>) -> End {
    match end.wait_for(Option::is_some).await {
        Ok(end) => (*end).unwrap_or(End::Stopping),
        // The registry owns the sender: closed without a reason means that another session took the slot.
        Err(_closed) => End::Superseded,
    }
}

/// The facts that an agent states about its cluster and itself. All of them are claims.
#[derive(Debug)]
pub(crate) struct SpokeFacts {
    /// Whether the cluster has Argo CD's kinds.
    pub(crate) argocd: Option<ArgoCd>,
    /// The parts of an Argo CD that run there.
    pub(crate) runs: Option<Runs>,
    /// Whether the add-on installed the definitions of its kinds.
    pub(crate) kinds_installed: bool,
    /// The problem of an installed Argo CD; in short printable lines.
    pub(crate) health_problem: Option<HealthProblem>,
    /// The fingerprints of the CAs that it trusts.
    pub(crate) trusts: Option<BTreeSet<String>>,
}

/// More fingerprints than a few are an attempt to fill our memory.
fn is_plausible(trusts: &BTreeSet<String>) -> bool {
    trusts.len() <= 32 && trusts.iter().all(|it| it.len() == 64)
}

impl Drop for SessionSlot {
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
            // A cluster that is not enrolled has no report.
            self.registry
                .keep_reports(|cluster| cluster != self.cluster.as_str());
        } else if mine {
            let end_reason = self.end_reason.take();
            self.registry.report(&self.cluster, |report, now| {
                report.connected = false;
                report.stuck = None;
                report.since = now;
                report.last_seen = Some(now);
                report.last_error =
                    end_reason.or_else(|| Some("the session was abandoned".to_owned()));
            });
        }
        self.gone.cancel();
    }
}
