//! The right to drive the session of a cluster, and what is reported by whoever has it.

use std::{
    collections::BTreeSet,
    sync::{Arc, PoisonError, atomic::Ordering},
};

use live::cluster_info::Census;
use protocol::payload::{ArgoCd, HealthProblem, Runs};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{End, Registry, Signs};
use crate::{
    admission::admit::Credentials,
    fleet::{ClusterName, Mode},
    report::Figures,
    report::{BlockedDeletion, Refused, ShownCertificate, Stuck, Unmirrored},
};

/// The right to drive the session of a cluster; dropped, the seat is free.
#[derive(Debug)]
#[must_use = "dropped, the session counts as ended"]
pub(crate) struct SessionSlot {
    pub(super) registry: Registry,
    pub(super) cluster: ClusterName,
    pub(super) id: u64,
    pub(super) end: watch::Receiver<Option<End>>,
    pub(super) gone: CancellationToken,
    pub(super) signs: Arc<Signs>,
    pub(super) why: Option<String>,
}

impl SessionSlot {
    /// Resolves when the hub wants this session to end. Cancel-safe.
    pub(crate) async fn ended(&mut self) -> End {
        ended_with(&mut self.end).await
    }

    /// The same for whoever has the rest of the session in hand meanwhile.
    pub(crate) fn end(&self) -> impl Future<Output = End> + use<> {
        let mut end = self.end.clone();
        async move { ended_with(&mut end).await }
    }

    /// A number that no other session of this process has.
    pub(crate) const fn id(&self) -> u64 {
        self.id
    }

    /// The agent was heard.
    pub(crate) fn arrived(&self) {
        let mut arrived = self
            .signs
            .arrived
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *arrived = Instant::now();
    }

    /// How the session stands after this turn, for whoever looks.
    pub(crate) fn show(&self, figures: Figures) {
        let mut shown = self
            .signs
            .figures
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *shown = Some((Instant::now(), figures));
    }

    /// Whether somebody has fought for this seat since this was asked last.
    pub(crate) fn take_contested(&self) -> bool {
        self.signs.is_contested.swap(false, Ordering::Relaxed)
    }

    /// Says why the session ends, for the report.
    pub(crate) fn ends_because(&mut self, why: impl Into<String>) {
        self.why = Some(why.into());
    }

    /// Records what is held back on this cluster now.
    pub(crate) fn report_held(&self, blocked_deletion: Option<BlockedDeletion>) {
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
            tracing::warn!(cluster = %self.cluster, misconduct, "an agent violates the protocol");
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
    pub(crate) fn report_spoke(&self, stated: SpokeFacts) {
        let SpokeFacts {
            argocd,
            runs,
            kinds_brought,
            ails,
            trusts,
        } = stated;
        let trusts = trusts.filter(is_modest);
        self.registry.report(&self.cluster, |report, _now| {
            report.argocd = argocd;
            report.argocd_runs = runs;
            report.argocd_kinds_brought = kinds_brought;
            report.argocd_ails = ails;
            report.trusts = trusts;
        });
    }

    /// Notes what Argo CD has counted on the cluster. A claim.
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
        // The sender lives in the seat's entry: gone without a word means that another took it.
        Err(_closed) => End::Superseded,
    }
}

/// What an agent says of its cluster and of itself. All of it claims.
#[derive(Debug)]
pub(crate) struct SpokeFacts {
    /// Whether the cluster has Argo CD's kinds.
    pub(crate) argocd: Option<ArgoCd>,
    /// What of an Argo CD runs there.
    pub(crate) runs: Option<Runs>,
    /// Whether the definitions of its kinds were brought.
    pub(crate) kinds_brought: bool,
    /// What is wrong with one that was brought; in short printable lines.
    pub(crate) ails: Option<HealthProblem>,
    /// The fingerprints of the CAs that it trusts.
    pub(crate) trusts: Option<BTreeSet<String>>,
}

/// More than a few fingerprints are not a trust but a way to fill our memory.
fn is_modest(trusts: &BTreeSet<String>) -> bool {
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
