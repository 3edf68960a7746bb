//! A cluster behind a forward proxy, whose Argo CD the add-on installed.

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use lab::{
    argocd,
    connect::ConnectProxy,
    git::HOST,
    steps::{At, deliver, enrol},
};
use serde_json::{Value, json};

use crate::{
    repositories::secret_of,
    stage::{SOON, Stage},
};

const CLUSTER: &str = "spoke2";
const PASSWORD: &str = "of-the-repository";

/// Argo CD fetches a repository of HTTPS through the proxy of the cluster's configuration, with the proxy's password and the
/// certificates of that configuration. Nothing within the cluster goes through the proxy, and neither does the agent, to which
/// an exception applies.
pub(super) async fn a_repository_is_fetched_through_the_proxy(stage: &Stage) -> Result<()> {
    let (hub, name) = (&stage.hub, "proxied");
    let server = stage.lab.git().private(PASSWORD).await?;
    let mut app = stage.greeter(name, 2).await?;
    app.repository = server.url(&stage.lab.git().repository(name)?);
    let parts: Vec<&str> = app.repository.split('/').collect();
    let host = (*parts.get(2).context("a host")?).to_owned();
    let (_, port) = host.split_once(':').context("a port")?;
    let target = ([127, 0, 0, 1], port.parse()?).into();
    let proxy = ConnectProxy::start(target, Some("me:p@ss")).await?;
    let config = json!({"proxyConfig": {
        "httpsProxy": format!("http://me:p%40ss@{HOST}:{}", proxy.port()),
        "noProxy": "10.0.0.0/8",
        "caBundle": STANDARD.encode(server.certificate()),
    }});
    enrol::with_configuration(hub, CLUSTER, config).await?;
    until_proxied(stage).await?;
    let secret = At::secret(enrol::ARGOCD, name);
    let repository = secret_of(&app.repository, name, PASSWORD);
    hub.apply(&secret, repository).await?;
    app.apply(hub).await?;
    deliver::until_healthy(hub, &app.at, "").await?;
    stage.until_greets(2, name, "hello").await?;

    ensure!(server.opened() > 0, "the repository was not fetched");
    let asked = proxy.asked();
    // git offers a password only after a refusal.
    let is_granted = |(_, granted): &(String, bool)| *granted;
    ensure!(
        asked.iter().any(is_granted),
        "not through the proxy: {asked:?}"
    );
    ensure!(asked.iter().all(|(to, _)| *to == host), "{asked:?}");
    enrol::until_available(hub, CLUSTER).await?;
    stage.clear(&app).await?;
    hub.delete(&secret).await?;
    stage.spoke(2).delete(&At::namespace(name)).await
}

/// Waits until the programs that use the proxy run with it; Argo CD retries what fails before only minutes later.
async fn until_proxied(stage: &Stage) -> Result<()> {
    let [_, repo_server] = argocd::DEPLOYMENTS;
    for at in [
        At::deployment(enrol::ARGOCD, repo_server),
        At::stateful_set(enrol::ARGOCD, argocd::CONTROLLER),
    ] {
        let runs = |it: &Value| {
            let (status, metadata) = (&it["status"], &it["metadata"]);
            let template = it["spec"]["template"].to_string();
            let counts = ["replicas", "readyReplicas", "updatedReplicas"];
            template.contains("HTTPS_PROXY")
                && status["observedGeneration"] == metadata["generation"]
                && counts.iter().all(|count| status[*count] == 1)
        };
        let what = "runs with the proxy";
        stage.spoke(2).until(&at, what, SOON * 2, runs).await?;
    }
    Ok(())
}
