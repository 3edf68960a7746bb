use serde_json::{Value, json};

use super::*;

/// The label `part-of` of every installer, and our mark.
const OF_ARGO: (&str, &str) = OF_ARGOCD;
const OURS: (&str, &str) = (INSTALLED, "true");

fn object(name: &str, labels: &[(&str, &str)], replicas: i64, status: &Value) -> Value {
    let labels: BTreeMap<&str, &str> = labels.iter().copied().collect();
    json!({
        "metadata": { "name": name, "labels": labels, "generation": 2 },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app.kubernetes.io/name": name } },
            "template": {}, "serviceName": name,
        },
        "status": status,
    })
}

fn well() -> Value {
    json!({
        "observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
        "currentRevision": "a", "updateRevision": "a",
    })
}

fn event<K: serde::de::DeserializeOwned>(object: Value) -> Event<K> {
    Event::Applied {
        object: Box::new(serde_json::from_value(object).unwrap()),
        listed: true,
    }
}

fn listed() -> Programs {
    let mut programs = Programs::default();
    programs.take::<Deployment>(Event::Synced);
    programs.take::<StatefulSet>(Event::Synced);
    programs
}

fn seen(deployments: &[(&str, &[(&str, &str)])]) -> Option<Runs> {
    let mut programs = listed();
    for (name, labels) in deployments {
        programs.take::<Deployment>(event(object(name, labels, 1, &well())));
    }
    programs.runs()
}

#[test]
fn owner_is_unknown_until_both_kinds_are_listed() {
    let mut programs = Programs::default();
    assert_eq!(programs.runs(), None);
    programs.take::<Deployment>(Event::Synced);
    assert_eq!(programs.runs(), None);
    assert!(programs.take::<StatefulSet>(Event::Synced));
    assert_eq!(programs.runs(), Some(Runs::Nothing));
}

#[test]
fn argo_cd_is_detected_by_label_or_name_and_ours_by_its_mark() {
    let repo_server = "argocd-repo-server";
    assert_eq!(seen(&[]), Some(Runs::Nothing));
    assert_eq!(seen(&[("shop", &[("app", "shop")])]), Some(Runs::Nothing));
    assert_eq!(seen(&[("gitops-server", &[OF_ARGO])]), Some(Runs::Foreign));
    assert_eq!(seen(&[(repo_server, &[])]), Some(Runs::Foreign));
    assert_eq!(seen(&[(repo_server, &[OF_ARGO, OURS])]), Some(Runs::Ours));
    // An administrator installed notifications beside ours.
    let beside: (&str, &[_]) = ("argocd-notifications-controller", &[OF_ARGO]);
    assert_eq!(seen(&[beside, (repo_server, &[OURS])]), Some(Runs::Ours));
}

#[test]
fn partial_foreign_argo_cd_is_detected() {
    // Scaled to zero overnight.
    let mut asleep = listed();
    asleep.take::<Deployment>(event(object("argocd-repo-server", &[], 0, &json!({}))));
    assert_eq!(asleep.runs(), Some(Runs::Foreign));
    // The operator's: named after its ArgoCD object, with the usual label; only the controller is up so far.
    let mut operators = listed();
    let controller = object(
        "openshift-gitops-application-controller",
        &[
            OF_ARGO,
            ("app.kubernetes.io/managed-by", "openshift-gitops"),
        ],
        1,
        &json!({}),
    );
    operators.take::<StatefulSet>(event(controller));
    assert_eq!(operators.runs(), Some(Runs::Foreign));
    // An operator by itself, an Argo Rollouts or an Argo Workflows is none.
    let others: [(&str, &[(&str, &str)]); 3] = [
        (
            "argocd-operator-controller-manager",
            &[("control-plane", "argocd-operator")],
        ),
        (
            "argo-rollouts",
            &[("app.kubernetes.io/part-of", "argo-rollouts")],
        ),
        (
            "workflow-controller",
            &[("app.kubernetes.io/part-of", "argo-workflows")],
        ),
    ];
    assert_eq!(seen(&others), Some(Runs::Nothing));
    // The probe looks at no foreign program closely.
    assert_eq!(operators.unwell().count(), 0);
}

#[test]
fn deleted_programs_no_longer_count() {
    let mut programs = listed();
    let one = || event(object("argocd-redis", &[OURS], 1, &well()));
    assert!(programs.take::<Deployment>(one()));
    assert!(!programs.take::<Deployment>(one()), "nothing new");
    let gone = runtime::kube::Gone {
        namespace: None,
        name: "argocd-redis".to_owned(),
        uid: String::new(),
        object: None,
        is_seen: true,
    };
    assert!(programs.take::<Deployment>(Event::Deleted(gone)));
    assert_eq!(programs.runs(), Some(Runs::Nothing));
}

fn unwell(status: &Value, replicas: i64) -> bool {
    let mut programs = listed();
    programs.take::<Deployment>(event(object("argocd-redis", &[OURS], replicas, status)));
    programs.unwell().count() == 1
}

#[test]
fn a_deployment_is_well_when_its_newest_pods_are_all_there() {
    assert!(!unwell(&well(), 1));
    let but = |field: &str, value: i64| {
        let mut status = well();
        status[field] = value.into();
        status
    };
    // Its status is about the template before; the old Pod stays while the new one cannot start; no Pod is ready.
    for status in [
        but("observedGeneration", 1),
        but("replicas", 2),
        but("updatedReplicas", 0),
        but("availableReplicas", 0),
        json!({}),
    ] {
        assert!(unwell(&status, 1), "{status}");
    }
    // A user who scales it to zero has no Argo CD.
    assert!(unwell(&json!({ "observedGeneration": 2 }), 0));
}

#[test]
fn a_stateful_set_is_well_when_its_newest_pods_are_ready() {
    let unwell = |status: &Value| {
        let mut programs = listed();
        let name = "argocd-application-controller";
        programs.take::<StatefulSet>(event(object(name, &[OURS], 1, status)));
        let found: Vec<_> = programs
            .unwell()
            .map(|(name, it)| (name.to_owned(), it.selector.clone()))
            .collect();
        found
    };
    assert_eq!(unwell(&well()), []);
    let mut rolling = well();
    rolling["updateRevision"] = "b".into();
    rolling["updatedReplicas"] = 0.into();
    let expected = (
        "StatefulSet argocd-application-controller".to_owned(),
        "app.kubernetes.io/name=argocd-application-controller".to_owned(),
    );
    assert_eq!(unwell(&rolling), [expected]);
}

#[test]
fn replica_failure_of_a_deployment_is_kept() {
    let mut programs = listed();
    let mut status = well();
    status["availableReplicas"] = 0.into();
    status["conditions"] = json!([
        { "type": "Available", "status": "False", "message": "x" },
        { "type": "ReplicaFailure", "status": "True", "message": "exceeded quota: compute" },
    ]);
    programs.take::<Deployment>(event(object("argocd-redis", &[OURS], 1, &status)));
    let failures: Vec<_> = programs
        .unwell()
        .map(|(_, it)| it.failure.clone())
        .collect();
    assert_eq!(failures, [Some("exceeded quota: compute".to_owned())]);
}
