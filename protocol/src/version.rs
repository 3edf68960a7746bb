//! Versions, and the capabilities that two ends may use beyond the Go protocol.

use std::collections::BTreeSet;

/// The version we present between our own ends.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

const PREFIX: &str = "argocd-agent-";

/// Longest version string that we accept from a peer, so that it cannot flood a log or a status.
const LONGEST: usize = 128;

/// `0.5.0` in the form that `Version` reports.
pub fn qualified(bare: &str) -> String {
    format!("{PREFIX}{bare}")
}

/// The version from `Version` in the form that `AuthRequest.version` has.
pub fn bare(qualified: &str) -> &str {
    qualified.strip_prefix(PREFIX).unwrap_or(qualified)
}

/// Whether a version from a peer is printable and not too long.
pub fn is_presentable(version: &str) -> bool {
    !version.is_empty() && version.len() <= LONGEST && version.chars().all(|c| c.is_ascii_graphic())
}

/// Whether argocd-agent of this version knows the event `set-operation`, new in 0.9. Builds without a release do.
pub(crate) fn knows_operations(version: &str) -> bool {
    let mut numbers = version.trim_start_matches('v').split('.');
    let minor = numbers.next().filter(|major| *major == "0");
    let minor = minor.and_then(|_| numbers.next()?.parse::<u32>().ok());
    minor.is_none_or(|minor| minor >= 9)
}

/// The version in the answer to an agent: a Go agent gets its own version back, our agent gets ours.
pub fn answer_to<'a>(theirs: &'a str, capabilities: &Capabilities) -> &'a str {
    if capabilities.is_ours() {
        VERSION
    } else {
        theirs
    }
}

/// A capability beyond the Go protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Capability {
    /// `request-update` carries a digest of the whole agreed value.
    DigestResync,
    /// A command's identity is its event id, and status reports name the last command that was carried out.
    CommandIdentity,
    /// The agent sends heartbeats, so silence means a lost connection.
    Heartbeat,
    /// An acknowledgement says when the event was refused and why.
    RefusalInAck,
    /// The agent accepts TLS certificates and SSH known hosts, and merges them.
    HostKeys,
    /// The agent may open a tunnel for interactive traffic.
    Tunnel,
    /// A receiver acknowledges a state or status before it applies it, and reports a later refusal separately.
    AckOnReceipt,
    /// The two ends compare checksums over ranges of objects, on connect and at intervals, and list only differences.
    RangeSums,
}

impl Capability {
    /// Each one with the level that introduced it, and its name in `capabilities`. A release that adds capabilities raises
    /// the level, and drops none for two more.
    const ALL: [(Self, u8, &str); 8] = [
        (Self::DigestResync, 1, "digest-resync"),
        (Self::CommandIdentity, 1, "command-identity"),
        (Self::Heartbeat, 1, "heartbeat"),
        (Self::RefusalInAck, 1, "refusal-in-ack"),
        (Self::HostKeys, 2, "host-keys"),
        (Self::Tunnel, 3, "lane"),
        (Self::AckOnReceipt, 3, "ack-on-receipt"),
        (Self::RangeSums, 3, "range-sums"),
    ];
}

/// The capabilities of one end, or of both. Empty for a Go peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(BTreeSet<Capability>);

impl Capabilities {
    /// All capabilities of this build.
    pub fn ours() -> Self {
        Self::of_level(u8::MAX)
    }

    /// The capabilities up to this level; a lower one than ours is for tests of mixed versions.
    pub fn of_level(level: u8) -> Self {
        let known = Capability::ALL.iter().filter(|it| it.1 <= level);
        Self(known.map(|it| it.0).collect())
    }

    /// Reads a peer's list and skips unknown names.
    pub fn read<S: AsRef<str>>(words: impl IntoIterator<Item = S>) -> Self {
        // the set of known capabilities bounds the result, even if the list has endless duplicates
        let known = |word: S| Capability::ALL.iter().find(|it| it.2 == word.as_ref());
        Self(words.into_iter().filter_map(known).map(|it| it.0).collect())
    }

    /// The list on the wire.
    pub fn to_words(&self) -> Vec<String> {
        let ours = Capability::ALL.iter().filter(|it| self.has(it.0));
        ours.map(|it| it.2.to_owned()).collect()
    }

    /// The capabilities that both ends have.
    #[must_use]
    pub fn negotiate(&self, theirs: &Self) -> Self {
        Self(self.0.intersection(&theirs.0).copied().collect())
    }

    /// Whether the capability is in the set.
    pub fn has(&self, capability: Capability) -> bool {
        self.0.contains(&capability)
    }

    /// Whether the peer is one of our own ends; a Go peer lists nothing.
    pub fn is_ours(&self) -> bool {
        !self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_known_since_0_9() {
        for before in ["0.8.1", "v0.7.7", "0.8.0-rc1"] {
            assert!(!knows_operations(before), "{before}");
        }
        for since in [
            "0.9.0",
            "v0.9.0-rc1",
            "0.10.0",
            "1.0.0",
            "99.9.9-unreleased",
            "dev",
            "",
            "0",
        ] {
            assert!(knows_operations(since), "{since}");
        }
    }
}
