//! Waiting, with a bound.

use std::time::Duration;

/// The timeout of each wait.
pub(super) const SOON: Duration = Duration::from_secs(20);

/// Waits for a future, or panics with `what` after the timeout.
pub(super) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(SOON, future).await;
    waited.unwrap_or_else(|_elapsed| panic!("{what}: not within {SOON:?}"))
}
