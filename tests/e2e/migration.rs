//! A fleet comes from argocd-agent to the add-on.

use anyhow::{Result, ensure};
use lab::steps::{
    At,
    deliver::{self, Application, SOURCE_UID},
    enrol::{self, ARGOCD},
    objects::condition,
    workload,
};
use serde_json::{Value, json};

use crate::{
    reader::Reader,
    stage::{SOON, Stage, commit},
};

/// Where the principal of before had its resource proxy.
const BEFORE: &str = "https://argocd-agent-resource-proxy:9090?agentName=spoke2";
const PRINCIPAL_UID: &str = "argocd.argoproj.io/principal-uid";

/// What the Go agent left on a cluster is the add-on's as the migration page is followed: the copy that is put right on
/// the hub, and the one that is not is left alone. An opt-out takes neither away.
pub(crate) async fn argocd_agent_leftovers_are_adopted_in_place(stage: &Stage) -> Result<()> {
    const PAGE: &str = "docs/migration.md";
    stage.not_enrolled(2).await?;
    let mut app = left_behind(stage, "migrated").await?;
    let later = left_behind(stage, "migrated-later").await?;
    stage
        .hub
        .apply(&enrol::cluster_secret("spoke2"), of_agentctl())
        .await?;
    let before = of_both(stage).await?;

    let reader = Reader::of(stage)?
        .with("CLUSTER", "spoke2")
        .with("APPLICATION", "migrated");
    let e2e_test = "argocd_agent_leftovers_are_adopted_in_place";
    reader.follow(PAGE, e2e_test, 3).await?;
    let copy = stage.spoke(2).read(&Stage::replica("migrated")).await?;
    let stamp = |copy: &Value| copy["metadata"]["annotations"][PRINCIPAL_UID].clone();
    ensure!(stamp(&copy).is_string(), "it was not taken over: {copy:#}");
    let after = of_both(stage).await?;
    ensure!(
        before == after,
        "something was replaced: {before:?}, now {after:?}"
    );

    enrol::by_label(&stage.hub, "spoke2").await?;
    enrol::until_available(&stage.hub, "spoke2").await?;
    let is_reported = |app: &Value| condition(app, "ArgoCDAgentConflict").is_some();
    stage
        .hub
        .until(
            &later.at,
            "says that it contradicts itself",
            SOON,
            is_reported,
        )
        .await?;
    let repository = stage.lab.git().repository("migrated")?;
    let next = commit(&repository, "after-the-migration", "v2")?;
    "spoke2".clone_into(&mut app.cluster);
    "v2".clone_into(&mut app.revision);
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, &next).await?;
    stage
        .until_greets(2, "migrated", "after-the-migration")
        .await?;
    let after = of_both(stage).await?;
    ensure!(before == after, "a change replaced something: {after:?}");

    let named = Application {
        cluster: "spoke2".to_owned(),
        ..later
    };
    named.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &named.at, "").await?;
    stage.clear(&app).await?;
    stage.clear(&named).await
}

/// An Application on the hub, and what the Go agent made of it and of its project on the cluster, synced.
async fn left_behind(stage: &Stage, name: &str) -> Result<Application> {
    let app = stage.greeter(name, 2).await?;
    let mut body = app.body();
    body["spec"]["destination"] = json!({"server": BEFORE, "namespace": name});
    let made = stage.hub.apply(&app.at, body).await?;
    let project = stage.hub.read(&At::project(ARGOCD, name)).await?;
    let spoke = stage.spoke(2);
    let of = |uid: &Value| json!({"annotations": {SOURCE_UID: uid}});
    let mut copied = project["spec"].clone();
    copied["destinations"] = json!([{"name": "in-cluster", "server": "*", "namespace": "*"}]);
    copied["sourceNamespaces"] = json!([]);
    let copied = json!({"metadata": of(&project["metadata"]["uid"]), "spec": copied});
    spoke.apply(&At::project(ARGOCD, name), copied).await?;
    let mut copy = app.body();
    copy["metadata"]["annotations"] = json!({SOURCE_UID: made["metadata"]["uid"]});
    let replica = Stage::replica(name);
    spoke.apply(&replica, copy).await?;
    deliver::until_healthy(spoke, &replica, "").await?;
    Ok(app)
}

/// The cluster Secret of before.
fn of_agentctl() -> Value {
    json!({
        "metadata": {
            "labels": {
                "argocd.argoproj.io/secret-type": "cluster",
                "argocd-agent.argoproj-labs.io/agent-name": "spoke2",
            },
            "annotations": {"managed-by": "argocd-agent"},
        },
        "stringData": {"name": "spoke2", "server": BEFORE, "config": "{}"},
    })
}

async fn of_both(stage: &Stage) -> Result<[[Value; 2]; 2]> {
    let first = uids(stage, "migrated").await?;
    Ok([first, uids(stage, "migrated-later").await?])
}

/// The UIDs of the copy and of its resources.
async fn uids(stage: &Stage, name: &str) -> Result<[Value; 2]> {
    let uid = async |at: At| -> Result<Value> {
        Ok(stage.spoke(2).read(&at).await?["metadata"]["uid"].clone())
    };
    Ok([
        uid(Stage::replica(name)).await?,
        uid(At::config_map(name, workload::NAME)).await?,
    ])
}
