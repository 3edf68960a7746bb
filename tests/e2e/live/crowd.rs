//! Many clients at the resource proxy: log followers, and readers that stall.

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use lab::{
    steps::{
        At,
        deliver::{self, Application},
    },
    wait,
};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::inside::local;
use crate::{
    kubectl::Kubectl,
    programs::Program,
    stage::{SOON, Stage, commit},
};

/// The number of clients that follow one log.
const MANY: usize = 1_000;
/// The limit of followers for one cluster.
const PLACES: usize = 64;
/// The number of concurrent requests.
const AT_ONCE: usize = 32;
/// How much memory all of them together may cost one of our programs.
const MEMORY: f64 = 96.0 * 1024.0 * 1024.0;
/// Objects of nearly a megabyte, which make a list that fits into no buffer on its way.
const LARGE: usize = 20;
/// Clients that request that list and do not read it.
const SLOW: usize = 32;

async fn asked(client: &Client, target: &str) -> Result<Response<Body>> {
    let request = Request::get(target).body(Body::empty())?;
    let answer = timeout(SOON, client.send(request)).await;
    Ok(answer.context("no answer")??)
}

/// The first frame of a response.
async fn beginning(answer: &mut Response<Body>) -> Result<String> {
    let frame = timeout(SOON, answer.body_mut().frame()).await;
    let frame = frame.context("nothing comes")?.context("it ends")??;
    let data = frame.into_data().ok().context("no data")?;
    Ok(String::from_utf8_lossy(&data).into_owned())
}

/// The resident memory of both of our programs.
async fn resident_memory(stage: &Stage) -> Result<[f64; 2]> {
    let mut resident_memory = [0.0; 2];
    for (resident_memory, program) in resident_memory
        .iter_mut()
        .zip([Program::Manager, Program::Agent(1)])
    {
        let metrics = program.running(stage).await?.metrics().await?;
        *resident_memory = metrics.value("process_resident_memory_bytes");
    }
    Ok(resident_memory)
}

/// Neither of our programs uses much more memory than before.
async fn is_bounded(stage: &Stage, before: [f64; 2]) -> Result<()> {
    let now = resident_memory(stage).await?;
    for (before, now) in before.into_iter().zip(now) {
        ensure!(
            before > 0.0 && now < before + MEMORY,
            "{before} bytes, now {now}"
        );
    }
    Ok(())
}

/// While this is so: people see the cluster, and a change of an Application arrives.
async fn others_go_on(
    stage: &Stage,
    app: &Application,
    kubectl: &Kubectl,
    word: &str,
) -> Result<()> {
    kubectl
        .prints(&["get", "namespace", "default", "-o", "name"])
        .await?;
    let repository = stage.lab.git().repository(&app.project)?;
    commit(&repository, word, word)?;
    let revision = json!({"spec": {"source": {"targetRevision": word}}});
    stage.hub.merge(&app.at, revision).await?;
    stage.until_greets(1, &app.namespace, word).await
}

/// The response of a follower that got a place; none for one that was rejected with 429 and `Retry-After`.
async fn followed(client: &Client, log: &str) -> Result<Option<Response<Body>>> {
    let mut answer = asked(client, log).await?;
    if answer.status() == StatusCode::OK {
        return Ok(Some(answer));
    }
    let (code, headers) = (answer.status(), answer.headers());
    ensure!(code == StatusCode::TOO_MANY_REQUESTS, "{answer:?}");
    ensure!(headers.contains_key("retry-after"), "{answer:?}");
    let status: Value = serde_json::from_str(&beginning(&mut answer).await?)?;
    let why = status["message"].as_str().unwrap_or_default();
    ensure!(why.contains("too many"), "{status}");
    Ok(None)
}

/// A thousand clients follow one log: as many as there are places succeed, each other one gets 429 with a reason, and other
/// clients are not affected. When they disconnect, no request is left on the cluster.
pub(crate) async fn thousand_log_followers_leave_room_for_others(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    stage.enrolled(2).await?;
    let pod = local("default", "crowded", "while echo tick; do sleep 1; done").to_string();
    for spoke in stage.lab.spokes() {
        spoke.apply(&pod).await?;
    }
    let app = stage.greeter("beside-a-crowd", 1).await?;
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    let kubectl = Kubectl::with_secret_of(stage, "spoke1").await?;
    kubectl.until_it_sees(&["logs", "crowded"]).await?;
    let before = resident_memory(stage).await?;
    let audit = stage.lab.spoke(1).audit();
    let mark = audit.mark()?;

    let (client, log) = (
        kubectl.client_that_asks_once().await?,
        "/api/v1/namespaces/default/pods/crowded/log?follow=true",
    );
    let coming = stream::repeat_with(|| followed(&client, log)).take(MANY);
    let answers: Vec<_> = coming.buffer_unordered(AT_ONCE).try_collect().await?;
    ensure!(answers.len() == MANY);
    let mut following: Vec<_> = answers.into_iter().flatten().collect();
    ensure!(following.len() == PLACES, "{} follow it", following.len());
    for answer in &mut following {
        ensure!(beginning(answer).await?.starts_with("tick\n"));
    }
    is_bounded(stage, before).await?;
    others_go_on(stage, &app, &kubectl, "crowd").await?;
    let other = Kubectl::with_secret_of(stage, "spoke2").await?;
    other.until_it_sees(&["logs", "crowded"]).await?;
    let mut elsewhere = other.follows(&["logs", "-f", "crowded"])?;
    ensure!(elsewhere.line(SOON).await?.as_deref() == Some("tick\n"));

    drop((following, client));
    let over = async || {
        let requests = audit.by(super::PEOPLE, mark)?;
        let kinds = requests
            .iter()
            .filter_map(|it| Some(it.object.as_ref()?.kind()));
        Ok(kinds.filter(|kind| kind == "pods/log").count())
    };
    wait::until("all requests for the log are over", over, |over| {
        *over == PLACES
    })
    .await?;
    for spoke in stage.lab.spokes() {
        spoke.delete(&pod).await?;
    }
    stage.clear(&app).await
}

/// Many clients request a large list and do not read it: each blocks only itself.
pub(crate) async fn stalled_reader_does_not_block_others(stage: &Stage) -> Result<()> {
    const PLACE: &str = "large-lists";
    stage.enrolled(1).await?;
    let spoke = stage.spoke(1);
    spoke.apply(&At::namespace(PLACE), json!({})).await?;
    for number in 0..LARGE {
        let at = At::config_map(PLACE, &format!("large-{number}"));
        let body = json!({
            "metadata": {"labels": {"size": "large"}},
            "data": {"text": "x".repeat(900_000)},
        });
        spoke.apply(&at, body).await?;
    }
    let app = stage.greeter("beside-the-slow", 1).await?;
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    let kubectl = Kubectl::with_secret_of(stage, "spoke1").await?;
    let list = format!("/api/v1/namespaces/{PLACE}/configmaps?labelSelector=size%3Dlarge");
    kubectl.until_it_sees(&["get", "--raw", &list]).await?;
    let before = resident_memory(stage).await?;

    let client = kubectl.client().await?;
    let mut slow = Vec::with_capacity(SLOW);
    for _ in 0..SLOW {
        let answer = asked(&client, &list).await?;
        ensure!(answer.status() == StatusCode::OK, "{answer:?}");
        slow.push(answer);
    }
    let whole = kubectl.prints(&["get", "--raw", &list]).await?;
    let whole: Value = serde_json::from_str(&whole)?;
    let items = whole["items"].as_array().context("items")?;
    ensure!(items.len() == LARGE, "{} of {LARGE}", items.len());
    is_bounded(stage, before).await?;
    others_go_on(stage, &app, &kubectl, "slow").await?;
    // A client that reads late gets the whole list.
    let late = slow.pop().context("a slow reader")?.into_body().collect();
    let late = timeout(SOON, late).await.context("no end")??.to_bytes();
    let late: Value = serde_json::from_slice(&late)?;
    ensure!(late["items"].as_array().map(Vec::len) == Some(LARGE));

    drop((slow, client));
    spoke.delete(&At::namespace(PLACE)).await?;
    stage.clear(&app).await
}
