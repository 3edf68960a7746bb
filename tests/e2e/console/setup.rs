//! `argocd-agentctl hub setup`: argocd-server of the hub shows what is on the clusters after one command, and is as it was
//! after another.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use lab::{
    argocd,
    audit::{Entry, Mark},
    product,
    steps::{At, enrol::ARGOCD},
};
use serde_json::{Value, json};

use super::{is_connected, line::Console};
use crate::{
    agentctl::{MEMBER, ask, results, roles_of_the_page},
    stage::Stage,
};

const SETUP: [&str; 2] = ["hub", "setup"];
const DRY_RUN: [&str; 3] = ["hub", "setup", "--dry-run"];
const UNDO: [&str; 3] = ["hub", "setup", "--undo"];
/// The role that the command creates, and its binding.
const ROLE: &str = "argocd-agent-addon-argocd-server";
/// The binding in Argo CD's documentation of Applications in any namespace.
const ARGO_CDS_OWN: &str = "argocd-server-cluster-apps";
const RECORD: &str = "argocd-agent.open-cluster-management.io/hub-setup";

/// A user with the documented roles sets argocd-server up: it shows the state of the clusters then, and `check` finds nothing
/// to do. A second run writes nothing. Undo restores what no other client has changed since.
pub(crate) async fn hub_setup_shows_clusters_and_undo_restores_settings(
    stage: &Stage,
) -> Result<()> {
    let console = Console::open(stage).await?;
    let (hub, team) = (stage.lab.hub(), stage.platform_team().await?);
    let (log, roles) = (hub.audit(), roles_of_the_page(3)?);
    hub.apply(&roles).await?;
    as_installed(stage).await?;
    let is_unknown = |info: &Value| !is_connected(info);
    let before = console.until_cluster("spoke1", "spoke1 is unknown", is_unknown);
    before.await?;
    let refused = log.forbidden(MEMBER)?.len();
    ensure!(is_offered(&team).await?, "check does not offer hub setup");

    let mark = log.mark()?;
    let plan = ask(team.clone(), 0, &DRY_RUN).await?;
    let expected = ["create", "create", "patch", "restart"];
    ensure!(
        plan["state"] == "planned" && actions(&plan) == expected,
        "{plan:#}"
    );
    ensure!(writes(stage, mark)?.is_empty(), "a dry run wrote something");
    let done = ask(team.clone(), 0, &SETUP).await?;
    ensure!(done["state"] == "written", "{done:#}");
    let set = stage.hub.read(&argocd::parameters()).await?["data"].clone();
    ensure!(
        set["application.namespaces"] == "team-a,spoke1,spoke2"
            && set["redis.server"] == product::REDIS_PROXY,
        "{set:#}"
    );
    stage.until_server_rolled_out().await?;
    console
        .until_cluster("spoke1", "spoke1 is shown", is_connected)
        .await?;
    check_finds_all_of_it(&team).await?;

    let mark = log.mark()?;
    let again = ask(team.clone(), 0, &SETUP).await?;
    ensure!(again["state"] == "unchanged", "{again:#}");
    ensure!(
        writes(stage, mark)?.is_empty(),
        "a second run wrote something"
    );
    it_is_undone(stage, team.clone()).await?;

    // Later tests find the server as the console sets it up.
    let done = ask(team, 0, &SETUP).await?;
    ensure!(done["state"] == "written", "{done:#}");
    stage.until_server_rolled_out().await?;
    console
        .until_cluster("spoke1", "spoke1 is shown again", is_connected)
        .await?;
    ensure!(
        log.forbidden(MEMBER)?.len() == refused,
        "{:?}",
        log.forbidden(MEMBER)
    );
    hub.delete(&roles).await
}

/// Whether `check` names the command as the next step.
async fn is_offered(kubeconfig: &Path) -> Result<bool> {
    let output = product::agentctl(kubeconfig, &["check"]).await?;
    ensure!(output.out.contains("RESULT"), "{output:?}");
    Ok(output.out.contains("Next: argocd-agentctl hub setup"))
}

async fn check_finds_all_of_it(kubeconfig: &Path) -> Result<()> {
    let output = product::agentctl(kubeconfig, &["check", "-o", "json"]).await?;
    let found: Value = serde_json::from_str(&output.out)?;
    for check in ["argo cd", "redis", "server"] {
        ensure!(results(&found, check) == ["ok"], "{check}: {found:#}");
    }
    let is_still_offered = is_offered(kubeconfig).await?;
    ensure!(!is_still_offered, "check still offers hub setup");
    Ok(())
}

/// Argo CD as its own manifests install it, with a namespace of Applications.
async fn as_installed(stage: &Stage) -> Result<()> {
    let own = json!({"data": {"application.namespaces": "team-a", "redis.server": null}});
    stage.hub.merge(&argocd::parameters(), own).await?;
    let binding = At::cluster_role_binding(ARGO_CDS_OWN);
    stage.hub.delete(&binding).await?;
    let annotations = json!({"kubectl.kubernetes.io/restartedAt": "2020-01-01T00:00:00Z"});
    let restart = json!({"spec": {"template": {"metadata": {"annotations": annotations}}}});
    let server = At::deployment(ARGOCD, argocd::SERVER);
    stage.hub.merge(&server, restart).await?;
    stage.until_server_rolled_out().await
}

/// A user changes one of the values. Undo restores the other one, and reports this one.
async fn it_is_undone(stage: &Stage, team: PathBuf) -> Result<()> {
    let other = json!({"data": {"application.namespaces": "*"}});
    stage.hub.merge(&argocd::parameters(), other).await?;
    let undone = ask(team.clone(), 1, &UNDO).await?;
    let kept = &undone["notes"][0]["check"];
    ensure!(undone["state"] == "written" && kept == "kept", "{undone:#}");
    let now = stage.hub.read(&argocd::parameters()).await?;
    let (data, record) = (&now["data"], &now["metadata"]["annotations"][RECORD]);
    ensure!(
        data["redis.server"].is_null() && data["application.namespaces"] == "*",
        "{now:#}"
    );
    ensure!(record.is_null(), "{now:#}");
    for at in [At::cluster_role(ROLE), At::cluster_role_binding(ROLE)] {
        ensure!(stage.hub.get(&at).await?.is_none(), "{at} is left");
    }
    let again = ask(team, 0, &UNDO).await?;
    ensure!(again["state"] == "unchanged", "{again:#}");
    stage.until_server_rolled_out().await
}

fn actions(plan: &Value) -> Vec<&str> {
    let changes = plan["changes"].as_array().into_iter().flatten();
    changes.filter_map(|it| it["action"].as_str()).collect()
}

/// The writes of the user since a mark. An access review stores nothing.
fn writes(stage: &Stage, mark: Mark) -> Result<Vec<Entry>> {
    let mut all = stage.lab.hub().audit().by(MEMBER, mark)?;
    all.retain(|it| {
        let object = it.object.as_ref();
        it.is_write() && object.is_none_or(|it| it.resource != "subjectaccessreviews")
    });
    Ok(all)
}
