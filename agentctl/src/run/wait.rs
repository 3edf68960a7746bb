//! Waits for what was asked for, with a bound.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Answer, Error};
use crate::{hub::Error as HubError, progress::Progress, wait_state::WaitState};

/// Between two looks. What is waited for takes seconds at best.
const PAUSE: Duration = Duration::from_secs(2);

/// Looks again and again until it is done. A hub that does not answer for a while, as while its API restarts, is looked at
/// again, too.
pub(super) async fn until(
    look: impl AsyncFn() -> Result<WaitState, Error>,
    within: Duration,
    progress: &Progress,
) -> Result<Answer, Error> {
    let end = Instant::now() + within;
    loop {
        let waits_for = match look().await {
            Ok(WaitState::Done(text)) => return Ok(Answer::text(text + "\n")),
            Ok(WaitState::Impossible(why)) => return Err(Error::Impossible(why)),
            Ok(WaitState::Pending(text)) => text,
            Err(Error::Hub(HubError::NotReached(cause))) => cause,
            Err(error) => return Err(error),
        };
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Error::NotInTime(within, waits_for));
        }
        progress.show(format!("waiting for {waits_for}"));
        sleep(PAUSE.min(left)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn wait_survives_an_unavailable_hub() {
        let away = HubError::NotReached("connection refused".to_owned());
        let waits = Ok(WaitState::Pending("it".to_owned()));
        let done = Ok(WaitState::Done("done".to_owned()));
        let answers = Mutex::new(vec![done, Err(Error::Hub(away)), waits]);
        let look = async || answers.lock().unwrap().pop().unwrap();
        let began = Instant::now();
        let text = until(look, Duration::from_mins(1), &Progress::new(false)).await;
        assert_eq!(text.unwrap().text, "done\n");
        assert_eq!(began.elapsed(), PAUSE * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn wait_timeout_names_the_pending_step() {
        let looks = AtomicUsize::new(0);
        let look = async || {
            looks.fetch_add(1, Ordering::Relaxed);
            Ok(WaitState::Pending("oslo".to_owned()))
        };
        let within = Duration::from_secs(5);
        let error = until(look, within, &Progress::new(false))
            .await
            .unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("timed out after 5s, waiting for oslo."),
            "{text}"
        );
        // At once, after 2 s, 4 s and the last second.
        assert_eq!(looks.load(Ordering::Relaxed), 4);
        let never = async || Ok(WaitState::Impossible("another user".to_owned()));
        let error = until(never, within, &Progress::new(false))
            .await
            .unwrap_err();
        assert!(matches!(error, Error::Impossible(_)), "{error}");
    }
}
