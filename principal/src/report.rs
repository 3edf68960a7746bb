//! What the rest of the program may know about sessions.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use protocol::payload::{ArgoCd, HealthProblem, Runs};
use runtime::credentials::KeyId;
use tokio::sync::watch;

use crate::fleet::Mode;

/// The session of one cluster, as the conditions of its add-on tell it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionReport {
    /// Whether a session is open now.
    pub connected: bool,
    /// When it became what it is now.
    pub since: Timestamp,
    /// When the agent was last there; now, while it is connected.
    pub last_seen: Option<Timestamp>,
    /// Why the last session ended or the last attempt was refused. One line, without secrets.
    pub last_error: Option<String>,
    /// The version that the agent gave at its last authentication. A claim.
    pub agent_version: Option<String>,
    /// The mode of its enrolment when it last authenticated.
    pub mode: Option<Mode>,
    /// What is not taken away from the cluster before a person has confirmed it.
    pub blocked_deletion: Option<BlockedDeletion>,
    /// What cannot be written to the hub for some time.
    pub stuck: Option<Stuck>,
    /// What its agent does that no agent should.
    pub misconduct: Option<String>,
    /// What the cluster cannot take or do.
    pub refused: Option<Refused>,
    /// Whether the cluster has an Argo CD, where its agent says so. A claim.
    pub argocd: Option<ArgoCd>,
    /// What of an Argo CD runs in its namespace there, where its agent says so. A claim.
    pub argocd_runs: Option<Runs>,
    /// Whether the definitions of Argo CD's kinds there are those that the add-on has brought. A claim.
    pub argocd_kinds_installed: bool,
    /// What is wrong there with an Argo CD that the add-on has brought. A claim, in short printable lines.
    pub argocd_ails: Option<HealthProblem>,
    /// What of an autonomous cluster is not shown on the hub.
    pub unmirrored: Option<Unmirrored>,
    /// The certificate of the last session.
    pub certificate: Option<ShownCertificate>,
    /// The fingerprints of the CAs that the agent trusts, where it says so. A claim.
    pub trusts: Option<BTreeSet<String>>,
}

/// Objects of an autonomous cluster that the hub does not show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmirrored {
    /// How many there are.
    pub count: usize,
    /// The first of them: kind, name and why. Names are claims.
    pub names: Vec<String>,
}

/// What is worth knowing of a certificate that an agent has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownCertificate {
    /// Begin of its life.
    pub not_before: Timestamp,
    /// End of its life.
    pub not_after: Timestamp,
    /// The key that signed it, as far as it says.
    pub authority: Option<KeyId>,
}

/// Objects that a cluster holds and the hub does not know, too many to take them away unasked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedDeletion {
    /// The first of them, as the cluster calls them: kind, namespace and name. A claim.
    pub names: Vec<String>,
    /// How many there are.
    pub count: usize,
    /// Whether they are mirrors on the hub that the cluster does not have any more, and not copies on the cluster.
    pub mirrors: bool,
    /// Names exactly this list; confirmed with [`Enrolment::confirm_delete`](crate::Enrolment).
    pub digest: String,
}

/// Whether there is another thing to tell than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Update<T> {
    /// What was told last is so.
    Same,
    /// This is so now, or nothing is.
    Now(Option<T>),
}

/// Objects that a cluster refuses, or of which it reports a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// How many there are.
    pub count: usize,
    /// The first of them.
    pub names: Vec<String>,
}

/// Applications whose reports cannot be written to the hub for some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// How many there are.
    pub count: usize,
    /// One of them, and why.
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
    /// Time since the last comparison in which both ends agreed.
    pub(crate) agreed: Option<Duration>,
    /// Time since the last event of the agent.
    pub(crate) arrived: Duration,
}

impl Figures {
    /// The same session after `passed` without any event.
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

/// All reports, by the cluster's name. A cluster that never came has none; one that left the fleet loses its own.
pub type Sessions = Arc<BTreeMap<String, SessionReport>>;

/// Receives the reports as they change; only the newest is kept.
pub type SessionsReceiver = watch::Receiver<Sessions>;
