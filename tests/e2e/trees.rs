//! The keys in the hub's redis of Applications on clusters, read as Argo CD's server reads them.

use std::{
    io::Write as _,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use lab::{
    certs::Authority,
    faults::Fault,
    product,
    redis::Client,
    steps::{
        At,
        deliver::until_healthy,
        enrol::{self, ARGOCD},
        objects::is_rolled_out,
        workload,
    },
    wait,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::stage::{Stage, text};

pub(crate) mod operator;

const NAME: &str = "treed";
const PASSWORD: &str = "of-the-hubs-redis";
const TREE: &str = "app|resources-tree|spoke1_treed|1.8.3.gz";
const CHANNEL: &str = "app|managed-resources|spoke1_treed|1.8.3";
/// The Application whose tree is read from the redis with TLS, and the objects of that redis.
const SECURED: &str = "secured";
const SECURED_TREE: &str = "app|resources-tree|spoke1_secured|1.8.3.gz";
const SECURE_REDIS: &str = "secure-redis";
const SECURE_PASSWORD: &str = "of-the-secure-redis";
const FLAGS: &str = "--port 0 --tls-port 6379 --tls-auth-clients no --tls-cert-file /tls/tls.crt \
                     --tls-key-file /tls/tls.key --dir /data --replicaof argocd-redis 6379";

/// A client that has shown the password to the redis proxy.
pub(crate) async fn client(stage: &Stage, password: &str) -> Result<Client> {
    let service = At::service(product::NAMESPACE, "argocd-agent-redis-proxy");
    let service = stage.hub.read(&service).await?;
    let ip = service["spec"]["clusterIP"].as_str().context("an IP")?;
    Client::at((ip, 6379), password).await
}

/// The tree of this key, if it is known.
async fn tree(client: &mut Client, key: &str) -> Result<Option<String>> {
    client
        .value(key)
        .await?
        .as_deref()
        .map(unzipped)
        .transpose()
}

fn has_all(tree: Option<&str>) -> bool {
    tree.is_some_and(|tree| tree.contains(workload::NAME) && tree.contains("ConfigMap"))
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

/// A hub with the redis proxy and one cluster; the password of its redis.
async fn with_proxy(stage: &Stage) -> Result<String> {
    stage.enrolled(1).await?;
    let password = password(stage).await?;
    let enabled = ["--set", "redisProxy.enabled=true", "--wait"];
    product::upgrade(&stage.lab.helm(), &enabled).await?;
    Ok(password)
}

async fn until_tree(stage: &Stage, password: &str, key: &str, what: &str) -> Result<()> {
    let look = async || tree(&mut client(stage, password).await?, key).await;
    let fits = |tree: &Option<String>| has_all(tree.as_deref());
    wait::until(what, look, fits).await.map(drop)
}

/// The hub reads the tree of an Application on a spoke under its name on the hub, gets a message when it changes, and still
/// gets the last tree at once while the spoke is disconnected.
pub(crate) async fn the_tree_of_an_application_on_a_spoke_is_read_on_the_hub(
    stage: &Stage,
) -> Result<()> {
    let (hub, helm) = (&stage.hub, stage.lab.helm());
    let password = with_proxy(stage).await?;
    let app = stage.greeter(NAME, 1).await?;
    app.apply(hub).await?;
    until_healthy(hub, &app.at, "").await?;

    let wrong = client(stage, "wrong").await.err();
    let error = wrong.context("a wrong password was accepted")?.to_string();
    ensure!(error.contains("WRONGPASS"), "{error}");
    until_tree(stage, &password, TREE, "the tree is read").await?;

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
    let known = tree(&mut reader, TREE).await?;
    let took = begun.elapsed();
    stage.lab.faults().heal("spoke1");
    ensure!(
        has_all(known.as_deref()),
        "of a cluster that is away: {known:?}"
    );
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

/// With variables for its address, Secret and certificates the hub reads a tree from a redis with TLS and another password:
/// a replica of Argo CD's own, which listens to nothing but TLS.
pub(crate) async fn a_tree_is_read_from_a_redis_with_tls_and_another_secret(
    stage: &Stage,
) -> Result<()> {
    let (hub, helm) = (&stage.hub, stage.lab.helm());
    let password = with_proxy(stage).await?;
    let objects = secure_redis(stage).await?;
    let variables = [
        ("REDIS_ADDR", format!("{SECURE_REDIS}.{ARGOCD}.svc:6379")),
        ("REDIS_SECRET", SECURE_REDIS.to_owned()),
        ("REDIS_SECRET_KEY", "word".to_owned()),
        ("REDIS_TLS", format!("Secret/{SECURE_REDIS}")),
    ];
    let variables = variables.map(|(name, value)| json!({"name": name, "value": value}));
    enrol::with_configuration(hub, "spoke1", json!({"customizedVariables": variables})).await?;
    until_agent(stage, "has the other redis", |it| it.contains(SECURE_REDIS)).await?;
    enrol::until_available(hub, "spoke1").await?;

    let app = stage.greeter(SECURED, 1).await?;
    app.apply(hub).await?;
    until_healthy(hub, &app.at, "").await?;
    until_tree(stage, &password, SECURED_TREE, "the tree is read over TLS").await?;

    stage.clear(&app).await?;
    enrol::without_variables(hub, "spoke1").await?;
    until_agent(stage, "has its own redis", |it| !it.contains(SECURE_REDIS)).await?;
    enrol::until_available(hub, "spoke1").await?;
    for at in &objects {
        stage.spoke(1).delete(at).await?;
    }
    product::upgrade(&helm, &["--wait"]).await.map(drop)
}

/// Waits until the agent's Deployment fits, and its Pod runs.
async fn until_agent(stage: &Stage, what: &str, fits: impl Fn(&str) -> bool) -> Result<()> {
    let is_done = |it: &Value| is_rolled_out(it) && fits(&it["spec"]["template"].to_string());
    let (spoke, agent) = (stage.spoke(1), enrol::agent());
    let done = spoke.until(&agent, what, wait::BOUND, is_done);
    done.await.map(drop)
}

/// A redis on the first spoke that replicates that of Argo CD and has its own password and certificate.
async fn secure_redis(stage: &Stage) -> Result<[At; 3]> {
    let spoke = stage.spoke(1);
    let own = At::deployment(ARGOCD, "argocd-redis");
    let own = spoke.read(&own).await?;
    let image = &own["spec"]["template"]["spec"]["containers"][0]["image"];
    let master = spoke.read(&At::secret(ARGOCD, "argocd-redis")).await?;
    let master = text(&master, "auth")?;
    let authority = Authority::new(SECURE_REDIS)?;
    let host = format!("{SECURE_REDIS}.{ARGOCD}.svc");
    let serving = authority.serving(SECURE_REDIS, &[&host], &[])?;
    let encoded = |text: &str| STANDARD.encode(text);
    let secret = json!({"data": {
        "word": encoded(SECURE_PASSWORD), "ca.crt": encoded(&authority.pair().cert),
        "tls.crt": encoded(&serving.cert), "tls.key": encoded(&serving.key),
    }});
    let labels = json!({"app": SECURE_REDIS});
    let own_values = [
        "--save",
        "",
        "--requirepass",
        SECURE_PASSWORD,
        "--masterauth",
        &master,
    ];
    let arguments: Vec<&str> = FLAGS.split(' ').chain(own_values).collect();
    let pod = json!({
        "terminationGracePeriodSeconds": 5,
        "containers": [{
            "name": "redis", "image": image, "args": arguments,
            "volumeMounts": [
                {"name": "tls", "mountPath": "/tls"}, {"name": "data", "mountPath": "/data"},
            ],
        }],
        "volumes": [
            {"name": "tls", "secret": {"secretName": SECURE_REDIS}}, {"name": "data", "emptyDir": {}},
        ],
    });
    let deployment = json!({"spec": {
        "replicas": 1, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }});
    let service = json!({"spec": {"selector": labels, "ports": [{"port": 6379}]}});
    let all = [
        At::secret(ARGOCD, SECURE_REDIS),
        At::service(ARGOCD, SECURE_REDIS),
        At::deployment(ARGOCD, SECURE_REDIS),
    ];
    for (at, object) in all.iter().zip([secret, service, deployment]) {
        spoke.apply(at, object).await?;
    }
    Ok(all)
}
