use jiff::SignedDuration;
use serde_json::json;

use super::*;

fn pod() -> Pod {
    serde_json::from_value(json!({
        "metadata": { "name": "p", "namespace": "ns", "uid": "u", "generation": 1 },
        "spec": {
            "initContainers": [{ "name": "i" }],
            "containers": [{ "name": "a", "image": "x", "readinessProbe": { "tcpSocket": { "port": 1 } } }],
        },
    }))
    .unwrap()
}

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn place() -> Place {
    Place {
        host_ip: "10.244.1.1".to_owned(),
        pod_ip: Some("10.244.1.2".to_owned()),
    }
}

fn ended(code: i32, finished: Timestamp) -> Ended {
    Ended {
        code,
        signal: None,
        reason: "Completed",
        message: None,
        started: None,
        finished,
    }
}

fn made(change: impl FnOnce(&mut Record, &mut Record), over: Option<Over>) -> PodStatus {
    let (mut init, mut own) = (Record::new(), Record::new());
    change(&mut init, &mut own);
    let records = [("i".to_owned(), init), ("a".to_owned(), own)].into();
    status(
        &pod(),
        &records,
        &place(),
        over,
        &PodStatus::default(),
        now(),
    )
}

fn true_conditions(status: &PodStatus) -> Vec<&str> {
    let conditions = status.conditions.iter().flatten();
    conditions
        .filter(|condition| condition.status == "True")
        .map(|condition| condition.type_.as_str())
        .collect()
}

fn run(init: &mut Record, own: &mut Record) {
    init.begin();
    init.end(ended(0, now()));
    own.begin();
    own.run(&pod().spec.unwrap().containers[0], 7, now());
}

#[test]
fn a_pod_is_pending_until_its_init_containers_are_through() {
    let status = made(|_, _| {}, None);
    assert_eq!(status.phase.as_deref(), Some("Pending"));
    assert_eq!(
        true_conditions(&status),
        ["PodScheduled", "PodReadyToStartContainers"]
    );
    let own = &status.container_statuses.unwrap()[0];
    let waiting = own.state.as_ref().unwrap().waiting.as_ref().unwrap();
    assert_eq!(waiting.reason.as_deref(), Some("PodInitializing"));
}

#[test]
fn a_running_pod_is_ready_when_its_readiness_probe_is_content() {
    let unready = made(run, None);
    assert_eq!(unready.phase.as_deref(), Some("Running"));
    assert_eq!(
        true_conditions(&unready),
        ["PodScheduled", "PodReadyToStartContainers", "Initialized"]
    );

    let ready = made(
        |init, own| {
            run(init, own);
            own.ready = true;
        },
        None,
    );
    assert_eq!(true_conditions(&ready), OURS);
    assert!(ready.container_statuses.unwrap()[0].ready);
}

#[test]
fn a_crash_loop_shows_how_the_last_run_ended() {
    let status = made(
        |init, own| {
            run(init, own);
            own.end(ended(3, now()));
            own.begin();
            own.end(ended(3, now()));
        },
        None,
    );
    let own = &status.container_statuses.unwrap()[0];
    let waiting = own.state.as_ref().unwrap().waiting.as_ref().unwrap();
    assert_eq!(waiting.reason.as_deref(), Some("CrashLoopBackOff"));
    assert_eq!(
        own.last_state
            .as_ref()
            .unwrap()
            .terminated
            .as_ref()
            .unwrap()
            .exit_code,
        3
    );
    assert_eq!(own.restart_count, 1);
    assert_eq!(status.phase.as_deref(), Some("Running"));
}

#[test]
fn a_condition_keeps_its_time_while_it_does_not_change() {
    let first = made(run, None);
    let (mut init, mut own) = (Record::new(), Record::new());
    run(&mut init, &mut own);
    own.ready = true;
    let records = [("i".to_owned(), init), ("a".to_owned(), own)].into();
    let later = now() + SignedDuration::from_secs(9);
    let second = status(&pod(), &records, &place(), None, &first, later);
    let time = |name: &str| {
        let conditions = second.conditions.as_ref().unwrap();
        conditions
            .iter()
            .find(|condition| condition.type_ == name)
            .unwrap()
            .last_transition_time
            .clone()
            .unwrap()
            .0
    };
    assert_eq!(time("Initialized"), now());
    assert_eq!(time("Ready"), later);
    assert_eq!(second.start_time, first.start_time);
}

#[test]
fn a_finished_job_reports_its_outcome() {
    let succeeded = made(
        |init, own| {
            run(init, own);
            own.end(ended(0, now()));
        },
        Some(Over::Succeeded),
    );
    assert_eq!(succeeded.phase.as_deref(), Some("Succeeded"));
    assert!(!true_conditions(&succeeded).contains(&"Ready"));
}
