//! Users edit or delete OCM's objects by hand.

use anyhow::{Result, ensure};
use kube::api::{DynamicObject, PostParams};
use lab::{
    product,
    steps::{
        At, enrol,
        objects::{condition, has_condition},
    },
    wait,
};
use serde_json::{Value, json};

use crate::stage::Stage;

const WORK: &str = "addon-argocd-agent-addon-deploy-0";

fn agent_in(namespace: &str) -> At {
    At::deployment(namespace, "argocd-agent-addon-agent")
}

/// A work of another client stays, even with our label, while the add-on is enabled and disabled.
pub(crate) async fn foreign_manifest_work_with_our_label_stays(stage: &Stage) -> Result<()> {
    stage.not_enrolled(2).await?;
    let theirs = At::work("spoke2", "theirs");
    let note = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "namespace": "default", "name": "theirs" },
    });
    let spec = json!({ "workload": { "manifests": [note] } });
    let label = json!({ "open-cluster-management.io/addon-name": "argocd-agent-addon" });
    let work = json!({ "metadata": { "labels": label }, "spec": spec });
    let made = stage.hub.apply(&theirs, work).await?;
    let there = At::config_map("default", "theirs");
    stage.spoke(2).until_there(&there, wait::BOUND).await?;

    enrol::by_label(&stage.hub, "spoke2").await?;
    let connected = |it: &Value| has_condition(it, "Available", "True", "AgentConnected");
    stage
        .hub
        .until(&At::addon("spoke2"), "works", wait::BOUND, connected)
        .await?;
    enrol::take_label_away(&stage.hub, "spoke2").await?;
    stage
        .hub
        .until_gone(&At::addon("spoke2"), wait::BOUND)
        .await?;
    stage
        .hub
        .until_gone(&At::work("spoke2", WORK), wait::BOUND)
        .await?;
    stage
        .hub
        .until_gone(&enrol::cluster_secret("spoke2"), wait::BOUND)
        .await?;

    let kept = stage.hub.read(&theirs).await?;
    ensure!(
        kept["metadata"]["uid"] == made["metadata"]["uid"]
            && kept["metadata"]["deletionTimestamp"].is_null(),
        "{}",
        kept["metadata"]
    );
    stage.hub.delete(&theirs).await?;
    stage.spoke(2).until_gone(&there, wait::BOUND).await
}

/// A work that a user deletes is recreated as soon as it is gone.
pub(crate) async fn a_work_deleted_by_hand_is_made_again(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let work = At::work("spoke1", WORK);
    let before = stage.hub.read(&work).await?["metadata"]["uid"].clone();
    stage.hub.delete(&work).await?;
    let again = |it: &Value| !it.is_null() && it["metadata"]["uid"] != before;
    stage
        .hub
        .until(&work, "is made again", wait::BOUND, again)
        .await?;
    let runs = |it: &Value| it["status"]["readyReplicas"] == 1;
    let agent = agent_in(enrol::AGENT_NAMESPACE);
    stage
        .spoke(1)
        .until(&agent, "runs again", wait::BOUND, runs)
        .await?;
    enrol::until_available(&stage.hub, "spoke1").await.map(drop)
}

/// While the work of the deleted add-on is stuck in deletion, the new add-on reports `AgentNotDeployed` and names the work.
/// It becomes available as soon as the work is gone.
pub(crate) async fn recreated_add_on_waits_for_earlier_works(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    stage.make_room_for_requests("spoke1").await?;
    let (addon, work) = (At::addon("spoke1"), At::work("spoke1", WORK));
    let uid = stage.hub.read(&addon).await?["metadata"]["uid"].clone();
    let mut finalizers = stage.hub.read(&work).await?["metadata"]["finalizers"].clone();
    if let Some(all) = finalizers.as_array_mut() {
        all.push("example.com/kept".into());
    }
    let kept = json!({ "metadata": { "finalizers": finalizers } });
    stage.hub.merge(&work, kept).await?;
    // The label stays, so it is made again.
    stage.hub.delete(&addon).await?;
    let is_reported = |it: &Value| {
        it["metadata"]["uid"] != uid && has_condition(it, "Available", "False", "AgentNotDeployed")
    };
    let waits = stage
        .hub
        .until(
            &addon,
            "names the work that it waits for",
            wait::BOUND * 2,
            is_reported,
        )
        .await?;
    let message = condition(&waits, "Available").map(|it| it["message"].to_string());
    ensure!(
        message
            .as_ref()
            .is_some_and(|message| message.contains("in deletion since")),
        "{message:?}"
    );
    ensure!(
        condition(&waits, "ManifestApplied").is_none(),
        "nothing was applied for this one: {}",
        waits["status"]
    );
    ensure!(
        !has_condition(&waits, "Progressing", "False", "Completed"),
        "{}",
        waits["status"]
    );
    let none = json!({ "metadata": { "finalizers": null } });
    let gone = stage.hub.read(&work).await?["metadata"]["finalizers"].clone();
    ensure!(
        gone == json!(["example.com/kept"]),
        "the work agent has done its part: {gone}"
    );
    stage.hub.merge(&work, none).await?;
    enrol::until_available(&stage.hub, "spoke1").await.map(drop)
}

/// Deleting the `ClusterManagementAddOn` deletes the add-ons; recreating it restores them on all labelled clusters.
pub(crate) async fn recreated_definition_restores_the_add_ons(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    stage.make_room_for_requests("spoke1").await?;
    let (definition, addon) = (At::addon_definition(), At::addon("spoke1"));
    let before = stage.hub.read(&definition).await?;
    let uid = stage.hub.read(&addon).await?["metadata"]["uid"].clone();
    stage.hub.delete(&definition).await?;
    let other = |it: &Value| it["metadata"]["uid"] != uid;
    stage
        .hub
        .until(&addon, "goes along", wait::BOUND, other)
        .await?;
    let labels = &before["metadata"]["labels"];
    let annotations = &before["metadata"]["annotations"];
    let metadata = json!({ "labels": labels, "annotations": annotations });
    let recreated = json!({ "metadata": metadata, "spec": before["spec"] });
    stage.hub.apply(&definition, recreated).await?;
    stage.hub.until_there(&addon, wait::BOUND).await?;
    enrol::until_available(&stage.hub, "spoke1").await.map(drop)
}

/// The agent and its certificate move to the namespace in its cluster's configuration, and back; nothing is left behind.
pub(crate) async fn an_agent_moves_into_another_namespace_and_back(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    stage.make_room_for_requests("spoke1").await?;
    let elsewhere = "argocd-agent-elsewhere";
    let moves = [
        (enrol::AGENT_NAMESPACE, elsewhere),
        (elsewhere, enrol::AGENT_NAMESPACE),
    ];
    for (from, to) in moves {
        if to == elsewhere {
            let spec = json!({ "agentInstallNamespace": to });
            enrol::with_configuration(&stage.hub, "spoke1", spec).await?;
        } else {
            enrol::without_variables(&stage.hub, "spoke1").await?;
        }
        let is_named = |it: &Value| it["status"]["namespace"] == to;
        stage
            .hub
            .until(&At::addon("spoke1"), "names it", wait::BOUND, is_named)
            .await?;
        for at in [agent_in(from), At::secret(from, enrol::CERTIFICATE)] {
            stage.spoke(1).until_gone(&at, wait::BOUND).await?;
        }
        let runs = |it: &Value| it["status"]["readyReplicas"] == 1;
        stage
            .spoke(1)
            .until(&agent_in(to), "runs there", wait::BOUND, runs)
            .await?;
        enrol::until_available(&stage.hub, "spoke1").await?;
    }
    Ok(())
}

/// The add-on of a cluster that is no longer accepted is Degraded and kept; it recovers when the cluster is accepted again.
pub(crate) async fn a_reaccepted_cluster_keeps_its_add_on(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let (cluster, addon) = (At::cluster("spoke1"), At::addon("spoke1"));
    let uid = stage.hub.read(&addon).await?["metadata"]["uid"].clone();
    let accept = |yes: bool| json!({ "spec": { "hubAcceptsClient": yes } });
    stage.hub.merge(&cluster, accept(false)).await?;
    let is_reported = |it: &Value| has_condition(it, "Degraded", "True", "ClusterNotAccepted");
    stage
        .hub
        .until(&addon, "is Degraded", wait::BOUND, is_reported)
        .await?;
    stage.hub.read(&enrol::cluster_secret("spoke1")).await?;
    stage.hub.merge(&cluster, accept(true)).await?;
    let well = |it: &Value| !has_condition(it, "Degraded", "True", "");
    stage
        .hub
        .until(&addon, "is well again", wait::BOUND, well)
        .await?;
    let after = enrol::until_available(&stage.hub, "spoke1").await?;
    ensure!(after["metadata"]["uid"] == uid, "it is the same add-on");
    Ok(())
}

/// The last value of a label that is set and removed in quick succession wins.
pub(crate) async fn the_last_value_of_a_flapping_label_wins(stage: &Stage) -> Result<()> {
    stage.not_enrolled(2).await?;
    stage.make_room_for_requests("spoke2").await?;
    let cluster = At::cluster("spoke2");
    for _ in 0..6 {
        for mode in [json!("managed"), Value::Null] {
            let labels = json!({ "metadata": { "labels": { (enrol::MODE): mode } } });
            stage.hub.merge(&cluster, labels).await?;
        }
    }
    enrol::by_label(&stage.hub, "spoke2").await?;
    enrol::until_available(&stage.hub, "spoke2").await?;
    stage.not_enrolled(2).await
}

/// With `NilExecutorValidating` on the hub, our manager may create works without an executor, and with no other executor.
pub(crate) async fn manifest_works_pass_the_executor_validation(stage: &Stage) -> Result<()> {
    let reviews = ("SubjectAccessReview", "subjectaccessreviews");
    let at = At::of("authorization.k8s.io/v1", reviews, None, "");
    let user = format!(
        "system:serviceaccount:{}:{}",
        product::NAMESPACE,
        product::MANAGER
    );
    for (executor, may) in [
        ("system:serviceaccount::klusterlet-work-sa", true),
        ("system:serviceaccount:default:admin", false),
    ] {
        let review: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "metadata": {},
            "spec": {
                "user": user,
                "resourceAttributes": {
                    "group": "work.open-cluster-management.io",
                    "resource": "manifestworks",
                    "verb": "execute-as",
                    "namespace": "spoke1",
                    "name": executor,
                },
            },
        }))?;
        let api = stage.hub.api(&at);
        let answer = api.create(&PostParams::default(), &review).await?;
        let status = &answer.data["status"];
        ensure!(status["allowed"] == may, "{executor}: {status}");
    }
    Ok(())
}
