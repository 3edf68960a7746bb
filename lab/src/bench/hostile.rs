//! A hostile agent: it has the credentials of one cluster, speaks the wire protocol, and tries to harm the principal and
//! other clusters.
//!
//! The end-to-end tests run each of [`ATTACKS`] for a few seconds and judge its result ([`Target::judge`]). The benchmark
//! runs those that are about load for longer, compares what honest clusters notice with its bounds (`row`), and fails when
//! an attack exceeds one:
//!
//! | variable | |
//! |---|---|
//! | `HOSTILE_SECONDS` | how long each attack runs, in five interleaved runs together; 600 unless set |
//! | `HOSTILE_AGENTS` | honest agents with heartbeats and statuses beside it; 100 unless set |
//! | `HOSTILE_ATTACK` | parts of the names of the attacks to run, with commas between them; all unless set |
//! | `HOSTILE_TOGETHER` | how many attacks run at the same time, each from a cluster of its own; 1 unless set |

mod attacker;
mod attacks;
mod judge;
mod row;
mod target;

use std::{
    convert::Infallible,
    io::Write as _,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use tokio::{
    runtime::Runtime,
    time::{Instant, interval, sleep, sleep_until, timeout_at},
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    Table, background,
    figures::{Times, variable},
    meter::resident_kib,
};
use crate::Lab;

pub use attacks::{ATTACKS, Attack, BY_KLUSTERLET, CONFIGURATION, CSRS, LABELS, Measure, Verdict};
pub use judge::{HONEST_BOUND, Report};
pub use target::Target;

use row::{Pace, Row};

/// The interleaved runs of each attack.
const RUNS: usize = 5;
/// The longest idle time before each run.
const IDLE: Duration = Duration::from_secs(20);
/// The pause after each run, in which the principal works off what the attack left.
const PAUSE: Duration = Duration::from_secs(5);
/// The interval of the statuses of the other honest agents.
const STATUSES: Duration = Duration::from_secs(1);
/// The interval of the measured changes.
const CHANGES: Duration = Duration::from_millis(50);

/// The table of `make bench`.
pub(super) async fn tables(lab: Arc<Lab>) -> Result<Vec<Table>> {
    let seconds: u64 = variable("HOSTILE_SECONDS", 600)?;
    let honest = variable("HOSTILE_AGENTS", 100_usize)?.max(2);
    let together = variable("HOSTILE_TOGETHER", 1_usize)?.max(1);
    let parts: String = variable("HOSTILE_ATTACK", String::new())?;
    let parts: Vec<&str> = parts.split(',').filter(|part| !part.is_empty()).collect();
    let is_wanted =
        |attack: &Attack| parts.is_empty() || parts.iter().any(|part| attack.name.contains(part));
    let attacks: Vec<&Attack> = ATTACKS
        .iter()
        .filter(|attack| attack.is_load() && is_wanted(attack))
        .collect();
    ensure!(!attacks.is_empty(), "HOSTILE_ATTACK selects no attack");
    let title = format!("One principal under attack, {honest} honest agents, {seconds} s each");
    let mut table = Table::new(title, &Row::HEADS);
    let target = Target::start(&lab, honest, &attacks).await?;
    let mut bench = Bench {
        target,
        attackers: Attackers(Some(background::runtime()?)),
        run: Duration::from_secs(seconds) / u32::try_from(RUNS)?,
        changes: 0,
    };
    let attacks: Vec<_> = attacks.into_iter().enumerate().collect();
    for group in attacks.chunks(together) {
        let names = group.iter().map(|(_, attack)| attack.name);
        let names = names.collect::<Vec<_>>().join("; ");
        let row = bench.attack(names.clone(), group).await.context(names)?;
        // The whole table takes hours.
        let _closed = writeln!(std::io::stderr(), "{row}");
        if !row.is_within() {
            table.exceeded.push(row.name.clone());
        }
        table.rows.push(row.cells());
    }
    bench.target.stop().await;
    Ok(vec![table])
}

struct Bench {
    target: Target,
    /// The attackers' threads have the lowest priority: where processors are few, their own work would otherwise count as the
    /// principal's latency.
    attackers: Attackers,
    /// How long one run takes.
    run: Duration,
    /// The number of changes so far, which names the next revision.
    changes: u64,
}

impl Bench {
    /// Carries out these attacks at the same time.
    async fn attack(&mut self, name: String, attacks: &[(usize, &'static Attack)]) -> Result<Row> {
        let id = self.target.process.id().context("the principal runs")?;
        let before = resident_kib(id)?;
        let peak = AtomicU64::new(before);
        let mut row = Row {
            name,
            idle: Vec::new(),
            attacked: Vec::new(),
            memory: [before, before],
            restarts: 0,
            lost: 0,
        };
        for _ in 0..RUNS {
            let until = Instant::now() + self.run.min(IDLE);
            row.idle.push(self.sample(until, &peak).await?);
            let until = Instant::now() + self.run;
            let begun = attacks.iter();
            let begun = begun.map(|(number, attack)| self.begin(*number, attack, until));
            let _attacks: Vec<_> = begun.collect::<Result<_>>()?;
            row.attacked.push(self.sample(until, &peak).await?);
            sleep(PAUSE).await;
            row.restarts += usize::from(self.target.process.check().is_err());
            row.lost += self.target.lost();
            self.target.repair().await?;
        }
        row.memory = [before, peak.into_inner()];
        Ok(row)
    }

    /// Attacks on threads of the attackers, until this time or until the result is dropped.
    fn begin(
        &self,
        number: usize,
        attack: &'static Attack,
        until: Instant,
    ) -> Result<AbortOnDropHandle<()>> {
        let attacker = self.target.attacker(number)?;
        let repeat = async move {
            // One that has done all that it can, or lost its session, begins again.
            while Instant::now() < until {
                drop(timeout_at(until, attack.run(&attacker, until)).await);
                sleep(CHANGES).await;
            }
        };
        let attackers = self
            .attackers
            .0
            .as_ref()
            .context("the attackers' runtime")?;
        Ok(AbortOnDropHandle::new(attackers.spawn(repeat)))
    }

    /// Changes one honest cluster again and again. Beside that, all honest agents report statuses, and the most memory is
    /// noted: neither delays a change.
    async fn sample(&mut self, until: Instant, peak: &AtomicU64) -> Result<Pace> {
        let (target, changes) = (&self.target, &mut self.changes);
        let mut times = Times::within(HONEST_BOUND);
        let changing = async {
            while Instant::now() < until {
                *changes += 1;
                let revision = format!("r{changes}");
                times.add(target.change(&revision, HONEST_BOUND).await?);
                sleep(CHANGES).await;
            }
            // Where changes ended early, the attack goes on.
            sleep_until(until).await;
            anyhow::Ok(())
        };
        let id = target.process.id();
        tokio::select! {
            ended = changing => ended?,
            never = report(target) => match never {},
            never = note(id, peak) => match never {},
        }
        Ok(Pace::of(&times))
    }
}

/// The runtime of the attackers.
struct Attackers(Option<Runtime>);

impl Drop for Attackers {
    fn drop(&mut self) {
        // A runtime must not wait for its threads within another one.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Each honest agent reports a new status in each interval, one agent after the other: agents of a fleet are not in step, and
/// a burst of all would be the slowest change of an idle principal.
async fn report(target: &Target) -> Infallible {
    let agents = u32::try_from(target.honest.len()).unwrap_or(u32::MAX);
    let mut due = interval(STATUSES / agents.max(1));
    for number in 0_u64.. {
        let revision = format!("s{number}");
        for agent in &target.honest {
            due.tick().await;
            // An agent that lost its session is counted after the run.
            drop(agent.report(&revision).await);
        }
    }
    std::future::pending().await
}

/// Notes the most memory of the principal, if it runs.
async fn note(process: Option<u32>, peak: &AtomicU64) -> Infallible {
    match process {
        Some(process) => judge::sample(process, peak).await,
        None => std::future::pending().await,
    }
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
}
