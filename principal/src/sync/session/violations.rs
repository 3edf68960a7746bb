//! Violations of the protocol by an agent: users have to know of them, beyond a metric.
//!
//! Each kind is reported once, however often it happens, and forgotten after a while without it. So neither a storm of
//! violations nor a reconnect each minute becomes a storm of writes.

use std::{collections::BTreeMap, time::Duration};

use crate::report::Update;

/// The age of an unacknowledged event that counts as a violation: it was sent four times by then.
const ACK_TIMEOUT: Duration = Duration::from_mins(2);
/// A violation is forgotten after this time without another one.
const FORGOTTEN: Duration = Duration::from_mins(10);

/// A violation of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Violation {
    /// It sends unreadable messages.
    Malformed,
    /// It sends messages that its mode does not allow.
    NotAllowed,
    /// It names far more objects than the hub delivers.
    TooManyObjects,
    /// It sends more than the principal reads, for more than a minute.
    TooFast,
    /// It does not acknowledge.
    Unacknowledged,
    /// Two agents use its identity.
    Contested,
}

impl Violation {
    /// The violation for a reason of a refusal in the metrics.
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
            Self::TooManyObjects => {
                "it names far more objects than the hub delivers, so none are deleted"
            }
            Self::TooFast => {
                "it sends more than 4 MiB of messages a second, so the principal reads it slower"
            }
            Self::Unacknowledged => "it has not acknowledged messages for two minutes",
            Self::Contested => "two agents with the same identity take the session from each other",
        }
    }
}

/// The recent violations of one agent.
#[derive(Debug, Default)]
pub(super) struct PeerViolations {
    violations: BTreeMap<Violation, Duration>,
    /// The last report of this session.
    last: Update<String>,
}

impl PeerViolations {
    /// Records a violation.
    pub(super) fn record(&mut self, peer_violation: Violation, now: Duration) {
        self.violations.insert(peer_violation, now);
    }

    /// The current violations, if they differ from the last report. `unacknowledged` is the age of the oldest
    /// unacknowledged event about a state.
    pub(super) fn updates(&mut self, unacknowledged: Duration, now: Duration) -> Update<String> {
        if unacknowledged >= ACK_TIMEOUT {
            self.record(Violation::Unacknowledged, now);
        }
        self.violations
            .retain(|_, last| now.saturating_sub(*last) < FORGOTTEN);
        let words: Vec<&str> = self.violations.keys().map(|it| it.words()).collect();
        let stated = Update::Now((!words.is_empty()).then(|| words.join("; ")));
        // A new session keeps the report of the previous one for a while.
        let is_too_soon =
            stated == Update::Now(None) && self.last == Update::Same && now < FORGOTTEN;
        if is_too_soon || self.last == stated {
            return Update::Same;
        }
        self.last = stated.clone();
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
    fn repeated_violation_is_reported_once_and_expires() {
        let mut peer_violations = PeerViolations::default();
        assert_eq!(
            peer_violations.updates(Duration::ZERO, SECOND),
            Update::Same
        );
        let mut times = 0;
        for _ in 0..1000 {
            peer_violations.record(Violation::Malformed, 2 * SECOND);
            times +=
                usize::from(peer_violations.updates(Duration::ZERO, 2 * SECOND) != Update::Same);
        }
        assert_eq!(times, 1);
        peer_violations.record(Violation::NotAllowed, 3 * SECOND);
        assert!(message_of(peer_violations.updates(Duration::ZERO, 3 * SECOND)).contains("; "));
        let later = FORGOTTEN + 4 * SECOND;
        assert_eq!(
            peer_violations.updates(Duration::ZERO, later),
            Update::Now(None)
        );
    }

    #[test]
    fn missing_acknowledgements_are_reported() {
        let mut peer_violations = PeerViolations::default();
        assert_eq!(
            peer_violations.updates(ACK_TIMEOUT / 2, ACK_TIMEOUT),
            Update::Same
        );
        assert!(
            message_of(peer_violations.updates(ACK_TIMEOUT, ACK_TIMEOUT + SECOND))
                .contains("acknowledged")
        );
    }

    #[test]
    fn new_session_keeps_earlier_violations_for_a_while() {
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
