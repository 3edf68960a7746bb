//! The CRDs of Argo CD are deleted under running agents, and come back.

use lab::{argocd, steps::objects::has_condition, wait::BOUND};

use super::{
    Application, At, CLUSTER, NUMBER, Own, Result, SOON, Stage, Value, commit, deliver, enrol,
    ensure, json, pod, workload,
};

/// The CRDs that the agents watch.
const CRDS: [&str; 2] = ["applications.argoproj.io", "appprojects.argoproj.io"];

fn crd(name: &str) -> At {
    let kind = ("CustomResourceDefinition", "customresourcedefinitions");
    At::of("apiextensions.k8s.io/v1", kind, None, name)
}

/// The CRDs of Argo CD go with all Applications of a managed and of an autonomous cluster, and come back. The hub deletes no
/// Application of its own, names the cause, and delivers again without replacing a workload. Mirrors follow their cluster.
pub(crate) async fn deleted_crds_of_argo_cd_delete_nothing_on_the_hub(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let mut managed = stage.greeter("without-crds", 1).await?;
    let made = stage.hub.apply(&managed.at, spared(&managed)).await?;
    deliver::until_healthy(&stage.hub, &managed.at, "").await?;
    let own = Own::new(stage, "own-without-crds").await?;
    let own_spoke = stage.spoke(NUMBER);
    own_spoke.apply(&own.app.at, spared(&own.app)).await?;
    deliver::until_healthy(&stage.hub, &own.mirror, "").await?;
    let before = workloads(stage, &[&managed, &own.app]).await?;

    for name in CRDS {
        for number in [1, NUMBER] {
            stage.spoke(number).delete(&crd(name)).await?;
        }
        for number in [1, NUMBER] {
            stage.spoke(number).until_gone(&crd(name), BOUND).await?;
        }
    }
    until_missing(stage, true).await?;
    let kept = stage.hub.read(&managed.at).await?;
    ensure!(
        kept["metadata"]["uid"] == made["metadata"]["uid"]
            && kept["metadata"]["deletionTimestamp"].is_null(),
        "{kept:#}"
    );
    ensure!(workloads(stage, &[&managed, &own.app]).await? == before);

    install_again(stage).await?;
    until_missing(stage, false).await?;
    // Its source is gone from the cluster.
    stage.hub.until_gone(&own.mirror, SOON).await?;
    let replica = Stage::replica("without-crds");
    stage.spoke(1).until_there(&replica, SOON).await?;
    let repository = stage.lab.git().repository("without-crds")?;
    let next = commit(&repository, "with-crds", "v2")?;
    "v2".clone_into(&mut managed.revision);
    stage.hub.apply(&managed.at, spared(&managed)).await?;
    deliver::until_healthy(&stage.hub, &managed.at, &next).await?;
    stage.until_greets(1, "without-crds", "with-crds").await?;
    deliver::allow(own_spoke, &own.app.project, "in-cluster").await?;
    own_spoke.apply(&own.app.at, spared(&own.app)).await?;
    deliver::until_healthy(&stage.hub, &own.mirror, "").await?;
    let after = workloads(stage, &[&managed, &own.app]).await?;
    ensure!(before == after, "replaced: {before:?}, now {after:?}");

    own.clear().await?;
    own_spoke.delete(&At::namespace("own-without-crds")).await?;
    stage.clear(&managed).await?;
    stage.spoke(1).until_gone(&replica, SOON).await?;
    stage.spoke(1).delete(&At::namespace("without-crds")).await
}

/// The Application without the finalizer with which Argo CD deletes its workload.
fn spared(app: &Application) -> Value {
    let mut body = app.body();
    body["metadata"] = json!({});
    body
}

/// The UIDs of the workloads of the managed and of the autonomous cluster.
async fn workloads(stage: &Stage, apps: &[&Application; 2]) -> Result<Vec<Value>> {
    let mut uids = Vec::new();
    for (app, number) in apps.iter().zip([1, NUMBER]) {
        for at in [
            At::config_map(&app.namespace, workload::NAME),
            At::deployment(&app.namespace, workload::NAME),
        ] {
            let object = stage.spoke(number).read(&at).await?;
            uids.push(object["metadata"]["uid"].clone());
        }
    }
    Ok(uids)
}

/// Installs Argo CD as before, whose controllers would look for the CRDs again after up to a minute.
async fn install_again(stage: &Stage) -> Result<()> {
    argocd::install(stage.lab.spokes(), stage.lab.tools()).await?;
    for number in [1, NUMBER] {
        let spoke = stage.spoke(number);
        let controller = pod(spoke, enrol::ARGOCD, argocd::CONTROLLER).await?;
        spoke.kill(&controller).await?;
    }
    Ok(())
}

/// Waits until both add-ons report that Argo CD is missing, or no longer do. They may be degraded for another reason.
async fn until_missing(stage: &Stage, is_missing: bool) -> Result<()> {
    for cluster in ["spoke1", CLUSTER] {
        let reported =
            |addon: &Value| has_condition(addon, "Degraded", "True", "ArgoCDMissing") == is_missing;
        let what = format!("Argo CD is missing: {is_missing}");
        stage
            .hub
            .until(&At::addon(cluster), &what, SOON, reported)
            .await?;
    }
    Ok(())
}
