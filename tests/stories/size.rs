//! Much at once: an Application with a status as large as there can be.

use anyhow::{Result, ensure};
use lab::{
    argocd,
    steps::{At, deliver, enrol::ARGOCD},
};
use serde_json::{Value, json};

use crate::stage::Stage;

/// What etcd takes of one object is 1.5 MiB; this leaves room for the spec and for managed fields.
const LARGE: usize = 1_400_000;

/// Stops or starts Argo CD's controller on spoke1, which would look at everything and write over a status.
async fn controllers(stage: &Stage, count: u8) -> Result<()> {
    let controller = At::stateful_set(ARGOCD, argocd::CONTROLLER);
    let replicas = json!({"spec": {"replicas": count}});
    stage.spoke(1).merge(&controller, replicas).await?;
    let runs = |set: &Value| {
        set["status"]["readyReplicas"].as_u64().unwrap_or_default() == u64::from(count)
    };
    let what = format!("has {count} replicas");
    stage
        .spoke(1)
        .until(&controller, &what, lab::wait::BOUND, runs)
        .await
        .map(drop)
}

/// A status of 1.4 MB arrives on the hub whole.
pub(crate) async fn a_status_as_large_as_there_can_be_arrives(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let app = stage.greeter("large-status", 1).await?;
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    controllers(stage, 0).await?;
    let resource = |number: usize| {
        json!({
            "version": "v1",
            "kind": "ConfigMap",
            "namespace": "large-status",
            "name": format!("{number:0>200}"),
            "status": "Synced",
        })
    };
    let each = resource(0).to_string().len() + 1;
    let resources: Vec<_> = (0..LARGE / each).map(resource).collect();
    let replica = Stage::replica("large-status");
    let status = json!({"status": {"resources": resources}});
    stage.spoke(1).merge(&replica, status).await?;
    let whole = |app: &Value| app["status"]["resources"].as_array() == Some(&resources);
    let what = "has all resources";
    let seen = stage
        .hub
        .until(&app.at, what, lab::wait::BOUND, whole)
        .await?;
    let size = seen["status"].to_string().len();
    ensure!(size > LARGE - each, "a status of {size} bytes");
    controllers(stage, 1).await?;
    // The controller says what is true again.
    stage.refresh(&app.at, "large-status").await?;
    let short = |app: &Value| {
        app["status"]["resources"]
            .as_array()
            .is_some_and(|all| all.len() < 10)
    };
    let what = "has its own resources again";
    stage
        .hub
        .until(&app.at, what, lab::wait::BOUND, short)
        .await?;
    stage.clear(&app).await
}
