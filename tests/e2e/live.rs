//! Live access to a cluster from the hub, with the credentials in its cluster Secret.

pub(crate) mod applications;
pub(crate) mod crowd;
pub(crate) mod inside;
pub(crate) mod view;

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lab::{
    faults::Fault,
    steps::{At, Objects, deliver, enrol, workload},
    wait,
};
use serde_json::json;

use crate::{
    kubectl::Kubectl,
    stage::{SOON, Stage},
};

/// The user of live requests at the API of a cluster.
pub(crate) const PEOPLE: &str =
    "system:serviceaccount:open-cluster-management-agent-addon:argocd-agent-addon-ui";

fn greeting(name: &str) -> At {
    At::config_map("default", name)
}

/// With the credentials in the cluster Secret one sees the cluster's objects as if it were there: lists, single objects,
/// kinds, a watch. And no other cluster's.
pub(crate) async fn cluster_secret_grants_live_access(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    stage.enrolled(2).await?;
    let (at, data) = (greeting("seen"), json!({"data": {"greeting": "hello"}}));
    stage.spoke(1).apply(&at, data).await?;
    let kubectl = Kubectl::with_secret_of(stage, "spoke1").await?;
    kubectl.until_it_sees(&["get", "--raw", "/version"]).await?;

    let one = kubectl
        .prints(&[
            "get",
            "configmap",
            "seen",
            "-o",
            "jsonpath={.data.greeting}",
        ])
        .await?;
    ensure!(one == "hello", "{one}");
    let all = kubectl.prints(&["get", "pods", "-A", "-o", "name"]).await?;
    ensure!(all.contains("pod/argocd-agent-addon-agent-"), "{all}");
    let kinds = kubectl.prints(&["api-resources", "-o", "name"]).await?;
    ensure!(kinds.contains("applications.argoproj.io"), "{kinds}");
    let spec = kubectl.prints(&["explain", "deployment.spec"]).await?;
    ensure!(spec.contains("replicas"), "{spec}");

    let other = Kubectl::with_secret_of(stage, "spoke2").await?;
    let error = other.fails(&["get", "configmap", "seen"]).await?;
    ensure!(error.contains("not found"), "{error}");
    stage.spoke(1).delete(&at).await
}

/// Requests that the access level forbids, and requests outside of the Kubernetes API, are refused with a reason; they do
/// not reach the spoke's API.
pub(crate) async fn read_level_refusals_name_the_reason(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let at = greeting("kept");
    stage
        .spoke(1)
        .apply(&at, json!({"data": {"greeting": "hello"}}))
        .await?;
    let kubectl = Kubectl::with_secret_of(stage, "spoke1").await?;
    kubectl.until_it_sees(&["get", "--raw", "/version"]).await?;
    let audit = stage.lab.spoke(1).audit();
    let mark = audit.mark()?;
    for (arguments, reason) in [
        (
            &["get", "secrets", "-A"][..],
            "does not allow access to Secrets",
        ),
        (
            &["get", "--raw", "/api/v1/namespaces/argocd/secrets"],
            "does not allow access to Secrets",
        ),
        (
            &["get", "--raw", "/api/v1/watch/namespaces/argocd/secrets"],
            "its form is not supported any more",
        ),
        (
            &["get", "--raw", "/metrics"],
            "not one of the Kubernetes API",
        ),
        (
            &["delete", "configmap", "kept", "--wait=false"],
            "does not allow to delete",
        ),
        (
            &["label", "configmap", "kept", "a=b"],
            "does not allow to patch",
        ),
        (&["create", "configmap", "new"], "does not allow to create"),
        (&["get", "pods", "--as=system:admin"], "impersonate-user"),
    ] {
        let error = kubectl.fails(arguments).await?;
        ensure!(
            error.contains(reason),
            "kubectl {arguments:?} says: {error}"
        );
    }
    let asked = audit.by(PEOPLE, mark)?;
    let beyond = |entry: &&lab::audit::Entry| {
        let secret = entry
            .object
            .as_ref()
            .is_some_and(|it| it.resource == "secrets");
        entry.is_write() || secret || entry.is_forbidden()
    };
    let beyond: Vec<_> = asked.iter().filter(beyond).collect();
    ensure!(beyond.is_empty(), "the API was asked: {beyond:#?}");
    let kept = stage.spoke(1).read(&at).await?;
    ensure!(kept["data"]["greeting"] == "hello", "{kept}");
    stage.spoke(1).delete(&at).await
}

/// The connection of a spoke stalls during a watch: the watch ends with an error, new requests fail at once, and after the
/// reconnect requests succeed again.
pub(crate) async fn watch_reports_a_disconnected_cluster(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let at = greeting("watched");
    stage
        .spoke(1)
        .apply(&at, json!({"data": {"greeting": "one"}}))
        .await?;
    let kubectl = Kubectl::with_secret_of(stage, "spoke1").await?;
    let path =
        "/api/v1/namespaces/default/configmaps?watch=true&fieldSelector=metadata.name%3Dwatched";
    let mut watching = kubectl.follows(&["get", "--raw", path])?;
    let first = watching.line(SOON).await?;
    ensure!(first.is_some_and(|line| line.contains(r#""greeting":"one""#)));

    stage.lab.faults().set("spoke1", Fault::Stall);
    let ended = watching.ended(Duration::from_secs(30)).await;
    let ended = ended.context("the watch of a cluster that was cut off goes on")?;
    ensure!(
        !ended.success(),
        "it looks as if the watch had come to its end"
    );
    let error = kubectl.fails(&["get", "configmap", "watched"]).await?;
    ensure!(error.contains("not connected"), "{error}");

    stage.lab.faults().heal("spoke1");
    kubectl
        .until_it_sees(&["get", "configmap", "watched"])
        .await?;
    stage.spoke(1).delete(&at).await
}

/// With `UI_ACCESS` `operate` users change resources of an Application and no other object, and read Secrets without their
/// values: on a real API server, with the rights of the add-on.
pub(crate) async fn operate_level_changes_application_objects(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let variables = json!({"customizedVariables": [
        {"name": "UI_ACCESS", "value": "operate"},
        {"name": "UI_READ_GROUPS", "value": "work.open-cluster-management.io"},
    ]});
    enrol::with_configuration(&stage.hub, "spoke1", variables).await?;
    let app = stage.greeter("operated", 1).await?;
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    let (deployment, local) = (
        At::deployment("operated", workload::NAME),
        greeting("local"),
    );
    let spoke = stage.spoke(1);
    spoke
        .apply(&local, json!({"data": {"greeting": "hello"}}))
        .await?;
    let uid = spoke.read(&deployment).await?["metadata"]["uid"].clone();
    let owner = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": workload::NAME, "uid": uid}]);
    let secret = At::secret("operated", "key");
    let body =
        json!({"metadata": {"ownerReferences": owner}, "stringData": {"password": "hunter2"}});
    spoke.apply(&secret, body).await?;

    let kubectl = Kubectl::with_secret_of(stage, "spoke1").await?;
    application_objects_are_changed(&kubectl, spoke).await?;
    configured_groups_alone_are_seen(&kubectl).await?;
    its_secrets_have_no_values(&kubectl).await?;
    other_objects_are_refused(&kubectl, spoke, &local).await?;

    spoke.delete(&local).await?;
    stage.clear(&app).await?;
    enrol::without_variables(&stage.hub, "spoke1").await?;
    enrol::until_available(&stage.hub, "spoke1").await.map(drop)
}

fn in_app<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&["-n", "operated"], arguments].concat()
}

async fn application_objects_are_changed(kubectl: &Kubectl, spoke: &Objects) -> Result<()> {
    // The agent restarts with the new level, and then reads the resources of the Application.
    let annotate = in_app(&["annotate", "deployment", workload::NAME, "seen-by=hub"]);
    kubectl.until_it_sees(&annotate).await?;
    let deployment = At::deployment("operated", workload::NAME);
    let annotated = spoke.read(&deployment).await?;
    ensure!(
        annotated["metadata"]["annotations"]["seen-by"] == "hub",
        "{annotated}"
    );
    let dry = in_app(&[
        "scale",
        "deployment",
        workload::NAME,
        "--replicas=3",
        "--dry-run=server",
    ]);
    kubectl.prints(&dry).await?;
    let pods = in_app(&["get", "pods", "-l", "app=greeter", "-o", "name"]);
    let pods = kubectl.prints(&pods).await?;
    let pod = pods.lines().next().context("a Pod")?;
    kubectl
        .prints(&["-n", "operated", "delete", pod, "--wait=false"])
        .await?;
    let gone = |seen: &String| !seen.contains(pod);
    let looking = async || {
        kubectl
            .prints(&in_app(&["get", "pods", "-o", "name"]))
            .await
    };
    wait::until("its Pod is replaced", looking, gone)
        .await
        .map(drop)
}

/// Of OCM's two groups on the cluster one is configured.
async fn configured_groups_alone_are_seen(kubectl: &Kubectl) -> Result<()> {
    let works = "appliedmanifestworks.work.open-cluster-management.io";
    let seen = kubectl.prints(&["get", works, "-o", "name"]).await?;
    ensure!(seen.contains("argocd-agent-addon"), "{seen}");
    let claims = "clusterclaims.cluster.open-cluster-management.io";
    let error = kubectl.fails(&["get", claims]).await?;
    ensure!(error.contains("is forbidden"), "{error}");
    Ok(())
}

async fn its_secrets_have_no_values(kubectl: &Kubectl) -> Result<()> {
    let shown = kubectl
        .prints(&in_app(&["get", "secret", "key", "-o", "json"]))
        .await?;
    ensure!(
        shown.contains("++++++++") && !shown.contains("aHVudGVyMg"),
        "{shown}"
    );
    Ok(())
}

async fn other_objects_are_refused(kubectl: &Kubectl, spoke: &Objects, local: &At) -> Result<()> {
    for (arguments, reason) in [
        (
            &["annotate", "configmap", "local", "seen-by=hub"][..],
            "belongs to no Application",
        ),
        (
            &["delete", "configmap", "local", "--wait=false"],
            "belongs to no Application",
        ),
        (&["create", "configmap", "new"], "does not allow to create"),
        (
            &["get", "secrets", "-A"],
            "does not allow access to Secrets",
        ),
    ] {
        let error = kubectl.fails(arguments).await?;
        ensure!(
            error.contains(reason),
            "kubectl {arguments:?} says: {error}"
        );
    }
    let kept = spoke.read(local).await?;
    ensure!(
        kept["metadata"]["annotations"]["seen-by"].is_null(),
        "{kept}"
    );
    Ok(())
}
