//! Turns signals into a token that all parts watch.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::error::Chain;

/// A token that is cancelled by the first SIGTERM or SIGINT.
///
/// Call it inside the tokio runtime, once. If it cannot install a handler, it logs that and the signal keeps its default
/// action.
#[expect(
    clippy::disallowed_methods,
    reason = "must outlive every part: it is what stops them"
)]
pub fn token() -> CancellationToken {
    let token = CancellationToken::new();
    for (kind, name) in [
        (SignalKind::terminate(), "SIGTERM"),
        (SignalKind::interrupt(), "SIGINT"),
    ] {
        let token = token.clone();
        match signal(kind) {
            Ok(mut signals) => {
                tokio::spawn(async move {
                    if signals.recv().await.is_some() {
                        tracing::info!(signal = name, "stop requested");
                        token.cancel();
                    }
                });
            }
            Err(error) => {
                tracing::warn!(signal = name, error = %Chain(&error), "cannot listen to a signal");
            }
        }
    }
    token
}
