//! The attacks, and the result that each must have.

mod bombs;
mod connections;
mod floods;
mod forged;

use std::fmt;

use anyhow::Result;
use futures::future::BoxFuture;
use protocol::Mode;
use tokio::time::Instant;

use super::attacker::Attacker;
use crate::raw_client::{Answer, Flood};

use Measure::{Forged, LogLines, Memory, Replies, Writes};
use Verdict::{Bounded, Refused};

/// One attack of a cluster on the principal or on other clusters.
pub struct Attack {
    /// Its name, as in docs/security.md.
    pub name: &'static str,
    /// The mode of the attacking cluster.
    pub mode: Mode,
    /// The result that the principal must achieve.
    pub verdict: Verdict,
    /// The Applications of the attacking cluster, if it is managed.
    pub(super) applications: usize,
    run: for<'a> fn(&'a Attacker, Instant) -> BoxFuture<'a, Result<Observed>>,
}

impl fmt::Debug for Attack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attack")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Attack {
    /// Attacks until the attack has done all that it can, or until the time is up.
    pub(super) fn run<'a>(
        &self,
        attacker: &'a Attacker,
        until: Instant,
    ) -> BoxFuture<'a, Result<Observed>> {
        (self.run)(attacker, until)
    }

    /// Whether it is about load; others fail at once, and a benchmark of them shows nothing.
    pub(super) const fn is_load(&self) -> bool {
        !matches!(self.verdict, Refused(_) | Bounded(Forged, _))
    }
}

/// The required result of an attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The principal refuses every message, with this text in the reason.
    Refused(&'static str),
    /// A measured number is at most this.
    Bounded(Measure, u64),
}

/// A number that an attack tries to increase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// The growth of the principal's resident memory, in MiB.
    Memory,
    /// Writes of the principal to the hub's API.
    Writes,
    /// Objects, or parts of them, that the attack placed where they must not be.
    Forged,
    /// Messages of the principal, besides acknowledgements.
    Replies,
    /// Lines in the principal's log.
    LogLines,
}

/// As in docs/security.md.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused(reason) => write!(f, "refused: \"{reason}\""),
            Bounded(Memory, most) => write!(f, "at most {most} MiB more memory"),
            Bounded(Writes, 0) => f.write_str("no write to the hub's API"),
            Bounded(Writes, most) => {
                write!(f, "at most {most} writes to the hub's API")
            }
            Bounded(Forged, most) => write!(f, "{most} forged objects on the hub"),
            Bounded(Replies, most) => write!(f, "at most {most} messages back"),
            Bounded(LogLines, most) => write!(f, "at most {most} lines in the log"),
        }
    }
}

/// What the attacker saw. The judge measures memory and writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Observed {
    /// The answers to its messages.
    Answers(Vec<Answer>),
    /// The number of the measure.
    Count(u64),
    /// How many messages or connections it could make, and how that ended.
    Effort(u64, String),
}

impl From<Flood> for Observed {
    fn from(flood: Flood) -> Self {
        Self::Effort(flood.sent, flood.end.unwrap_or_default())
    }
}

impl Observed {
    /// An effort that the time ended.
    fn effort(count: impl TryInto<u64>) -> Self {
        Self::Effort(count.try_into().unwrap_or(u64::MAX), String::new())
    }
}

macro_rules! attack {
    ($name:literal, $mode:ident, $verdict:expr, $run:path) => {
        attack!($name, $mode, $verdict, $run, 1)
    };
    ($name:literal, $mode:ident, $verdict:expr, $run:path, $applications:expr) => {
        Attack {
            name: $name,
            mode: Mode::$mode,
            verdict: $verdict,
            applications: $applications,
            run: |attacker, until| Box::pin($run(attacker, until)),
        }
    };
}

/// All of them. Each takes at most five seconds in the end-to-end test.
pub const ATTACKS: &[Attack] = &[
    // Forged identities and objects.
    attack!(
        "status of another cluster's Application",
        Managed,
        Refused("no Application of this cluster has this UID"),
        forged::status
    ),
    attack!(
        "status with an invented UID",
        Managed,
        Refused("no Application of this cluster has this UID"),
        forged::invented
    ),
    attack!(
        "error about another cluster's Application",
        Managed,
        Refused("no Application of this cluster has this name"),
        forged::error
    ),
    attack!(
        "deletion of another cluster's Application",
        Managed,
        Bounded(Writes, 0),
        forged::deletion
    ),
    attack!(
        "objects of all kinds sent upstream",
        Managed,
        Refused("is not accepted here"),
        forged::upstream_objects
    ),
    attack!(
        "commands sent upstream",
        Managed,
        Refused("is not accepted here"),
        forged::upstream_commands
    ),
    attack!(
        "live requests to the hub",
        Managed,
        Refused("is not accepted here"),
        forged::live_requests
    ),
    attack!(
        "live responses without a request",
        Managed,
        Bounded(Writes, 0),
        forged::live_responses
    ),
    attack!(
        "token of another cluster",
        Managed,
        Refused("invalid authentication data"),
        forged::stolen_token
    ),
    attack!(
        "mode that is not the recorded one",
        Managed,
        Refused("cluster is not enrolled"),
        forged::other_mode
    ),
    attack!(
        "credentials of a revoked cluster",
        Managed,
        Refused("revoked"),
        forged::revoked
    ),
    attack!(
        "credentials of a cluster that was removed",
        Managed,
        Refused("cluster is not enrolled"),
        forged::removed
    ),
    attack!(
        "mirrors outside the own namespace",
        Autonomous,
        Bounded(Forged, 0),
        forged::mirrors_elsewhere
    ),
    attack!(
        "project with the prefix of another cluster",
        Autonomous,
        Bounded(Forged, 0),
        forged::prefix_of_another
    ),
    attack!(
        "RBAC rules in the roles of a project",
        Autonomous,
        Bounded(Forged, 0),
        forged::rbac_rules
    ),
    // Messages that cause work.
    attack!(
        "resync requests in a loop",
        Autonomous,
        Bounded(Replies, 500),
        floods::resync_requests
    ),
    attack!(
        "inventory with 10,000 unknown kinds",
        Managed,
        Bounded(Memory, 48),
        floods::unknown_kinds
    ),
    attack!(
        "inventory with up to 100,000 names",
        Managed,
        Bounded(Memory, 128),
        floods::many_names
    ),
    attack!(
        "alternating statuses",
        Managed,
        Bounded(Writes, 120),
        floods::statuses
    ),
    attack!(
        "alternating errors",
        Managed,
        Bounded(Writes, 24),
        floods::errors
    ),
    attack!(
        "alternating refusals of a shared project",
        Managed,
        Bounded(LogLines, 200),
        floods::refusals
    ),
    attack!(
        "alternating facts about the spoke",
        Managed,
        Bounded(Writes, 0),
        floods::facts
    ),
    attack!(
        "alternating mirrors",
        Autonomous,
        Bounded(Writes, 120),
        floods::mirrors
    ),
    // Connections.
    attack!(
        "reconnects in a loop",
        Managed,
        Bounded(Memory, 64),
        connections::reconnects
    ),
    attack!(
        "TLS handshakes that never end",
        Managed,
        Bounded(Memory, 64),
        connections::half_open
    ),
    attack!(
        "thousands of streams on one connection",
        Managed,
        Bounded(Memory, 64),
        connections::streams
    ),
    attack!(
        "peer that never reads",
        Managed,
        Bounded(Memory, 64),
        connections::never_reads
    ),
    attack!(
        "HTTP/2 control frames in a loop",
        Managed,
        Bounded(Memory, 64),
        connections::control_frames
    ),
    attack!(
        "HTTP/2 requests that are reset at once",
        Managed,
        Bounded(Memory, 64),
        connections::rapid_reset
    ),
    attack!(
        "bytes that are no frames",
        Managed,
        Bounded(Memory, 32),
        connections::garbage
    ),
    // Small messages that become large. They are last: the allocator keeps some of their memory.
    attack!(
        "JSON without an end",
        Managed,
        Refused("expected value"),
        bombs::endless_json
    ),
    attack!(
        "JSON of a million levels",
        Managed,
        Refused("recursion limit"),
        bombs::deep_json
    ),
    attack!(
        "JSON with many nodes",
        Managed,
        Refused("the object "),
        bombs::wide_json
    ),
    attack!(
        "JSON with many nodes in a loop",
        Managed,
        Bounded(Memory, 160),
        bombs::json_loop
    ),
    attack!(
        "statuses with many nodes of 20 Applications",
        Managed,
        Bounded(Memory, 240),
        bombs::statuses,
        20
    ),
    attack!(
        "medium statuses of 20 Applications in a loop",
        Managed,
        Bounded(Memory, 96),
        bombs::medium_statuses,
        20
    ),
    attack!(
        "mirrors with many nodes",
        Autonomous,
        Bounded(Memory, 192),
        bombs::mirrors
    ),
    attack!(
        "message that decompresses to 210 MB",
        Managed,
        Refused("above the size limit"),
        bombs::gzip
    ),
    attack!(
        "extensions above the limit",
        Managed,
        Refused("is too long"),
        bombs::extensions
    ),
    attack!(
        "extensions that a peer does not read back",
        Managed,
        Bounded(Memory, 96),
        bombs::unread_extensions
    ),
];

/// Attacks with the rights of a cluster's klusterlet at the hub's API: name, and required result. An end-to-end test
/// carries them out against the installed add-on.
pub const BY_KLUSTERLET: &[(&str, Verdict)] = &[
    (CSRS, Bounded(Memory, 32)),
    (LABELS, Bounded(Writes, 8)),
    (CONFIGURATION, Bounded(Writes, 0)),
];

/// Requests that the signer must reject, each with half a megabyte of text.
pub const CSRS: &str = "certificate requests in a loop";
/// A label of the ManagedCluster with another value each time; the writes are those of the cluster Secret.
pub const LABELS: &str = "labels of a ManagedCluster in a loop";
/// A status without the configuration that an administrator chose; the writes are those of `ManifestWorks`.
pub const CONFIGURATION: &str = "configuration removed from the status";
