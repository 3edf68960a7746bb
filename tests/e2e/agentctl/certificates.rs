//! `certs` rotates certificates; `agent` revokes agents and restores them.

use anyhow::{Context as _, Result, ensure};
use lab::{
    product,
    steps::{
        At,
        enrol::{AGENT_NAMESPACE, CERTIFICATE, until_available},
        objects::has_condition,
    },
    wait::BOUND,
};
use serde_json::Value;

use super::{ask, fails};
use crate::stage::{SOON, Stage};

/// On the CA's Secret while agents move over.
const SINCE: &str = "argocd-agent.open-cluster-management.io/rotating-since";

/// `certs rotate` gives an agent a new key and the CA a successor; `certs list` shows both.
pub(crate) async fn certificates_are_changed_on_the_command_line(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    stage.enrolled(2).await?;
    let team = stage.platform_team().await?;
    let list = ask(team.clone(), 0, &["certs", "list"]).await?;
    let all = list["certificates"].as_array().context("certificates")?;
    ensure!(all.len() == 5 && all[0]["state"] == "settled", "{list:#}");
    ensure!(
        all[..3].iter().all(|it| it["expires"].is_string()),
        "{list:#}"
    );

    let leaf = At::secret(AGENT_NAMESPACE, CERTIFICATE);
    let was = stage.spoke(1).read(&leaf).await?["data"]["tls.crt"].clone();
    let rotate = ["certs", "rotate", "spoke1", "--wait", "--timeout", "2m"];
    let output = product::agentctl_within(BOUND * 2, &team, &rotate).await?;
    let is_reported = output.out.contains("the agent of spoke1 has a new key");
    ensure!(
        output.succeeded() && is_reported && output.err.is_empty(),
        "{output:?}"
    );
    let is = stage.spoke(1).read(&leaf).await?["data"]["tls.crt"].clone();
    ensure!(is != was, "it did not wait");
    until_available(&stage.hub, "spoke1").await?;

    let ca = At::secret(product::NAMESPACE, "argocd-agent-ca");
    let was = stage.hub.read(&ca).await?["data"]["tls.crt"].clone();
    let rotate = ["certs", "rotate", "--ca", "--wait", "--timeout", "4m"];
    let output = product::agentctl_within(BOUND * 3, &team, &rotate).await?;
    ensure!(output.succeeded() && output.err.is_empty(), "{output:?}");
    let secret = stage.hub.read(&ca).await?;
    let is_settled = secret["metadata"]["annotations"][SINCE].is_null();
    ensure!(
        secret["data"]["tls.crt"] != was && is_settled,
        "it did not wait"
    );
    until_available(&stage.hub, "spoke1").await?;
    until_available(&stage.hub, "spoke2").await.map(drop)
}

/// `agent revoke` disconnects an agent, lists it as revoked and fails the second time; `agent restore` reconnects it with a new key.
pub(crate) async fn an_agent_is_revoked_and_restored_on_the_command_line(
    stage: &Stage,
) -> Result<()> {
    stage.enrolled(2).await?;
    let team = stage.platform_team().await?;
    let revoke = ["agent", "revoke", "spoke2", "--reason", "a test"];
    let output = product::agentctl(&team, &revoke).await?;
    ensure!(
        output.succeeded() && output.out.contains("agent restore spoke2"),
        "{output:?}"
    );
    let addon = At::addon("spoke2");
    let is_reported = |addon: &Value| has_condition(addon, "Degraded", "True", "Revoked");
    stage
        .hub
        .until(&addon, "is Degraded", SOON, is_reported)
        .await?;
    let list = ask(team.clone(), 0, &["agent", "list"]).await?;
    let agents = list["agents"].as_array().into_iter().flatten();
    let mut revoked = agents.filter(|it| it["revoked"] == "a test");
    ensure!(
        revoked.next().is_some_and(|it| it["cluster"] == "spoke2"),
        "{list:#}"
    );
    let fleet = ask(team.clone(), 1, &["status", "spoke2", "--exit-code"]).await?;
    let error = &fleet["clusters"][0]["lastError"];
    ensure!(error["reason"] == "Revoked", "{fleet:#}");
    let again = fails(team.clone(), &revoke).await?;
    ensure!(again.contains("already revoked"), "{again}");
    let rotate = fails(team.clone(), &["certs", "rotate", "spoke2"]).await?;
    ensure!(rotate.contains("agent restore spoke2"), "{rotate}");

    let output = product::agentctl(&team, &["agent", "restore", "spoke2"]).await?;
    ensure!(output.succeeded(), "{output:?}");
    until_available(&stage.hub, "spoke2").await.map(drop)
}
