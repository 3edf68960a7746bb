//! How one CA takes over from another without anybody being cut off: pure.
//!
//! ```text
//!             asked, or it grows old      all agents trust both       all agents show a new leaf
//!   Settled ───────────────────────► Introduced ───────────────► Retiring ───────────────► Settled
//!   A signs, A is trusted            A signs, A and B            B signs, A and B          B signs, B
//!                                    are trusted                 are trusted               is trusted
//! ```
//!
//! Everything that a step needs is in the CA's Secret, and each step is one write of it; so a manager
//! that dies in the middle goes on where it was. What agents trust and show they have said to the
//! principal in their sessions.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use runtime::credentials::KeyId;

use super::facts::Holding;

/// What counts of an agent while a CA takes over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agent {
    /// The hub has lost the whole cluster. What it needs comes with its klusterlet when it is back, so
    /// it is not waited for.
    pub lost: bool,
    /// The fingerprints of the CAs that it trusts, where it has said so.
    pub trusts: Option<BTreeSet<String>>,
    /// The key that signed the certificate it showed last.
    pub authority: Option<KeyId>,
}

/// The agents that may come in, by cluster.
pub type Agents = BTreeMap<String, Agent>;

/// Where a takeover stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// One CA signs, and nothing else is to come.
    Settled,
    /// Everybody learns to trust the next one.
    Introduced,
    /// The next one signs; everybody gets certificates from it.
    Retiring,
}

impl Stage {
    /// A word for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Settled => "settled",
            Self::Introduced => "introduced",
            Self::Retiring => "retiring",
        }
    }
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Nothing; somebody may be waited for.
    Stay,
    /// Make the next CA and have it trusted.
    Introduce,
    /// Let the next CA sign.
    Switch,
    /// Drop the old CA.
    Retire,
}

/// What to do, and who is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What to do.
    pub step: Move,
    /// Who is waited for before the next step, by name.
    pub waits_for: BTreeSet<String>,
    /// What a person has to see to.
    pub complaint: Option<&'static str>,
}

/// A CA that we made is replaced when this part of its life is left.
const LAST_PART: i32 = 5;

/// A rotation that was asked for and cannot be.
const NOT_OURS: &str = "a rotation is requested, but this add-on did not create the CA: replace it with your new \
CA, and keep both in ca.crt until every agent has a new certificate";

/// What to do about the CA. `agents` is none while it is not known who there is; `serving` are the
/// Secrets of ours with a certificate of another CA.
pub fn decide(
    stored: &Holding,
    agents: Option<&Agents>,
    serving: &[&'static str],
    now: Timestamp,
) -> Decision {
    let stay = Decision {
        step: Move::Stay,
        waits_for: BTreeSet::new(),
        complaint: None,
    };
    match stored.stage() {
        Stage::Settled if stored.is_asked() && !stored.ours => Decision {
            complaint: Some(NOT_OURS),
            ..stay
        },
        Stage::Settled if stored.is_asked() || (stored.ours && is_old(stored, now)) => Decision {
            step: Move::Introduce,
            ..stay
        },
        Stage::Settled => stay,
        Stage::Introduced => {
            let next = stored
                .next
                .as_ref()
                .map(|next| next.fingerprint().to_owned());
            let knows = |agent: &Agent| {
                let trusts = agent.trusts.as_ref().zip(next.as_ref());
                trusts.is_some_and(|(trusts, next)| trusts.contains(next))
            };
            waiting(agents, &[], knows, Move::Switch)
        }
        Stage::Retiring => {
            let ours = stored.ca.key_id();
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
    Decision {
        step: if waits_for.is_empty() && agents.is_some() {
            then
        } else {
            Move::Stay
        },
        waits_for,
        complaint: None,
    }
}

fn is_old(stored: &Holding, now: Timestamp) -> bool {
    let (begin, end) = (stored.ca.not_before(), stored.ca.not_after());
    let life = end.duration_since(begin);
    is_in_last_part(life, end.duration_since(now), LAST_PART)
}

/// Whether less than one in `parts` of a life is left.
pub(super) fn is_in_last_part(life: SignedDuration, left: SignedDuration, parts: i32) -> bool {
    left.checked_mul(parts).is_some_and(|all| all < life)
}

/// How the takeover stands, for conditions and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The stage.
    pub stage: Stage,
    /// Since when.
    pub since: Timestamp,
    /// Who is waited for.
    pub waits_for: BTreeSet<String>,
}

#[cfg(test)]
mod tests;
