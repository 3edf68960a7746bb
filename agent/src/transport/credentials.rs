//! Waiting for certificates, and when a renewed one makes a new connection necessary.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use runtime::clock::Clock;
use runtime::credentials::{Material, Roots};
use tokio::sync::watch;

use super::connect::Connect;

/// How often to look whether the configuration was built from the material.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// A renewed certificate is used this long before the old one ends, or a fifth of its life before.
const LONGEST_MARGIN: SignedDuration = SignedDuration::from_mins(5);

/// Waits until a connection can be tried; false when that will never be.
pub(crate) async fn wait(
    network: &dyn Connect,
    material: &mut watch::Receiver<Arc<Material>>,
) -> bool {
    let mut stated = false;
    while !network.is_ready() {
        if !stated {
            tracing::info!("waiting for certificates");
            stated = true;
        }
        if let Ok(Err(_sender_gone)) = tokio::time::timeout(LOOK_AGAIN, material.changed()).await {
            return false;
        }
    }
    true
}

/// What a change of certificates means for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Renewed {
    /// It has to give way to another one.
    Replace,
    /// It may stay, and the principal has to be told whom we trust now.
    Trust,
}

/// Knows when a connection has to give way to one with newer certificates.
///
/// A connection outlives a renewal. It is replaced when its own certificate is about to expire, and at
/// once when a CA is not trusted any more, since it may stand on that one, or when our certificate
/// comes from another CA than before: the hub waits for that before it drops the old one.
#[derive(Debug)]
pub(crate) struct Renewal {
    used: Arc<Material>,
    latest: watch::Receiver<Arc<Material>>,
    /// Whom we trust, as the principal was told.
    reply: Option<BTreeSet<String>>,
    clock: Clock,
}

impl Renewal {
    /// For a connection that was made with `used`.
    pub(crate) fn new(used: Arc<Material>, latest: watch::Receiver<Arc<Material>>) -> Self {
        Self {
            reply: trusts(&used),
            used,
            latest,
            clock: Clock::system(),
        }
    }

    /// Whom we trust now: what to tell the principal.
    pub(crate) fn trusts(&mut self) -> Option<BTreeSet<String>> {
        self.reply = trusts(&self.latest.borrow());
        self.reply.clone()
    }

    /// Resolves when there is something to do about certificates.
    ///
    /// *Cancel safety*: nothing is lost.
    pub(crate) async fn renewed_credentials(&mut self) -> Renewed {
        loop {
            let latest = Arc::clone(&self.latest.borrow_and_update());
            let due = until_due(&self.used, &latest, self.clock.now());
            if due == Some(Duration::ZERO) {
                return Renewed::Replace;
            }
            if trusts(&latest) != self.reply {
                return Renewed::Trust;
            }
            let Some(wait) = due else {
                if self.latest.changed().await.is_err() {
                    return std::future::pending().await;
                }
                continue;
            };
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

/// How long the connection may live on; none: for ever, as far as we know.
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
