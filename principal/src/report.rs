//! Reports on sessions for the rest of the program.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use protocol::payload::{ArgoCd, HealthProblem, Runs};
use runtime::credentials::KeyId;
use tokio::sync::watch;

use crate::fleet::Mode;

/// For how long the end of a session because memory was short is reported.
const SHED_SHOWN: SignedDuration = SignedDuration::from_mins(10);

/// The session of one cluster, as input of the conditions of its add-on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionReport {
    /// Whether a session is open now.
    pub connected: bool,
    /// The time of the last change of `connected`.
    pub since: Timestamp,
    /// When the agent was last connected; now, while it is connected.
    pub last_seen: Option<Timestamp>,
    /// Why the last session ended or the last attempt was rejected. One line, without secrets.
    pub last_error: Option<String>,
    /// The version that the agent gave at its last authentication. A claim.
    pub agent_version: Option<String>,
    /// The mode of its enrolment when it last authenticated.
    pub mode: Option<Mode>,
    /// The deletion on the cluster that waits for a user's confirmation.
    pub blocked_deletion: Option<BlockedDeletion>,
    /// The writes to the hub that keep failing.
    pub stuck: Option<Stuck>,
    /// How its agent violates the protocol.
    pub misconduct: Option<String>,
    /// Its session ended in the last ten minutes, because it used the most memory while the program was near its limit.
    pub shed: Option<Shed>,
    /// The objects that the cluster refuses or failed to apply.
    pub refused: Option<Refused>,
    /// Whether the cluster has an Argo CD, if its agent reports it. A claim.
    pub argocd: Option<ArgoCd>,
    /// The parts of an Argo CD that run in its namespace there, if its agent reports them. A claim.
    pub argocd_runs: Option<Runs>,
    /// Whether the add-on installed the definitions of Argo CD's kinds there. A claim.
    pub argocd_kinds_installed: bool,
    /// The problem of an Argo CD that the add-on installed there. A claim, in short printable lines.
    pub argocd_ails: Option<HealthProblem>,
    /// The objects of an autonomous cluster that the hub does not show.
    pub unmirrored: Option<Unmirrored>,
    /// The certificate of the last session.
    pub certificate: Option<ShownCertificate>,
    /// The fingerprints of the CAs that the agent trusts, if it reports them. A claim.
    pub trusts: Option<BTreeSet<String>>,
}

/// The sessions and reports of one cluster since this process started, or since its enrolment if that is later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Sessions that began.
    pub sessions: u64,
    /// Reports about objects that were applied to the hub, or changed nothing there.
    pub reports: u64,
}

/// A session ended, because it used the most memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shed {
    /// MiB of its messages that waited.
    pub mib: usize,
    /// When.
    pub at: Timestamp,
}

impl SessionReport {
    /// Forgets an end because memory was short that is old; a connected cluster calls it.
    pub(crate) fn forget_shed(&mut self, now: Timestamp) {
        let is_old = |it: &Shed| now.duration_since(it.at) >= SHED_SHOWN;
        self.shed.take_if(|it| is_old(it));
    }
}

/// Objects of an autonomous cluster that the hub does not show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmirrored {
    /// Their number.
    pub count: usize,
    /// The first of them: kind, name and reason. Names are claims.
    pub names: Vec<String>,
}

/// The reported fields of an agent's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownCertificate {
    /// Begin of its validity.
    pub not_before: Timestamp,
    /// End of its validity.
    pub not_after: Timestamp,
    /// The key that signed it, as far as the certificate names it.
    pub authority: Option<KeyId>,
}

/// Objects on a cluster that the hub does not know, too many to delete them without a confirmation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedDeletion {
    /// The first of them, by their names on the cluster: kind, namespace and name. A claim.
    pub names: Vec<String>,
    /// Their number.
    pub count: usize,
    /// Whether they are mirrors on the hub that the cluster does not have any more, instead of copies on the cluster.
    pub mirrors: bool,
    /// Identifies exactly this list; confirmed with [`Enrolment::confirm_delete`](crate::Enrolment).
    pub digest: String,
}

/// A value to report, if it has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Update<T> {
    /// Unchanged since the last report.
    #[default]
    Same,
    /// The new value; none clears it.
    Now(Option<T>),
}

/// Objects that a cluster refuses, or failed to apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Their number.
    pub count: usize,
    /// The first of them.
    pub names: Vec<String>,
}

/// Applications whose reports cannot be written to the hub for some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// Their number.
    pub count: usize,
    /// One of them, with the error.
    pub example: String,
}

/// The gauges of one session, as of its last turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Objects with events to send.
    pub(crate) outbox_objects: usize,
    /// Events sent and not acknowledged.
    pub(crate) in_flight: usize,
    /// Age of the oldest unacknowledged event; commands and deletions may take longer and do not count.
    pub(crate) unacknowledged: Duration,
    /// Received objects that are not handled yet.
    pub(crate) inbox_objects: usize,
    /// Their bytes.
    pub(crate) inbox_bytes: usize,
    /// Time since the last comparison in which both ends agreed.
    pub(crate) agreed: Option<Duration>,
    /// Time since the last event of the agent.
    pub(crate) arrived: Duration,
}

impl Figures {
    /// The figures of the same session after `passed` without any event.
    pub(crate) fn after(self, passed: Duration) -> Self {
        let waits = !self.unacknowledged.is_zero();
        let unacknowledged = self.unacknowledged;
        Self {
            unacknowledged: if waits {
                unacknowledged + passed
            } else {
                unacknowledged
            },
            agreed: self.agreed.map(|ago| ago + passed),
            arrived: self.arrived + passed,
            ..self
        }
    }
}

/// A value per cluster, by its name.
pub(crate) type ByCluster<T> = BTreeMap<String, T>;

/// All reports, by the cluster's name. A cluster that never connected has none; one that left the fleet loses its own.
///
/// Unchanged reports are shared: a new one costs no copy of the others.
pub type Sessions = Arc<BTreeMap<String, Arc<SessionReport>>>;

/// Receives the reports as they change; only the newest is kept.
pub type SessionsReceiver = watch::Receiver<Sessions>;
