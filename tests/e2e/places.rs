//! Argo CD is where its administrators have put it.

use anyhow::{Result, ensure};
use lab::{
    argocd,
    steps::{At, deliver, enrol},
};
use serde_json::json;

use crate::stage::Stage;

/// Argo CD has another namespace on a spoke than on the hub; the add-on's configuration for the cluster says which.
pub(crate) async fn argo_cd_has_another_namespace_on_a_spoke(stage: &Stage) -> Result<()> {
    const ELSEWHERE: &str = "gitops";
    stage.not_enrolled(2).await?;
    let (spoke, tools) = (stage.lab.spoke(2), stage.lab.tools());
    argocd::purge(spoke, tools).await?;
    argocd::install_in(spoke, ELSEWHERE, tools).await?;
    let config = At::addon_config("spoke2", "elsewhere");
    let variable = json!({"name": "ARGOCD_NAMESPACE", "value": ELSEWHERE});
    let spec = json!({"spec": {"customizedVariables": [variable]}});
    stage.hub.apply(&config, spec).await?;
    let spec = json!({"spec": {
        "installNamespace": enrol::AGENT_NAMESPACE,
        "configs": [{
            "group": "addon.open-cluster-management.io",
            "resource": "addondeploymentconfigs",
            "namespace": "spoke2",
            "name": "elsewhere",
        }],
    }});
    stage.hub.apply(&At::addon("spoke2"), spec).await?;
    enrol::until_available(&stage.hub, "spoke2").await?;

    let app = stage.greeter("elsewhere", 2).await?;
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    stage.until_greets(2, "elsewhere", "hello").await?;
    let objects = stage.spoke(2);
    objects
        .read(&At::application(ELSEWHERE, "elsewhere"))
        .await?;
    let usual = objects.get(&At::namespace(enrol::ARGOCD)).await?;
    ensure!(usual.is_none(), "the default namespace was created");
    stage.clear(&app).await?;

    stage.not_enrolled(2).await?;
    stage.hub.delete(&config).await?;
    argocd::purge_from(spoke, ELSEWHERE, tools).await?;
    argocd::install(std::slice::from_ref(spoke), tools).await
}
