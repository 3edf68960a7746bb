//! Waiting for certificates, and when a renewed one makes a new connection necessary.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use runtime::clock::Clock;
use runtime::credentials::Material;
use tokio::sync::watch;

use super::connect::Connect;

/// How often to look whether the configuration was built from the material.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// A renewed certificate is used this long before the old one ends, or a fifth of its life before.
const LONGEST_MARGIN: SignedDuration = SignedDuration::from_mins(5);

/// Waits until a connection can be tried; false when that will never be.
pub(super) async fn wait(
    network: &dyn Connect,
    material: &mut watch::Receiver<Arc<Material>>,
) -> bool {
    let mut said = false;
    while !network.is_ready() {
        if !said {
            tracing::info!("waiting for certificates");
            said = true;
        }
        if let Ok(Err(_sender_gone)) = tokio::time::timeout(LOOK_AGAIN, material.changed()).await {
            return false;
        }
    }
    true
}

/// Knows when a connection has to give way to one with newer certificates.
///
/// A connection outlives a renewal: it is replaced only when its own certificate is about to
/// expire, or at once when what we trust changed.
#[derive(Debug)]
pub(super) struct Renewal {
    used: Arc<Material>,
    latest: watch::Receiver<Arc<Material>>,
    clock: Clock,
}

impl Renewal {
    /// For a connection that was made with `used`.
    pub(super) const fn new(used: Arc<Material>, latest: watch::Receiver<Arc<Material>>) -> Self {
        Self {
            used,
            latest,
            clock: Clock::system(),
        }
    }

    /// Resolves when the connection has to be replaced.
    ///
    /// *Cancel safety*: nothing is lost.
    pub(super) async fn due(&mut self) {
        loop {
            let latest = Arc::clone(&self.latest.borrow_and_update());
            let Some(wait) = until_due(&self.used, &latest, self.clock.now()) else {
                if self.latest.changed().await.is_err() {
                    return std::future::pending().await;
                }
                continue;
            };
            match tokio::time::timeout(wait, self.latest.changed()).await {
                Err(_elapsed) => return,
                Ok(Err(_sender_gone)) => return std::future::pending().await,
                Ok(Ok(())) => {}
            }
        }
    }
}

/// How long the connection may live on; none: for ever, as far as we know.
fn until_due(used: &Material, latest: &Material, now: Timestamp) -> Option<Duration> {
    let roots = |material: &Material| material.roots.as_ref().map(|r| r.certificates.clone());
    if roots(used) != roots(latest) {
        return Some(Duration::ZERO);
    }
    let (old, new) = (used.identity.as_ref()?, latest.identity.as_ref()?);
    if old.chain() == new.chain() || new.not_after <= old.not_after {
        return None;
    }
    let life = old.not_after.duration_since(old.not_before);
    let margin = LONGEST_MARGIN.min(life / 5);
    let left = old.not_after.duration_since(now).saturating_sub(margin);
    Some(Duration::try_from(left).unwrap_or(Duration::ZERO))
}
