//! Versions and capabilities: what two ends may use beyond the Go protocol.

use std::collections::BTreeSet;

/// The version we present between our own ends.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

const PREFIX: &str = "argocd-agent-";

/// Longest version string we accept from a peer, so that it cannot fill a log or a status.
const LONGEST: usize = 128;

/// `0.5.0` as `Version` reports it.
pub fn qualified(bare: &str) -> String {
    format!("{PREFIX}{bare}")
}

/// What `Version` reported as it goes into `AuthRequest.version`.
pub fn bare(qualified: &str) -> &str {
    qualified.strip_prefix(PREFIX).unwrap_or(qualified)
}

/// Whether a version from a peer can be used at all: printable, and not absurdly long.
pub fn is_presentable(version: &str) -> bool {
    !version.is_empty() && version.len() <= LONGEST && version.chars().all(|c| c.is_ascii_graphic())
}

/// The version to answer an agent with: a Go agent gets its own back, ours gets ours.
pub fn answer_to<'a>(theirs: &'a str, capabilities: &Capabilities) -> &'a str {
    if capabilities.is_ours() {
        VERSION
    } else {
        theirs
    }
}

/// Something an end can do beyond the Go protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Capability {
    /// `request-update` carries a digest of the whole agreed value.
    DigestResync,
    /// A command's identity is its event id, and status reports name the last one taken.
    CommandIdentity,
    /// The agent sends heartbeats, so silence means that it is gone.
    Heartbeat,
    /// An acknowledgement says when the event was refused and why.
    RefusalInAck,
    /// The agent takes TLS certificates and SSH known hosts, and merges them.
    HostKeys,
    /// The agent may open a lane for interactive traffic.
    Lane,
    /// A state or status is acknowledged when it is received; should it be refused later, that is said then.
    AckOnReceipt,
    /// The two ends compare sums over ranges of objects, on connect and now and then, and name only what differs.
    RangeSums,
}

impl Capability {
    const ALL: [Self; 8] = [
        Self::DigestResync,
        Self::CommandIdentity,
        Self::Heartbeat,
        Self::RefusalInAck,
        Self::HostKeys,
        Self::Lane,
        Self::AckOnReceipt,
        Self::RangeSums,
    ];

    /// Since when there is this one. A release raises the level when it adds some, and drops none for two more.
    const fn level(self) -> u8 {
        match self {
            Self::DigestResync | Self::CommandIdentity | Self::Heartbeat | Self::RefusalInAck => 1,
            Self::HostKeys => 2,
            Self::Lane | Self::AckOnReceipt | Self::RangeSums => 3,
        }
    }

    /// The word in `capabilities`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DigestResync => "digest-resync",
            Self::CommandIdentity => "command-identity",
            Self::Heartbeat => "heartbeat",
            Self::RefusalInAck => "refusal-in-ack",
            Self::HostKeys => "host-keys",
            Self::Lane => "lane",
            Self::AckOnReceipt => "ack-on-receipt",
            Self::RangeSums => "range-sums",
        }
    }
}

/// What one end, or both, can do. Empty for a Go peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(BTreeSet<Capability>);

impl Capabilities {
    /// Everything this build can do.
    pub fn ours() -> Self {
        Self(Capability::ALL.into_iter().collect())
    }

    /// What a build of this level could do, of all that there have been; for tests of old and new together.
    pub fn of_level(level: u8) -> Self {
        let all = Capability::ALL.into_iter();
        Self(all.filter(|it| it.level() <= level).collect())
    }

    /// Reads a peer's list; words that we do not know are skipped.
    pub fn read<S: AsRef<str>>(words: impl IntoIterator<Item = S>) -> Self {
        // a peer may repeat itself for ever; what we keep is bounded by what we know
        Self(
            words
                .into_iter()
                .filter_map(|word| {
                    Capability::ALL
                        .into_iter()
                        .find(|c| c.as_str() == word.as_ref())
                })
                .collect(),
        )
    }

    /// The list as it goes on the wire.
    pub fn to_words(&self) -> Vec<String> {
        self.0
            .iter()
            .map(|capability| capability.as_str().to_owned())
            .collect()
    }

    /// What both ends can do.
    #[must_use]
    pub fn negotiate(&self, theirs: &Self) -> Self {
        Self(self.0.intersection(&theirs.0).copied().collect())
    }

    /// Whether this one may be used.
    pub fn has(&self, capability: Capability) -> bool {
        self.0.contains(&capability)
    }

    /// Whether the peer is one of our own ends; a Go peer lists nothing.
    pub fn is_ours(&self) -> bool {
        !self.0.is_empty()
    }
}
