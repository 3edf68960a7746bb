//! Managed and autonomous clusters in one fleet, and a cluster that changes its mode.

use super::*;

/// One cluster is managed and one autonomous; objects of the same name on both stay separate.
pub(crate) async fn managed_and_autonomous_clusters_live_in_one_fleet(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let mut managed = stage.greeter("both", 1).await?;
    managed.apply(&stage.hub).await?;
    let own = Own::running(stage, "both").await?;
    deliver::until_healthy(&stage.hub, &managed.at, "").await?;

    // A change on the hub reaches the managed cluster only.
    let repository = stage.lab.git().repository("both")?;
    let next = commit(&repository, "for-one", "v2")?;
    "v2".clone_into(&mut managed.revision);
    managed.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &managed.at, &next).await?;
    stage.until_greets(1, "both", "for-one").await?;
    stage.until_greets(NUMBER, "both", "hello").await?;
    let mirrored = At::project(enrol::ARGOCD, "spoke2-both");
    ensure!(
        stage.spoke(1).get(&mirrored).await?.is_none(),
        "a mirrored project went to another cluster"
    );
    own.clear().await?;
    let untouched = stage.hub.read(&managed.at).await?;
    ensure!(untouched["metadata"]["deletionTimestamp"].is_null());
    stage.clear(&managed).await
}

/// A change of mode waits for a confirmation while there are mirrors; afterwards mirrors and the spoke's Applications do not
/// affect each other, and a change back reuses the mirrors.
pub(crate) async fn a_change_of_mode_is_confirmed_and_touches_no_application(
    stage: &Stage,
) -> Result<()> {
    let mut own = Own::running(stage, "changes").await?;
    let before = stage.spoke(NUMBER).read(&own.app.at).await?;
    change_mode(stage, "managed").await?;
    let inert = |app: &Value| {
        app["status"]["conditions"]
            .to_string()
            .contains("mirrored-from")
    };
    stage
        .hub
        .until(
            &own.mirror,
            "says that it is a mirror from before",
            SOON,
            inert,
        )
        .await?;
    stage
        .hub
        .merge(
            &own.mirror,
            json!({"spec": {"source": {"path": "elsewhere"}}}),
        )
        .await?;
    // This delivery comes after that edit would have been delivered.
    let managed = stage.greeter("after-the-change", NUMBER).await?;
    managed.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &managed.at, "").await?;
    stage.clear(&managed).await?;
    let after = stage.spoke(NUMBER).read(&own.app.at).await?;
    ensure!(after["spec"] == before["spec"], "{after:#}");
    ensure!(after["metadata"]["uid"] == before["metadata"]["uid"]);

    change_mode(stage, "autonomous").await?;
    let next = own.change().await?;
    deliver::until_healthy(&stage.hub, &own.mirror, &next).await?;
    let mirror = stage.hub.read(&own.mirror).await?;
    ensure!(
        mirror["spec"]["source"]["path"] == workload::PATH,
        "{mirror:#}"
    );
    own.clear().await?;
    stage.not_enrolled(NUMBER).await
}

/// Requests a mode with the label, and confirms it when the add-on reports `ModeChangeHeld`.
async fn change_mode(stage: &Stage, mode: &str) -> Result<()> {
    let addon = At::addon(CLUSTER);
    let label = json!({"metadata": {"labels": {enrol::MODE: mode}}});
    stage.hub.merge(&At::cluster(CLUSTER), label).await?;
    let is_blocked = |addon: &Value| {
        lab::steps::objects::has_condition(addon, "Degraded", "True", "ModeChangeHeld")
    };
    stage
        .hub
        .until(&addon, "blocks the change of mode", SOON, is_blocked)
        .await?;
    let confirm = "argocd-agent.open-cluster-management.io/confirm-mode";
    let confirmed = json!({"metadata": {"annotations": {confirm: mode}}});
    stage.hub.merge(&addon, confirmed).await?;
    let agent = enrol::agent();
    let works = |agent: &Value| {
        agent["spec"]["template"].to_string().contains(&format!(
            r#"{{"name":"ARGOCD_AGENT_MODE","value":"{mode}"}}"#
        ))
    };
    stage
        .spoke(NUMBER)
        .until(&agent, &format!("is {mode}"), SOON, works)
        .await
        .context("the mode reaches the agent")?;
    enrol::until_available(&stage.hub, CLUSTER).await.map(drop)
}
