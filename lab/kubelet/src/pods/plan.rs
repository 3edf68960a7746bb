//! Plans the next steps for the containers of a Pod. Pure: the same records and the same time give
//! the same steps.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, PodSpec};

use super::record::{Record, Records, State};

/// A step for one container.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Start(String),
    /// Ask it to end.
    Terminate(String),
    /// Kill it.
    Kill(String),
}

/// The outcome of a Pod that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// All containers have ended successfully.
    Succeeded,
    /// A container has failed and is not to be restarted.
    Failed,
    /// The Pod was stopped, and no container is left.
    Stopped,
}

/// The next steps.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    /// When to plan again if nothing happens before.
    pub(super) wake: Option<Timestamp>,
    pub(super) over: Option<Over>,
}

/// Plans. `stop` is set when the Pod shall stop: the time at which all its containers are
/// killed.
///
/// A record that was updated after a step does not cause the same step again.
pub(super) fn plan(
    spec: &PodSpec,
    records: &Records,
    stop: Option<Timestamp>,
    now: Timestamp,
) -> Plan {
    let mut planner = Planner {
        spec,
        records,
        now,
        plan: Plan::default(),
    };
    if let Some(deadline) = stop {
        planner.stop(deadline);
    } else {
        planner.hasten();
        planner.go_on();
    }
    planner.plan
}

/// Whether a container runs beside the others although it is listed with those that run before
/// them.
pub(super) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// Whether a container of the Pod's own list is restarted after this end.
pub(super) fn comes_back(spec: &PodSpec, code: i32) -> bool {
    match spec.restart_policy.as_deref() {
        Some("Never") => false,
        Some("OnFailure") => code != 0,
        Some(_) | None => true,
    }
}

struct Planner<'a> {
    spec: &'a PodSpec,
    records: &'a Records,
    now: Timestamp,
    plan: Plan,
}

impl<'a> Planner<'a> {
    fn record(&self, container: &Container) -> Option<&'a Record> {
        self.records.get(&container.name)
    }

    fn wake_at(&mut self, at: Timestamp) {
        self.plan.wake = Some(self.plan.wake.map_or(at, |wake| wake.min(at)));
    }

    fn init(&self) -> &'a [Container] {
        self.spec.init_containers.as_deref().unwrap_or_default()
    }

    /// Ends everything: first the Pod's own containers, then its sidecars.
    fn stop(&mut self, deadline: Timestamp) {
        if self.end_all(&self.spec.containers, deadline) || self.end_all(self.init(), deadline) {
            return;
        }
        self.plan.over = Some(Over::Stopped);
    }

    /// Ends these containers; true if any of them is still alive.
    fn end_all(&mut self, containers: &[Container], deadline: Timestamp) -> bool {
        let mut alive = false;
        for container in containers {
            let Some(record) = self.record(container).filter(|record| record.is_alive()) else {
                continue;
            };
            alive = true;
            let kill_at = record
                .ending
                .map_or(deadline, |ending| ending.kill_at.min(deadline));
            if self.now >= kill_at {
                self.kill(container, record);
            } else {
                if record.ending.is_none() {
                    self.plan
                        .steps
                        .push(Step::Terminate(container.name.clone()));
                }
                self.wake_at(kill_at);
            }
        }
        alive
    }

    fn kill(&mut self, container: &Container, record: &Record) {
        if !record.ending.is_some_and(|ending| ending.killed) {
            self.plan.steps.push(Step::Kill(container.name.clone()));
        }
    }

    /// Kills the containers that have exceeded their grace period.
    fn hasten(&mut self) {
        for container in self.init().iter().chain(&self.spec.containers) {
            let Some(record) = self.record(container).filter(|record| record.is_alive()) else {
                continue;
            };
            match record.ending {
                Some(ending) if self.now >= ending.kill_at => self.kill(container, record),
                Some(ending) => self.wake_at(ending.kill_at),
                None => {}
            }
        }
    }

    /// Starts the containers that are due, in order.
    fn go_on(&mut self) {
        // First, because then the sidecars are not restarted either.
        if let Some(over) = self.own_are_over() {
            self.wind_up(over);
            return;
        }
        for container in self.init() {
            let Some(record) = self.record(container) else {
                continue;
            };
            if is_sidecar(container) {
                if !record.is_alive() {
                    self.start(container, record);
                }
                if !record.started {
                    return;
                }
                continue;
            }
            match &record.state {
                State::Ended(ended) if ended.code == 0 => {}
                State::Ended(_) if self.spec.restart_policy.as_deref() == Some("Never") => {
                    self.wind_up(Over::Failed);
                    return;
                }
                State::Ended(_) | State::Waiting { .. } => return self.start(container, record),
                State::Starting | State::Running { .. } => return,
            }
        }
        for container in &self.spec.containers {
            let Some(record) = self.record(container) else {
                continue;
            };
            match &record.state {
                State::Ended(ended) if !comes_back(self.spec, ended.code) => {}
                State::Ended(_) | State::Waiting { .. } => self.start(container, record),
                State::Starting | State::Running { .. } => {}
            }
        }
    }

    /// The outcome of the Pod's own containers, if all have ended and none is restarted.
    fn own_are_over(&self) -> Option<Over> {
        let mut over = Over::Succeeded;
        for container in &self.spec.containers {
            match &self.record(container)?.state {
                State::Ended(ended) if comes_back(self.spec, ended.code) => return None,
                State::Ended(ended) if ended.code != 0 => over = Over::Failed,
                State::Ended(_) => {}
                State::Waiting { .. } | State::Starting | State::Running { .. } => return None,
            }
        }
        Some(over)
    }

    /// The Pod's own containers are over: ends the sidecars.
    fn wind_up(&mut self, over: Over) {
        // The grace period of a Pod that ends without a deletion.
        let grace = self.spec.termination_grace_period_seconds.unwrap_or(30);
        let deadline = self.now + jiff::SignedDuration::from_secs(grace);
        if !self.end_all(self.init(), deadline) {
            self.plan.over = Some(over);
        }
    }

    fn start(&mut self, container: &Container, record: &Record) {
        if self.now < record.not_before {
            self.wake_at(record.not_before);
        } else {
            self.plan.steps.push(Step::Start(container.name.clone()));
        }
    }
}

#[cfg(test)]
mod tests;
