//! Live views of a cluster from the hub: a manifest, a followed log, and the keys of its redis.

pub(crate) mod autonomous;
pub(crate) mod changes;
pub(crate) mod cut;
pub(crate) mod shells;

use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use lab::{
    Lab, certs, kubeconfig,
    peers::{Make, Mapping, Pair, Pairing, Way, prepare},
    redis::{self, Client},
    steps::{At, Objects},
    wait,
};
use live::resp::Value as Reply;
use serde_json::{Value, json};

use super::{Replicated, SOON, body, finish, short_name};
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
/// A Pod of no Application.
const STRANGER: &str = "stranger";
const APP: &str = "app";

pub(crate) async fn people_at_the_hub_see_the_cluster(
    lab: Arc<Lab>,
    pairing: Pairing,
    way: Way,
) -> Result<()> {
    let way = Way {
        redis: Some(["127.0.0.1:6381", "127.0.0.1:6380"]),
        // Ours reads the Secret.
        variables: match pairing.agent {
            Make::Go => vec![("REDIS_PASSWORD", PASSWORD.to_owned())],
            Make::Ours => Vec::new(),
        },
        ..way
    };
    let directory = lab.dir().join("peers").join("redis");
    let [here, there] = REDIS;
    let _here = redis::server(lab.tools(), &directory, here, PASSWORD).await?;
    let _there = redis::server(lab.tools(), &directory, there, PASSWORD).await?;
    let (mut pair, look) = begin(&lab, pairing, (way, "people", Mapping::Namespace)).await?;
    let result = sees(&pair, &look.visitor).await;
    let result = match result {
        Ok(()) => reads(&mut pair).await,
        failed => failed,
    };
    end(pair, result).await
}

/// The access of users at the hub to a pair's cluster.
struct Look {
    visitor: Kubectl,
}

impl Look {
    /// The Pods beside the spoke's Argo CD, through the hub.
    async fn pods(&self, pair: &Pair) -> Result<Api<Pod>> {
        let client = self.visitor.client().await?;
        Ok(Api::namespaced(client, &pair.names.spoke))
    }
}

/// A pair over this way, by a name and a mapping, whose cluster has a Pod of an Application and a stranger.
async fn begin(
    lab: &Lab,
    pairing: Pairing,
    (mut way, short, mapping): (Way, &str, Mapping),
) -> Result<(Pair, Look)> {
    let name = short_name(pairing, &way, short);
    let mut setting = prepare(lab, &name, mapping).await?;
    if pairing.agent == Make::Ours {
        way.agent.push(("ui-access", "terminal".to_owned()));
    }
    setting.way = way;
    let visitor = visitor(
        lab,
        &setting.credentials.of_agent(&name)?,
        setting.credentials.authority(),
    )?;
    let names = setting.names.clone();
    let hub = Objects::new(lab.hub().client());
    let spoke = Objects::new(lab.spoke(1).client());
    for (side, namespace) in [(&hub, &names.hub), (&spoke, &names.spoke)] {
        let password = json!({"stringData": {"auth": PASSWORD}});
        side.apply(&At::secret(namespace, "argocd-redis"), password)
            .await?;
    }
    // Go's agent reads the tracking method of Argo CD there.
    let settings = json!({"metadata": {"labels": {"app.kubernetes.io/part-of": "argocd"}}});
    spoke
        .apply(&At::config_map(&names.spoke, "argocd-cm"), settings)
        .await?;
    lab.images().insert(SHELL, shell());
    spoke.apply(&pod(&names.spoke), talker(true)).await?;
    let stranger = At::pod(&names.spoke, STRANGER);
    spoke.apply(&stranger, talker(false)).await?;
    let pair = Pair::start_in(lab, setting, pairing).await?;
    let look = Look { visitor };
    let begun = async {
        has_an_application(&pair, mapping).await?;
        runs(&pair, &look).await
    };
    match begun.await {
        Ok(()) => Ok((pair, look)),
        Err(error) => finish(pair, Err(error)).await.and(Err(anyhow!("begin"))),
    }
}

/// Creates the Application that the Pod's tracking ID names, with the Pod in its status.
async fn has_an_application(pair: &Pair, mapping: Mapping) -> Result<()> {
    let app = Replicated::new(pair, APP);
    if mapping == Mapping::Autonomous {
        let body = body("in-cluster", &[]);
        pair.spoke.apply(&app.spoke, body).await?;
    } else {
        app.deliver(pair, &[]).await?;
    }
    let pod = json!({
        "group": "", "version": "v1", "kind": "Pod", "namespace": pair.names.spoke, "name": POD,
    });
    let status = json!({"status": {"resources": [pod]}});
    pair.spoke.merge(&app.spoke, status).await.map(drop)
}

/// Waits until people see that the Pod runs.
async fn runs(pair: &Pair, look: &Look) -> Result<()> {
    for name in [POD, STRANGER] {
        let at = At::pod(&pair.names.spoke, name);
        let runs = |pod: &Value| pod["status"]["phase"] == "Running";
        pair.spoke.until(&at, "runs", SOON, runs).await?;
    }
    let pod = format!("/api/v1/namespaces/{}/pods/{POD}", pair.names.spoke);
    look.visitor.until_it_sees(&["get", "--raw", &pod]).await
}

/// Deletes the Pods, and ends the pair.
async fn end(pair: Pair, result: Result<()>) -> Result<()> {
    for name in [POD, STRANGER] {
        pair.spoke.delete(&At::pod(&pair.names.spoke, name)).await?;
    }
    finish(pair, result).await
}

fn pod(namespace: &str) -> At {
    At::pod(namespace, POD)
}

/// A Pod that keeps writing to its log; with Argo CD's tracking ID of an Application, or without.
fn talker(belongs: bool) -> Value {
    let script = "n=0; while true; do n=$((n+1)); echo line $n; sleep 1; done";
    // A Go agent looks no further than whether there is a mark.
    let marks = if belongs {
        json!({"argocd.argoproj.io/tracking-id": format!("{APP}:/Pod:x/{POD}")})
    } else {
        json!({})
    };
    json!({
        "metadata": {"annotations": marks},
        "spec": {
            "containers": [{"name": "c", "image": SHELL, "args": [script]}],
            "terminationGracePeriodSeconds": 0,
        },
    })
}

/// kubectl with the credentials that Argo CD on the hub has in the cluster Secret.
fn visitor(lab: &Lab, credentials: &certs::Pair, authority: &str) -> Result<Kubectl> {
    let access = json!({"tlsClientConfig": {
        "caData": STANDARD.encode(authority),
        "certData": STANDARD.encode(&credentials.cert),
        "keyData": STANDARD.encode(&credentials.key),
    }});
    let server = "https://localhost:9090";
    Kubectl::with(lab, &kubeconfig::of_cluster_secret(server, None, &access))
}

/// Reads a manifest, a missing object, and a log line by line.
async fn sees(pair: &Pair, visitor: &Kubectl) -> Result<()> {
    let pods = format!("/api/v1/namespaces/{}/pods", pair.names.spoke);
    let talker = format!("{pods}/{POD}");
    let manifest = ["get", "--raw", &talker];
    visitor.until_it_sees(&manifest).await?;
    let manifest: Value = serde_json::from_str(&visitor.prints(&manifest).await?)?;
    ensure!(manifest["metadata"]["name"] == POD, "{manifest:#}");
    ensure!(manifest["status"]["phase"] == "Running", "{manifest:#}");
    let missing = visitor
        .fails(&["get", "--raw", &format!("{pods}/missing")])
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

/// Reads a key of the spoke's redis through the hub's proxy, and gets a published change.
async fn reads(pair: &mut Pair) -> Result<()> {
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
    let reply = here.ask(&["subscribe", &channel]).await?;
    ensure!(is(&reply, "subscribe", &channel), "{reply:?}");
    // Subscribed at the hub is a moment earlier than on the cluster.
    let publish = ["publish", "app|managed-resources|app|1.8.3", ""];
    let there = tokio::sync::Mutex::new(there);
    let takes_in = || async { there.lock().await.ask(&publish).await };
    let is_reported = |reply: &Reply| *reply == Reply::integer(1);
    wait::until("a subscriber on the cluster gets it", takes_in, is_reported).await?;
    let reply = here.reply().await?;
    ensure!(is(&reply, "message", &channel), "{reply:?}");
    // Go's principal returns nothing for an unknown key; ours asks the hub's redis.
    let local = Client::at(("127.0.0.1", PROXY), PASSWORD)
        .await?
        .ask(&["get", "mfst|x"])
        .await?;
    ensure!(local.as_bytes().is_none(), "{local:?}");
    pair.check()
}

/// Whether the reply is this message of this channel.
fn is(message: &Reply, what: &str, channel: &str) -> bool {
    let words: Vec<_> = message
        .elements()
        .iter()
        .filter_map(Reply::as_bytes)
        .collect();
    words.starts_with(&[what.as_bytes(), channel.as_bytes()])
}
