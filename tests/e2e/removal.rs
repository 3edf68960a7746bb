//! A cluster opts out, and in again.

use anyhow::{Result, ensure};
use lab::steps::{At, clusteradm, deliver, enrol, objects::has_condition, workload};
use serde_json::Value;

use crate::{
    programs::Program,
    stage::{SOON, Stage},
};

/// An opt-out removes our objects and leaves the user's; the next opt-in adopts existing Applications.
pub(crate) async fn opting_out_touches_no_application_and_opting_in_adopts(
    stage: &Stage,
) -> Result<()> {
    stage.enrolled(1).await?;
    let app = stage.greeter("stays", 1).await?;
    let made = app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    let (spoke, replica) = (stage.spoke(1), Stage::replica("stays"));
    let replica_uid = spoke.read(&replica).await?["metadata"]["uid"].clone();
    let workload = At::config_map("stays", workload::NAME);
    let workload_uid = spoke.read(&workload).await?["metadata"]["uid"].clone();

    enrol::take_label_away(&stage.hub, "spoke1").await?;
    enrol::until_removed(&stage.hub, spoke, "spoke1").await?;
    for name in ["argocd-agent-addon-agent", "argocd-agent-addon"] {
        ensure!(
            spoke.get(&At::role(enrol::ARGOCD, name)).await?.is_none(),
            "Role {name} is left"
        );
    }
    let left = stage.hub.read(&app.at).await?;
    ensure!(
        left["metadata"]["deletionTimestamp"].is_null(),
        "the hub's Application stays"
    );
    ensure!(
        left["metadata"]["uid"] == made["metadata"]["uid"],
        "and is the same one"
    );
    ensure!(
        spoke.read(&replica).await?["metadata"]["uid"] == replica_uid,
        "so does the replica"
    );
    ensure!(
        spoke.read(&workload).await?["metadata"]["uid"] == workload_uid,
        "and what it deployed"
    );

    stage.enrolled(1).await?;
    let mut app = app;
    let repository = stage.lab.git().repository("stays")?;
    let next = crate::stage::commit(&repository, "welcome-back", "v2")?;
    "v2".clone_into(&mut app.revision);
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, &next).await?;
    ensure!(
        spoke.read(&replica).await?["metadata"]["uid"] == replica_uid,
        "it was adopted in place"
    );
    ensure!(
        spoke.read(&workload).await?["metadata"]["uid"] == workload_uid,
        "the workload was recreated"
    );
    stage.clear(&app).await
}

/// A cluster that opted out with Applications keeps its recorded mode, even when the manager restarts: an opt-in with
/// another mode waits for a confirmation.
pub(crate) async fn restarted_manager_remembers_modes_after_opt_out(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let app = stage.greeter("former-mode", 1).await?;
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    let modes = At::config_map(lab::product::NAMESPACE, "argocd-agent-addon-modes");
    let kept = |modes: &Value| {
        let text = modes["data"]["spoke1"].as_str();
        text.is_some_and(|text| text.starts_with("managed, "))
    };
    let what = "has the mode of spoke1";
    stage.hub.until(&modes, what, SOON, kept).await?;
    enrol::take_label_away(&stage.hub, "spoke1").await?;
    enrol::until_removed(&stage.hub, stage.spoke(1), "spoke1").await?;

    let before = Program::Manager.running(stage).await?;
    Program::Manager.kill(stage).await?;
    enrol::by_label_as(&stage.hub, "spoke1", "autonomous").await?;
    let addon = At::addon("spoke1");
    let is_blocked = |addon: &Value| has_condition(addon, "Degraded", "True", "ModeChangeHeld");
    let blocked = stage
        .hub
        .until(&addon, "blocks the change of mode", SOON * 2, is_blocked)
        .await?;
    ensure!(blocked["metadata"]["annotations"][enrol::MODE] == "managed");
    ensure!(Program::Manager.running(stage).await? != before);

    enrol::by_label(&stage.hub, "spoke1").await?;
    let calm = |addon: &Value| !has_condition(addon, "Degraded", "True", "");
    stage
        .hub
        .until(&addon, "is not Degraded", SOON, calm)
        .await?;
    enrol::until_available(&stage.hub, "spoke1").await?;
    stage.clear(&app).await
}

/// The UIDs of what an Application of this name has on spoke2: the copy, and what it deployed.
async fn uids(stage: &Stage, name: &str) -> Result<Vec<Value>> {
    let mut uids = Vec::new();
    for at in [
        Stage::replica(name),
        At::config_map(name, workload::NAME),
        At::deployment(name, workload::NAME),
    ] {
        let object = stage.spoke(2).read(&at).await?;
        let deleting = &object["metadata"]["deletionTimestamp"];
        ensure!(deleting.is_null(), "{at} is deleted since {deleting}");
        uids.push(object["metadata"]["uid"].clone());
    }
    Ok(uids)
}

/// `clusteradm addon disable` removes the add-on, and no Application or workload; `clusteradm addon enable` brings it back,
/// and it adopts them.
pub(crate) async fn clusteradm_disables_and_enables_an_add_on(stage: &Stage) -> Result<()> {
    stage.not_enrolled(2).await?;
    let (hub, kubeconfig) = (&stage.hub, stage.lab.hub().kubeconfig());
    clusteradm::enable(hub, &kubeconfig, "spoke2").await?;
    enrol::until_available(hub, "spoke2").await?;
    let mut app = stage.greeter("disabled", 2).await?;
    let made = app.apply(hub).await?;
    deliver::until_healthy(hub, &app.at, "").await?;
    let before = uids(stage, "disabled").await?;

    clusteradm::disable(hub, &kubeconfig, "spoke2").await?;
    enrol::until_removed(hub, stage.spoke(2), "spoke2").await?;
    ensure!(uids(stage, "disabled").await? == before, "something new");
    let left = hub.read(&app.at).await?;
    let deleting = &left["metadata"]["deletionTimestamp"];
    ensure!(deleting.is_null() && left["metadata"]["uid"] == made["metadata"]["uid"]);

    clusteradm::enable(hub, &kubeconfig, "spoke2").await?;
    enrol::until_available(hub, "spoke2").await?;
    let repository = stage.lab.git().repository("disabled")?;
    let next = crate::stage::commit(&repository, "enabled", "v2")?;
    "v2".clone_into(&mut app.revision);
    app.apply(hub).await?;
    deliver::until_healthy(hub, &app.at, &next).await?;
    ensure!(uids(stage, "disabled").await? == before, "not adopted");
    stage.clear(&app).await?;
    stage.not_enrolled(2).await
}

/// The add-on of a labelled cluster that `clusteradm addon disable` deletes is recreated, with an Event that names the label:
/// the label is the desired state.
pub(crate) async fn an_addon_deleted_under_its_label_is_made_again(stage: &Stage) -> Result<()> {
    stage.not_enrolled(1).await?;
    enrol::by_label(&stage.hub, "spoke1").await?;
    let at = At::addon("spoke1");
    // The hub program has to know the add-on before it can miss it.
    let uid = enrol::until_available(&stage.hub, "spoke1").await?["metadata"]["uid"].clone();
    let kubeconfig = stage.lab.hub().kubeconfig();
    clusteradm::disable(&stage.hub, &kubeconfig, "spoke1").await?;
    let again = |addon: &Value| !addon.is_null() && addon["metadata"]["uid"] != uid;
    let addon = stage
        .hub
        .until(&at, "is made again", lab::wait::BOUND, again)
        .await?;
    let events = At::event("spoke1");
    let look = || stage.hub.list(&events, "");
    let is_explained = |events: &Vec<Value>| {
        events.iter().any(|event| {
            let message = event["message"].as_str().unwrap_or_default();
            event["involvedObject"]["uid"] == addon["metadata"]["uid"]
                && event["reason"] == "MadeAgain"
                && message.contains(enrol::MODE)
        })
    };
    let what = "an Event MadeAgain that names the label";
    lab::wait::until(what, look, is_explained).await?;
    enrol::until_available(&stage.hub, "spoke1").await.map(drop)
}
