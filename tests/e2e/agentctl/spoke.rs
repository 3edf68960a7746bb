//! A cluster is looked at from where its administrator sits.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{TEAM, ask, fails, results, roles_of_the_page};
use crate::stage::Stage;

/// What is wrong on a cluster: a klusterlet that does not run and has no rights, and an agent of somebody else's.
const WRONG: &str = r"
apiVersion: apps/v1
kind: Deployment
metadata: {name: klusterlet-agent, namespace: open-cluster-management-agent, labels: {app: klusterlet-agent}}
spec:
  selector: {matchLabels: {app: klusterlet-agent}}
  template:
    metadata: {labels: {app: klusterlet-agent}}
    spec: {serviceAccountName: default, containers: [{name: x, image: nobody.example.com/has-this:v1}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: argocd-agent-agent, namespace: default, labels: {app.kubernetes.io/name: argocd-agent-agent}}
spec:
  selector: {matchLabels: {app: another-agent}}
  template:
    metadata: {labels: {app: another-agent}}
    spec: {containers: [{name: x, image: nobody.example.com/has-this:v1}]}
";

/// The policy that the page about live traffic shows, by which the agent reaches redis.
fn door_of_the_page() -> Result<String> {
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/live.md");
    let page = std::fs::read_to_string(page)?;
    let mut blocks = page
        .split("```yaml\n")
        .filter_map(|rest| rest.split("```").next());
    let door = blocks.find(|block| block.contains("name: argocd-agent-redis"));
    Ok(door.context("the page shows a policy")?.to_owned())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path")
}

/// Checks that were not as they should be.
fn troubles(found: &Value) -> Vec<&str> {
    let all = found["checks"].as_array().into_iter().flatten();
    let bad = all.filter(|it| it["result"] != "ok");
    bad.filter_map(|it| it["check"].as_str()).collect()
}

/// A cluster on which all is well passes for somebody with the roles of the page, who is refused nothing; what is wrong is
/// told, each for itself; and the hub, given by mistake, is recognised.
pub(crate) async fn a_cluster_is_checked_with_the_roles_of_the_page(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let (team, cluster) = (stage.platform_team().await?, &stage.lab.spokes()[0]);
    cluster.apply(&roles_of_the_page(2)?).await?;
    let access = cluster.kubeconfig_for("somebody", Some(TEAM))?;
    let access = text(&access)?;
    // Others were somebody, too, on the hub.
    let before = stage.lab.hub().audit().forbidden("somebody")?.len();
    let look = ["check", "spoke", "spoke1", "--spoke-kubeconfig", access];

    // Argo CD as it comes lets nobody else reach its redis.
    let found = ask(team.clone(), 0, &look).await?;
    ensure!(troubles(&found) == ["network"], "{found:#}");
    let door = door_of_the_page()?;
    cluster.apply(&door).await?;
    let found = ask(team.clone(), 0, &look).await?;
    ensure!(troubles(&found).is_empty(), "{found:#}");
    let all = [
        "api",
        "joined",
        "klusterlet",
        "work agent",
        "crds",
        "argo cd",
        "version",
        "redis",
        "other agents",
        "agent",
        "address",
        "port",
        "tls",
        "clock",
    ];
    for check in all {
        ensure!(results(&found, check) == ["ok"], "{check}: {found:#}");
    }
    let refused = cluster.audit().forbidden("somebody")?;
    ensure!(refused.is_empty(), "{refused:?}");
    let refused = stage.lab.hub().audit().forbidden("somebody")?;
    ensure!(refused.len() == before, "{refused:?}");

    cluster.apply(WRONG).await?;
    let found = ask(team.clone(), 1, &look).await?;
    let expected = ["klusterlet", "work agent", "other agents"];
    ensure!(troubles(&found) == expected, "{found:#}");
    cluster.delete(WRONG).await?;
    the_way_is_wrong(stage, &look).await?;
    cluster.delete(&door).await?;

    let hub = stage.admin();
    let itself = ["check", "spoke", "--spoke-kubeconfig", text(&hub)?];
    let found = ask(hub.clone(), 1, &itself).await?;
    ensure!(results(&found, "cluster") == ["failed"], "{found:#}");
    let error = fails(team, &["check", "spoke", "spoke1"]).await?;
    ensure!(error.contains("--spoke-kubeconfig"), "{error}");
    Ok(())
}

/// Another door than the principal's, a door that is shut, another namespace than Argo CD's, and nobody's rights.
async fn the_way_is_wrong(stage: &Stage, look: &[&str]) -> Result<()> {
    let (team, cluster) = (stage.platform_team().await?, &stage.lab.spokes()[0]);
    let elsewhere = format!("127.0.0.1:{}", stage.lab.hub().api_port());
    let asked = [look, &["--principal-address", &elsewhere]].concat();
    let found = ask(team.clone(), 1, &asked).await?;
    ensure!(troubles(&found) == ["tls"], "{found:#}");
    let asked = [look, &["--principal-address", "127.0.0.1:9"]].concat();
    let found = ask(team.clone(), 1, &asked).await?;
    ensure!(troubles(&found) == ["port"], "{found:#}");

    let asked = [look, &["--spoke-argocd-namespace", "default"]].concat();
    let found = ask(team.clone(), 0, &asked).await?;
    ensure!(results(&found, "argo cd") == ["warning"], "{found:#}");

    let no_one = cluster.kubeconfig_for("nobody", None)?;
    let asked = [
        "check",
        "spoke",
        "--without-hub",
        "--spoke-kubeconfig",
        text(&no_one)?,
    ];
    let found = ask(team, 0, &asked).await?;
    for check in ["joined", "klusterlet", "work agent", "crds", "agent"] {
        ensure!(results(&found, check) == ["unclear"], "{check}: {found:#}");
    }
    Ok(())
}
