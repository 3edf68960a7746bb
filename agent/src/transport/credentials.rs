//! Waits for certificates, and decides when a renewed one needs a new connection.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use runtime::clock::Clock;
use runtime::credentials::{Material, Roots};
use tokio::sync::watch;

use super::connect::Connect;

/// How often to check whether the TLS configuration is built.
const POLL: Duration = Duration::from_millis(200);
/// The agent reconnects this long before the old certificate expires, or a fifth of its life before.
const LONGEST_MARGIN: SignedDuration = SignedDuration::from_mins(5);

/// Waits until the agent has certificates; false if none will come.
pub(crate) async fn wait(
    network: &dyn Connect,
    material: &mut watch::Receiver<Arc<Material>>,
) -> bool {
    if !network.is_ready() {
        tracing::info!("waiting for certificates");
    }
    while !network.is_ready() {
        if let Ok(Err(_sender_gone)) = tokio::time::timeout(POLL, material.changed()).await {
            return false;
        }
    }
    true
}

/// How a connection reacts to a change of certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Renewed {
    /// A new connection replaces it.
    Replace,
    /// It stays, and the agent reports the trusted roots to the principal.
    Trust,
}

/// Decides when a connection with newer certificates has to replace the current one.
///
/// A connection survives a renewal. The agent replaces it when its certificate is about to expire. It
/// replaces it at once when a CA is removed, since the connection may depend on it, or when the new
/// certificate comes from another CA: the hub waits for that before it drops the old CA.
#[derive(Debug)]
pub(crate) struct Renewal {
    used: Arc<Material>,
    latest: watch::Receiver<Arc<Material>>,
    /// The trusted roots that the principal knows.
    reported: Option<BTreeSet<String>>,
    clock: Clock,
}

impl Renewal {
    /// Follows the certificates of a connection that was opened with `used`.
    pub(crate) fn new(used: Arc<Material>, latest: watch::Receiver<Arc<Material>>) -> Self {
        Self {
            reported: trusts(&used),
            used,
            latest,
            clock: Clock::system(),
        }
    }

    /// The currently trusted roots, to report to the principal.
    pub(crate) fn trusts(&mut self) -> Option<BTreeSet<String>> {
        self.reported = trusts(&self.latest.borrow());
        self.reported.clone()
    }

    /// Waits for a change of certificates that needs a reaction.
    ///
    /// *Cancel safety*: a cancelled call loses nothing.
    pub(crate) async fn renewed_credentials(&mut self) -> Renewed {
        loop {
            let latest = Arc::clone(&self.latest.borrow_and_update());
            let due = until_due(&self.used, &latest, self.clock.now());
            if due == Some(Duration::ZERO) {
                return Renewed::Replace;
            }
            if trusts(&latest) != self.reported {
                return Renewed::Trust;
            }
            // Without a limit, only a change ends the wait.
            let wait = due.unwrap_or(Duration::MAX);
            match tokio::time::timeout(wait, self.latest.changed()).await {
                Err(_elapsed) => return Renewed::Replace,
                Ok(Err(_sender_gone)) => return std::future::pending().await,
                Ok(Ok(())) => {}
            }
        }
    }
}

fn trusts(material: &Material) -> Option<BTreeSet<String>> {
    material.roots.as_ref().map(Roots::fingerprints)
}

/// How long the connection may stay; none: without a limit.
fn until_due(used: &Material, latest: &Material, now: Timestamp) -> Option<Duration> {
    let (trusted, trusts) = (trusts(used)?, trusts(latest)?);
    if !trusted.is_subset(&trusts) {
        return Some(Duration::ZERO);
    }
    let (old, new) = (used.identity.as_ref()?, latest.identity.as_ref()?);
    if old.chain() == new.chain() {
        return None;
    }
    if old.authority != new.authority {
        return Some(Duration::ZERO);
    }
    if new.not_after <= old.not_after {
        return None;
    }
    let life = old.not_after.duration_since(old.not_before);
    let margin = LONGEST_MARGIN.min(life / 5);
    let left = old.not_after.duration_since(now).saturating_sub(margin);
    Some(Duration::try_from(left).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests;
