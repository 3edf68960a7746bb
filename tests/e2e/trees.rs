//! The keys in the hub's redis of Applications on clusters, read as Argo CD's server reads them.

use std::{
    io::Write as _,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use lab::{
    faults::Fault,
    product,
    redis::Client,
    steps::{
        At,
        deliver::until_healthy,
        enrol::{self, ARGOCD},
        workload,
    },
    wait,
};
use serde_json::json;
use tokio::time::Instant;

use crate::stage::{Stage, text};

const NAME: &str = "treed";
const PASSWORD: &str = "of-the-hubs-redis";
const TREE: &str = "app|resources-tree|spoke1_treed|1.8.3.gz";
const CHANNEL: &str = "app|managed-resources|spoke1_treed|1.8.3";
/// A client that has shown the password to the redis proxy.
pub(crate) async fn client(stage: &Stage, password: &str) -> Result<Client> {
    let service = At::service(product::NAMESPACE, "argocd-agent-redis-proxy");
    let service = stage.hub.read(&service).await?;
    let ip = service["spec"]["clusterIP"].as_str().context("an IP")?;
    Client::at((ip, 6379), password).await
}

/// The tree, if it is known.
async fn tree(client: &mut Client) -> Result<Option<String>> {
    client
        .value(TREE)
        .await?
        .as_deref()
        .map(unzipped)
        .transpose()
}

fn unzipped(bytes: &[u8]) -> Result<String> {
    let mut gzip = Command::new("gzip")
        .arg("-dc")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("run gzip")?;
    gzip.stdin.take().context("its input")?.write_all(bytes)?;
    let ended = gzip.wait_with_output()?;
    ensure!(ended.status.success(), "Argo CD's value is compressed");
    String::from_utf8(ended.stdout).context("not text")
}

/// The password of the hub's redis, which only Argo CD and the hub program know. A hub without one gets this password:
/// keys of clusters do not need the hub's redis.
pub(crate) async fn password(stage: &Stage) -> Result<String> {
    let at = At::secret(ARGOCD, "argocd-redis");
    if let Some(secret) = stage.hub.get(&at).await? {
        return text(&secret, "auth");
    }
    let data = json!({"data": {"auth": STANDARD.encode(PASSWORD)}});
    stage.hub.apply(&at, data).await?;
    Ok(PASSWORD.to_owned())
}

/// The hub reads the tree of an Application on a spoke under its name on the hub, gets a message when it changes, and still
/// gets the last tree at once while the spoke is disconnected.
pub(crate) async fn the_tree_of_an_application_on_a_spoke_is_read_on_the_hub(
    stage: &Stage,
) -> Result<()> {
    stage.enrolled(1).await?;
    let (hub, helm) = (&stage.hub, stage.lab.helm());
    let password = password(stage).await?;
    product::upgrade(&helm, &["--set", "redisProxy.enabled=true", "--wait"]).await?;
    let app = stage.greeter(NAME, 1).await?;
    app.apply(hub).await?;
    until_healthy(hub, &app.at, "").await?;

    let wrong = client(stage, "wrong").await.err();
    let error = wrong.context("a wrong password was accepted")?.to_string();
    ensure!(error.contains("WRONGPASS"), "{error}");
    let look = async || tree(&mut client(stage, &password).await?).await;
    let has_all = |tree: &Option<String>| {
        tree.as_ref()
            .is_some_and(|tree| tree.contains(workload::NAME) && tree.contains("ConfigMap"))
    };
    wait::until("the tree is read", look, has_all).await?;

    let mut listener = client(stage, &password).await?;
    let confirmed = listener.ask(&["SUBSCRIBE", CHANNEL]).await?;
    ensure!(
        confirmed.elements()[0].as_bytes() == Some(b"subscribe"),
        "{confirmed:?}"
    );
    stage.refresh(&app.at, NAME).await?;
    let message = listener.reply().await?;
    ensure!(
        message.elements()[1].as_bytes() == Some(CHANNEL.as_bytes()),
        "{message:?}"
    );

    let mut reader = client(stage, &password).await?;
    stage.lab.faults().set("spoke1", Fault::Stall);
    let begun = Instant::now();
    let known = tree(&mut reader).await?;
    let took = begun.elapsed();
    stage.lab.faults().heal("spoke1");
    ensure!(has_all(&known), "of a cluster that is away: {known:?}");
    ensure!(took < Duration::from_secs(4), "after {took:?}");
    enrol::until_available(hub, "spoke1").await?;

    stage.clear(&app).await?;
    let gone = client(stage, &password).await?.ask(&["GET", TREE]).await?;
    ensure!(
        gone.as_bytes().is_none(),
        "an Application that is gone has no tree"
    );
    product::upgrade(&helm, &["--wait"]).await.map(drop)
}
