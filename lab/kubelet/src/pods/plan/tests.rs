use jiff::SignedDuration;
use serde_json::{Value, json};

use super::*;
use crate::pods::record::{Ended, Ending};

fn spec(value: Value) -> PodSpec {
    serde_json::from_value(value).unwrap()
}

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn after(seconds: i64) -> Timestamp {
    now() + SignedDuration::from_secs(seconds)
}

fn waiting() -> Record {
    Record::new()
}

fn running() -> Record {
    let mut record = Record::new();
    record.begin();
    record.run(&Container::default(), 7, now());
    record
}

fn ended(code: i32) -> Record {
    let mut record = running();
    record.end(Ended {
        code,
        signal: None,
        reason: "",
        message: None,
        started: None,
        finished: now(),
    });
    record
}

fn records<const N: usize>(records: [(&str, Record); N]) -> Records {
    records
        .into_iter()
        .map(|(name, record)| (name.to_owned(), record))
        .collect()
}

fn start(name: &str) -> Step {
    Step::Start(name.to_owned())
}

fn two() -> PodSpec {
    spec(
        json!({ "initContainers": [{ "name": "i" }], "containers": [{ "name": "a" }, { "name": "b" }] }),
    )
}

#[test]
fn containers_start_when_the_one_before_them_has_succeeded() {
    let first = plan(
        &two(),
        &records([("i", waiting()), ("a", waiting()), ("b", waiting())]),
        None,
        now(),
    );
    assert_eq!(first.steps, [start("i")]);
    let during = plan(
        &two(),
        &records([("i", running()), ("a", waiting()), ("b", waiting())]),
        None,
        now(),
    );
    assert_eq!(during, Plan::default());
    let then = plan(
        &two(),
        &records([("i", ended(0)), ("a", waiting()), ("b", waiting())]),
        None,
        now(),
    );
    assert_eq!(then.steps, [start("a"), start("b")]);
}

#[test]
fn failed_init_container_follows_the_restart_policy() {
    let state = records([("i", ended(1)), ("a", waiting()), ("b", waiting())]);
    assert_eq!(plan(&two(), &state, None, now()).steps, [start("i")]);
    let never = PodSpec {
        restart_policy: Some("Never".to_owned()),
        ..two()
    };
    assert_eq!(plan(&never, &state, None, now()).over, Some(Over::Failed));
}

#[test]
fn a_crashed_container_waits_for_its_pause() {
    let mut crashed = ended(1);
    crashed.not_before = after(4);
    let state = records([("i", ended(0)), ("a", crashed), ("b", running())]);
    assert_eq!(
        plan(&two(), &state, None, now()),
        Plan {
            wake: Some(after(4)),
            ..Plan::default()
        }
    );
    assert_eq!(plan(&two(), &state, None, after(4)).steps, [start("a")]);
}

#[test]
fn a_job_is_over_when_all_have_ended_and_none_comes_back() {
    let job = |policy: &str| PodSpec {
        restart_policy: Some(policy.to_owned()),
        ..two()
    };
    let over = |policy, a, b| {
        plan(
            &job(policy),
            &records([("i", ended(0)), ("a", a), ("b", b)]),
            None,
            now(),
        )
        .over
    };
    assert_eq!(over("Never", ended(0), ended(0)), Some(Over::Succeeded));
    assert_eq!(over("Never", ended(1), ended(0)), Some(Over::Failed));
    assert_eq!(over("Never", ended(1), running()), None);
    assert_eq!(over("OnFailure", ended(1), ended(0)), None);
    assert_eq!(over("Always", ended(0), ended(0)), None);
}

#[test]
fn a_sidecar_runs_before_and_beside_the_others_and_ends_after_them() {
    let with_sidecar = spec(json!({
        "restartPolicy": "Never",
        "initContainers": [{ "name": "s", "restartPolicy": "Always" }],
        "containers": [{ "name": "a" }],
    }));
    let steps = |s, a| plan(&with_sidecar, &records([("s", s), ("a", a)]), None, now());
    assert_eq!(steps(waiting(), waiting()).steps, [start("s")]);
    assert_eq!(steps(running(), waiting()).steps, [start("a")]);
    let done = steps(running(), ended(0));
    assert_eq!(
        (done.steps, done.over),
        (vec![Step::Terminate("s".to_owned())], None)
    );
    assert_eq!(steps(ended(0), ended(0)).over, Some(Over::Succeeded));
}

#[test]
fn a_pod_that_stops_is_asked_then_forced_then_over() {
    let ask = |a, b, at| {
        plan(
            &two(),
            &records([("i", ended(0)), ("a", a), ("b", b)]),
            Some(after(30)),
            at,
        )
    };
    let first = ask(running(), running(), now());
    assert_eq!(
        first.steps,
        [
            Step::Terminate("a".to_owned()),
            Step::Terminate("b".to_owned())
        ]
    );
    assert_eq!(first.wake, Some(after(30)));

    let asked = || Record {
        ending: Some(Ending {
            kill_at: after(30),
            killed: false,
        }),
        ..running()
    };
    assert_eq!(
        ask(asked(), ended(0), after(1)),
        Plan {
            wake: Some(after(30)),
            ..Plan::default()
        }
    );
    assert_eq!(
        ask(asked(), ended(0), after(30)).steps,
        [Step::Kill("a".to_owned())]
    );

    let killed = Record {
        ending: Some(Ending {
            kill_at: after(30),
            killed: true,
        }),
        ..running()
    };
    assert_eq!(ask(killed, ended(0), after(31)), Plan::default());
    assert_eq!(ask(ended(0), ended(0), after(31)).over, Some(Over::Stopped));
}

#[test]
fn stuck_container_is_killed_while_the_pod_continues() {
    let asked = Record {
        ending: Some(Ending {
            kill_at: after(5),
            killed: false,
        }),
        ..running()
    };
    let state = records([("i", ended(0)), ("a", asked), ("b", running())]);
    assert_eq!(
        plan(&two(), &state, None, now()),
        Plan {
            wake: Some(after(5)),
            ..Plan::default()
        }
    );
    assert_eq!(
        plan(&two(), &state, None, after(5)).steps,
        [Step::Kill("a".to_owned())]
    );
}

#[test]
fn nothing_is_begun_in_a_pod_that_stops() {
    let state = records([("i", ended(0)), ("a", waiting()), ("b", waiting())]);
    assert_eq!(
        plan(&two(), &state, Some(after(30)), now()).over,
        Some(Over::Stopped)
    );
}
