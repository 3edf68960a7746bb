//! What is found of agents.

use super::*;

#[test]
fn agent_finding_explains_why_the_pod_does_not_run() {
    let mut facts = facts();
    change(&mut facts, "argocd-agent-addon-agent", |it| {
        it["status"] = json!({});
    });
    let container = json!({
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}},
        "lastState": {"terminated": {"reason": "Error", "exitCode": 2, "message": "no\nway"}},
    });
    spoke(&mut facts).pods = Ok(vec![json!({
        "metadata": {"labels": {"app.kubernetes.io/name": "argocd-agent-agent"}},
        "status": {"containerStatuses": [container]},
    })]);
    assert_eq!(troubles(&facts), [("agent", Outcome::Failed)]);
    let finding = agent::agent(&facts, facts.spoke.as_ref().unwrap()).unwrap();
    let words = "CrashLoopBackOff, back-off 40s; before that: Error, exit code 2, no way";
    assert!(finding.cause.ends_with(words), "{finding:?}");
    assert!(
        finding.next.unwrap().contains("certificate"),
        "it has none yet"
    );

    spoke(&mut facts).pods = Ok(vec![json!({
        "metadata": {"labels": {"app.kubernetes.io/name": "argocd-agent-agent"}},
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "message": "no node fits"}]},
    })]);
    let finding = agent::agent(&facts, facts.spoke.as_ref().unwrap()).unwrap();
    assert!(finding.cause.ends_with("no node fits"), "{finding:?}");

    spoke(&mut facts).programs = Ok(vec![klusterlet()]);
    let finding = agent::agent(&facts, facts.spoke.as_ref().unwrap()).unwrap();
    assert_eq!(finding.result, Outcome::Failed, "the add-on is enabled");
    hub(&mut facts).addon = Ok(None);
    let finding = agent::agent(&facts, facts.spoke.as_ref().unwrap()).unwrap();
    assert_eq!(finding.result, Outcome::Ok, "it is not enabled");
}

#[test]
fn another_agent_is_a_warning_before_ours_and_a_failure_beside_it() {
    let labels = json!({"app.kubernetes.io/name": "argocd-agent-agent"});
    let other = program(
        "argocd",
        "argocd-agent-agent",
        &labels,
        "quay.io/argocd-agent:v0.5.0",
    );
    let mut beside = facts();
    spoke(&mut beside).programs.as_mut().unwrap().push(other);
    assert_eq!(troubles(&beside), [("other agents", Outcome::Failed)]);
    change(&mut beside, "argocd-agent-addon-agent", |it| {
        it["spec"]["replicas"] = json!(0);
    });
    let expected = [
        ("other agents", Outcome::Warning),
        ("agent", Outcome::Failed),
    ];
    assert_eq!(troubles(&beside), expected);
    change(&mut beside, "argocd-agent-agent", |it| {
        it["spec"]["replicas"] = json!(0);
    });
    assert_eq!(troubles(&beside), [("agent", Outcome::Failed)]);
}
