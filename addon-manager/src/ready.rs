//! Waits until a hub program says that it is ready: what `helm test` runs.

use std::time::Duration;

use runtime::{admin, error::Chain};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::config::Ready;

/// Between two questions.
const PAUSE: Duration = Duration::from_secs(1);
/// An answer takes no longer.
const ANSWER: Duration = Duration::from_secs(5);

/// Why it is not known to be ready.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The time is over.
    #[error("timed out: {address} is not ready after {time_limit:?}: {last}")]
    Late {
        /// Who was asked.
        address: String,
        /// How long.
        time_limit: Duration,
        /// The last answer.
        last: String,
    },
    /// The process is to stop.
    #[error("interrupted before {address} was ready")]
    Stopped {
        /// Who was asked.
        address: String,
    },
}

/// Asks until the answer is yes.
pub async fn run(settings: &Ready, token: CancellationToken) -> Result<(), Error> {
    let Ready {
        log: _,
        address,
        time_limit,
    } = settings;
    let began = Instant::now();
    loop {
        let asked = timeout(ANSWER, admin::ask_ready(address));
        let last = match token.run_until_cancelled(asked).await {
            None => {
                let address = address.clone();
                return Err(Error::Stopped { address });
            }
            Some(Ok(Ok(None))) => {
                info!(%address, "ready");
                return Ok(());
            }
            Some(Ok(Ok(Some(missing)))) => missing,
            Some(Ok(Err(error))) => Chain(&error).to_string(),
            Some(Err(_)) => format!("no answer after {ANSWER:?}"),
        };
        if began.elapsed() >= *time_limit {
            return Err(Error::Late {
                address: address.clone(),
                time_limit: *time_limit,
                last,
            });
        }
        info!(%address, last, "not ready yet");
        token.run_until_cancelled(sleep(PAUSE)).await;
    }
}
