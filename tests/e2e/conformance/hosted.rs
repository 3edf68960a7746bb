//! An agent that runs on another cluster than its own. With the example add-on.

use anyhow::{Context as _, Result, ensure};
use lab::{
    hello,
    steps::{At, objects::condition},
    wait,
};
use serde_json::{Value, json};

use super::guest::{Guest, listed};
use crate::stage::Stage;

/// A namespace on the host for the agent of spoke2: it separates the leases.
const APART: &str = "hello-of-spoke2";

async fn host(guest: &Guest<'_>, host: Option<&str>) -> Result<()> {
    let annotation = json!({ "addon.open-cluster-management.io/hosting-cluster-name": host });
    let patch = json!({ "metadata": { "annotations": annotation } });
    guest
        .hub
        .merge(&hello::addon("spoke2"), patch)
        .await
        .map(drop)
}

/// Selects the works on the host.
const HOSTED: &str = "open-cluster-management.io/addon-namespace=spoke2";

/// Objects marked for the host are on the host only, and all others on the cluster itself.
async fn is_shared_out(guest: &Guest<'_>) -> Result<()> {
    let (own, of_host) = (guest.stage.spoke(2), guest.stage.spoke(1));
    let agent = At::deployment(APART, hello::ADDON);
    of_host.until_there(&agent, wait::BOUND).await?;
    ensure!(
        own.get(&agent).await?.is_none(),
        "the agent is on the host alone"
    );
    // Objects without the mark go to the cluster itself.
    let book = At::config_map("default", "hello-book-1");
    own.until_there(&book, wait::BOUND).await?;
    ensure!(
        of_host.get(&book).await?.is_none(),
        "the book is on the cluster alone"
    );
    let works = guest.hub.list(&At::work("spoke1", ""), HOSTED).await?;
    let names: Vec<_> = works.iter().map(|work| &work["metadata"]["name"]).collect();
    ensure!(
        names == [&json!("addon-hello-deploy-hosting-spoke2-0")],
        "{names:?}"
    );
    Ok(())
}

/// An invalid host gets nothing; a valid one runs the agent, and is clean afterwards.
pub(crate) async fn an_agent_is_hosted_on_another_cluster(stage: &Stage) -> Result<()> {
    let guest = Guest::of(stage).await?;
    let management = stage.lab.spoke(1).kubeconfig();
    let klusterlet_on = async |management: Option<std::path::PathBuf>| {
        let mut ocm = stage.lab.ocm().await?;
        let spoke = ocm.spokes.get_mut("spoke2").context("spoke2")?;
        spoke
            .reconfigure(|config| config.management_kubeconfig = management)
            .await
    };
    klusterlet_on(Some(management)).await?;
    let variables = listed(&[("RENEW_SECONDS", "2"), ("BOOKS", "1")]);
    let spec = json!({ "agentInstallNamespace": APART, "customizedVariables": variables });
    guest.enable(2, &[]).await?;
    guest.configure_with(2, spec).await?;

    host(&guest, Some("nowhere")).await?;
    let refused = guest
        .until(
            2,
            ["HostingClusterValidity", "False", "HostingClusterInvalid"],
        )
        .await?;
    let message = condition(&refused, "HostingClusterValidity").map(|it| it["message"].to_string());
    ensure!(
        message.as_ref().is_some_and(|it| it.contains("nowhere")),
        "names the host: {message:?}"
    );

    host(&guest, Some("spoke1")).await?;
    guest
        .until(2, ["HostingClusterValidity", "True", ""])
        .await?;
    guest
        .until(2, ["HostingManifestApplied", "True", ""])
        .await?;
    guest.until_well(2).await?;
    is_shared_out(&guest).await?;

    guest.leave(2).await?;
    guest.until_gone(2).await?;
    let gone = |works: &Vec<Value>| works.is_empty();
    let at = At::work("spoke1", "");
    let look = || guest.hub.list(&at, HOSTED);
    wait::until("no work is left for the host", look, gone).await?;
    let of_host = stage.spoke(1);
    let agent = At::deployment(APART, hello::ADDON);
    of_host.until_gone(&agent, wait::BOUND).await?;
    let word = of_host
        .read(&At::config_map(APART, "hello-goodbye"))
        .await?;
    ensure!(
        word["data"]["cluster"] == "spoke2",
        "the hook ran on the host: {word}"
    );
    guest
        .hub
        .delete(&At::addon_config("spoke2", hello::ADDON))
        .await?;
    of_host.delete(&At::namespace(APART)).await?;
    klusterlet_on(None).await
}
