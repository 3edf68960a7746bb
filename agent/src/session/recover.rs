//! Decides how an agent reconnects after each kind of end; pure.

use std::time::Duration;

use protocol::Violation;
use protocol::refusal::{Advice, advice};
use runtime::backoff::Backoff;
use tokio::time::Instant;
use tonic::Status;

use crate::transport::DialError;

/// Why a connection ended or failed.
#[derive(Debug)]
pub(super) enum End {
    /// The agent stops.
    Stopped,
    /// The client certificate was about to expire, or the trusted roots changed: reconnect at once.
    Renewed,
    /// The cluster's API was restored to an earlier state: reconnect, which compares everything.
    Restored,
    /// The agent could not connect or authenticate.
    NotDialled(DialError),
    /// The principal closed the stream without a status, as on a shutdown.
    Closed,
    /// The stream broke, or the principal ended it with a status.
    Broken(Status),
    /// The principal timed out.
    Silent,
    /// The principal violated the protocol.
    Violation(Violation),
    /// The cluster's API rejects this agent's identity: another agent should have the session.
    Unknown,
}

impl End {
    /// Stable, bounded text for metric labels and logs.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Stopped => "Stopped",
            Self::Renewed => "Renewed",
            Self::Restored => "Restored",
            Self::NotDialled(error) => error.reason(),
            Self::Closed => "Closed",
            Self::Broken(_) => "Broken",
            Self::Silent => "Silent",
            Self::Violation(_) => "Violation",
            Self::Unknown => "NotKnownHere",
        }
    }

    /// Whether the network between the two ends may be the cause.
    pub(super) fn is_network_error(&self) -> bool {
        matches!(self, Self::Silent) || matches!(self, Self::Broken(status) if is_local(status))
    }
}

/// Whether tonic made this status from a broken connection. Such a status has an error as its source; one that the peer
/// sent has none.
fn is_local(status: &Status) -> bool {
    std::error::Error::source(status).is_some()
}

/// The back-offs for both kinds of failures.
#[derive(Debug)]
pub(super) struct Pauses {
    /// For failures that pass without help.
    pub(super) transient: Backoff,
    /// For failures that a person has to repair.
    person: Backoff,
}

impl Default for Pauses {
    fn default() -> Self {
        // A principal restarts in about a second; the jitter spreads a thousand reconnecting agents.
        let (seconds, healthy) = (Duration::from_secs, Duration::from_secs(30));
        let transient = Backoff::new(Duration::from_millis(250), seconds(15), healthy);
        let person = Backoff::new(seconds(5), seconds(60), healthy);
        Self { transient, person }
    }
}

impl Pauses {
    /// The pause before the next attempt; none if the agent stops. `now` is the time of the end.
    pub(super) fn after(&mut self, end: &End, now: Instant) -> Option<Duration> {
        Some(match end {
            End::Stopped => return None,
            End::Renewed => Duration::ZERO,
            End::NotDialled(error) => match error.status() {
                Some(status) => self.after_status(status, now),
                None => self.transient.failed(now),
            },
            End::Broken(status) => self.after_status(status, now),
            // Each watch notices a restore by itself, and an API with two histories is restored again and again.
            End::Restored | End::Closed | End::Silent => self.transient.failed(now),
            End::Violation(_) | End::Unknown => self.person.failed(now),
        })
    }

    fn after_status(&mut self, status: &Status, now: Instant) -> Duration {
        let broken = is_local(status);
        match advice(status) {
            Advice::RetrySlowly if !broken => self.person.failed(now),
            Advice::RetrySlowly | Advice::Retry => self.transient.failed(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    fn pause(pauses: &mut Pauses, end: &End) -> Duration {
        let pause = pauses.after(end, Instant::now());
        pause.expect("should reconnect")
    }

    #[tokio::test(start_paused = true)]
    async fn backoff_after_a_principal_restart_is_short() {
        let mut pauses = Pauses::default();
        let end = End::Broken(Status::new(Code::Unavailable, "shutting down"));
        assert!(pause(&mut pauses, &end) <= Duration::from_millis(250));
    }

    #[tokio::test(start_paused = true)]
    async fn backoff_is_long_when_a_person_has_to_act() {
        let mut pauses = Pauses::default();
        let end = End::Broken(Status::new(Code::FailedPrecondition, "version mismatch"));
        assert!(pause(&mut pauses, &end) >= Duration::from_millis(2500));
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewed_certificate_reconnects_without_backoff() {
        let mut pauses = Pauses::default();
        assert_eq!(pause(&mut pauses, &End::Renewed), Duration::ZERO);
        assert!(pause(&mut pauses, &End::Closed) <= Duration::from_millis(250));
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_that_is_restored_again_and_again_causes_no_loop() {
        let mut pauses = Pauses::default();
        assert!(pause(&mut pauses, &End::Restored) <= Duration::from_millis(250));
        let mut later = Duration::ZERO;
        for _ in 0..10 {
            later = pause(&mut pauses, &End::Restored);
        }
        assert!(later >= Duration::from_millis(7500));
    }

    #[tokio::test(start_paused = true)]
    async fn backoff_stays_bounded() {
        let mut pauses = Pauses::default();
        for _ in 0..50 {
            assert!(pause(&mut pauses, &End::Silent) <= Duration::from_secs(15));
        }
    }
}
