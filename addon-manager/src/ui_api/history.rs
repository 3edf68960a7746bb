//! The last hour of each cluster, one entry a minute. Pure; the time is a parameter.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;
use serde::Serialize;

/// How many minutes are kept.
pub const MINUTES: usize = 60;

/// The state of one cluster at the end of a minute. Reports and sessions are totals since this process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Since when the oldest change waits that its Argo CD has not compared yet.
    pub behind_since: Option<Timestamp>,
    /// How many changes wait so.
    pub behind: u32,
    /// Applied reports.
    pub reports: u64,
    /// Begun sessions.
    pub sessions: u64,
    /// Whether it has a session.
    pub connected: bool,
}

/// One minute of one cluster, as the API shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Minute {
    /// Its end.
    pub at: Timestamp,
    /// Age of the oldest change that waits, in seconds; 0 if none does.
    pub lag_seconds: u32,
    /// How many changes wait.
    pub behind: u32,
    /// Reports that were applied in this minute.
    pub reports: u32,
    /// Sessions that began in this minute.
    pub sessions: u32,
    /// Whether the cluster had a session at its end.
    pub connected: bool,
}

/// One minute as it is kept: 5,000 clusters have 300,000 of them. A number that does not fit is the largest that does.
#[derive(Clone, Copy, Debug)]
struct Sample {
    lag_seconds: u32,
    reports: u32,
    behind: u16,
    sessions: u8,
    connected: bool,
}

/// One cluster.
#[derive(Clone, Debug, Default)]
struct Ring {
    /// The newest last; each belongs to the time at the same place from the end.
    samples: VecDeque<Sample>,
    reports: u64,
    sessions: u64,
}

/// The last hour of all clusters.
#[derive(Clone, Debug, Default)]
pub struct History {
    times: VecDeque<Timestamp>,
    clusters: BTreeMap<Box<str>, Ring>,
}

impl History {
    /// Ends a minute. Clusters that are not among the observed ones are forgotten.
    pub fn observe<'a>(
        &mut self,
        observed: impl IntoIterator<Item = (&'a str, Observed)>,
        now: Timestamp,
    ) {
        // Before the first minute nothing is known about the totals of one minute.
        let is_first = self.times.is_empty();
        push(&mut self.times, now);
        let mut before = std::mem::take(&mut self.clusters);
        for (cluster, observed) in observed {
            let mut ring = before.remove(cluster).unwrap_or_else(|| Ring {
                reports: if is_first { observed.reports } else { 0 },
                sessions: if is_first { observed.sessions } else { 0 },
                ..Ring::default()
            });
            ring.end_minute(observed, now);
            self.clusters.insert(cluster.into(), ring);
        }
    }

    /// Forgets everything: another replica observes the clusters now.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// The minutes of one cluster, the oldest first; none for an unknown one.
    pub fn of(&self, cluster: &str) -> Vec<Minute> {
        let Some(ring) = self.clusters.get(cluster) else {
            return Vec::new();
        };
        let newest = self.times.iter().rev().zip(ring.samples.iter().rev());
        let mut minutes: Vec<_> = newest.map(|(at, sample)| sample.shown(*at)).collect();
        minutes.reverse();
        minutes
    }
}

impl Ring {
    fn end_minute(&mut self, observed: Observed, now: Timestamp) {
        let waits = observed.behind_since.filter(|_| observed.behind > 0);
        let lag = waits.map_or(0, |since| now.duration_since(since).as_secs().max(0));
        let reports = observed.reports.saturating_sub(self.reports);
        let sessions = observed.sessions.saturating_sub(self.sessions);
        let sample = Sample {
            lag_seconds: u32::try_from(lag).unwrap_or(u32::MAX),
            reports: u32::try_from(reports).unwrap_or(u32::MAX),
            behind: u16::try_from(observed.behind).unwrap_or(u16::MAX),
            sessions: u8::try_from(sessions).unwrap_or(u8::MAX),
            connected: observed.connected,
        };
        push(&mut self.samples, sample);
        (self.reports, self.sessions) = (observed.reports, observed.sessions);
    }
}

impl Sample {
    fn shown(self, at: Timestamp) -> Minute {
        Minute {
            at,
            lag_seconds: self.lag_seconds,
            behind: self.behind.into(),
            reports: self.reports,
            sessions: self.sessions.into(),
            connected: self.connected,
        }
    }
}

fn push<T>(ring: &mut VecDeque<T>, item: T) {
    if ring.len() >= MINUTES {
        ring.pop_front();
    }
    ring.push_back(item);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    fn totals(reports: u64, sessions: u64) -> Observed {
        Observed {
            reports,
            sessions,
            connected: true,
            ..Observed::default()
        }
    }

    #[test]
    fn minutes_show_differences_of_totals() {
        let mut history = History::default();
        for (minute, reports, sessions) in [(1, 500, 3), (2, 510, 3), (3, 510, 4)] {
            history.observe([("paris", totals(reports, sessions))], at(minute));
        }
        let found = history.of("paris");
        let shown: Vec<_> = found
            .iter()
            .map(|it| (it.at, it.reports, it.sessions))
            .collect();
        // What happened before the first minute does not belong to it.
        assert_eq!(shown, [(at(1), 0, 0), (at(2), 10, 0), (at(3), 0, 1)]);
        assert_eq!(history.of("rome"), []);
    }

    #[test]
    fn cluster_that_joins_later_has_the_last_minutes_only() {
        let mut history = History::default();
        history.observe([("paris", totals(1, 1))], at(1));
        history.observe([("paris", totals(1, 1)), ("rome", totals(7, 1))], at(2));
        let rome = history.of("rome");
        assert_eq!((rome.len(), rome[0].at, rome[0].reports), (1, at(2), 7));
        history.observe([("rome", totals(8, 1))], at(3));
        assert_eq!(history.of("paris"), []);
        assert_eq!(history.of("rome").len(), 2);
    }

    #[test]
    fn an_hour_is_kept() {
        let mut history = History::default();
        for minute in 0..100 {
            history.observe([("paris", totals(0, 0))], at(minute));
        }
        let times: Vec<_> = history.of("paris").iter().map(|it| it.at).collect();
        assert_eq!(times.len(), MINUTES);
        assert_eq!((times[0], times[59]), (at(40), at(99)));
        history.clear();
        assert_eq!(history.of("paris"), []);
    }

    #[test]
    fn lag_is_the_age_of_the_oldest_waiting_change() {
        let mut history = History::default();
        let waiting = |behind, since| Observed {
            behind,
            behind_since: since,
            ..Observed::default()
        };
        for (observed, lag, behind) in [
            (waiting(2, Some(at(5))), 300, 2),
            (waiting(0, Some(at(5))), 0, 0),
            (waiting(1, None), 0, 1),
            // Clocks differ: a time in the future is no lag.
            (waiting(1, Some(at(20))), 0, 1),
            (waiting(u32::MAX, Some(at(9))), 60, u16::MAX.into()),
        ] {
            history.observe([("c", observed)], at(10));
            let last = history.of("c").pop().unwrap();
            assert_eq!(
                (last.lag_seconds, last.behind),
                (lag, behind),
                "{observed:?}"
            );
        }
    }

    #[test]
    fn totals_beyond_their_fields_are_the_largest_number() {
        let mut history = History::default();
        history.observe([("c", totals(0, 0))], at(1));
        history.observe([("c", totals(u64::MAX, 300))], at(2));
        let last = history.of("c").pop().unwrap();
        assert_eq!((last.reports, last.sessions), (u32::MAX, 255));
        // A total never decreases within a process; if it does, that is no event.
        history.observe([("c", totals(1, 1))], at(3));
        let last = history.of("c").pop().unwrap();
        assert_eq!((last.reports, last.sessions), (0, 0));
    }
}
