//! Looks at the principal and the hub from outside, before, during and after an attack.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    fmt,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use kube::api::ListParams;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use super::{
    attacker::MARK,
    attacks::{Attack, Measure, Observed, Verdict},
    target::{HONEST, HOSTILE, PROBE, Target},
};
use crate::{
    audit::Mark,
    bench::meter::resident_kib,
    raw_client::Answer,
    steps::{At, Objects},
};

/// A change of an honest cluster arrives within this during every attack. The machine of the tests is slow.
pub const HONEST_BOUND: Duration = Duration::from_secs(10);
/// The growth of the principal's memory that any attack may cause, in MiB.
pub(super) const MOST_MEMORY: u64 = 256;
/// The lines in the principal's log that any attack may cause.
const MOST_LINES: u64 = 2_000;
/// An attack that runs longer than its time by this much is stuck.
const STUCK: Duration = Duration::from_secs(30);
/// The interval of the samples of memory.
const SAMPLE: Duration = Duration::from_millis(20);
/// The interval of an honest cluster's changes.
const CHANGES: Duration = Duration::from_millis(100);
/// The field manager of all writes by the administrator.
const ADMINISTRATOR: &str = "a-user";

/// The measurements of one attack.
#[derive(Debug)]
pub struct Report {
    observed: Observed,
    /// Resident memory before the attack, and the most during and after it, in KiB.
    pub memory: [u64; 2],
    /// The principal's writes about hostile clusters.
    writes: Vec<String>,
    /// Lines in the principal's log.
    lines: u64,
    /// How long each change of an honest cluster took; none if it took longer than [`HONEST_BOUND`].
    pub honest: Vec<Option<Duration>>,
}

impl Target {
    /// Runs an attack, the one with this number among those of the target, for at most this time, and judges it.
    /// Returns the measurements; the error has them too.
    pub async fn judge(
        &mut self,
        number: usize,
        attack: &Attack,
        time: Duration,
    ) -> Result<String> {
        let before = Fleet::read(self).await?;
        let (process, mark) = (self.process.id(), self.audit.mark()?);
        let report = self.measure(number, attack, time, mark).await;
        // The process explains everything else.
        self.process
            .check()
            .with_context(|| self.process.log_tail())?;
        ensure!(self.process.id() == process, "another process");
        let report = report?;
        let measured = report.to_string();
        Fleet::read(self).await?.compare(&before)?;
        report.check(attack).with_context(|| measured.clone())?;
        self.report(&format!("after-{number}"), HONEST_BOUND)
            .await?;
        Ok(measured)
    }

    /// Runs an attack, with changes of an honest cluster beside it.
    async fn measure(
        &self,
        number: usize,
        attack: &Attack,
        time: Duration,
        mark: Mark,
    ) -> Result<Report> {
        let attacker = self.attacker(number)?;
        let id = self.process.id().context("the principal runs")?;
        let (before, lines) = (resident_kib(id)?, self.log_lines()?);
        let (ended, peak) = (AtomicBool::new(false), AtomicU64::new(before));
        let is_over = || ended.load(Ordering::Relaxed);
        let attacking = async {
            let run = attack.run(&attacker, Instant::now() + time);
            let observed = timeout(time + STUCK, run).await;
            ended.store(true, Ordering::Relaxed);
            observed.context("the attack does not end")?
        };
        let changing = async {
            let mut honest = Vec::new();
            // One more after the attack has ended, when its backlog is still there.
            let mut is_last = false;
            while !is_last {
                is_last = is_over();
                let revision = format!("{number}-{}", honest.len());
                honest.push(self.change(&revision, HONEST_BOUND).await?);
                sleep(CHANGES).await;
            }
            anyhow::Ok(honest)
        };
        let (observed, honest) = tokio::select! {
            both = async { tokio::join!(attacking, changing) } => both,
            never = sample(id, &peak) => match never {},
        };
        Ok(Report {
            observed: observed?,
            memory: [before, peak.into_inner()],
            writes: self.writes(mark, number)?,
            lines: self.log_lines()? - lines,
            honest: honest?,
        })
    }

    /// The number of lines in the principal's log.
    fn log_lines(&self) -> Result<u64> {
        let log = std::fs::read(self.process.log()).context("read the log")?;
        Ok(log.split(|byte| *byte == b'\n').count() as u64)
    }

    /// The writes about hostile clusters since a mark.
    ///
    /// Without those of earlier attacks: ten seconds after their sessions ended, their Applications may get the condition
    /// that the cluster is disconnected.
    fn writes(&self, mark: Mark, number: usize) -> Result<Vec<String>> {
        let earlier: Vec<String> = (0..number).map(|it| format!("{HOSTILE}-{it}")).collect();
        let entries = self.audit.since(mark)?.into_iter();
        let writes = entries.filter(|it| it.is_write() && it.field_manager != ADMINISTRATOR);
        let about = writes.filter_map(|it| {
            let object = it.object?;
            let counts = ["applications", "appprojects"].contains(&&*object.resource)
                && !object.namespace.starts_with(HONEST)
                && !earlier.contains(&object.namespace);
            counts.then(|| format!("{} {}/{}", it.verb, object.namespace, object.name))
        });
        Ok(about.collect())
    }
}

/// Notes the most memory of a process.
pub(super) async fn sample(process: u32, peak: &AtomicU64) -> Infallible {
    loop {
        peak.fetch_max(resident_kib(process).unwrap_or(0), Ordering::Relaxed);
        sleep(SAMPLE).await;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slowest = self.honest.iter().flatten().max();
        let slowest = slowest.copied().unwrap_or_default();
        let (growth, writes, changes) = (self.growth(), self.writes.len(), self.honest.len());
        let lines = self.lines;
        write!(
            f,
            "{growth} MiB more, {writes} writes, {lines} lines of log, "
        )?;
        write!(f, "slowest of {changes} honest changes {slowest:.0?}")?;
        match &self.observed {
            Observed::Answers(answers) => write!(f, ", {} answers", answers.len()),
            Observed::Count(number) => write!(f, ", counted {number}"),
            Observed::Effort(number, end) => write!(f, ", {number} efforts, end: {end:?}"),
        }
    }
}

impl Report {
    /// The growth of memory, in MiB.
    pub const fn growth(&self) -> u64 {
        let [before, peak] = self.memory;
        peak.saturating_sub(before) / 1024
    }

    /// Compares the measurements with the required result.
    fn check(&self, attack: &Attack) -> Result<()> {
        let late = self.honest.iter().filter(|it| it.is_none()).count();
        ensure!(
            late == 0,
            "{late} of {} changes of an honest cluster took longer than {HONEST_BOUND:?}",
            self.honest.len()
        );
        let growth = self.growth();
        ensure!(
            growth <= MOST_MEMORY,
            "memory grew by {growth} MiB, more than {MOST_MEMORY} MiB"
        );
        let lines = self.lines;
        ensure!(
            lines <= MOST_LINES,
            "{lines} lines of log, more than {MOST_LINES}"
        );
        let (measure, most) = match attack.verdict {
            Verdict::Refused(reason) => return self.is_refused(reason),
            Verdict::Bounded(measure, most) => (measure, most),
        };
        if let Observed::Effort(number, end) = &self.observed {
            ensure!(*number > 0, "the attack could do nothing: {end}");
        }
        let number = match (measure, &self.observed) {
            (Measure::Memory, _) => growth,
            (Measure::Writes, _) => self.writes.len() as u64,
            (Measure::LogLines, _) => lines,
            (Measure::Forged | Measure::Replies, Observed::Count(number)) => *number,
            (Measure::Forged | Measure::Replies, _) => bail!("the attack counted nothing"),
        };
        ensure!(
            number <= most,
            "{measure:?} {number}, more than {most}; first writes: {:?}",
            self.writes.iter().take(3).collect::<Vec<_>>()
        );
        Ok(())
    }

    fn is_refused(&self, reason: &str) -> Result<()> {
        let Observed::Answers(answers) = &self.observed else {
            bail!("the attack got no answer")
        };
        ensure!(!answers.is_empty(), "no answer");
        for answer in answers {
            let why = match answer {
                Answer::Refused(why) | Answer::Ended(_, why) => why.as_str(),
                Answer::None | Answer::Taken => "",
            };
            ensure!(
                why.contains(reason),
                "{answer:?}, not refused with {reason:?}"
            );
        }
        Ok(())
    }
}

/// The objects of honest clusters, of the hub itself and of all projects, by UID and resourceVersion.
struct Fleet(BTreeMap<String, String>);

impl Fleet {
    async fn read(target: &Target) -> Result<Self> {
        let hub = &target.hub;
        let mut objects = BTreeMap::new();
        let changing = format!("{HONEST}-0");
        for app in everywhere(hub, &At::application("", "")).await? {
            let namespace = text(&app["metadata"]["namespace"]);
            if namespace.starts_with(HOSTILE) {
                continue;
            }
            ensure!(
                !app.to_string().contains(MARK),
                "the attack has changed {namespace}/{PROBE}: {app:#}"
            );
            let state = if namespace == changing {
                // The judge changes its revision and its status.
                let mut spec = app["spec"].clone();
                spec["source"]["targetRevision"] = Value::Null;
                let metadata = &app["metadata"];
                let deletion = &metadata["deletionTimestamp"];
                format!("{} {spec} {deletion} {}", metadata["uid"], app["operation"])
            } else {
                versions(&app)
            };
            let name = text(&app["metadata"]["name"]);
            objects.insert(format!("Application {namespace}/{name}"), state);
        }
        for (kind, at) in [
            ("AppProject", At::project(&target.argocd, "")),
            ("Secret", At::secret(&target.argocd, "")),
        ] {
            for object in hub.list(&at, "").await? {
                let name = text(&object["metadata"]["name"]);
                // Mirrored projects, and the Secrets of hostile clusters.
                if !name.contains(HOSTILE) {
                    objects.insert(format!("{kind} {name}"), versions(&object));
                }
            }
        }
        Ok(Self(objects))
    }

    fn compare(&self, before: &Self) -> Result<()> {
        for (name, state) in &before.0 {
            let now = self.0.get(name);
            ensure!(now == Some(state), "{name}: {now:?}, it was {state}");
        }
        let new = self.0.keys().find(|name| !before.0.contains_key(*name));
        ensure!(new.is_none(), "the attack has created {new:?}");
        Ok(())
    }
}

async fn everywhere(hub: &Objects, at: &At) -> Result<Vec<Value>> {
    let list = hub.everywhere(at).list(&ListParams::default()).await?;
    let objects = list.items.into_iter().map(serde_json::to_value);
    Ok(objects.collect::<Result<_, _>>()?)
}

fn versions(object: &Value) -> String {
    let metadata = &object["metadata"];
    format!("{} {}", metadata["uid"], metadata["resourceVersion"])
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
