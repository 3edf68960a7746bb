//! What an agent does that no agent should: a person has to know, and not only a metric.
//!
//! Update once for each kind of it, however often it happens, and forgotten after a while of good conduct, so that
//! neither a storm nor a reconnect each minute becomes a storm of writes.

use std::{collections::BTreeMap, time::Duration};

use crate::report::Update;

/// An event that is not acknowledged for so long: it was said four times by then.
const DEAF: Duration = Duration::from_mins(2);
/// After so long without another one it is forgotten.
const FORGOTTEN: Duration = Duration::from_mins(10);

/// What is not for an agent to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Violation {
    /// What it says cannot be read.
    Malformed,
    /// It says what it may not say.
    NotAllowed,
    /// It does not acknowledge.
    Deaf,
    /// There are two of it.
    Contested,
}

impl Violation {
    /// By the word that metrics have for a refusal.
    pub(super) fn of(reason: &str) -> Option<Self> {
        match reason {
            "malformed" => Some(Self::Malformed),
            "not_allowed" => Some(Self::NotAllowed),
            _ => None,
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Malformed => "it sends invalid messages",
            Self::NotAllowed => "it sends messages that its mode does not allow",
            Self::Deaf => "it has not acknowledged messages for two minutes",
            Self::Contested => "two agents with the same identity take the session from each other",
        }
    }
}

/// How one agent has behaved.
#[derive(Debug)]
pub(super) struct PeerViolations {
    offences: BTreeMap<Violation, Duration>,
    /// What was told last in this session.
    reply: Update<String>,
}

impl Default for PeerViolations {
    fn default() -> Self {
        Self {
            offences: BTreeMap::new(),
            reply: Update::Same,
        }
    }
}

impl PeerViolations {
    /// It has done this.
    pub(super) fn offended(&mut self, peer_violation: Violation, now: Duration) {
        self.offences.insert(peer_violation, now);
    }

    /// What is to be told now, if that is another thing than before. `unheard`: for how long the oldest event about a
    /// state is not acknowledged.
    pub(super) fn updates(&mut self, unheard: Duration, now: Duration) -> Update<String> {
        if unheard >= DEAF {
            self.offended(Violation::Deaf, now);
        }
        self.offences
            .retain(|_, last| now.saturating_sub(*last) < FORGOTTEN);
        let words: Vec<&str> = self.offences.keys().map(|it| it.words()).collect();
        let stated = Update::Now((!words.is_empty()).then(|| words.join("; ")));
        // What it did in the session before is not forgotten at once.
        let is_too_soon =
            stated == Update::Now(None) && self.reply == Update::Same && now < FORGOTTEN;
        if is_too_soon || self.reply == stated {
            return Update::Same;
        }
        self.reply = stated.clone();
        stated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn message_of(updates: Update<String>) -> String {
        match updates {
            Update::Same => "the same".to_owned(),
            Update::Now(stated) => stated.unwrap_or_else(|| "nothing".to_owned()),
        }
    }

    #[test]
    fn a_storm_is_told_once_and_forgotten_after_good_conduct() {
        let mut peer_violations = PeerViolations::default();
        assert_eq!(
            peer_violations.updates(Duration::ZERO, SECOND),
            Update::Same
        );
        let mut times = 0;
        for _ in 0..1000 {
            peer_violations.offended(Violation::Malformed, 2 * SECOND);
            times +=
                usize::from(peer_violations.updates(Duration::ZERO, 2 * SECOND) != Update::Same);
        }
        assert_eq!(times, 1);
        peer_violations.offended(Violation::NotAllowed, 3 * SECOND);
        assert!(message_of(peer_violations.updates(Duration::ZERO, 3 * SECOND)).contains("; "));
        let later = FORGOTTEN + 4 * SECOND;
        assert_eq!(
            peer_violations.updates(Duration::ZERO, later),
            Update::Now(None)
        );
    }

    #[test]
    fn whoever_never_acknowledges_is_told_of() {
        let mut peer_violations = PeerViolations::default();
        assert_eq!(peer_violations.updates(DEAF / 2, DEAF), Update::Same);
        assert!(message_of(peer_violations.updates(DEAF, DEAF + SECOND)).contains("acknowledged"));
    }

    #[test]
    fn a_new_session_does_not_wipe_what_the_one_before_did_at_once() {
        let mut peer_violations = PeerViolations::default();
        assert_eq!(
            peer_violations.updates(Duration::ZERO, FORGOTTEN / 2),
            Update::Same
        );
        assert_eq!(
            peer_violations.updates(Duration::ZERO, FORGOTTEN),
            Update::Now(None)
        );
    }
}
