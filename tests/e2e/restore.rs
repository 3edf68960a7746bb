//! The hub's objects are recreated with other UIDs. Workloads on the spokes are not affected.

use anyhow::{Result, ensure};
use lab::{
    product,
    steps::{
        At,
        deliver::{self, Application},
        enrol::ARGOCD,
        workload,
    },
};
use serde_json::{Value, json};

use crate::{
    programs::Program,
    sets,
    stage::{Stage, commit},
};

/// The hub is restored from a backup: everything is there as it was, under other UIDs, and with the status of then.
pub(crate) async fn a_hub_restored_from_a_backup_replaces_no_workload(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let mut app = stage.greeter("restored", 1).await?;
    let mut other = stage.greeter("restored-too", 1).await?;
    other.at = At::application(ARGOCD, "restored-too");
    "spoke1".clone_into(&mut other.cluster);
    for app in [&app, &other] {
        app.apply(&stage.hub).await?;
        deliver::until_healthy(&stage.hub, &app.at, "").await?;
    }
    let before = [uids(stage, &app).await?, uids(stage, &other).await?];

    let manager = At::deployment(product::NAMESPACE, product::MANAGER);
    let replicas = |count: u8| json!({"spec": {"replicas": count}});
    stage.hub.merge(&manager, replicas(0)).await?;
    Program::Manager.until_none(stage).await?;
    for at in [
        &app.at,
        &other.at,
        &At::project(ARGOCD, "restored"),
        &At::project(ARGOCD, "restored-too"),
    ] {
        recreate(stage, at).await?;
    }
    stage.hub.merge(&manager, replicas(1)).await?;

    for app in [&mut app, &mut other] {
        let repository = stage.lab.git().repository(&app.project)?;
        let next = commit(&repository, "after-the-restore", "v2")?;
        "v2".clone_into(&mut app.revision);
        app.apply(&stage.hub).await?;
        deliver::until_healthy(&stage.hub, &app.at, &next).await?;
        stage
            .until_greets(1, &app.namespace, "after-the-restore")
            .await?;
    }
    let after = [uids(stage, &app).await?, uids(stage, &other).await?];
    ensure!(
        after == before,
        "something was replaced: {before:?}, now {after:?}"
    );
    for app in [&app, &other] {
        stage.clear(app).await?;
    }
    Ok(())
}

/// Deletes an object without its finalizers, and recreates it unchanged.
async fn recreate(stage: &Stage, at: &At) -> Result<()> {
    let backup = stage.hub.read(at).await?;
    let released = json!({"metadata": {"finalizers": null}});
    stage.hub.merge(at, released).await?;
    stage.hub.delete(at).await?;
    stage.hub.until_gone(at, lab::wait::BOUND).await?;
    let mut restored = json!({"metadata": {}});
    for field in ["spec", "status"] {
        if !backup[field].is_null() {
            restored[field] = backup[field].clone();
        }
    }
    for field in ["labels", "annotations", "finalizers"] {
        if !backup["metadata"][field].is_null() {
            restored["metadata"][field] = backup["metadata"][field].clone();
        }
    }
    let made = stage.hub.apply(at, restored).await?;
    ensure!(
        made["metadata"]["uid"] != backup["metadata"]["uid"],
        "{at} is another one"
    );
    Ok(())
}

/// The UIDs of the replica and of its resources.
async fn uids(stage: &Stage, app: &Application) -> Result<Vec<Value>> {
    let mut uids = vec![uid(stage, &Stage::replica(&app.project)).await?];
    uids.extend(of_workload(stage, &app.namespace).await?);
    Ok(uids)
}

async fn of_workload(stage: &Stage, namespace: &str) -> Result<Vec<Value>> {
    Ok(vec![
        uid(stage, &At::config_map(namespace, workload::NAME)).await?,
        uid(stage, &At::deployment(namespace, workload::NAME)).await?,
    ])
}

async fn uid(stage: &Stage, at: &At) -> Result<Value> {
    Ok(stage.spoke(1).read(at).await?["metadata"]["uid"].clone())
}

/// An `ApplicationSet` that is deleted and recreated adopts its orphaned Applications, and recreates deleted ones that
/// preserved their resources, without replacing a workload.
pub(crate) async fn an_application_set_made_again_replaces_no_workload(
    stage: &Stage,
) -> Result<()> {
    sets::prepare(stage, "sets").await?;
    let repository = stage.lab.git().repository("set-again")?;
    commit(&repository, "hello", "v1")?;
    let set = At::application_set(ARGOCD, "set-again");
    let app = At::application(ARGOCD, "set-again-spoke1");
    let body = sets::leaving(&repository.url(), "v1");
    stage.hub.apply(&set, body.clone()).await?;
    let first = deliver::until_healthy(&stage.hub, &app, "").await?;
    let workload = of_workload(stage, "set-again").await?;

    // A reconcile of its controller during the orphaning would set the owner again.
    sets::run_controllers(stage, 0).await?;
    stage.hub.orphan(&set).await?;
    stage.hub.until_gone(&set, lab::wait::BOUND).await?;
    stage.hub.apply(&set, body).await?;
    sets::run_controllers(stage, 1).await?;
    let next = commit(&repository, "once-more", "v2")?;
    stage
        .hub
        .apply(&set, sets::leaving(&repository.url(), "v2"))
        .await?;
    let second = deliver::until_healthy(&stage.hub, &app, &next).await?;
    ensure!(
        second["metadata"]["uid"] == first["metadata"]["uid"],
        "the Application was left"
    );
    ensure!(
        of_workload(stage, "set-again").await? == workload,
        "the workload was replaced"
    );

    stage.hub.delete(&set).await?;
    stage.hub.until_gone(&app, lab::wait::BOUND).await?;
    let replica = Stage::replica("set-again-spoke1");
    stage
        .spoke(1)
        .until_gone(&replica, lab::wait::BOUND)
        .await?;
    ensure!(
        of_workload(stage, "set-again").await? == workload,
        "the workload went along"
    );
    let next = commit(&repository, "and-again", "v3")?;
    stage
        .hub
        .apply(&set, sets::leaving(&repository.url(), "v3"))
        .await?;
    let third = deliver::until_healthy(&stage.hub, &app, &next).await?;
    ensure!(
        third["metadata"]["uid"] != first["metadata"]["uid"],
        "the Application is another"
    );
    stage.until_greets(1, "set-again", "and-again").await?;
    ensure!(
        of_workload(stage, "set-again").await? == workload,
        "the workload was replaced"
    );

    stage.hub.delete(&set).await?;
    stage.hub.until_gone(&app, lab::wait::BOUND).await?;
    stage.spoke(1).delete(&At::namespace("set-again")).await
}
