//! Rotates the CA without disconnecting any agent. Pure.
//!
//! ```text
//!             requested, or A is old      all agents trust both       all agents use a new leaf
//!   Settled ───────────────────────► Introduced ───────────────► Retiring ───────────────► Settled
//!   A signs, A is trusted            A signs, A and B            B signs, A and B          B signs, B
//!                                    are trusted                 are trusted               is trusted
//! ```
//!
//! The CA's Secret contains all state, and each step is one write to it, so a restarted manager continues the rotation.
//! Agents report the CAs that they trust in their sessions, where the principal also sees their certificates.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use runtime::credentials::KeyId;

use super::facts::StoredAuthority;

/// The facts about an agent that a rotation uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agent {
    /// The hub has lost the whole cluster. The rotation does not wait for it: its klusterlet brings it up to date when it
    /// is back.
    pub lost: bool,
    /// The fingerprints of the CAs that it trusts, if it has reported them.
    pub trusts: Option<BTreeSet<String>>,
    /// The key that signed the certificate that it presented last.
    pub authority: Option<KeyId>,
}

/// The agents that may connect, by cluster.
pub type Agents = BTreeMap<String, Agent>;

/// The stage of a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// One CA signs; no rotation is in progress.
    Settled,
    /// Agents learn to trust the next CA.
    Introduced,
    /// The next CA signs; agents get certificates from it.
    Retiring,
}

impl Stage {
    /// The stage of a stored CA.
    pub const fn of(stored: &StoredAuthority) -> Self {
        match (&stored.next, &stored.since) {
            (Some(_), _) => Self::Introduced,
            (None, Some(_)) => Self::Retiring,
            (None, None) => Self::Settled,
        }
    }

    /// The name in logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Settled => "settled",
            Self::Introduced => "introduced",
            Self::Retiring => "retiring",
        }
    }
}

/// The next step of a rotation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Move {
    /// None; the rotation may wait for agents.
    #[default]
    Stay,
    /// Create the next CA and add it to the trusted ones.
    Introduce,
    /// Let the next CA sign.
    Switch,
    /// Remove the old CA.
    Retire,
}

/// The next step, or the agents that block it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The step.
    pub step: Move,
    /// The names of the clusters and Secrets that block the next step.
    pub waits_for: BTreeSet<String>,
    /// A problem that needs a person.
    pub problem: Option<&'static str>,
}

/// We replace a CA that we created when one part in this number of its life is left.
const LAST_PART: i32 = 5;

/// A rotation is requested that we cannot carry out.
const NOT_OURS: &str = "a rotation is requested, but this add-on did not create the CA: replace it with your new \
CA, and keep both in ca.crt until every agent has a new certificate";

/// Decides the next step of the CA. `agents` is none while the fleet is unknown; `serving` are our Secrets with a
/// certificate of another CA.
pub fn decide(
    stored: &StoredAuthority,
    agents: Option<&Agents>,
    serving: &[&'static str],
    now: Timestamp,
) -> Decision {
    let stay = Decision::default();
    match Stage::of(stored) {
        Stage::Settled if stored.is_asked() && !stored.ours => Decision {
            problem: Some(NOT_OURS),
            ..stay
        },
        Stage::Settled if stored.is_asked() || (stored.ours && is_old(stored, now)) => Decision {
            step: Move::Introduce,
            ..stay
        },
        Stage::Settled => stay,
        Stage::Introduced => {
            let next = stored.next.as_ref().map(|next| &next.fingerprint);
            let knows = |agent: &Agent| {
                let trusts = agent.trusts.as_ref().zip(next);
                trusts.is_some_and(|(trusts, next)| trusts.contains(next))
            };
            waiting(agents, &[], knows, Move::Switch)
        }
        Stage::Retiring => {
            let ours = stored.ca.key_id.as_ref();
            let has = |agent: &Agent| ours.is_some() && agent.authority.as_ref() == ours;
            waiting(agents, serving, has, Move::Retire)
        }
    }
}

fn waiting(
    agents: Option<&Agents>,
    others: &[&'static str],
    is_done: impl Fn(&Agent) -> bool,
    then: Move,
) -> Decision {
    let behind = agents.into_iter().flatten();
    let behind = behind.filter(|(_, agent)| !agent.lost && !is_done(agent));
    let waits_for: BTreeSet<String> = behind
        .map(|(name, _)| name.clone())
        .chain(others.iter().map(|name| (*name).to_owned()))
        .collect();
    let is_free = waits_for.is_empty() && agents.is_some();
    Decision {
        step: if is_free { then } else { Move::Stay },
        waits_for,
        problem: None,
    }
}

fn is_old(stored: &StoredAuthority, now: Timestamp) -> bool {
    let (begin, end) = (stored.ca.not_before, stored.ca.not_after);
    let life = end.duration_since(begin);
    is_in_last_part(life, end.duration_since(now), LAST_PART)
}

/// Whether less than one in `parts` of a life is left.
pub(super) fn is_in_last_part(life: SignedDuration, left: SignedDuration, parts: i32) -> bool {
    left.checked_mul(parts).is_some_and(|all| all < life)
}

/// The progress of a rotation, for conditions and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The stage.
    pub stage: Stage,
    /// The start of the stage.
    pub since: Timestamp,
    /// The names of the clusters and Secrets that block the next step.
    pub waits_for: BTreeSet<String>,
}

#[cfg(test)]
mod tests;
