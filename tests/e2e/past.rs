//! The hub's etcd is restored from a snapshot while the fleet runs. Resource versions go back, too, and none of our programs restarts.

pub(crate) mod spoke;

use anyhow::{Context as _, Result, ensure};
use lab::{
    steps::{
        At,
        deliver::{self, Application},
        enrol, workload,
    },
    wait::BOUND,
};
use serde_json::{Value, json};

use crate::{
    programs::Program,
    rules,
    stage::{SOON, Stage, commit},
};

/// One more than may be deleted without a confirmation.
const MANY: usize = 11;

/// Snapshot; then an Application is changed, one is synced by hand, one is deleted, many are made, and another cluster is
/// enrolled; then the snapshot is restored.
pub(crate) async fn agents_follow_a_hub_restored_from_an_etcd_snapshot(
    stage: &Stage,
) -> Result<()> {
    stage.enrolled(1).await?;
    let mut kept = stage.greeter("past-kept", 1).await?;
    let removed = stage.greeter("past-removed", 1).await?;
    let mut asked = stage.greeter("past-asked", 1).await?;
    asked.automated = false;
    for app in [&kept, &removed, &asked] {
        app.apply(&stage.hub).await?;
    }
    let first = deliver::until_healthy(&stage.hub, &kept.at, "").await?;
    let first = first["status"]["sync"]["revision"]
        .as_str()
        .context("a revision")?;
    deliver::until_healthy(&stage.hub, &removed.at, "").await?;
    let out_of_sync = |app: &Value| app["status"]["sync"]["status"] == "OutOfSync";
    let what = "is OutOfSync";
    stage.hub.until(&asked.at, what, BOUND, out_of_sync).await?;
    let before = of_workload(stage, 1, "past-kept").await?;
    let manager = Program::Manager.running(stage).await?;
    let agent = Program::Agent(1).running(stage).await?;

    let past = stage.lab.save_hub().await?;
    let (later, elsewhere) = live_on(stage, &mut kept, &removed, &asked).await?;
    stage.lab.put_hub_back(&past).await?;

    // The spoke follows the restored hub, and loses nothing that the hub does not know.
    let is_old = |app: &Value| app["spec"]["source"]["targetRevision"] == "v1";
    let replica = Stage::replica("past-kept");
    let what = "is as the hub of then wants it";
    stage.spoke(1).until(&replica, what, SOON, is_old).await?;
    stage.until_greets(1, "past-kept", "hello").await?;
    deliver::until_healthy(&stage.hub, &kept.at, first).await?;
    stage.until_greets(1, "past-removed", "hello").await?;
    deliver::until_healthy(&stage.hub, &removed.at, "").await?;
    ran_once(stage, &asked).await?;
    ensure!(
        of_workload(stage, 1, "past-kept").await? == before,
        "a workload was replaced"
    );
    forgotten_applications_wait_for_confirmation(stage, &later).await?;
    a_forgotten_cluster_enrols_again(stage, elsewhere).await?;
    manager.still_runs(stage).await?;
    agent.still_runs(stage).await?;
    for app in [&kept, &removed, &asked] {
        stage.clear(app).await?;
    }
    stage.spoke(1).delete(&At::namespace("past-asked")).await
}

/// Changes that the snapshot does not have. Returns the Applications on spoke1, of which the first runs, and the one on spoke2.
async fn live_on(
    stage: &Stage,
    kept: &mut Application,
    removed: &Application,
    asked: &Application,
) -> Result<(Vec<Application>, Application)> {
    let next = commit(&stage.lab.git().repository("past-kept")?, "later", "v2")?;
    "v2".clone_into(&mut kept.revision);
    kept.apply(&stage.hub).await?;
    let namespace = At::namespace("past-asked");
    stage.spoke(1).apply(&namespace, json!({})).await?;
    deliver::ask_for_sync(&stage.hub, &asked.at, "v1").await?;
    stage.hub.delete(&removed.at).await?;
    enrol::by_label(&stage.hub, "spoke2").await?;

    let running = stage.greeter("past-later", 1).await?;
    let mut later = vec![running.clone()];
    running.apply(&stage.hub).await?;
    for number in 1..MANY {
        let app = Application {
            at: At::application("spoke1", &format!("past-later-{number}")),
            automated: false,
            ..running.clone()
        };
        let mut body = app.body();
        body["metadata"] = json!({});
        stage.hub.apply(&app.at, body).await?;
        later.push(app);
    }
    deliver::until_healthy(&stage.hub, &running.at, "").await?;
    for app in &later {
        let replica = Stage::replica(app.at.name());
        stage.spoke(1).until_there(&replica, BOUND).await?;
    }
    deliver::until_healthy(&stage.hub, &kept.at, &next).await?;
    ran_once(stage, asked).await?;
    stage.hub.until_gone(&removed.at, BOUND).await?;
    enrol::until_available(&stage.hub, "spoke2").await?;
    let on_spoke2 = stage.greeter("past-spoke2", 2).await?;
    on_spoke2.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &on_spoke2.at, "").await?;
    Ok((later, on_spoke2))
}

/// The sync that was asked for ran, and once: also where only its result is known.
async fn ran_once(stage: &Stage, asked: &Application) -> Result<()> {
    let ended = |app: &Value| {
        app["operation"].is_null()
            && app["status"]["operationState"]["phase"] == "Succeeded"
            && app["status"]["sync"]["status"] == "Synced"
    };
    let what = "shows that the sync ended";
    let seen = stage.hub.until(&asked.at, what, SOON, ended).await?;
    let history = seen["status"]["history"].as_array().map(Vec::len);
    ensure!(history == Some(1), "it ran {history:?} times");
    Ok(())
}

/// More than the limit for automatic deletion: all of it keeps running until an administrator confirms the list.
async fn forgotten_applications_wait_for_confirmation(
    stage: &Stage,
    later: &[Application],
) -> Result<()> {
    let addon = At::addon("spoke1");
    let is_blocked = |addon: &Value| rules::blocked_deletion_digest(addon).is_some();
    let seen = stage
        .hub
        .until(&addon, "reports the blocked deletion", SOON, is_blocked);
    let digest = rules::blocked_deletion_digest(&seen.await?).context("no digest")?;
    for app in later {
        let replica = Stage::replica(app.at.name());
        stage.spoke(1).read(&replica).await?;
    }
    stage.until_greets(1, "past-later", "hello").await?;
    stage
        .hub
        .merge(&addon, rules::confirmed(&json!(digest)))
        .await?;
    for app in later {
        let replica = Stage::replica(app.at.name());
        stage.spoke(1).until_gone(&replica, SOON).await?;
    }
    let calm = |addon: &Value| rules::blocked_deletion_digest(addon).is_none();
    stage.hub.until(&addon, "is calm again", SOON, calm).await?;
    stage
        .hub
        .merge(&addon, rules::confirmed(&Value::Null))
        .await?;
    stage
        .hub
        .delete(&At::project(enrol::ARGOCD, "past-later"))
        .await
}

/// The hub has lost the cluster's add-on. The workloads of the cluster keep running, and when the add-on is recreated it
/// adopts them.
async fn a_forgotten_cluster_enrols_again(stage: &Stage, mut app: Application) -> Result<()> {
    let addon = At::addon("spoke2");
    ensure!(stage.hub.get(&addon).await?.is_none(), "{addon} came back");
    let before = of_workload(stage, 2, "past-spoke2").await?;
    enrol::by_label(&stage.hub, "spoke2").await?;
    enrol::until_available(&stage.hub, "spoke2").await?;
    deliver::allow(&stage.hub, "past-spoke2", "spoke2").await?;
    let next = commit(&stage.lab.git().repository("past-spoke2")?, "again", "v2")?;
    "v2".clone_into(&mut app.revision);
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, &next).await?;
    stage.until_greets(2, "past-spoke2", "again").await?;
    ensure!(
        of_workload(stage, 2, "past-spoke2").await? == before,
        "a workload was replaced"
    );
    stage.clear(&app).await
}

/// Which objects are deployed.
async fn of_workload(stage: &Stage, number: usize, namespace: &str) -> Result<Vec<Value>> {
    let mut uids = Vec::new();
    for at in [
        At::config_map(namespace, workload::NAME),
        At::deployment(namespace, workload::NAME),
    ] {
        uids.push(stage.spoke(number).read(&at).await?["metadata"]["uid"].clone());
    }
    Ok(uids)
}
