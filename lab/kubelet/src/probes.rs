//! Probes: asks a running container how it is, and reports when the answer has changed for good.
//!
//! As in Kubernetes, with one difference: until a readiness or startup probe has succeeded for the
//! first time, it is asked in quicker succession than its period says, so that nobody waits for a
//! period that was chosen for a production cluster. What counts as a failed start still is the time
//! that period and threshold make together.

mod check;

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{Container, Probe};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};

use crate::inside::Process;

pub(crate) use check::Check;

/// What probes found out about a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The startup probe has succeeded.
    Started,
    /// The readiness probe has changed its mind.
    Ready(bool),
    /// A probe did not succeed; for people to read.
    Unhealthy { which: &'static str, why: String },
    /// The container has to be ended.
    Fatal { which: &'static str, why: String },
}

/// A container under observation.
#[derive(Debug, Clone)]
pub(crate) struct Patient {
    pub(crate) container: Container,
    pub(crate) ip: Ipv4Addr,
    /// Its process 1, for commands.
    pub(crate) target: u32,
    /// What commands inherit: environment, user.
    pub(crate) process: Process,
}

/// Tells what was found out, as news of the listener's own kind.
struct Report<T, F> {
    updates: mpsc::Sender<T>,
    tag: F,
}

impl<T: Send, F: Fn(Verdict) -> T + Sync> Report<T, F> {
    async fn notify(&self, verdict: Verdict) {
        // If nobody listens the future is about to be dropped.
        let _nobody = self.updates.send((self.tag)(verdict)).await;
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

/// Waits until the startup probe succeeds, or says why it has failed too long.
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

/// Watches until the liveness probe has failed often enough, and says why.
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
        let changed = opinion.take_in(asked.is_ok());
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
        if let Some(ready) = opinion.take_in(asked.is_ok()) {
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

/// The first pause between probes of a container that has not been well yet; each is twice as long
/// as the one before, up to the probe's period.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// How often to ask, and how many answers count. The defaults are those of the API.
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

/// What answers in a row have made of the last opinion.
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

    /// Hears one answer, and says the new opinion if it has changed.
    fn take_in(&mut self, good: bool) -> Option<bool> {
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
        let heard: Vec<Option<bool>> = [false, false, true, false, false, false, false, true]
            .map(|good| opinion.take_in(good))
            .into();
        assert_eq!(
            heard,
            [None, None, None, None, None, Some(false), None, Some(true)]
        );
    }

    #[test]
    fn what_a_probe_does_not_say_is_as_the_api_has_it() {
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
