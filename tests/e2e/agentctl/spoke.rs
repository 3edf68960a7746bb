//! `check spoke`, run by the administrator of a cluster.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{MEMBER, NO_RIGHTS, TEAM, ask, fails, results, roles_of_the_page};
use crate::stage::Stage;

/// Faults on a cluster: a klusterlet that does not run and has no rights, and another agent.
const WRONG: &str = r"
apiVersion: apps/v1
kind: Deployment
metadata: {name: klusterlet-agent, namespace: open-cluster-management-agent, labels: {app: klusterlet-agent}}
spec:
  selector: {matchLabels: {app: klusterlet-agent}}
  template:
    metadata: {labels: {app: klusterlet-agent}}
    spec: {serviceAccountName: default, containers: [{name: x, image: registry.example.com/missing:v1}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: argocd-agent-agent, namespace: default, labels: {app.kubernetes.io/name: argocd-agent-agent}}
spec:
  selector: {matchLabels: {app: another-agent}}
  template:
    metadata: {labels: {app: another-agent}}
    spec: {containers: [{name: x, image: registry.example.com/missing:v1}]}
";

/// The `NetworkPolicy` in `docs/live.md` that lets the agent reach redis.
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

/// The names of checks that did not pass.
fn troubles(found: &Value) -> Vec<&str> {
    let all = found["checks"].as_array().into_iter().flatten();
    let bad = all.filter(|it| it["result"] != "ok");
    bad.filter_map(|it| it["check"].as_str()).collect()
}

/// The check passes on a healthy cluster for a user with the documented roles, and no request is forbidden. It reports each
/// fault separately, and recognises the hub when its kubeconfig is given by mistake.
pub(crate) async fn check_spoke_needs_only_the_documented_roles(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let (team, cluster) = (stage.platform_team().await?, &stage.lab.spokes()[0]);
    cluster.apply(&roles_of_the_page(2)?).await?;
    let access = cluster.kubeconfig_for(MEMBER, Some(TEAM))?;
    let access = text(&access)?;
    // Earlier tests used the same user on the hub.
    let before = stage.lab.hub().audit().forbidden(MEMBER)?.len();
    let look = ["check", "spoke", "spoke1", "--spoke-kubeconfig", access];

    // The default NetworkPolicy of Argo CD admits only its own Pods to redis.
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
    let refused = cluster.audit().forbidden(MEMBER)?;
    ensure!(refused.is_empty(), "{refused:?}");
    let refused = stage.lab.hub().audit().forbidden(MEMBER)?;
    ensure!(refused.len() == before, "{refused:?}");

    cluster.apply(WRONG).await?;
    let found = ask(team.clone(), 1, &look).await?;
    let expected = ["klusterlet", "work agent", "other agents"];
    ensure!(troubles(&found) == expected, "{found:#}");
    cluster.delete(WRONG).await?;
    wrong_endpoints_are_reported(stage, &look).await?;
    cluster.delete(&door).await?;

    let hub = stage.admin();
    let itself = ["check", "spoke", "--spoke-kubeconfig", text(&hub)?];
    let found = ask(hub.clone(), 1, &itself).await?;
    ensure!(results(&found, "cluster") == ["failed"], "{found:#}");
    let error = fails(team, &["check", "spoke", "spoke1"]).await?;
    ensure!(error.contains("--spoke-kubeconfig"), "{error}");
    Ok(())
}

/// Wrong endpoints and rights: a server that is not the principal, a closed port, a namespace without Argo CD, no rights.
async fn wrong_endpoints_are_reported(stage: &Stage, look: &[&str]) -> Result<()> {
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

    let without_rights = cluster.kubeconfig_for(NO_RIGHTS, None)?;
    let asked = [
        "check",
        "spoke",
        "--without-hub",
        "--spoke-kubeconfig",
        text(&without_rights)?,
    ];
    let found = ask(team, 0, &asked).await?;
    for check in ["joined", "klusterlet", "work agent", "crds", "agent"] {
        ensure!(results(&found, check) == ["unclear"], "{check}: {found:#}");
    }
    Ok(())
}
