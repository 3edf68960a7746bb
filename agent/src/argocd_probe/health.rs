//! Why a program of Argo CD is unhealthy, and when the agent reports that. Pure.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};
use protocol::payload::{Cause, HealthProblem};
use tokio::time::Instant;

use super::programs::Program;

/// Grace period of problems that do not pass without help.
const SHORTLY: Duration = Duration::from_secs(30);
/// Grace period of programs that may still start: a large image on a slow line, a new node.
const GRACE: Duration = Duration::from_mins(3);
/// How long a program is healthy before its problem clears: between two crashes it looks healthy.
const CALM: Duration = Duration::from_secs(15);

/// The most characters of a message of the cluster in a report.
const LONGEST: usize = 300;

const PULL: [&str; 5] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "RegistryUnavailable",
];

/// The problem of an unhealthy program.
pub(super) fn health_problem(name: &str, program: &Program, pods: &[Pod]) -> HealthProblem {
    let (cause, subject, detail) = if program.wanted < 1 {
        (Cause::ScaledDown, String::new(), String::new())
    } else {
        let alive = pods
            .iter()
            .filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let found = alive.filter_map(of_pod);
        found
            .min_by_key(|(cause, ..)| *cause)
            .unwrap_or_else(|| without_pods(program, pods))
    };
    HealthProblem {
        workload: name.to_owned(),
        cause,
        subject,
        detail: one_line(&detail),
    }
}

/// The problem to report: the one that may cause the others.
pub(super) fn worst(found: Vec<HealthProblem>) -> Option<HealthProblem> {
    found
        .into_iter()
        .min_by(|a, b| (a.cause, &a.workload).cmp(&(b.cause, &b.workload)))
}

type Found = (Cause, String, String);

/// The problem of a program none of whose Pods has one: the cluster creates none, or they are starting.
fn without_pods(program: &Program, pods: &[Pod]) -> Found {
    let is_made = program.failure.is_none() && !pods.is_empty();
    let cause = if is_made {
        Cause::Starting
    } else {
        Cause::NotMade
    };
    let failure = program.failure.clone().unwrap_or_default();
    (cause, String::new(), failure)
}

/// Why a Pod is not ready; none if it is.
fn of_pod(pod: &Pod) -> Option<Found> {
    let name = pod.metadata.name.clone().unwrap_or_default();
    let status = pod.status.clone().unwrap_or_default();
    let condition = |kind: &str, value: &str| {
        let mut all = status.conditions.iter().flatten();
        all.find(|it| it.type_ == kind && it.status == value)
    };
    if condition("Ready", "True").is_some() {
        return None;
    }
    if status.phase.as_deref() == Some("Failed") {
        let stated = [status.reason.as_deref(), status.message.as_deref()];
        let stated: Vec<&str> = stated.into_iter().flatten().collect();
        return Some((Cause::GivenUp, name, stated.join(": ")));
    }
    if let Some(why) = condition("PodScheduled", "False") {
        let stated = why.message.clone().unwrap_or_default();
        return Some((Cause::Unschedulable, String::new(), stated));
    }
    let init = status.init_container_statuses.iter().flatten();
    let own = status.container_statuses.iter().flatten();
    let found = init.map(|it| (it, true)).chain(own.map(|it| (it, false)));
    let found = found.filter_map(|(it, is_init)| of_container(it, is_init));
    let found = found.min_by_key(|(cause, ..)| *cause);
    Some(found.unwrap_or((Cause::Starting, name, String::new())))
}

/// Why a container is not ready; none if it is ready, or waits without a reason.
fn of_container(status: &ContainerStatus, is_init: bool) -> Option<Found> {
    let state = status.state.as_ref();
    let waiting = state.and_then(|it| it.waiting.as_ref());
    let reason = waiting
        .and_then(|it| it.reason.as_deref())
        .unwrap_or_default();
    let stated = waiting.and_then(|it| it.message.as_deref());
    let subject = || status.name.clone();
    if PULL.contains(&reason) {
        // The reason alternates between these two, and the message of one repeats that of the other.
        let stated = stated.unwrap_or_default();
        let stated = stated
            .rsplit_once("ErrImagePull: ")
            .map_or(stated, |(_, it)| it);
        return Some((Cause::ImagePull, status.image.clone(), stated.to_owned()));
    }
    let is_up = status.ready || (is_init && ended(state).is_some_and(|it| it.0 == 0));
    if is_up {
        return None;
    }
    let end = ended(state).or_else(|| ended(status.last_state.as_ref()));
    let crashed = end.filter(|_| status.restart_count > 0 || waiting.is_none());
    if let Some((code, why)) = crashed {
        // The termination message may contain secrets: it stays in the container's log.
        let why = why.filter(|it| it != "Error" && it != "Completed");
        let why = why.map_or_else(String::new, |why| format!(" ({why})"));
        return Some((Cause::Crashes, subject(), format!("exit code {code}{why}")));
    }
    match reason {
        "" if state.is_some_and(|it| it.running.is_some()) && !is_init => {
            Some((Cause::NotReady, subject(), String::new()))
        }
        "" | "ContainerCreating" | "PodInitializing" => None,
        _ => {
            let stated =
                stated.map_or_else(|| reason.to_owned(), |stated| format!("{reason}: {stated}"));
            Some((Cause::NotBegun, subject(), stated))
        }
    }
}

/// The exit code of a terminated container, and the cluster's reason.
fn ended(state: Option<&ContainerState>) -> Option<(i32, Option<String>)> {
    let end = state?.terminated.as_ref()?;
    Some((end.exit_code, end.reason.clone()))
}

fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(LONGEST).collect()
}

const fn grace(cause: Cause) -> Duration {
    match cause {
        Cause::ImagePull | Cause::Crashes | Cause::NotMade | Cause::GivenUp => SHORTLY,
        Cause::Unschedulable
        | Cause::NotBegun
        | Cause::ScaledDown
        | Cause::NotReady
        | Cause::Starting
        | Cause::Other => GRACE,
    }
}

/// The reported problem: none during an ordinary start, and a stable text for one problem.
#[derive(Debug, Default)]
pub(super) struct GracePeriod {
    unwell_since: Option<Instant>,
    well_since: Option<Instant>,
    reported: Option<HealthProblem>,
}

impl GracePeriod {
    /// Takes the current problem, and returns the one to report.
    pub(super) fn look(
        &mut self,
        now: Instant,
        found: Option<HealthProblem>,
    ) -> Option<HealthProblem> {
        let Some(found) = found else {
            let well_since = *self.well_since.get_or_insert(now);
            if self.reported.is_none() || now.duration_since(well_since) >= CALM {
                *self = Self::default();
            }
            return self.reported.clone();
        };
        self.well_since = None;
        let since = *self.unwell_since.get_or_insert(now);
        let is_due = now.duration_since(since) >= grace(found.cause);
        if is_due || self.reported.is_some() {
            self.publish(found);
        }
        self.reported.clone()
    }

    /// Keeps the text of a reported problem that lasts, unless it is empty: the cluster's messages vary.
    fn publish(&mut self, found: HealthProblem) {
        let lasts = self.reported.as_ref().is_some_and(|it| {
            let is_same = it.workload == found.workload && it.cause == found.cause;
            is_same && it.subject == found.subject && !it.detail.is_empty()
        });
        if !lasts {
            self.reported = Some(found);
        }
    }

    /// Whether time alone may change the reported problem.
    pub(super) const fn waits(&self) -> bool {
        self.unwell_since.is_some()
    }
}

#[cfg(test)]
mod tests;
