//! What to do after which end; pure.

use std::time::Duration;

use protocol::Violation;
use protocol::refusal::{Advice, advice};
use runtime::backoff::Backoff;
use tokio::time::Instant;
use tonic::Status;

use crate::transport::dial;

/// Why a connection ended, or did not begin.
#[derive(Debug)]
pub(super) enum End {
    /// We were asked to stop.
    Stopped,
    /// Our certificate was about to expire, or our trust changed: connect again at once.
    Renewed,
    /// No session came about.
    NotDialled(dial::Error),
    /// The principal closed the stream without a word, as it does when it goes away.
    Closed,
    /// The stream broke, or the principal ended it with a status.
    Broken(Status),
    /// The principal was not heard for too long.
    Silent,
    /// The principal broke a rule.
    Violation(Violation),
    /// The API of our own cluster does not know us any more: the session is another agent's.
    Unknown,
}

impl End {
    /// Stable, bounded text for metric labels and logs.
    pub(super) const fn reason(&self) -> &'static str {
        match self {
            Self::Stopped => "Stopped",
            Self::Renewed => "Renewed",
            Self::NotDialled(error) => error.reason(),
            Self::Closed => "Closed",
            Self::Broken(_) => "Broken",
            Self::Silent => "Silent",
            Self::Violation(_) => "Violation",
            Self::Unknown => "NotKnownHere",
        }
    }

    /// Whether something between the two ends may be to blame, and not one of them.
    pub(super) fn is_of_the_way(&self) -> bool {
        match self {
            Self::Silent => true,
            Self::Broken(status) => was_made_here(status),
            Self::Stopped
            | Self::Renewed
            | Self::NotDialled(_)
            | Self::Closed
            | Self::Violation(_)
            | Self::Unknown => false,
        }
    }
}

/// A status that was made here from a broken connection has that as its source, whatever its code; only one that the
/// peer sent is its word.
fn was_made_here(status: &Status) -> bool {
    std::error::Error::source(status).is_some()
}

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing.
    Stop,
    /// Another attempt.
    Again {
        /// After this pause.
        pause: Duration,
    },
}

/// How long to wait, for each kind of end.
#[derive(Debug)]
pub(super) struct Pauses {
    /// After what mends itself.
    pub(super) transient: Backoff,
    /// After what a person has to mend.
    person: Backoff,
}

impl Default for Pauses {
    fn default() -> Self {
        // A principal restarts in about a second; a thousand agents come back within the jitter.
        let transient = Backoff::new(
            Duration::from_millis(250),
            Duration::from_secs(15),
            Duration::from_secs(30),
        );
        let person = Backoff::new(
            Duration::from_secs(5),
            Duration::from_mins(1),
            Duration::from_secs(30),
        );
        Self { transient, person }
    }
}

impl Pauses {
    /// Decides; `now` is the time of the end.
    pub(super) fn after(&mut self, end: &End, now: Instant) -> Next {
        let pause = match end {
            End::Stopped => return Next::Stop,
            End::Renewed => Duration::ZERO,
            End::NotDialled(error) => match error.status() {
                Some(status) => self.after_status(status, now),
                None => self.transient.failed(now),
            },
            End::Broken(status) => self.after_status(status, now),
            End::Closed | End::Silent => self.transient.failed(now),
            End::Violation(_) | End::Unknown => self.person.failed(now),
        };
        Next::Again { pause }
    }

    fn after_status(&mut self, status: &Status, now: Instant) -> Duration {
        let broken = was_made_here(status);
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
        match pauses.after(end, Instant::now()) {
            Next::Again { pause } => pause,
            Next::Stop => panic!("should go on"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_principal_that_restarts_is_tried_again_soon() {
        let mut pauses = Pauses::default();
        let end = End::Broken(Status::new(Code::Unavailable, "shutting down"));
        assert!(pause(&mut pauses, &end) <= Duration::from_millis(250));
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_person_has_to_mend_is_tried_slowly() {
        let mut pauses = Pauses::default();
        let end = End::Broken(Status::new(Code::FailedPrecondition, "version mismatch"));
        assert!(pause(&mut pauses, &end) >= Duration::from_millis(2500));
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_certificate_costs_no_pause_and_no_failure() {
        let mut pauses = Pauses::default();
        assert_eq!(pause(&mut pauses, &End::Renewed), Duration::ZERO);
        assert!(pause(&mut pauses, &End::Closed) <= Duration::from_millis(250));
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_stay_bounded() {
        let mut pauses = Pauses::default();
        for _ in 0..50 {
            assert!(pause(&mut pauses, &End::Silent) <= Duration::from_secs(15));
        }
    }
}
