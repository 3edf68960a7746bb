//! Waits until a hub program reports that it is ready; `helm test` runs this.

use std::time::Duration;

use runtime::{admin, error::Chain};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::args::ReadyArgs;

/// The pause between two requests.
const PAUSE: Duration = Duration::from_secs(1);
/// The timeout of a request.
const ANSWER: Duration = Duration::from_secs(5);

/// Why the wait failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It timed out.
    #[error("timed out: {address} is not ready after {time_limit:?}: {last}")]
    Late {
        /// The address of the program.
        address: String,
        /// The time limit.
        time_limit: Duration,
        /// The last answer.
        last: String,
    },
    /// The process stops.
    #[error("interrupted before {address} was ready")]
    Stopped {
        /// The address of the program.
        address: String,
    },
}

/// Requests the readiness until the program is ready.
pub async fn run(settings: &ReadyArgs, token: CancellationToken) -> Result<(), Error> {
    let (address, time_limit) = (&settings.address, settings.timeout);
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
        if began.elapsed() >= time_limit {
            return Err(Error::Late {
                address: address.clone(),
                time_limit,
                last,
            });
        }
        info!(%address, last, "not ready yet");
        token.run_until_cancelled(sleep(PAUSE)).await;
    }
}
