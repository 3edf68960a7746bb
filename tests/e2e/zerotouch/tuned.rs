//! Settings for the fleet, on a cluster whose Argo CD the add-on installed.

use anyhow::{Result, ensure};
use lab::{
    argocd,
    steps::{At, enrol},
};
use serde_json::{Value, json};

use crate::stage::{SOON, Stage};

const CLUSTER: &str = "spoke2";
const PROCESSORS: &str = "ARGOCD_APPLICATION_CONTROLLER_STATUS_PROCESSORS";

/// Keys of the fleet are in `argocd-cm` beside one of the cluster's admin, and a parameter restarts the controller. Both go
/// with their entries in the variables; the admin's key, and the add-on's default, stay.
pub(super) async fn settings_of_the_fleet_come_and_go(stage: &Stage) -> Result<()> {
    let (hub, spoke) = (&stage.hub, stage.spoke(2));
    let map = At::config_map(enrol::ARGOCD, "argocd-cm");
    let default = spoke.read(&map).await?["data"]["resource.exclusions"].clone();
    ensure!(default.is_string(), "{default}");
    let own = json!({"data": {"resource.customLabels": "team"}});
    spoke.merge(&map, own).await?;
    let fits = |map: &Value, timeout: &Value| {
        let data = &map["data"];
        data["timeout.reconciliation"] == *timeout
            && data["resource.customLabels"] == "team"
            && data["resource.exclusions"] == default
    };

    configured(
        stage,
        &json!([
            {"name": "ARGOCD_CM", "value": "timeout.reconciliation:"},
            {"name": "ARGOCD_CM_2", "value": " 100s\n"},
            {"name": "ARGOCD_CMD_PARAMS", "value": "controller.status.processors: 7"},
        ]),
    )
    .await?;
    let given = |map: &Value| fits(map, &json!("100s"));
    spoke
        .until(&map, "has the key of the fleet", SOON, given)
        .await?;
    until_processors(stage, &json!("7")).await?;

    configured(stage, &json!([{"name": "ARGOCD_CM", "value": "{}"}])).await?;
    let taken = |map: &Value| fits(map, &Value::Null);
    spoke
        .until(&map, "loses the key of the fleet", SOON, taken)
        .await?;
    until_processors(stage, &Value::Null).await?;

    enrol::without_variables(hub, CLUSTER).await?;
    enrol::until_available(hub, CLUSTER).await?;
    let map = spoke.read(&map).await?;
    ensure!(taken(&map), "{map}");
    Ok(())
}

/// Gives the cluster a configuration with these variables.
async fn configured(stage: &Stage, variables: &Value) -> Result<()> {
    let spec = json!({ "customizedVariables": variables });
    enrol::with_configuration(&stage.hub, CLUSTER, spec).await
}

/// Waits until the controller runs with this value of its variable; null for none.
async fn until_processors(stage: &Stage, expected: &Value) -> Result<()> {
    let runs = |it: &Value| {
        let env = &it["spec"]["template"]["spec"]["containers"][0]["env"];
        let mut variables = env.as_array().into_iter().flatten();
        let found = variables.find(|it| it["name"] == PROCESSORS);
        let status = &it["status"];
        found.map_or(&Value::Null, |it| &it["value"]) == expected
            && status["observedGeneration"] == it["metadata"]["generation"]
            && status["readyReplicas"] == 1
            && status["updatedReplicas"] == 1
    };
    let controller = At::stateful_set(enrol::ARGOCD, argocd::CONTROLLER);
    let spoke = stage.spoke(2);
    spoke
        .until(&controller, "runs with the setting", SOON * 2, runs)
        .await
        .map(drop)
}
