//! The identity, rights and health of an agent on the hub. With the example add-on.

use anyhow::{Context as _, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use lab::{
    hello,
    steps::{At, Objects, enrol::AGENT_NAMESPACE},
};
use serde_json::{Value, json};

use super::guest::{Guest, RIGHTS, binding};
use crate::stage::Stage;

/// The agent has the rights of its Role in its own cluster's namespace, and none elsewhere.
pub(crate) async fn an_agent_has_rights_in_its_own_namespace_only(stage: &Stage) -> Result<()> {
    let guest = Guest::of(stage).await?;
    guest.enable(1, &[]).await?;
    guest.until_well(1).await?;
    reads_its_own_and_no_more(&guest, 1).await?;
    let bound = stage.hub.read(&binding("spoke1")).await?;
    let subjects = bound["subjects"].as_array().context("subjects")?;
    let group = "system:open-cluster-management:cluster:spoke1:addon:hello";
    ensure!(
        subjects.len() == 1 && subjects[0]["kind"] == "Group" && subjects[0]["name"] == group,
        "only the cluster's own group: {subjects:?}"
    );
    guest.disable(1).await?;
    let secret = At::secret(AGENT_NAMESPACE, "hello-hub-kubeconfig");
    stage.spoke(1).until_gone(&secret, lab::wait::BOUND).await
}

async fn reads_its_own_and_no_more(guest: &Guest<'_>, number: usize) -> Result<()> {
    let (own, other) = (format!("spoke{number}"), format!("spoke{}", 3 - number));
    let agent = guest.agent(number).await?;
    let greeted = agent.read(&At::config_map(&own, hello::ADDON)).await?;
    ensure!(greeted["data"]["name"] == *own, "whom to greet: {greeted}");
    for at in [
        At::config_map(&other, hello::ADDON),
        At::config_map(hello::NAMESPACE, "any"),
        At::secret(&own, "any"),
        At::role(&own, RIGHTS),
        hello::addon(&own),
    ] {
        ensure!(
            is_forbidden(&agent, &at).await,
            "{at} may be read by the agent of {own}"
        );
    }
    Ok(())
}

async fn is_forbidden(agent: &Objects, at: &At) -> bool {
    let error = agent.get(at).await.err();
    let source = error.as_ref().and_then(|error| error.downcast_ref());
    matches!(source, Some(kube::Error::Api(status)) if status.code == 403)
}

/// With token registration the agent sets the driver and the subject. The manager leaves them alone, and grants the rights
/// to that service account.
pub(crate) async fn an_agent_with_a_token_has_the_same_rights(stage: &Stage) -> Result<()> {
    let guest = Guest::of(stage).await?;
    let with_tokens = async |yes: bool| {
        let mut ocm = stage.lab.ocm().await?;
        let spoke = ocm.spokes.get_mut("spoke2").context("spoke2")?;
        spoke.reconfigure(|config| config.tokens = yes).await
    };
    with_tokens(true).await?;
    guest.enable(2, &[]).await?;
    guest
        .until(2, ["TokenInfrastructureReady", "True", ""])
        .await?;
    let addon = guest.until_well(2).await?;
    let registrations = addon["status"]["registrations"].clone();
    let client = &registrations[0]["kubeClient"];
    let user = "system:serviceaccount:spoke2:hello-agent";
    ensure!(
        client["driver"] == "token",
        "the agent's driver stays: {registrations}"
    );
    ensure!(
        client["subject"]["user"] == user,
        "and its subject: {registrations}"
    );
    ensure!(
        client["subject"]["groups"].is_null(),
        "without groups: {registrations}"
    );
    let binds =
        |it: &Value| it["subjects"][0]["name"] == user && it["subjects"][0]["kind"] == "User";
    let at = binding("spoke2");
    let what = "gives the rights to the service account";
    stage.hub.until(&at, what, lab::wait::BOUND, binds).await?;
    reads_its_own_and_no_more(&guest, 2).await?;

    // A full reconcile after a restart changes none of that.
    guest.kill_manager().await?;
    guest.configure(2, &[("GREETING", "again")]).await?;
    guest
        .until_works(2, "have the new greeting", |works| {
            works
                .iter()
                .any(|work| work["spec"].to_string().contains("\"again\""))
        })
        .await?;
    let after = stage.hub.read(&hello::addon("spoke2")).await?;
    ensure!(
        after["status"]["registrations"] == registrations,
        "{}",
        after["status"]
    );

    guest.disable(2).await?;
    with_tokens(false).await
}

/// In lease mode OCM sets Available from the lease alone, and the manager does not write it.
pub(crate) async fn the_lease_decides_whether_an_agent_is_available(stage: &Stage) -> Result<()> {
    let guest = Guest::of(stage).await?;
    guest.enable(1, &[]).await?;
    let addon = guest.until_well(1).await?;
    ensure!(
        addon["status"]["healthCheck"]["mode"] == "Lease",
        "{}",
        addon["status"]
    );

    // From now on the agent renews its lease once, when it starts.
    guest.configure(1, &[("RENEW_SECONDS", "86400")]).await?;
    let kind = ("Lease", "leases");
    let lease = At::of(
        "coordination.k8s.io/v1",
        kind,
        Some(AGENT_NAMESPACE),
        hello::ADDON,
    );
    let spoke = stage.spoke(1);
    let last = |it: &Value| it["spec"]["leaseDurationSeconds"] == 86400;
    let what = "was renewed for the last time";
    spoke.until(&lease, what, lab::wait::BOUND, last).await?;

    let old = Timestamp::now() - SignedDuration::from_mins(6);
    let old = old.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    spoke
        .merge(&lease, json!({ "spec": { "renewTime": old } }))
        .await?;
    guest
        .until(
            1,
            [
                "Available",
                "False",
                "ManagedClusterAddOnLeaseUpdateStopped",
            ],
        )
        .await?;
    spoke.delete(&lease).await?;
    guest
        .until(
            1,
            ["Available", "Unknown", "ManagedClusterAddOnLeaseNotFound"],
        )
        .await?;
    guest.configure(1, &[("RENEW_SECONDS", "2")]).await?;
    guest.until_well(1).await?;
    guest.disable(1).await
}
