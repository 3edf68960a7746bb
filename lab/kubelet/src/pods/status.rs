//! The status of a Pod as reported to the API. Pure.

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{
        Container, ContainerState, ContainerStateRunning, ContainerStateTerminated,
        ContainerStateWaiting, ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodSpec,
        PodStatus,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::ResourceExt;

use super::{
    plan::{Over, comes_back, is_sidecar},
    record::{Ended, Record, Records, State},
};

/// The addresses of a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) host_ip: String,
    /// None before the sandbox is there, and after it is gone.
    pub(super) pod_ip: Option<String>,
}

/// Makes the status of a Pod. Conditions keep the time of their last change from `before`, and
/// conditions that no kubelet owns are kept unchanged.
pub(super) fn status(
    pod: &Pod,
    records: &Records,
    place: &Place,
    over: Option<Over>,
    before: &PodStatus,
    now: Timestamp,
) -> PodStatus {
    let empty = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&empty);
    let init = spec.init_containers.as_deref().unwrap_or_default();
    let initialized = init.iter().all(|container| is_past(container, records));
    let statuses =
        |containers: &[Container], waits_for_init: bool| -> Option<Vec<ContainerStatus>> {
            let statuses = containers.iter().filter_map(|container| {
                let record = records.get(&container.name)?;
                Some(container_status(
                    pod,
                    container,
                    record,
                    waits_for_init && !initialized,
                ))
            });
            Some(statuses.collect()).filter(|all: &Vec<_>| !all.is_empty())
        };
    let phase = phase(spec, records, initialized, over);
    let ip = place.pod_ip.clone().or_else(|| before.pod_ip.clone());
    PodStatus {
        phase: Some(phase.to_owned()),
        conditions: Some(conditions(
            pod,
            records,
            place,
            initialized,
            phase,
            before,
            now,
        )),
        container_statuses: statuses(&spec.containers, true),
        init_container_statuses: statuses(init, false),
        host_ip: Some(place.host_ip.clone()),
        host_ips: Some(vec![HostIP {
            ip: place.host_ip.clone(),
        }]),
        pod_ips: ip.clone().map(|ip| vec![PodIP { ip }]),
        pod_ip: ip,
        start_time: before.start_time.clone().or(Some(Time(now))),
        observed_generation: pod.metadata.generation,
        ..PodStatus::default()
    }
}

/// Whether an init container no longer blocks the others.
fn is_past(container: &Container, records: &Records) -> bool {
    records
        .get(&container.name)
        .is_some_and(|record| match &record.state {
            State::Ended(ended) => !is_sidecar(container) && ended.code == 0,
            State::Running { .. } => is_sidecar(container) && record.started,
            State::Starting | State::Waiting { .. } => false,
        })
}

fn phase(spec: &PodSpec, records: &Records, initialized: bool, over: Option<Over>) -> &'static str {
    let own: Vec<&Record> = spec
        .containers
        .iter()
        .filter_map(|container| records.get(&container.name))
        .collect();
    let codes = own.iter().map(|record| match &record.state {
        State::Ended(ended) => Some(ended.code),
        State::Starting | State::Running { .. } | State::Waiting { .. } => None,
    });
    match over {
        Some(Over::Succeeded) => "Succeeded",
        // It ended because it was asked to: the phase is that of its containers. A job's Pod must not
        // look like a success.
        Some(Over::Stopped) if initialized && codes.clone().all(|code| code == Some(0)) => {
            "Succeeded"
        }
        Some(Over::Failed | Over::Stopped) => "Failed",
        None if !initialized => "Pending",
        None if own.iter().all(|record| record.runs > 0) => "Running",
        None => "Pending",
    }
}

fn container_status(
    pod: &Pod,
    container: &Container,
    record: &Record,
    blocked: bool,
) -> ContainerStatus {
    let spec = pod.spec.as_ref();
    let id = |run: u32| {
        format!(
            "process://{}/{}/{run}",
            pod.uid().unwrap_or_default(),
            container.name
        )
    };
    let running = matches!(record.state, State::Running { .. });
    let image = container.image.clone().unwrap_or_default();
    let state = match &record.state {
        State::Waiting {
            reason: "ContainerCreating",
            message: None,
        } if blocked => waiting("PodInitializing", None),
        State::Waiting { reason, message } => waiting(reason, message.as_deref()),
        State::Starting => waiting("ContainerCreating", None),
        State::Running { since, .. } => ContainerState {
            running: Some(ContainerStateRunning {
                started_at: Some(Time(*since)),
            }),
            ..ContainerState::default()
        },
        State::Ended(ended) if backs_off(spec, container, record, ended) => waiting(
            "CrashLoopBackOff",
            Some("the container ended and is begun again after a pause"),
        ),
        State::Ended(ended) => terminated(ended, id(record.restarts())),
    };
    let last = match &record.state {
        State::Ended(ended) if state.waiting.is_some() => Some(ended),
        State::Waiting { .. } | State::Starting | State::Running { .. } | State::Ended(_) => {
            record.last.as_ref()
        }
    };
    let last_id = || {
        id(record
            .restarts()
            .saturating_sub(u32::from(state.waiting.is_none() && running)))
    };
    ContainerStatus {
        name: container.name.clone(),
        image_id: image.clone(),
        image,
        container_id: Some(id(record.restarts())).filter(|_| record.runs > 0),
        ready: running && record.started && record.ready,
        started: Some(running && record.started),
        restart_count: i32::try_from(record.restarts()).unwrap_or(i32::MAX),
        last_state: last.map(|ended| terminated(ended, last_id())),
        state: Some(state),
        ..ContainerStatus::default()
    }
}

/// Whether a container that has ended waits for its next run, rather than having ended for good.
fn backs_off(
    spec: Option<&PodSpec>,
    container: &Container,
    record: &Record,
    ended: &Ended,
) -> bool {
    let Some(spec) = spec else { return false };
    let own = spec.containers.iter().any(|own| own.name == container.name);
    let again = if own {
        comes_back(spec, ended.code)
    } else {
        is_sidecar(container)
            || (ended.code != 0 && spec.restart_policy.as_deref() != Some("Never"))
    };
    again && record.not_before > ended.finished
}

fn waiting(reason: &str, message: Option<&str>) -> ContainerState {
    let waiting = ContainerStateWaiting {
        reason: Some(reason.to_owned()),
        message: message.map(str::to_owned),
    };
    ContainerState {
        waiting: Some(waiting),
        ..ContainerState::default()
    }
}

fn terminated(ended: &Ended, id: String) -> ContainerState {
    let terminated = ContainerStateTerminated {
        container_id: Some(id),
        exit_code: ended.code,
        signal: ended.signal,
        reason: Some(ended.reason.to_owned()),
        message: ended.message.clone(),
        started_at: ended.started.map(Time),
        finished_at: Some(Time(ended.finished)),
    };
    ContainerState {
        terminated: Some(terminated),
        ..ContainerState::default()
    }
}

/// The conditions a kubelet sets.
const OURS: [&str; 5] = [
    "PodScheduled",
    "PodReadyToStartContainers",
    "Initialized",
    "ContainersReady",
    "Ready",
];

/// Why a condition is not true: reason and message.
type WhyNot = Option<(&'static str, String)>;

#[expect(
    clippy::too_many_arguments,
    reason = "all inputs of the conditions, used once"
)]
fn conditions(
    pod: &Pod,
    records: &Records,
    place: &Place,
    initialized: bool,
    phase: &str,
    before: &PodStatus,
    now: Timestamp,
) -> Vec<PodCondition> {
    let live = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    let over = matches!(phase, "Succeeded" | "Failed");
    let unready = if over {
        Some(("PodCompleted", String::new()))
    } else {
        unready(pod, records)
    };
    let findings = [
        None,
        place.pod_ip.is_none().then(|| ("", String::new())),
        (!initialized && !over).then(|| ("ContainersNotInitialized", String::new())),
        unready.clone(),
        unready.or_else(|| closed_gate(pod, live)),
    ];
    let known = before.conditions.as_deref().unwrap_or_default();
    let ours = OURS
        .into_iter()
        .zip(findings)
        .map(|(name, why_not)| condition(name, why_not, pod.metadata.generation, known, now));
    let others = live
        .iter()
        .filter(|condition| !OURS.contains(&condition.type_.as_str()))
        .cloned();
    ours.chain(others).collect()
}

fn unready(pod: &Pod, records: &Records) -> WhyNot {
    let is_ready = |record: &Record| {
        matches!(record.state, State::Running { .. }) && record.started && record.ready
    };
    let own = pod
        .spec
        .iter()
        .flat_map(|spec| &spec.containers)
        .map(|container| container.name.as_str());
    let unready: Vec<&str> = own
        .filter(|name| !records.get(*name).is_some_and(is_ready))
        .collect();
    let message = || format!("containers with unready status: [{}]", unready.join(" "));
    (!unready.is_empty()).then(|| ("ContainersNotReady", message()))
}

/// A readiness gate: a condition that another controller has to set before the Pod is ready.
fn closed_gate(pod: &Pod, live: &[PodCondition]) -> WhyNot {
    let mut gates = pod
        .spec
        .iter()
        .flat_map(|spec| spec.readiness_gates.iter().flatten());
    let closed = gates.find(|gate| {
        !live
            .iter()
            .any(|known| known.type_ == gate.condition_type && known.status == "True")
    })?;
    Some((
        "ReadinessGatesNotReady",
        format!("condition {} is not True", closed.condition_type),
    ))
}

fn condition(
    name: &str,
    why_not: WhyNot,
    generation: Option<i64>,
    before: &[PodCondition],
    now: Timestamp,
) -> PodCondition {
    let status = if why_not.is_none() { "True" } else { "False" };
    let same = before
        .iter()
        .find(|known| known.type_ == name && known.status == status);
    let (reason, message) = why_not.unwrap_or_default();
    let stated = |text: String| Some(text).filter(|text| !text.is_empty());
    PodCondition {
        type_: name.to_owned(),
        status: status.to_owned(),
        reason: stated(reason.to_owned()),
        message: stated(message),
        last_transition_time: same
            .and_then(|known| known.last_transition_time.clone())
            .or(Some(Time(now))),
        last_probe_time: None,
        observed_generation: generation,
    }
}

#[cfg(test)]
mod tests;
