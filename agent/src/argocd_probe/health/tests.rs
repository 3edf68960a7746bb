use k8s_openapi::api::apps::v1::Deployment;
use serde_json::{Value, json};

use super::*;
use crate::argocd_probe::programs::Programs;

/// The problem of a Deployment of ours with these Pods.
fn found(pods: &[Value]) -> HealthProblem {
    found_of(1, &json!({}), pods)
}

fn found_of(replicas: i64, status: &Value, pods: &[Value]) -> HealthProblem {
    let deployment = json!({
        "metadata": { "name": "argocd-repo-server", "labels": { argocd::keys::addon::INSTALLED: "true" } },
        "spec": { "replicas": replicas, "selector": {}, "template": {} },
        "status": status,
    });
    let mut programs = Programs::default();
    programs.take::<Deployment>(runtime::kube::Event::Applied {
        object: Box::new(serde_json::from_value(deployment).unwrap()),
        listed: true,
    });
    let (name, program) = programs.unwell().next().unwrap();
    let pods: Vec<Pod> = pods
        .iter()
        .map(|pod| serde_json::from_value(pod.clone()).unwrap())
        .collect();
    health_problem(name, program, &pods)
}

fn pod(status: &Value) -> Value {
    json!({ "metadata": { "name": "argocd-repo-server-1" }, "status": status })
}

fn container(state: &Value, restarts: i32, last: &Value) -> Value {
    json!({
        "name": "argocd-repo-server", "image": "example.org/argocd:v9", "imageID": "", "ready": false,
        "restartCount": restarts, "state": state, "lastState": last,
    })
}

fn with(container: &Value) -> Value {
    pod(&json!({ "phase": "Pending", "containerStatuses": [container] }))
}

fn waiting(reason: &str, message: &str) -> Value {
    json!({ "waiting": { "reason": reason, "message": message } })
}

fn reply(health_problem: &HealthProblem) -> (Cause, &str, &str) {
    (
        health_problem.cause,
        &health_problem.subject,
        &health_problem.detail,
    )
}

#[test]
fn image_pull_failure_names_image_and_registry_error() {
    for (reason, message) in [
        ("ErrImagePull", "example.org: not found"),
        (
            "ImagePullBackOff",
            "Back-off pulling image \"x\": ErrImagePull: example.org: not found",
        ),
    ] {
        let found = found(&[with(&container(&waiting(reason, message), 0, &json!({})))]);
        let expected = (
            Cause::ImagePull,
            "example.org/argocd:v9",
            "example.org: not found",
        );
        assert_eq!(reply(&found), expected, "{reason}");
        assert_eq!(found.workload, "Deployment argocd-repo-server");
    }
}

#[test]
fn crash_loop_report_omits_the_termination_message() {
    let end = json!({ "terminated": { "exitCode": 20, "reason": "Error", "message": "password=secret" } });
    let killed = json!({ "terminated": { "exitCode": 137, "reason": "OOMKilled" } });
    let between = waiting("CrashLoopBackOff", "back-off 40s restarting");
    let up = json!({ "running": { "startedAt": "2026-11-22T00:00:00Z" } });
    for (state, last, expected) in [
        (&end, &json!({}), "exit code 20"),
        (&between, &end, "exit code 20"),
        (&up, &end, "exit code 20"),
        (&between, &killed, "exit code 137 (OOMKilled)"),
    ] {
        let found = found(&[with(&container(state, 3, last))]);
        assert_eq!(
            reply(&found),
            (Cause::Crashes, "argocd-repo-server", expected)
        );
    }
}

#[test]
fn unschedulable_waiting_and_evicted_pods_are_reported() {
    let unschedulable = pod(&json!({ "phase": "Pending", "conditions": [
        { "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
          "message": "0/3 nodes are available:\n 3 Insufficient memory." },
    ] }));
    let unbegun = with(&container(
        &waiting(
            "CreateContainerConfigError",
            "secret \"argocd-redis\" not found",
        ),
        0,
        &json!({}),
    ));
    let evicted =
        pod(&json!({ "phase": "Failed", "reason": "Evicted", "message": "low on memory" }));
    let unready = with(&container(&json!({ "running": {} }), 0, &json!({})));
    let starting = with(&container(&waiting("ContainerCreating", ""), 0, &json!({})));
    for (pod, cause, detail) in [
        (
            &unschedulable,
            Cause::Unschedulable,
            "0/3 nodes are available: 3 Insufficient memory.",
        ),
        (
            &unbegun,
            Cause::NotBegun,
            "CreateContainerConfigError: secret \"argocd-redis\" not found",
        ),
        (&evicted, Cause::GivenUp, "Evicted: low on memory"),
        (&unready, Cause::NotReady, ""),
        (&starting, Cause::Starting, ""),
    ] {
        let found = found(std::slice::from_ref(pod));
        assert_eq!((found.cause, found.detail.as_str()), (cause, detail));
    }
    // A cause comes before its effects.
    assert_eq!(
        found(&[starting, unready, unschedulable]).cause,
        Cause::Unschedulable
    );
}

#[test]
fn an_init_container_counts_until_it_succeeds() {
    let pod = |state: &Value| {
        let main = container(&waiting("PodInitializing", ""), 0, &json!({}));
        let mut init = container(state, 0, &json!({}));
        init["name"] = "secret-init".into();
        pod(&json!({ "initContainerStatuses": [init], "containerStatuses": [main] }))
    };
    let done = json!({ "terminated": { "exitCode": 0, "reason": "Completed" } });
    assert_eq!(found(&[pod(&done)]).cause, Cause::Starting);
    let failed = json!({ "terminated": { "exitCode": 1, "reason": "Error" } });
    let failed = found(&[pod(&failed)]);
    assert_eq!(
        reply(&failed),
        (Cause::Crashes, "secret-init", "exit code 1")
    );
}

#[test]
fn without_pods_the_replica_failure_of_the_cluster_is_reported() {
    assert_eq!(reply(&found(&[])), (Cause::NotMade, "", ""));
    let failure = json!({ "conditions": [
        { "type": "ReplicaFailure", "status": "True", "message": "exceeded quota: compute" },
    ] });
    let quota = found_of(1, &failure, &[]);
    assert_eq!(
        reply(&quota),
        (Cause::NotMade, "", "exceeded quota: compute")
    );
    assert_eq!(found_of(0, &json!({}), &[]).cause, Cause::ScaledDown);
    // Ready and terminating Pods are no problem.
    let ready = pod(&json!({ "conditions": [{ "type": "Ready", "status": "True" }] }));
    let mut going = with(&container(&waiting("ErrImagePull", ""), 0, &json!({})));
    going["metadata"]["deletionTimestamp"] = "2026-11-22T00:00:00Z".into();
    assert_eq!(found(&[ready, going]).cause, Cause::Starting);
}

#[test]
fn long_messages_of_the_cluster_become_one_short_line() {
    let long = format!("a\n\tb {}", "x".repeat(1_000));
    let found = found(&[with(&container(
        &waiting("ErrImagePull", &long),
        0,
        &json!({}),
    ))]);
    assert!(found.detail.starts_with("a b x"), "{}", found.detail);
    assert_eq!(found.detail.chars().count(), LONGEST);
}

fn one(cause: Cause, workload: &str, detail: &str) -> HealthProblem {
    HealthProblem {
        workload: workload.to_owned(),
        cause,
        subject: String::new(),
        detail: detail.to_owned(),
    }
}

#[test]
fn of_several_problems_the_likely_cause_is_reported() {
    let redis = one(Cause::ImagePull, "Deployment argocd-redis", "");
    let waits = one(Cause::NotBegun, "Deployment argocd-repo-server", "");
    assert_eq!(worst(vec![waits.clone(), redis.clone()]), Some(redis));
    assert_eq!(worst(vec![waits.clone()]), Some(waits));
    assert_eq!(worst(Vec::new()), None);
}

#[test]
fn ordinary_start_reports_no_health_problem() {
    let (begin, mut grace_period) = (Instant::now(), GracePeriod::default());
    for second in 0..170 {
        let cause = if second < 20 {
            Cause::NotBegun
        } else {
            Cause::Starting
        };
        let at = begin + Duration::from_secs(second);
        assert_eq!(
            grace_period.look(at, Some(one(cause, "x", ""))),
            None,
            "{second}"
        );
        assert!(grace_period.waits());
    }
    assert_eq!(
        grace_period.look(begin + Duration::from_secs(170), None),
        None
    );
    assert!(!grace_period.waits());
    // The next problem has its own grace period.
    let later = begin + Duration::from_secs(200);
    assert_eq!(
        grace_period.look(later, Some(one(Cause::Starting, "x", ""))),
        None
    );
}

#[test]
fn persistent_health_problem_is_reported_early_and_stable() {
    let (begin, mut grace_period) = (Instant::now(), GracePeriod::default());
    let at = |second| begin + Duration::from_secs(second);
    let pull = |detail: &str| one(Cause::ImagePull, "x", detail);
    assert_eq!(grace_period.look(at(0), Some(pull("not found"))), None);
    assert_eq!(grace_period.look(at(29), Some(pull("not found"))), None);
    assert_eq!(grace_period.look(at(30), Some(pull(""))), Some(pull("")));
    let first = Some(pull("not found"));
    assert_eq!(grace_period.look(at(35), Some(pull("not found"))), first);
    assert_eq!(grace_period.look(at(40), Some(pull("no such host"))), first);
    // Another problem replaces it at once.
    let crash = one(Cause::Crashes, "x", "exit code 1");
    assert_eq!(grace_period.look(at(45), Some(crash.clone())), Some(crash));
}

#[test]
fn health_problem_clears_after_grace_and_flapping_restarts_it() {
    let (begin, mut grace_period) = (Instant::now(), GracePeriod::default());
    let at = |second| begin + Duration::from_secs(second);
    let crash = || Some(one(Cause::Crashes, "x", "exit code 1"));
    grace_period.look(at(0), crash());
    assert_eq!(grace_period.look(at(30), crash()), crash());
    assert_eq!(grace_period.look(at(35), None), crash());
    assert_eq!(grace_period.look(at(45), None), crash());
    assert_eq!(grace_period.look(at(47), crash()), crash());
    assert_eq!(grace_period.look(at(50), None), crash());
    assert!(grace_period.waits());
    assert_eq!(grace_period.look(at(65), None), None);
    assert!(!grace_period.waits());
}
