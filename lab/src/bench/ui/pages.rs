//! Open fleet pages: each asks again and again for the fleet, with the tag of its last answer.
//!
//! They share a few connections, since Argo CD's proxy is between browsers and the hub program.

use std::time::Duration;

use anyhow::Result;
use futures::future::try_join_all;
use tokio::time::{Instant, sleep_until};

use super::{
    LATE,
    client::{Answer, Ask, Connection, Endpoint},
};
use crate::bench::figures::Times;

/// The interval of a page's requests, as in `ui/src/poll`.
pub(super) const INTERVAL: Duration = Duration::from_secs(5);
/// The connections that they share, each with one request at a time: as many as the hub program answers at once.
const CONNECTIONS: usize = 16;

/// The answers to all pages.
#[derive(Debug)]
pub(super) struct Polls {
    /// From the time when each request was due to the end of its answer.
    pub(super) times: Times,
    /// Answers with a body.
    pub(super) fresh: usize,
    /// Answers that nothing has changed.
    pub(super) same: usize,
    /// Other answers, and requests without one.
    pub(super) failed: usize,
    /// The bytes of all bodies.
    pub(super) bytes: usize,
}

impl Default for Polls {
    fn default() -> Self {
        Self {
            times: Times::within(LATE),
            fresh: 0,
            same: 0,
            failed: 0,
            bytes: 0,
        }
    }
}

impl Polls {
    /// Counts an answer, which was due so long ago.
    fn add(&mut self, answer: Option<&Answer>, late: Duration) {
        match answer.map(|answer| answer.status) {
            Some(200) => self.fresh += 1,
            Some(304) => self.same += 1,
            Some(_) | None => {
                self.failed += 1;
                self.times.add(None);
                return;
            }
        }
        self.bytes += answer.map_or(0, |answer| answer.bytes);
        self.times.add((late <= LATE).then_some(late));
    }

    fn take(&mut self, other: Self) {
        self.times.take(other.times);
        self.fresh += other.fresh;
        self.same += other.same;
        self.failed += other.failed;
        self.bytes += other.bytes;
    }

    /// All requests.
    pub(super) const fn count(&self) -> usize {
        self.fresh + self.same + self.failed
    }
}

/// This many pages poll for this long, spread evenly over the interval.
pub(super) async fn poll(endpoint: &Endpoint, pages: usize, lasts: Duration) -> Result<Polls> {
    let begin = Instant::now();
    let sharing = (0..CONNECTIONS.min(pages))
        .map(|first| share(endpoint, (first, pages), begin, begin + lasts));
    let mut polls = Polls::default();
    for share in try_join_all(sharing).await? {
        polls.take(share);
    }
    Ok(polls)
}

/// Every [`CONNECTIONS`]th page, beginning with this one, on one connection.
async fn share(
    endpoint: &Endpoint,
    (first, pages): (usize, usize),
    begin: Instant,
    end: Instant,
) -> Result<Polls> {
    let mut polls = Polls::default();
    let mut tags: Vec<Option<String>> = vec![None; pages.div_ceil(CONNECTIONS)];
    let mut connection: Option<Connection<'_>> = None;
    for round in 0_u32.. {
        for (tag, page) in tags.iter_mut().zip((first..pages).step_by(CONNECTIONS)) {
            let due = begin + due(page, pages, round);
            if due >= end {
                return Ok(polls);
            }
            if due.elapsed() > LATE {
                // Its answer can only be late. So the last requests are at most this far behind.
                polls.add(None, LATE);
                continue;
            }
            sleep_until(due).await;
            let ask = tag.as_deref().map_or(Ask::First, Ask::Again);
            let answer = match &mut connection {
                Some(open) => open.fleet(ask).await,
                None => match endpoint.connect().await {
                    Ok(opened) => connection.insert(opened).fleet(ask).await,
                    Err(error) => Err(error),
                },
            };
            polls.add(answer.as_ref().ok(), due.elapsed());
            match answer {
                Ok(Answer { tag: Some(new), .. }) => *tag = Some(new),
                Ok(Answer { tag: None, .. }) => {}
                // The next one opens another.
                Err(_) => connection = None,
            }
        }
    }
    Ok(polls)
}

/// When a page is due in a round, from the begin.
fn due(page: usize, pages: usize, round: u32) -> Duration {
    let share = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    INTERVAL * round + INTERVAL * share(page) / share(pages).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_spread_evenly_and_come_again_after_the_interval() {
        assert_eq!(due(0, 1000, 0), Duration::ZERO);
        assert_eq!(due(500, 1000, 0), INTERVAL / 2);
        assert!(due(999, 1000, 0) < INTERVAL);
        assert_eq!(due(3, 1000, 2), due(3, 1000, 0) + INTERVAL * 2);
    }

    #[test]
    fn answers_are_counted_by_kind() {
        let answer = |status| Answer {
            status,
            tag: None,
            bytes: 7,
            took: Duration::ZERO,
        };
        let mut polls = Polls::default();
        polls.add(Some(&answer(200)), Duration::from_millis(3));
        polls.add(Some(&answer(304)), Duration::from_millis(2));
        polls.add(Some(&answer(503)), Duration::from_millis(1));
        polls.add(None, Duration::from_millis(1));
        assert_eq!(
            (polls.fresh, polls.same, polls.failed, polls.bytes),
            (1, 1, 2, 14)
        );
        assert_eq!(polls.count(), polls.times.count());
        let mut all = Polls::default();
        all.take(polls);
        assert_eq!(all.times.percentile(50).to_string(), "3.0 ms");
    }
}
