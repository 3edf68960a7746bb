//! What people at the hub see of a cluster: a live manifest, a log as it is written, and what is in its redis.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use lab::{
    Lab, certs, kubeconfig,
    peers::{Make, Mapping, Pair, Pairing, Way, prepare},
    redis::{self, Client},
    steps::{At, Objects},
    wait,
};
use protocol::resp::Value as Said;
use serde_json::{Value, json};

use super::{Replicated, SOON, finish, short_name};
use crate::{
    kubectl::Kubectl,
    pods::{SHELL, shell},
};

/// The redis of the hub's Argo CD and that of the spoke's, and the proxy before the former, whose port Go's principal has
/// written into it.
const REDIS: [u16; 2] = [6381, 6380];
const PROXY: u16 = 6379;
const PASSWORD: &str = "of-either-redis";
const TREE: &str = "not really a tree";
const POD: &str = "talker";

pub(crate) async fn people_at_the_hub_see_the_cluster(
    lab: Arc<Lab>,
    pairing: Pairing,
) -> Result<()> {
    let way = Way {
        redis: Some(["127.0.0.1:6381", "127.0.0.1:6380"]),
        // Ours reads the Secret.
        variables: match pairing.agent {
            Make::Go => vec![("REDIS_PASSWORD", PASSWORD.to_owned())],
            Make::Ours => Vec::new(),
        },
        ..Way::default()
    };
    let name = short_name(pairing, &way, "people");
    let mut setting = prepare(&lab, &name, Mapping::Namespace).await?;
    setting.way = way;
    let [here, there] = REDIS;
    let (tools, logs) = (lab.tools(), &setting.directory);
    let _here = redis::server(tools, logs, here, PASSWORD).await?;
    let _there = redis::server(tools, logs, there, PASSWORD).await?;
    let visitor = visitor(
        &lab,
        &setting.papers.of_agent(&name)?,
        setting.papers.authority(),
    )?;
    let names = setting.names.clone();
    let hub = Objects::new(lab.hub().client());
    let spoke = Objects::new(lab.spoke(1).client());
    for (side, namespace) in [(&hub, &names.hub), (&spoke, &names.spoke)] {
        let password = json!({"stringData": {"auth": PASSWORD}});
        side.apply(&At::secret(namespace, "argocd-redis"), password)
            .await?;
    }
    // Go's agent reads there how Argo CD marks what is its own.
    let settings = json!({"metadata": {"labels": {"app.kubernetes.io/part-of": "argocd"}}});
    spoke
        .apply(&At::config_map(&names.spoke, "argocd-cm"), settings)
        .await?;
    lab.images().insert(SHELL, shell());
    spoke.apply(&pod(&names.spoke), talker()).await?;
    let mut pair = Pair::start_in(&lab, setting, pairing).await?;
    let told = sees(&pair, &visitor).await;
    let told = match told {
        Ok(()) => reads(&mut pair).await,
        failed => failed,
    };
    spoke.delete(&pod(&names.spoke)).await?;
    finish(pair, told).await
}

fn pod(namespace: &str) -> At {
    At::pod(namespace, POD)
}

/// A Pod that belongs to an Application, as Argo CD marks it, and goes on talking.
fn talker() -> Value {
    let script = "n=0; while true; do n=$((n+1)); echo line $n; sleep 1; done";
    json!({
        "metadata": {"annotations": {"argocd.argoproj.io/tracking-id": format!("app:/Pod:x/{POD}")}},
        "spec": {
            "containers": [{"name": "c", "image": SHELL, "args": [script]}],
            "terminationGracePeriodSeconds": 0,
        },
    })
}

/// kubectl with what Argo CD on the hub would have in the cluster Secret.
fn visitor(lab: &Lab, papers: &certs::Pair, authority: &str) -> Result<Kubectl> {
    let access = json!({"tlsClientConfig": {
        "caData": STANDARD.encode(authority),
        "certData": STANDARD.encode(&papers.cert),
        "keyData": STANDARD.encode(&papers.key),
    }});
    let server = "https://localhost:9090";
    Kubectl::with(lab, &kubeconfig::of_cluster_secret(server, None, &access))
}

/// A manifest as it is, what is not there, and a log line by line.
async fn sees(pair: &Pair, visitor: &Kubectl) -> Result<()> {
    let pods = format!("/api/v1/namespaces/{}/pods", pair.names.spoke);
    pair.spoke
        .until(&pod(&pair.names.spoke), "runs", SOON, |pod| {
            pod["status"]["phase"] == "Running"
        })
        .await?;
    let talker = format!("{pods}/{POD}");
    let manifest = ["get", "--raw", &talker];
    visitor.until_it_sees(&manifest).await?;
    let manifest: Value = serde_json::from_str(&visitor.prints(&manifest).await?)?;
    ensure!(manifest["metadata"]["name"] == POD, "{manifest:#}");
    ensure!(manifest["status"]["phase"] == "Running", "{manifest:#}");
    let missing = visitor
        .fails(&["get", "--raw", &format!("{pods}/nobody")])
        .await?;
    ensure!(
        missing.contains("NotFound") || missing.contains("not find"),
        "{missing}"
    );

    let log = format!("{talker}/log?follow=true&timestamps=true");
    let mut following = visitor.follows(&["get", "--raw", &log])?;
    following.until_it_prints("line 2", SOON).await?;
    let line = following.line(SOON).await?.context("it goes on")?;
    let (time, line) = line.split_once(' ').context("a time")?;
    time.parse::<jiff::Timestamp>().context("a time")?;
    ensure!(line.starts_with("line "), "{line}");
    drop(following);
    let log = format!("{talker}/log?tailLines=1&timestamps=true");
    let last = visitor.prints(&["get", "--raw", &log]).await?;
    // It goes on writing while it is read.
    ensure!(
        last.contains("line ") && !last.contains("line 1\n"),
        "{last}"
    );
    Ok(())
}

/// What the spoke's Argo CD keeps in its redis, read at the hub's, and word of a change.
async fn reads(pair: &mut Pair) -> Result<()> {
    let app = Replicated::new(pair, "app");
    app.deliver(pair, &[]).await?;
    let [_, there] = REDIS;
    let mut there = Client::at(("127.0.0.1", there), PASSWORD).await?;
    let set = ["set", "app|resources-tree|app|1.8.3.gz", TREE];
    ensure!(there.ask(&set).await?.as_error().is_none());

    let mut here = Client::at(("127.0.0.1", PROXY), PASSWORD).await?;
    let of = |item: &str, version: &str| format!("app|{item}|{}_app|{version}", pair.names.agent);
    let tree = of("resources-tree", "1.8.3.gz");
    let found = here.ask(&["get", &tree]).await?;
    ensure!(found.as_bytes() == Some(TREE.as_bytes()), "{found:?}");

    let channel = of("managed-resources", "1.8.3");
    let told = here.ask(&["subscribe", &channel]).await?;
    ensure!(is(&told, "subscribe", &channel), "{told:?}");
    // Subscribed at the hub is a moment earlier than on the cluster.
    let publish = ["publish", "app|managed-resources|app|1.8.3", ""];
    let there = tokio::sync::Mutex::new(there);
    let hears = || async { there.lock().await.ask(&publish).await };
    let is_told = |told: &Said| *told == Said::integer(1);
    wait::until("somebody listens on the cluster", hears, is_told).await?;
    let told = here.told().await?;
    ensure!(is(&told, "message", &channel), "{told:?}");
    // Go's principal says nothing of what it does not know; ours asks the hub's redis.
    let local = Client::at(("127.0.0.1", PROXY), PASSWORD)
        .await?
        .ask(&["get", "mfst|x"])
        .await?;
    ensure!(local.as_bytes().is_none(), "{local:?}");
    pair.check()
}

/// Whether this was said about this channel.
fn is(said: &Said, what: &str, channel: &str) -> bool {
    let words: Vec<_> = said.elements().iter().filter_map(Said::as_bytes).collect();
    words.starts_with(&[what.as_bytes(), channel.as_bytes()])
}
