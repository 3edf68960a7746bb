//! The chart's `argocd.configure`: argocd-server is set up with an installation, and is as before after the upgrade that switches it
//! off and after an uninstallation.

use anyhow::{Result, ensure};
use lab::{
    argocd, product,
    steps::{At, enrol::ARGOCD, objects::is_rolled_out},
    wait::BOUND,
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
const REDIS_PROXY: &str = "argocd-agent-redis-proxy.argocd-agent-addon.svc:6379";
const ON: [&str; 4] = [
    "--set",
    "redisProxy.enabled=true",
    "--set",
    "argocd.configure=true",
];
const OFF: [&str; 2] = ["--set", "redisProxy.enabled=true"];

fn parameters() -> At {
    At::config_map(ARGOCD, "argocd-cmd-params-cm")
}

fn cluster_wide(kind: (&'static str, &'static str), name: &str) -> At {
    At::of("rbac.authorization.k8s.io/v1", kind, None, name)
}

fn role(name: &str) -> At {
    cluster_wide(("ClusterRole", "clusterroles"), name)
}

fn binding(name: &str) -> At {
    cluster_wide(("ClusterRoleBinding", "clusterrolebindings"), name)
}

/// An upgrade sets argocd-server up, the next one changes nothing, and that with `false` restores the values from before. So does an
/// uninstallation, also where a user had set it up.
pub(crate) async fn configure_sets_argocd_server_up_and_restores_it(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let before = an_argo_cd(stage).await?;
    let mark = stage.lab.hub().audit().mark()?;

    upgrade(stage, &ON).await?;
    let set_up = stage.hub.read(&parameters()).await?;
    let namespaces = set_up["data"]["application.namespaces"].as_str();
    let mut namespaces = namespaces.unwrap_or_default().split(',');
    ensure!(
        namespaces.next() == Some("team-a") && namespaces.any(|it| it == "spoke1"),
        "{set_up:#}"
    );
    let annotations = &set_up["metadata"]["annotations"];
    ensure!(
        set_up["data"]["redis.server"] == REDIS_PROXY && annotations[RECORD].is_string(),
        "{set_up:#}"
    );
    jobs_are_gone(stage).await?;
    until_rolled_out(stage).await?;

    upgrade(stage, &ON).await?;
    let again = stage.hub.read(&parameters()).await?;
    ensure!(
        again["metadata"]["resourceVersion"] == set_up["metadata"]["resourceVersion"],
        "a second upgrade changed something: {again:#}"
    );
    upgrade(stage, &OFF).await?;
    is_as_before(stage, &before).await?;

    let done = ask(stage.lab.hub().kubeconfig(), 0, &["hub", "setup"]).await?;
    ensure!(done["state"] == "written", "{done:#}");
    stage.hub.read(&role(GRANTED_BY_HAND)).await?;
    // Off as before, so this is the user's.
    upgrade(stage, &OFF).await?;
    let kept = stage.hub.read(&parameters()).await?;
    ensure!(kept["data"]["redis.server"] == REDIS_PROXY, "{kept:#}");
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
    let added = binding("argocd-server-cluster-apps");
    stage.hub.delete(&added).await?;
    let own = json!({"data": {"application.namespaces": "team-a"}});
    let parameters = stage.hub.merge(&parameters(), own).await?;
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
        role(NAME),
        binding(NAME),
        At::service_account(product::NAMESPACE, NAME),
        At::role(product::NAMESPACE, NAME),
        At::role(ARGOCD, &format!("{NAME}-argocd")),
    ] {
        stage.hub.until_gone(&at, SOON).await?;
    }
    Ok(())
}

async fn is_as_before(stage: &Stage, before: &Value) -> Result<()> {
    let now = stage.hub.read(&parameters()).await?;
    let record = &now["metadata"]["annotations"][RECORD];
    ensure!(now["data"] == *before && record.is_null(), "{now:#}");
    for name in [GRANTED, GRANTED_BY_HAND] {
        for at in [role(name), binding(name)] {
            stage.hub.until_gone(&at, SOON).await?;
        }
    }
    jobs_are_gone(stage).await?;
    until_rolled_out(stage).await
}

async fn until_rolled_out(stage: &Stage) -> Result<()> {
    let server = At::deployment(ARGOCD, argocd::SERVER);
    let rolled_out = stage
        .hub
        .until(&server, "is rolled out", BOUND, is_rolled_out);
    rolled_out.await.map(drop)
}
