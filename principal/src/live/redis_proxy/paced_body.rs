//! Reads a body that has to arrive at a least rate: a place for a value is not held by single bytes.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use tokio::time::{Instant, timeout_at};

use super::error::Ended;
use crate::live::tunnel::Body;

/// The longest pause within a value, and the time before its rate counts.
const PAUSE: Duration = Duration::from_secs(30);
/// The least rate after that, in bytes a second: a quarter of a link of 1 Mbit/s.
const LEAST_RATE: u32 = 32 << 10;

/// A body, and how much of it has arrived since when.
#[derive(Debug)]
pub(super) struct PacedBody {
    body: Body,
    began: Instant,
    arrived: u64,
}

impl PacedBody {
    pub(super) fn new(body: Body) -> Self {
        Self {
            body,
            began: Instant::now(),
            arrived: 0,
        }
    }

    /// The next data, or none at the end.
    ///
    /// # Errors
    ///
    /// [`Ended::Broken`] if the body fails, pauses too long or arrives too slowly.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Ended> {
        loop {
            let due = due(self.began, self.arrived).min(Instant::now() + PAUSE);
            let frame = match timeout_at(due, self.body.frame()).await {
                Ok(None) => return Ok(None),
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(_))) | Err(_) => return Err(Ended::Broken),
            };
            if let Ok(data) = frame.into_data() {
                self.arrived = self.arrived.saturating_add(data.len() as u64);
                return Ok(Some(data));
            }
        }
    }
}

/// When the next data is due if this much has arrived.
fn due(began: Instant, arrived: u64) -> Instant {
    let earned = Duration::from_millis(arrived.saturating_mul(1000) / u64::from(LEAST_RATE));
    let all = PAUSE.saturating_add(earned);
    began.checked_add(all).unwrap_or(began)
}

#[cfg(test)]
mod tests {
    use http_body::Frame;
    use http_body_util::{StreamBody, combinators::UnsyncBoxBody};
    use tokio::time::sleep;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A body of pieces of this size without an end, one in each interval.
    fn dripping(size: usize, every: Duration) -> PacedBody {
        let pieces = futures::stream::unfold((), move |()| async move {
            sleep(every).await;
            let piece = Bytes::from(vec![b'x'; size]);
            Some((
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(Frame::data(piece)),
                (),
            ))
        });
        PacedBody::new(UnsyncBoxBody::new(StreamBody::new(pieces)))
    }

    /// How long and how much one reads of it, for five minutes at most.
    async fn read(mut body: PacedBody) -> (Duration, u64) {
        let began = Instant::now();
        while began.elapsed() < 300 * SECOND {
            if !matches!(body.next().await, Ok(Some(_))) {
                break;
            }
        }
        (began.elapsed(), body.arrived)
    }

    #[tokio::test(start_paused = true)]
    async fn dripping_redis_value_ends_after_30_seconds() {
        for every in [SECOND / 10, SECOND, 29 * SECOND, 31 * SECOND] {
            let (lasted, arrived) = read(dripping(1, every)).await;
            assert!(lasted <= PAUSE + SECOND / 50, "{lasted:?} with {every:?}");
            assert!(arrived <= 300, "{arrived} bytes with {every:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn value_at_the_least_rate_is_read_on() {
        let (lasted, arrived) = read(dripping(LEAST_RATE as usize, SECOND)).await;
        assert_eq!(lasted, 300 * SECOND);
        assert_eq!(arrived, 300 * u64::from(LEAST_RATE));
    }

    #[tokio::test(start_paused = true)]
    async fn value_that_stops_after_a_fast_start_ends_after_a_pause() {
        let mut body = dripping(8 << 20, PAUSE * 2);
        body.arrived = 8 << 20;
        let begin = Instant::now();
        assert!(matches!(body.next().await, Err(Ended::Broken)));
        assert_eq!(begin.elapsed(), PAUSE);
    }
}
