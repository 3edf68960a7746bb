//! Probes: asks a running container for its health, and reports when the result has changed.
//!
//! As in Kubernetes, with one difference: until a readiness or startup probe has succeeded for the
//! first time, it runs more often than its period, so that tests do not wait for a
//! period that was chosen for a production cluster. A start still fails after the time
//! that period and threshold make together.

mod check;

use std::{net::IpAddr, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{Container, Probe};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};

use crate::inside::Process;

pub(crate) use check::Check;

/// A finding of the probes of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The startup probe has succeeded.
    Started,
    /// The readiness probe has changed its result.
    Ready(bool),
    /// A probe failed; the text is for users.
    Unhealthy { which: &'static str, why: String },
    /// The container has to be ended.
    Fatal { which: &'static str, why: String },
}

/// A container with probes.
#[derive(Debug, Clone)]
pub(crate) struct Patient {
    pub(crate) container: Container,
    pub(crate) ip: IpAddr,
    /// Its process 1, for commands.
    pub(crate) target: u32,
    /// The environment and user that commands inherit.
    pub(crate) process: Process,
}

/// Sends verdicts, wrapped in the receiver's own type.
struct Report<T, F> {
    updates: mpsc::Sender<T>,
    tag: F,
}

impl<T: Send, F: Fn(Verdict) -> T + Sync> Report<T, F> {
    async fn notify(&self, verdict: Verdict) {
        // If the receiver is gone, the future is about to be dropped.
        let _closed = self.updates.send((self.tag)(verdict)).await;
    }
}

/// Observes a container until the future is dropped or the container has to be ended.
pub(crate) async fn run<T, F>(patient: Arc<Patient>, updates: mpsc::Sender<T>, tag: F)
where
    T: Send,
    F: Fn(Verdict) -> T + Sync,
{
    let report = Report { updates, tag };
    let Container {
        startup_probe,
        liveness_probe,
        readiness_probe,
        ..
    } = &patient.container;
    if let Some(probe) = startup_probe {
        let pace = Pace::of(probe);
        if let Err(why) = await_start(probe, &pace, &patient).await {
            report
                .notify(Verdict::Fatal {
                    which: "Startup",
                    why,
                })
                .await;
            return;
        }
        report.notify(Verdict::Started).await;
    }
    let liveness = async {
        if let Some(probe) = liveness_probe {
            let why = watch_life(probe, &Pace::of(probe), &patient, &report).await;
            report
                .notify(Verdict::Fatal {
                    which: "Liveness",
                    why,
                })
                .await;
        }
    };
    let readiness = async {
        if let Some(probe) = readiness_probe {
            watch_readiness(probe, &Pace::of(probe), &patient, &report).await;
        }
    };
    tokio::join!(liveness, readiness);
}

/// Waits until the startup probe succeeds, or returns why it has failed for too long.
async fn await_start(probe: &Probe, pace: &Pace, patient: &Patient) -> Result<(), String> {
    sleep(pace.delay).await;
    let deadline = Instant::now() + pace.period * pace.failures;
    let mut pause = FIRST_PAUSE;
    loop {
        let asked = check::ask(probe, pace.limit, patient).await;
        match asked {
            Ok(()) => return Ok(()),
            Err(why) if Instant::now() >= deadline => return Err(why),
            Err(_) => {}
        }
        sleep(pause.min(pace.period)).await;
        pause *= 2;
    }
}

/// Waits until the liveness probe has failed often enough, and sends why.
async fn watch_life<T: Send, F: Fn(Verdict) -> T + Sync>(
    probe: &Probe,
    pace: &Pace,
    patient: &Patient,
    report: &Report<T, F>,
) -> String {
    let which = "Liveness";
    sleep(pace.delay).await;
    let mut opinion = Opinion::new(true, pace);
    loop {
        let asked = check::ask(probe, pace.limit, patient).await;
        let changed = opinion.count(asked.is_ok());
        if let Err(why) = asked {
            if changed == Some(false) {
                return why;
            }
            report.notify(Verdict::Unhealthy { which, why }).await;
        }
        sleep(pace.period).await;
    }
}

async fn watch_readiness<T: Send, F: Fn(Verdict) -> T + Sync>(
    probe: &Probe,
    pace: &Pace,
    patient: &Patient,
    report: &Report<T, F>,
) {
    sleep(pace.delay).await;
    let mut opinion = Opinion::new(false, pace);
    let mut pause = FIRST_PAUSE;
    let mut was_ready = false;
    loop {
        let asked = check::ask(probe, pace.limit, patient).await;
        if let Some(ready) = opinion.count(asked.is_ok()) {
            was_ready |= ready;
            report.notify(Verdict::Ready(ready)).await;
        }
        if let (Err(why), true) = (asked, was_ready) {
            report
                .notify(Verdict::Unhealthy {
                    which: "Readiness",
                    why,
                })
                .await;
        }
        if was_ready {
            sleep(pace.period).await;
        } else {
            sleep(pause.min(pace.period)).await;
            pause *= 2;
        }
    }
}

/// The first pause between probes of a container that has not been healthy yet; each is twice as
/// long as the one before, up to the probe's period.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The timing and thresholds of a probe, with the defaults of the API.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pace {
    delay: Duration,
    period: Duration,
    limit: Duration,
    successes: u32,
    failures: u32,
}

impl Pace {
    fn of(probe: &Probe) -> Self {
        let number = |stated: Option<i32>, default: u32| {
            stated
                .and_then(|stated| u32::try_from(stated).ok())
                .filter(|stated| *stated > 0)
                .unwrap_or(default)
        };
        let seconds = |stated, default| Duration::from_secs(number(stated, default).into());
        Self {
            delay: seconds(probe.initial_delay_seconds, 0),
            period: seconds(probe.period_seconds, 10),
            limit: seconds(probe.timeout_seconds, 1),
            successes: number(probe.success_threshold, 1),
            failures: number(probe.failure_threshold, 3),
        }
    }
}

/// The current result of a probe, and the consecutive answers against it.
#[derive(Debug)]
struct Opinion {
    good: bool,
    against: u32,
    successes: u32,
    failures: u32,
}

impl Opinion {
    const fn new(good: bool, pace: &Pace) -> Self {
        Self {
            good,
            against: 0,
            successes: pace.successes,
            failures: pace.failures,
        }
    }

    /// Counts one answer, and returns the new result if it has changed.
    fn count(&mut self, good: bool) -> Option<bool> {
        if good == self.good {
            self.against = 0;
            return None;
        }
        self.against += 1;
        if self.against < if good { self.successes } else { self.failures } {
            return None;
        }
        self.good = good;
        self.against = 0;
        Some(good)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_opinion_changes_after_enough_answers_in_a_row() {
        let pace = Pace {
            failures: 3,
            ..Pace::of(&Probe::default())
        };
        let mut opinion = Opinion::new(true, &pace);
        let changes: Vec<Option<bool>> = [false, false, true, false, false, false, false, true]
            .map(|good| opinion.count(good))
            .into();
        assert_eq!(
            changes,
            [None, None, None, None, None, Some(false), None, Some(true)]
        );
    }

    #[test]
    fn unset_probe_fields_have_the_defaults_of_the_api() {
        let seconds = Duration::from_secs;
        let pace = Pace {
            delay: seconds(0),
            period: seconds(10),
            limit: seconds(1),
            successes: 1,
            failures: 3,
        };
        assert_eq!(Pace::of(&Probe::default()), pace);
    }
}
