//! The chart's `argocd.configure`: argocd-server is set up with an installation, and is as before after the upgrade that switches it
//! off and after an uninstallation.

use anyhow::{Result, ensure};
use lab::{
    argocd, product,
    steps::{At, enrol::ARGOCD},
};
use serde_json::{Value, json};

use super::{uninstall, used_its_rights};
use crate::{
    agentctl::ask,
    stage::{SOON, Stage},
};

/// The `ServiceAccount` of the Jobs, and the prefix of its other objects.
const NAME: &str = "argocd-agent-addon-configure";
/// What the chart grants argocd-server.
const GRANTED: &str = "argocd-agent-addon-server-applications";
/// What the command line grants it.
const GRANTED_BY_HAND: &str = "argocd-agent-addon-argocd-server";
const RECORD: &str = "argocd-agent.open-cluster-management.io/hub-setup";
const ON: [&str; 4] = [
    "--set",
    "redisProxy.enabled=true",
    "--set",
    "argocd.configure=true",
];
const OFF: [&str; 2] = ["--set", "redisProxy.enabled=true"];

/// An upgrade sets argocd-server up, the next one changes nothing, and that with `false` restores the values from before. So does an
/// uninstallation, also where a user had set it up.
pub(crate) async fn configure_sets_argocd_server_up_and_restores_it(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let before = an_argo_cd(stage).await?;
    let mark = stage.lab.hub().audit().mark()?;

    upgrade(stage, &ON).await?;
    let set_up = stage.hub.read(&argocd::parameters()).await?;
    let namespaces = set_up["data"]["application.namespaces"].as_str();
    let mut namespaces = namespaces.unwrap_or_default().split(',');
    ensure!(
        namespaces.next() == Some("team-a") && namespaces.any(|it| it == "spoke1"),
        "{set_up:#}"
    );
    let annotations = &set_up["metadata"]["annotations"];
    ensure!(
        set_up["data"]["redis.server"] == product::REDIS_PROXY && annotations[RECORD].is_string(),
        "{set_up:#}"
    );
    jobs_are_gone(stage).await?;
    stage.until_server_rolled_out().await?;

    upgrade(stage, &ON).await?;
    let again = stage.hub.read(&argocd::parameters()).await?;
    ensure!(
        again["metadata"]["resourceVersion"] == set_up["metadata"]["resourceVersion"],
        "a second upgrade changed something: {again:#}"
    );
    upgrade(stage, &OFF).await?;
    is_as_before(stage, &before).await?;

    let done = ask(stage.lab.hub().kubeconfig(), 0, &["hub", "setup"]).await?;
    ensure!(done["state"] == "written", "{done:#}");
    let granted = At::cluster_role(GRANTED_BY_HAND);
    stage.hub.read(&granted).await?;
    // Off as before, so this is the user's.
    upgrade(stage, &OFF).await?;
    let kept = stage.hub.read(&argocd::parameters()).await?;
    ensure!(
        kept["data"]["redis.server"] == product::REDIS_PROXY,
        "{kept:#}"
    );
    upgrade(stage, &ON).await?;
    uninstall(stage).await?;
    is_as_before(stage, &before).await?;
    used_its_rights(stage, mark, NAME, &ON).await?;
    product::install(&stage.lab.helm(), product::OptIn::Manual).await
}

/// Argo CD with its server as its own manifests install it, with a namespace of Applications. Returns its parameters.
async fn an_argo_cd(stage: &Stage) -> Result<Value> {
    let (hub, tools) = (stage.lab.hub(), stage.lab.tools());
    argocd::install_application_sets(hub, tools).await?;
    argocd::install_server(hub, tools).await?;
    // The lab adds this permission.
    let added = At::cluster_role_binding("argocd-server-cluster-apps");
    stage.hub.delete(&added).await?;
    let own = json!({"data": {"application.namespaces": "team-a"}});
    let parameters = stage.hub.merge(&argocd::parameters(), own).await?;
    Ok(parameters["data"].clone())
}

async fn upgrade(stage: &Stage, values: &[&str]) -> Result<()> {
    let values = [values, &["--wait"]].concat();
    let upgraded = product::upgrade(&stage.lab.helm(), &values).await;
    upgraded.map(drop)
}

/// Neither a Job nor its permissions are left.
async fn jobs_are_gone(stage: &Stage) -> Result<()> {
    let job = |name: &str| At::of("batch/v1", ("Job", "jobs"), Some(product::NAMESPACE), name);
    let undo = format!("{NAME}-undo");
    for at in [
        job(NAME),
        job(&undo),
        At::cluster_role(NAME),
        At::cluster_role_binding(NAME),
        At::service_account(product::NAMESPACE, NAME),
        At::role(product::NAMESPACE, NAME),
        At::role(ARGOCD, &format!("{NAME}-argocd")),
    ] {
        stage.hub.until_gone(&at, SOON).await?;
    }
    Ok(())
}

async fn is_as_before(stage: &Stage, before: &Value) -> Result<()> {
    let now = stage.hub.read(&argocd::parameters()).await?;
    let record = &now["metadata"]["annotations"][RECORD];
    ensure!(now["data"] == *before && record.is_null(), "{now:#}");
    for name in [GRANTED, GRANTED_BY_HAND] {
        for at in [At::cluster_role(name), At::cluster_role_binding(name)] {
            stage.hub.until_gone(&at, SOON).await?;
        }
    }
    jobs_are_gone(stage).await?;
    stage.until_server_rolled_out().await
}
