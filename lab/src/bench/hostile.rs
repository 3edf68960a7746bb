//! A hostile agent: it has the credentials of one cluster, speaks the wire protocol, and tries to harm the principal and
//! other clusters.
//!
//! The end-to-end tests run each of [`ATTACKS`] for a few seconds and judge its result ([`Target::judge`]). The benchmark
//! runs those that are about load for longer and prints what honest clusters notice:
//!
//! | variable | |
//! |---|---|
//! | `HOSTILE_SECONDS` | how long each attack runs, in five interleaved runs together; 600 unless set |
//! | `HOSTILE_AGENTS` | honest agents with heartbeats and statuses beside it; 50 unless set |
//! | `HOSTILE_ATTACK` | a part of the names of the attacks to run; all unless set |

mod attacker;
mod attacks;
mod judge;
mod target;

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use tokio::time::{Instant, sleep, timeout_at};

use super::{
    Table,
    figures::{Figure, Times, variable},
    meter::resident_kib,
};
use crate::Lab;

pub use attacks::{ATTACKS, Attack, BY_KLUSTERLET, CONFIGURATION, CSRS, LABELS, Measure, Verdict};
pub use judge::{HONEST_BOUND, Report};
pub use target::Target;

/// The interleaved runs of each attack.
const RUNS: usize = 5;
/// The longest idle time before each run.
const IDLE: Duration = Duration::from_secs(10);
/// The interval of the statuses of the other honest agents.
const STATUSES: Duration = Duration::from_secs(1);
/// The interval of the measured changes.
const CHANGES: Duration = Duration::from_millis(50);

/// The table of `make bench`.
pub(super) async fn tables(lab: Arc<Lab>) -> Result<Vec<Table>> {
    let seconds: u64 = variable("HOSTILE_SECONDS", 600)?;
    let honest = variable("HOSTILE_AGENTS", 50_usize)?.max(2);
    let part: String = variable("HOSTILE_ATTACK", String::new())?;
    let attacks: Vec<&Attack> = ATTACKS
        .iter()
        .filter(|attack| attack.is_load() && attack.name.contains(&part))
        .collect();
    let title = format!("One principal under attack, {honest} honest agents, {seconds} s each");
    let mut table = Table::new(
        title,
        &[
            "attack",
            "memory before / peak",
            "spec change of an honest cluster, idle, p50 / p99",
            "the same under attack",
            "restarts",
            "honest sessions lost",
        ],
    );
    let target = Target::start(&lab, honest, &attacks).await?;
    let mut bench = Bench {
        target,
        run: Duration::from_secs(seconds) / u32::try_from(RUNS)?,
        changes: 0,
    };
    for (number, attack) in attacks.iter().enumerate() {
        let row = bench.attack(number, attack).await;
        table.rows.push(row.with_context(|| attack.name)?);
    }
    bench.target.stop().await;
    Ok(vec![table])
}

struct Bench {
    target: Target,
    /// How long one run takes.
    run: Duration,
    /// The number of changes so far, which names the next revision.
    changes: u64,
}

impl Bench {
    async fn attack(&mut self, number: usize, attack: &Attack) -> Result<Vec<String>> {
        let attacker = self.target.attacker(number)?;
        let id = self.target.process.id().context("the principal runs")?;
        let before = resident_kib(id)?;
        let (mut idle, mut under) = (Vec::new(), Vec::new());
        let (mut peak, mut restarts) = (before, 0_usize);
        for _ in 0..RUNS {
            let until = Instant::now() + self.run.min(IDLE);
            idle.push(self.sample(until, &mut peak).await?);
            let until = Instant::now() + self.run;
            let repeat = async {
                // One that has done all that it can, or lost its session, begins again.
                while Instant::now() < until {
                    drop(timeout_at(until, attack.run(&attacker, until)).await);
                    sleep(CHANGES).await;
                }
            };
            let (times, ()) = tokio::join!(self.sample(until, &mut peak), repeat);
            under.push(times?);
            if self.target.process.check().is_err() {
                restarts += 1;
                self.target.process.restart()?;
            }
        }
        let agents = self.target.honest.iter();
        let lost = agents.filter(|agent| !agent.is_alive()).count();
        Ok(vec![
            attack.name.to_owned(),
            format!("{} / {} MiB", before / 1024, peak / 1024),
            medians(&idle),
            medians(&under),
            restarts.to_string(),
            lost.to_string(),
        ])
    }

    /// Changes one honest cluster again and again, while the others report their statuses.
    async fn sample(&mut self, until: Instant, peak: &mut u64) -> Result<Times> {
        let mut times = Times::within(HONEST_BOUND);
        let mut reported = Instant::now();
        while Instant::now() < until {
            self.changes += 1;
            let revision = format!("r{}", self.changes);
            times.add(self.target.change(&revision, HONEST_BOUND).await?);
            if reported.elapsed() >= STATUSES {
                reported = Instant::now();
                for agent in &self.target.honest {
                    // An agent that lost its session is counted at the end.
                    drop(agent.report(&revision).await);
                }
            }
            if let Some(id) = self.target.process.id() {
                *peak = resident_kib(id).unwrap_or(0).max(*peak);
            }
            sleep(CHANGES).await;
        }
        Ok(times)
    }
}

/// The medians of the 50th and of the 99th percentiles of several runs.
fn medians(runs: &[Times]) -> String {
    let median = |percent| {
        let mut figures: Vec<Figure> = runs.iter().map(|run| run.percentile(percent)).collect();
        figures.sort_by_key(|figure| match figure {
            Figure::Time(time) => *time,
            Figure::NotWithin(_) | Figure::Nothing => Duration::MAX,
        });
        figures.get(figures.len() / 2).copied()
    };
    let shown = |figure: Option<Figure>| figure.unwrap_or(Figure::Nothing).to_string();
    format!("{} / {}", shown(median(50)), shown(median(99)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn attacks_have_unique_names() {
        let names: BTreeSet<_> = ATTACKS.iter().map(|attack| attack.name).collect();
        assert_eq!(names.len(), ATTACKS.len());
    }

    #[test]
    fn the_median_run_counts() {
        let run = |millis| {
            let mut times = Times::within(HONEST_BOUND);
            times.add(Some(Duration::from_millis(millis)));
            times
        };
        let runs = [run(500), run(20), run(30)];
        assert_eq!(medians(&runs), "30 ms / 30 ms");
    }
}
