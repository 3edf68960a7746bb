//! The hub's Argo CD through its own server and command line, which know nothing of agents.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lab::{
    call::Output,
    faults::Fault,
    steps::{
        At, Objects, deliver,
        enrol::{self, ARGOCD},
        workload,
    },
    wait,
};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::stage::{SOON, Stage};

mod events;
pub(crate) mod hybrid;
pub(crate) mod line;
pub(crate) mod setup;
mod shell;
pub(crate) mod tenants;

use line::Console;
use shell::Shell;

/// The server on the hub has these kinds in the tree of an Application.
pub(crate) async fn tree_shows(stage: &Stage, app: &str, kinds: &[&str]) -> Result<()> {
    let tree = ["app", "get", app, "--output", "tree=detailed"];
    let has_all = |tree: &str| kinds.iter().all(|kind| tree.contains(kind));
    let console = Console::on(stage).await?;
    console.until_it_prints(&tree, has_all).await
}

fn is_connected(info: &Value) -> bool {
    info["connectionState"]["status"] == "Successful"
}

/// Argo CD's command line shows, compares, changes and deletes the resources of an Application on a cluster, as if the
/// hub reached the cluster directly.
pub(crate) async fn the_argocd_cli_manages_an_application_on_a_cluster(
    stage: &Stage,
) -> Result<()> {
    const APP: &str = "spoke1/console";
    let console = Console::open(stage).await?;
    enrol::with_variable(&stage.hub, "spoke1", "UI_ACCESS", "operate").await?;
    enrol::until_available(&stage.hub, "spoke1").await?;
    let mut app = stage.greeter("console", 1).await?;
    "spoke1".clone_into(&mut app.cluster);
    app.automated = false;
    let spoke = stage.spoke(1);
    spoke.apply(&At::namespace("console"), json!({})).await?;
    app.apply(&stage.hub).await?;

    console.syncs(APP).await?;
    it_is_seen(&console, APP).await?;
    events::its_events_are_seen(stage, &console).await?;
    it_is_changed(&console, APP, spoke, "console").await?;

    let history = console.prints(&["app", "history", APP]).await?;
    ensure!(history.contains("v1"), "{history}");
    console
        .prints(&["app", "delete", APP, "--yes", "--wait"])
        .await?;
    spoke
        .until_gone(&At::deployment("console", workload::NAME), SOON)
        .await?;
    stage.clear(&app).await?;
    spoke.delete(&At::namespace("console")).await?;
    enrol::without_variables(&stage.hub, "spoke1").await?;
    enrol::until_available(&stage.hub, "spoke1").await.map(drop)
}

async fn it_is_seen(console: &Console, app: &str) -> Result<()> {
    let tree = ["app", "get", app, "--output", "tree=detailed"];
    let has_all = |tree: &str| {
        ["ConfigMap", "Deployment", "ReplicaSet", "Pod"]
            .iter()
            .all(|kind| tree.contains(kind))
    };
    console.until_it_prints(&tree, has_all).await?;
    let resources = console.prints(&["app", "resources", app]).await?;
    ensure!(resources.contains(workload::NAME), "{resources}");
    let live = console
        .prints(&["app", "manifests", app, "--source", "live"])
        .await?;
    ensure!(
        live.contains("greeting: hello") && live.contains("uid:"),
        "{live}"
    );
    let git = console
        .prints(&["app", "manifests", app, "--source", "git"])
        .await?;
    ensure!(
        git.contains("greeting: hello") && !git.contains("uid:"),
        "{git}"
    );
    let map = [
        "app",
        "get-resource",
        app,
        "--kind",
        "ConfigMap",
        "-o",
        "json",
    ];
    let map = console.prints(&map).await?;
    ensure!(
        map.contains("\"greeting\":\"hello\"") || map.contains("\"greeting\": \"hello\""),
        "{map}"
    );
    let difference = console.prints(&["app", "diff", app]).await?;
    ensure!(difference.is_empty(), "{difference}");
    Ok(())
}

/// A manual change shows as a difference, an action runs, and a sync recreates a deleted resource.
async fn it_is_changed(
    console: &Console,
    app: &str,
    spoke: &Objects,
    namespace: &str,
) -> Result<()> {
    it_is_patched(console, app, spoke, namespace).await?;
    let of_deployment = ["--kind", "Deployment", "--resource-name", workload::NAME];
    let actions = ["app", "actions", "list", app, "--kind", "Deployment"];
    let actions = console.prints(&actions).await?;
    ensure!(actions.contains("restart"), "{actions}");
    let restart = ["app", "actions", "run", app, "restart"];
    console
        .prints(&[&restart[..], &of_deployment].concat())
        .await?;
    let deployment = At::deployment(namespace, workload::NAME);
    let restarted = spoke.read(&deployment).await?;
    let annotations = &restarted["spec"]["template"]["metadata"]["annotations"];
    ensure!(
        annotations["kubectl.kubernetes.io/restartedAt"].is_string(),
        "{restarted}"
    );

    let uid = restarted["metadata"]["uid"].clone();
    let delete = ["app", "delete-resource", app];
    console
        .prints(&[&delete[..], &of_deployment].concat())
        .await?;
    let is_gone = |it: &Value| it.is_null() || it["metadata"]["uid"] != uid;
    spoke.until(&deployment, "is gone", SOON, is_gone).await?;
    console.syncs(app).await?;
    let again = spoke.read(&deployment).await?;
    ensure!(again["metadata"]["uid"] != uid, "made again: {again}");
    Ok(())
}

async fn it_is_patched(
    console: &Console,
    app: &str,
    spoke: &Objects,
    namespace: &str,
) -> Result<()> {
    let of_map = ["--kind", "ConfigMap", "--resource-name", workload::NAME];
    let patch = r#"{"data":{"greeting":"patched"}}"#;
    let patch = ["app", "patch-resource", app, "--patch", patch];
    let merge = ["--patch-type", "application/merge-patch+json"];
    console
        .prints(&[&patch[..], &merge, &of_map].concat())
        .await?;
    let map = At::config_map(namespace, workload::NAME);
    let map = spoke.read(&map).await?;
    ensure!(map["data"]["greeting"] == "patched", "{map}");
    let diff = ["app", "diff", app, "--refresh"];
    let differs = || console.run(&diff);
    let is_shown = |output: &Output| !output.succeeded() && output.out.contains("patched");
    wait::until("the difference is shown", differs, is_shown)
        .await
        .map(drop)
}

/// The page of clusters shows a connected cluster with version and counts, its disconnect within seconds, and its return.
pub(crate) async fn cluster_page_shows_the_connection_state(stage: &Stage) -> Result<()> {
    let console = Console::open(stage).await?;
    let counts = |info: &Value| {
        is_connected(info)
            && info["serverVersion"]
                .as_str()
                // Newer Argo CDs write the "v", too.
                .is_some_and(|version| version.trim_start_matches('v').starts_with("1."))
            && info["cacheInfo"]["apisCount"]
                .as_i64()
                .is_some_and(|count| count > 10)
            && info["cacheInfo"]["resourcesCount"]
                .as_i64()
                .is_some_and(|count| count > 10)
    };
    let app = stage.greeter("counted", 1).await?;
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    console
        .until_cluster("spoke1", "spoke1 is connected and counted", counts)
        .await?;

    stage.lab.faults().set("spoke1", Fault::Stall);
    let is_away = |info: &Value| info["connectionState"]["status"] == "Failed";
    let away = console
        .until_cluster("spoke1", "spoke1 is away", is_away)
        .await;
    // Its neighbour has nothing to do with it.
    let other = console.cluster("spoke2").await;
    stage.lab.faults().heal("spoke1");
    let (away, other) = (away?, other?);
    ensure!(is_connected(&other), "{other}");
    let message = away["connectionState"]["message"]
        .as_str()
        .unwrap_or_default();
    ensure!(
        message.contains("spoke1") && message.contains("not connected"),
        "{away}"
    );
    ensure!(
        away["serverVersion"].is_string(),
        "the last known version is gone: {away}"
    );
    console
        .until_cluster("spoke1", "spoke1 is back", counts)
        .await?;
    stage.clear(&app).await
}

/// A disconnected cluster still shows its last known tree at once; live requests fail with the reason.
pub(crate) async fn disconnected_cluster_shows_its_last_known_state(stage: &Stage) -> Result<()> {
    const APP: &str = "spoke1/remembered";
    let console = Console::open(stage).await?;
    let mut app = stage.greeter("remembered", 1).await?;
    "spoke1".clone_into(&mut app.cluster);
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    let tree = ["app", "get", APP, "--output", "tree"];
    let has_pods = |tree: &str| tree.contains("Pod");
    console.until_it_prints(&tree, has_pods).await?;
    stage.lab.faults().set("spoke1", Fault::Stall);
    let away = async {
        let is_away = |info: &Value| info["connectionState"]["status"] == "Failed";
        console
            .until_cluster("spoke1", "spoke1 is away", is_away)
            .await?;
        let remembered = console.prints(&tree).await?;
        ensure!(has_pods(&remembered), "{remembered}");
        let live = ["app", "get-resource", APP, "--kind", "ConfigMap"];
        let error = console.run(&live).await?.complained()?;
        ensure!(error.contains("not connected"), "{error}");
        Ok(())
    };
    let away = timeout(SOON + SOON, away).await;
    stage.lab.faults().heal("spoke1");
    away.context("the disconnect of spoke1 is not reported")??;
    enrol::until_available(&stage.hub, "spoke1").await?;
    console
        .until_it_prints(&["app", "manifests", APP, "--source", "live"], |live| {
            live.contains("uid:")
        })
        .await?;
    stage.clear(&app).await
}

/// The command line manages Applications of an autonomous cluster in the same way.
pub(crate) async fn autonomous_applications_are_usable_from_the_hub(stage: &Stage) -> Result<()> {
    let console = Console::open(stage).await?;
    stage.autonomous(2).await?;
    enrol::with_variable(&stage.hub, "spoke2", "UI_ACCESS", "operate").await?;
    enrol::until_available(&stage.hub, "spoke2").await?;
    let mut app = stage.greeter("self-run", 2).await?;
    app.at = At::application(ARGOCD, "self-run");
    "default".clone_into(&mut app.project);
    app.automated = false;
    let spoke = stage.spoke(2);
    spoke.apply(&At::namespace("self-run"), json!({})).await?;
    let everything = json!({"spec": {
        "sourceRepos": ["*"],
        "destinations": [{"server": "*", "namespace": "*"}],
        "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
    }});
    spoke
        .apply(&At::project(ARGOCD, "default"), everything)
        .await?;
    app.apply(spoke).await?;
    let mirror = At::application("spoke2", "self-run");
    stage
        .hub
        .until_there(&mirror, Duration::from_secs(30))
        .await?;

    let name = "spoke2/self-run";
    console.syncs(name).await?;
    it_is_seen(&console, name).await?;
    events::controller_events_are_shown(stage, &console, "spoke2", "self-run").await?;
    it_is_changed(&console, name, spoke, "self-run").await?;

    spoke.delete(&app.at).await?;
    stage.hub.until_gone(&mirror, SOON).await?;
    spoke.delete(&At::namespace("self-run")).await?;
    enrol::without_variables(&stage.hub, "spoke2").await?;
    stage.not_enrolled(2).await
}

/// Argo CD opens a shell and a log of a Pod on a cluster; both end when the cluster is cut
/// off.
pub(crate) async fn a_shell_and_a_log_of_a_cluster_are_opened_in_argo_cd(
    stage: &Stage,
) -> Result<()> {
    const APP: &str = "spoke1/shelled";
    let console = Console::open(stage).await?;
    enrol::with_variable(&stage.hub, "spoke1", "UI_ACCESS", "terminal").await?;
    enrol::until_available(&stage.hub, "spoke1").await?;
    let mut app = stage.greeter("shelled", 1).await?;
    "spoke1".clone_into(&mut app.cluster);
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    let tree = ["app", "get", APP, "--output", "tree"];
    console
        .until_it_prints(&tree, |tree| tree.contains("Pod"))
        .await?;
    let pods = stage
        .spoke(1)
        .list(&At::pod("shelled", ""), "app=greeter")
        .await?;
    let pod = pods
        .first()
        .and_then(|pod| pod["metadata"]["name"].as_str());
    let pod = pod.context("a Pod")?;
    let query = format!(
        "pod={pod}&container=greeter&appName=shelled&appNamespace=spoke1&projectName=shelled&namespace=shelled&shell=sh"
    );

    let mut shell = Shell::open(stage, &console, &query).await?;
    shell.resize(111, 37).await?;
    shell
        .types("until stty size | grep -q '37 111'; do sleep 0.05; done; echo resized $((1 + 1))\n")
        .await?;
    shell.until_it_shows("resized 2").await?;
    shell
        .types("echo heard > /proc/1/fd/1; echo up $((1 + 1))\n")
        .await?;
    shell.until_it_shows("up 2").await?;
    let log = ["app", "logs", APP, "--tail", "5"];
    console
        .until_it_prints(&log, |log| log.contains("heard"))
        .await?;
    let mut following = console.follows(&["app", "logs", APP, "--follow", "--tail", "1"])?;
    shell.types("echo again > /proc/1/fd/1\n").await?;
    following.until_it_prints("again", SOON).await?;

    stage.lab.faults().set("spoke1", Fault::Stall);
    let ended = timeout(SOON + SOON, async {
        shell.ends().await?;
        following.ended(SOON).await.map(drop)
    });
    let ended = ended.await;
    stage.lab.faults().heal("spoke1");
    ended.context("a shell or a log goes on without its cluster")??;
    enrol::until_available(&stage.hub, "spoke1").await?;
    stage.clear(&app).await?;
    enrol::without_variables(&stage.hub, "spoke1").await?;
    enrol::until_available(&stage.hub, "spoke1").await.map(drop)
}
