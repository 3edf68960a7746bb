//! The state of one container of a Pod, and its transitions. Pure.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod};

/// All containers of a Pod, init containers included, by name.
pub(super) type Records = BTreeMap<String, Record>;

/// The state of one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) state: State,
    /// The end of the previous run.
    pub(super) last: Option<Ended>,
    /// The number of runs so far.
    pub(super) runs: u32,
    /// The startup probe has succeeded, or there is none.
    pub(super) started: bool,
    /// The readiness probe succeeds, or there is none.
    pub(super) ready: bool,
    /// Set while the container is asked to end.
    pub(super) ending: Option<Ending>,
    /// Crashes in a row without a lasting run between them.
    pub(super) crashes: u32,
    /// Not to be started before this time.
    pub(super) not_before: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Not running yet, or waiting for its next run.
    Waiting {
        reason: &'static str,
        message: Option<String>,
    },
    /// A shim starts it.
    Starting,
    /// Process 1 runs, under this number.
    Running {
        since: Timestamp,
        process: u32,
    },
    Ended(Ended),
}

/// The deadline of a container that was asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ending {
    /// When it is killed.
    pub(super) kill_at: Timestamp,
    pub(super) killed: bool,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) code: i32,
    pub(super) signal: Option<i32>,
    pub(super) reason: &'static str,
    pub(super) message: Option<String>,
    pub(super) started: Option<Timestamp>,
    pub(super) finished: Timestamp,
}

/// A run that lasts this long resets the crash counter. In a real cluster it is ten minutes; a
/// lab has less time, and its longest pause is shorter in proportion.
const FORGIVEN: SignedDuration = SignedDuration::from_secs(60);
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_secs(30);

/// The back-off before the next run: none after the first crash, as in the real kubelet, then 1 s,
/// 2 s, 4 s…
fn pause(crashes: u32) -> SignedDuration {
    let doublings = crashes.saturating_sub(2).min(5);
    if crashes < 2 {
        SignedDuration::ZERO
    } else {
        SignedDuration::from_secs(1 << doublings).min(LONGEST_PAUSE)
    }
}

impl Record {
    pub(super) fn new() -> Self {
        Self {
            state: State::Waiting {
                reason: "ContainerCreating",
                message: None,
            },
            last: None,
            runs: 0,
            started: false,
            ready: false,
            ending: None,
            crashes: 0,
            not_before: Timestamp::MIN,
        }
    }

    /// A record that continues the count of a previous kubelet.
    fn after(status: &ContainerStatus) -> Self {
        let state = status.state.as_ref();
        let ran = state.is_some_and(|state| state.running.is_some() || state.terminated.is_some());
        let runs = u32::try_from(status.restart_count).unwrap_or_default() + u32::from(ran);
        Self {
            runs,
            ..Self::new()
        }
    }

    pub(super) const fn is_alive(&self) -> bool {
        matches!(self.state, State::Starting | State::Running { .. })
    }

    /// A new run begins. Returns its number, from 0.
    pub(super) fn begin(&mut self) -> u32 {
        if let State::Ended(ended) = std::mem::replace(&mut self.state, State::Starting) {
            self.last = Some(ended);
        }
        self.started = false;
        self.ready = false;
        self.ending = None;
        self.runs += 1;
        self.runs - 1
    }

    /// The program has been executed.
    pub(super) fn run(&mut self, container: &Container, process: u32, now: Timestamp) {
        self.state = State::Running {
            since: now,
            process,
        };
        self.started = container.startup_probe.is_none();
        self.ready = container.readiness_probe.is_none();
    }

    /// The run is over.
    pub(super) fn end(&mut self, mut ended: Ended) {
        if let State::Running { since, .. } = self.state {
            ended.started = Some(since);
        }
        let lasted = ended.started.map_or(SignedDuration::ZERO, |since| {
            ended.finished.duration_since(since)
        });
        self.crashes = if lasted >= FORGIVEN {
            1
        } else {
            self.crashes + 1
        };
        self.not_before = ended.finished + pause(self.crashes);
        self.state = State::Ended(ended);
        self.started = false;
        self.ready = false;
        self.ending = None;
    }

    /// The container could not be started; retry at `again`. The end of the last run is kept.
    pub(super) fn refuse(
        &mut self,
        reason: &'static str,
        message: Option<String>,
        again: Timestamp,
    ) {
        let state = State::Waiting { reason, message };
        if let State::Ended(ended) = std::mem::replace(&mut self.state, state) {
            self.last = Some(ended);
        }
        self.not_before = again;
    }

    /// The number of the current or last run, from 0, which is the number of restarts.
    pub(super) const fn restarts(&self) -> u32 {
        self.runs.saturating_sub(1)
    }
}

/// The records of a Pod that this kubelet has not seen before.
pub(super) fn records(pod: &Pod) -> Records {
    let spec = pod.spec.as_ref();
    let containers = spec.iter().flat_map(|spec| {
        spec.init_containers
            .iter()
            .flatten()
            .chain(&spec.containers)
    });
    let status = pod.status.as_ref();
    let known: Vec<&ContainerStatus> = status
        .iter()
        .flat_map(|status| [&status.init_container_statuses, &status.container_statuses])
        .flat_map(|statuses| statuses.iter().flatten())
        .collect();
    containers
        .map(|container| {
            let before = known.iter().find(|status| status.name == container.name);
            (
                container.name.clone(),
                before.map_or_else(Record::new, |status| Record::after(status)),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(finished: Timestamp) -> Ended {
        Ended {
            code: 1,
            signal: None,
            reason: "Error",
            message: None,
            started: None,
            finished,
        }
    }

    #[test]
    fn the_pause_grows_and_a_lasting_run_forgives() {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut record = Record::new();
        let mut pauses = Vec::new();
        for _ in 0..8 {
            record.begin();
            record.end(ended(start));
            pauses.push(record.not_before.duration_since(start).as_secs());
        }
        assert_eq!(pauses, [0, 1, 2, 4, 8, 16, 30, 30]);

        record.begin();
        record.run(&Container::default(), 1, start);
        let later = start + FORGIVEN;
        record.end(ended(later));
        assert_eq!(record.not_before, later);
    }

    #[test]
    fn a_restarted_kubelet_continues_the_restart_count() {
        let status = serde_json::json!({
            "name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 2,
            "state": { "running": { "startedAt": "2026-01-01T00:00:00Z" } },
        });
        let mut record = Record::after(&serde_json::from_value(status).unwrap());
        assert_eq!(record.begin(), 3);
    }
}
