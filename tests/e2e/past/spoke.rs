//! The etcd of a spoke is restored from a snapshot while its agent runs.

use super::{
    Application, At, BOUND, Program, Result, SOON, Stage, Value, deliver, enrol, ensure, json,
    ran_once,
};

/// More writes than a restarted control plane makes by itself, so that the agent knows later resource versions than the
/// restored API has.
const LOST_WRITES: usize = 400;

/// Snapshot; then an Application is synced by hand, another one is made, and one is deleted; then the snapshot is restored.
/// The sync does not run again, the hub shows what the cluster has, and the cluster gets what the hub has.
pub(crate) async fn a_spoke_restored_from_a_snapshot_repeats_no_operation(
    stage: &Stage,
) -> Result<()> {
    stage.enrolled(1).await?;
    let mut asked = stage.greeter("spoke-past", 1).await?;
    asked.automated = false;
    let named = |name: &str| Application {
        at: At::application("spoke1", name),
        ..asked.clone()
    };
    let (removed, later) = (named("spoke-past-removed"), named("spoke-past-later"));
    for app in [&asked, &removed] {
        make(stage, app).await?;
        let out_of_sync = |app: &Value| app["status"]["sync"]["status"] == "OutOfSync";
        let what = "is OutOfSync";
        stage.hub.until(&app.at, what, BOUND, out_of_sync).await?;
    }
    let (spoke, namespace) = (stage.spoke(1), At::namespace("spoke-past"));
    spoke.apply(&namespace, json!({})).await?;
    let agent = Program::Agent(1).running(stage).await?;

    let past = stage.lab.save_spokes().await?;
    deliver::ask_for_sync(&stage.hub, &asked.at, "v1").await?;
    ran_once(stage, &asked).await?;
    stage.hub.delete(&removed.at).await?;
    make(stage, &later).await?;
    let [at, gone, new] = [&asked, &removed, &later].map(|app| Stage::replica(app.at.name()));
    spoke.until_gone(&gone, SOON).await?;
    spoke.until_there(&new, SOON).await?;
    write_much(stage).await?;
    stage.lab.put_spokes_back(&past).await?;

    spoke.until_gone(&gone, SOON).await?;
    spoke.until_there(&new, SOON).await?;
    let as_then = |app: &Value| app["status"]["sync"]["status"] == "OutOfSync";
    let what = "shows the state of the restored cluster";
    stage.hub.until(&asked.at, what, SOON, as_then).await?;
    let change = json!({"metadata": {"labels": {"e2e.example.org/past": "later"}}});
    stage.hub.merge(&asked.at, change).await?;
    let follows = |app: &Value| app["metadata"]["labels"]["e2e.example.org/past"] == "later";
    let replica = spoke.until(&at, "has the change", SOON, follows).await?;
    ensure!(
        replica["operation"].is_null() && replica["status"]["operationState"].is_null(),
        "the sync ran again: {replica:#}"
    );
    enrol::until_available(&stage.hub, "spoke1").await?;
    agent.still_runs(stage).await?;
    stage.hub.delete(&later.at).await?;
    spoke.until_gone(&new, SOON).await?;
    stage.clear(&asked).await?;
    spoke.until_gone(&at, SOON).await?;
    spoke.delete(&namespace).await
}

/// Makes it on the hub without the finalizer, on which no controller of the restored cluster would act.
async fn make(stage: &Stage, app: &Application) -> Result<()> {
    let mut body = app.body();
    body["metadata"] = json!({});
    stage.hub.apply(&app.at, body).await.map(drop)
}

async fn write_much(stage: &Stage) -> Result<()> {
    let at = At::config_map("default", "spoke-past");
    for number in 0..LOST_WRITES {
        let data = json!({"data": {"number": number.to_string()}});
        stage.spoke(1).apply(&at, data).await?;
    }
    Ok(())
}
