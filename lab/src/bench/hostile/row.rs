//! The verdict about one attack of the benchmark: pure, from what its runs measured.

use std::{fmt, time::Duration};

use super::judge::MOST_MEMORY;
use crate::bench::figures::{Figure, Times};

/// The slowest honest change that counts, under attack: so many halves of the idle one, and so much more.
const HALVES: u32 = 3;
const MORE: Duration = Duration::from_millis(5);

/// The 50th and the 99th percentile of the changes of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    half: Figure,
    slowest: Figure,
}

impl Pace {
    pub(super) fn of(times: &Times) -> Self {
        Self {
            half: times.percentile(50),
            slowest: times.percentile(99),
        }
    }
}

/// The measurements of one attack.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) name: String,
    /// The honest changes of each run, in the idle time before it and during it.
    pub(super) idle: Vec<Pace>,
    pub(super) attacked: Vec<Pace>,
    /// Resident memory before the first run, and the most in all of them, in KiB.
    pub(super) memory: [u64; 2],
    /// Ends of the principal's process that it did not survive.
    pub(super) restarts: usize,
    /// Sessions of honest agents that ended.
    pub(super) lost: usize,
}

impl Row {
    /// The heads of [`Self::cells`].
    pub(super) const HEADS: [&str; 7] = [
        "attack",
        "memory before / peak",
        "spec change of an honest cluster, idle, p50 / p99",
        "the same under attack",
        "restarts",
        "honest sessions lost",
        "verdict",
    ];

    pub(super) fn cells(&self) -> Vec<String> {
        let [before, peak] = self.memory;
        let both = |runs| {
            let pace: Pace = median_pace(runs);
            format!("{} / {}", pace.half, pace.slowest)
        };
        vec![
            self.name.clone(),
            format!("{} / {} MiB", before / 1024, peak / 1024),
            both(&self.idle),
            both(&self.attacked),
            self.restarts.to_string(),
            self.lost.to_string(),
            self.verdict(),
        ]
    }

    /// Whether all bounds were met.
    pub(super) fn is_within(&self) -> bool {
        self.excesses().is_empty()
    }

    fn verdict(&self) -> String {
        let excesses = self.excesses();
        if excesses.is_empty() {
            "within".to_owned()
        } else {
            format!("over: {}", excesses.join(", "))
        }
    }

    /// Each bound that was not met.
    fn excesses(&self) -> Vec<String> {
        let [before, peak] = self.memory;
        let growth = peak.saturating_sub(before).div_ceil(1024);
        let latency = excess(
            median_pace(&self.idle).slowest,
            median_pace(&self.attacked).slowest,
        );
        let memory = (growth > MOST_MEMORY)
            .then(|| format!("{growth} MiB more memory, {MOST_MEMORY} allowed"));
        let restarts = (self.restarts > 0).then(|| format!("{} restarts", self.restarts));
        let lost = (self.lost > 0).then(|| format!("{} sessions lost", self.lost));
        [latency, memory, restarts, lost]
            .into_iter()
            .flatten()
            .collect()
    }
}

/// Why the latency under attack is out of bounds. Without a figure of either kind nothing is proved.
fn excess(idle: Figure, attacked: Figure) -> Option<String> {
    let (Figure::Time(idle), Figure::Time(attacked)) = (idle, attacked) else {
        return Some(format!("p99 {attacked}, idle {idle}"));
    };
    let most = idle * HALVES / 2 + MORE;
    let (attacked_is, most_is) = (Figure::Time(attacked), Figure::Time(most));
    (attacked > most).then(|| format!("p99 {attacked_is}, {most_is} allowed"))
}

/// The medians of several runs, each percentile by itself; a run without a figure counts as the slowest.
fn median_pace(runs: &[Pace]) -> Pace {
    let median = |of: fn(&Pace) -> Figure| {
        let mut figures: Vec<Figure> = runs.iter().map(of).collect();
        figures.sort_by_key(|figure| match figure {
            Figure::Time(time) => *time,
            Figure::NotWithin(_) | Figure::Nothing => Duration::MAX,
        });
        figures.get(figures.len() / 2).copied()
    };
    Pace {
        half: median(|pace| pace.half).unwrap_or(Figure::Nothing),
        slowest: median(|pace| pace.slowest).unwrap_or(Figure::Nothing),
    }
}

/// As a line of Markdown.
impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| {} |", self.cells().join(" | "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: Duration = Duration::from_secs(10);

    fn pace(millis: u64) -> Pace {
        let mut times = Times::within(BOUND);
        times.add(Some(Duration::from_millis(millis)));
        Pace::of(&times)
    }

    fn row(idle: [u64; 5], attacked: [u64; 5]) -> Row {
        Row {
            name: "an attack".to_owned(),
            idle: idle.map(pace).to_vec(),
            attacked: attacked.map(pace).to_vec(),
            memory: [50 << 10, 306 << 10],
            restarts: 0,
            lost: 0,
        }
    }

    #[test]
    fn the_median_run_counts() {
        let row = row([10, 10, 20, 30, 500], [1, 35, 35, 900, 900]);
        assert_eq!(row.cells()[2..4], ["20 ms / 20 ms", "35 ms / 35 ms"]);
        assert!(row.is_within(), "{row}");
    }

    #[test]
    fn latency_is_bounded_by_half_more_and_five_milliseconds() {
        assert!(row([20; 5], [35; 5]).is_within());
        let slow = row([20; 5], [36; 5]);
        assert!(!slow.is_within());
        assert_eq!(slow.verdict(), "over: p99 36 ms, 35 ms allowed");
    }

    #[test]
    fn a_run_without_a_change_counts_as_the_slowest() {
        let mut row = row([20; 5], [20; 5]);
        let none = Pace::of(&Times::within(BOUND));
        row.attacked[0] = none;
        row.attacked[1] = none;
        assert!(row.is_within(), "{row}");
        row.attacked[2] = none;
        assert_eq!(row.verdict(), "over: p99 no sample, idle 20 ms");
        row.idle.clear();
        row.attacked.clear();
        assert!(!row.is_within(), "nothing was measured");
    }

    #[test]
    fn memory_restarts_and_lost_sessions_are_out_of_bounds() {
        let mut row = row([20; 5], [20; 5]);
        assert!(row.is_within(), "{row}");
        row.memory[1] += 1;
        row.restarts = 1;
        row.lost = 2;
        let all = "over: 257 MiB more memory, 256 allowed, 1 restarts, 2 sessions lost";
        assert_eq!(row.verdict(), all);
    }
}
