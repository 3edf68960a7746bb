//! Limits the work for certificates whose requests are refused repeatedly.
//!
//! Admission checks signatures before it knows the cluster, and logs each refusal. A certificate with too many refusals
//! is rejected before that. Accepted requests do not count.

use std::{
    mem::take,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use protocol::refusal::Refusal;
use tokio::time::Instant;

use super::{Admission, Budget};
use crate::admission::{identity::Thumbprint, peer::Peer};

/// An agent that retries while its cluster is being enrolled needs about ten.
const BURST: u32 = 30;
const REFILL: Duration = Duration::from_secs(2);
/// Interval between two log lines about rejected requests.
const LOG_INTERVAL: Duration = Duration::from_mins(1);

/// The refusals that each certificate has left.
#[derive(Debug)]
pub(crate) struct RefusalBudget {
    left: Budget<Thumbprint>,
    // Held for an addition, never over an await.
    unlogged: Mutex<Unlogged>,
}

/// Rejected requests since the last log line.
#[derive(Debug, Default)]
struct Unlogged {
    count: u64,
    logged: Option<Instant>,
}

impl Default for RefusalBudget {
    fn default() -> Self {
        Self {
            left: Budget::new(BURST, REFILL),
            unlogged: Mutex::default(),
        }
    }
}

impl Unlogged {
    /// Adds one; returns the sum when it is time to log it.
    fn add(&mut self, now: Instant) -> Option<u64> {
        self.count = self.count.saturating_add(1);
        if self.logged.is_some_and(|at| now < at + LOG_INTERVAL) {
            return None;
        }
        self.logged = Some(now);
        Some(take(&mut self.count))
    }
}

impl Admission {
    /// Rejects a peer whose certificate has no refusals left.
    pub(crate) fn check_refusal_budget(&self, peer: &Peer) -> Result<(), Refusal> {
        let budget = &self.refusal_budget;
        if (self.limited(peer)).is_none_or(|certificate| budget.left.has_left(&certificate)) {
            return Ok(());
        }
        let mut unlogged = (budget.unlogged.lock()).unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = unlogged.add(Instant::now()) {
            tracing::info!(
                address = %peer.address, count,
                "rejected requests of certificates that were refused repeatedly"
            );
        }
        Err(Refusal::TooMany)
    }

    /// Counts a refusal, if it is due to the peer's credentials.
    pub(crate) fn spend_refusal(&self, peer: &Peer, refusal: &Refusal) {
        let is_of_credentials = matches!(
            refusal,
            Refusal::AuthenticationFailed
                | Refusal::InvalidToken
                | Refusal::NotEnrolled
                | Refusal::Revoked
                | Refusal::Proof(_)
        );
        if let Some(certificate) = self.limited(peer).filter(|_| is_of_credentials) {
            self.refusal_budget.left.spend(&certificate);
        }
    }

    /// The certificate of the peer, unless many agents share it.
    fn limited(&self, peer: &Peer) -> Option<Thumbprint> {
        let certificate = peer.certificate.as_ref()?;
        (!certificate.is_one_of(&self.proxies)).then(|| certificate.thumbprint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn rejected_requests_are_logged_once_a_minute() {
        let mut unlogged = Unlogged::default();
        assert_eq!(unlogged.add(Instant::now()), Some(1));
        for _ in 0..100 {
            assert_eq!(unlogged.add(Instant::now()), None);
        }
        tokio::time::advance(LOG_INTERVAL).await;
        assert_eq!(unlogged.add(Instant::now()), Some(101));
    }
}
