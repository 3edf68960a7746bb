//! Logs and terminals, through the hub.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use lab::{
    faults::Fault,
    steps::{deliver, enrol, workload},
    wait,
};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    kubectl::Kubectl,
    stage::{SOON, Stage},
    terminal::{self, Viewer},
};

/// A Pod that no Application has.
pub(crate) fn local(namespace: &str, name: &str, script: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "namespace": namespace, "name": name },
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "c", "image": workload::IMAGE, "command": ["/bin/sh", "-c", script],
                "securityContext": { "runAsUser": 0 },
            }],
        },
    })
}

/// The log of a Pod on a spoke is read on the hub, complete and followed. When the cluster disconnects the reader gets an
/// error, not an end of file.
pub(crate) async fn a_log_is_followed_from_the_hub_until_its_cluster_is_cut_off(
    stage: &Stage,
) -> Result<()> {
    stage.enrolled(1).await?;
    let shared = tempfile::tempdir()?;
    let script =
        "seq 1000; until test -e /data/more; do sleep 0.05; done; echo more; exec sleep infinity";
    let mut pod = local("default", "talker", script);
    pod["spec"]["volumes"] = json!([{ "name": "data", "hostPath": { "path": shared.path() } }]);
    pod["spec"]["containers"][0]["volumeMounts"] =
        json!([{ "name": "data", "mountPath": "/data" }]);
    let (spoke, pod) = (&stage.lab.spokes()[0], pod.to_string());
    spoke.apply(&pod).await?;

    let kubectl = Kubectl::with_secret_of(stage, "spoke1").await?;
    kubectl.until_it_sees(&["logs", "talker"]).await?;
    let mut following = kubectl.follows(&["logs", "-f", "talker"])?;
    for number in 1..=1000 {
        let read = following.line(SOON).await?;
        ensure!(read == Some(format!("{number}\n")), "{number}: {read:?}");
    }
    std::fs::write(shared.path().join("more"), "")?;
    ensure!(following.line(SOON).await?.as_deref() == Some("more\n"));
    let whole = kubectl.prints(&["logs", "talker"]).await?;
    ensure!(whole.lines().count() == 1001, "{whole}");
    let end = kubectl
        .prints(&["logs", "talker", "--tail=2", "--since=1h"])
        .await?;
    ensure!(end == "1000\nmore\n", "{end}");

    a_closed_viewer_ends_the_request(stage, &kubectl).await?;
    stage.lab.faults().set("spoke1", Fault::Stall);
    let ended = following.ended(Duration::from_secs(30)).await;
    let ended = ended.context("the log of a cluster that was cut off goes on")?;
    ensure!(
        !ended.success(),
        "it looks as if the log had come to its end"
    );
    stage.lab.faults().heal("spoke1");
    kubectl
        .until_it_sees(&["logs", "talker", "--tail=1"])
        .await?;
    spoke.delete(&pod).await
}

/// The cluster's API logs a request when it is over.
async fn a_closed_viewer_ends_the_request(stage: &Stage, kubectl: &Kubectl) -> Result<()> {
    let audit = stage.lab.spoke(1).audit();
    let mark = audit.mark()?;
    let mut viewer = kubectl.follows(&["logs", "-f", "talker"])?;
    ensure!(viewer.line(SOON).await?.is_some());
    let ended = || async {
        let requests = audit.by(super::PEOPLE, mark)?;
        let kinds: Vec<String> = requests
            .iter()
            .filter_map(|request| Some(request.object.as_ref()?.kind()))
            .collect();
        anyhow::Ok(kinds)
    };
    let is_over = |kinds: &Vec<String>| kinds.iter().any(|kind| kind == "pods/log");
    let while_it_is_read = ended().await?;
    ensure!(!is_over(&while_it_is_read), "{while_it_is_read:?}");
    drop(viewer);
    wait::until("the request for the log is over", ended, is_over)
        .await
        .map(drop)
}

/// With `UI_ACCESS` `terminal` people run commands in Pods of an Application, at a terminal if they want, and in no
/// others.
pub(crate) async fn a_terminal_is_opened_from_the_hub_in_a_pod_of_an_application(
    stage: &Stage,
) -> Result<()> {
    const PLACE: &str = "entered";
    stage.enrolled(1).await?;
    enrol::with_variable(&stage.hub, "spoke1", "UI_ACCESS", "terminal").await?;
    let app = stage.greeter(PLACE, 1).await?;
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    let kubectl = Kubectl::with_secret_of(stage, "spoke1").await?;
    let pods = [
        "-n",
        PLACE,
        "get",
        "pods",
        "-l",
        "app=greeter",
        "-o",
        "name",
    ];
    kubectl.until_it_sees(&pods).await?;
    let pod = kubectl.prints(&pods).await?;
    let pod = pod.trim().strip_prefix("pod/").context("one Pod")?;

    // The agent restarts with the new level, and then reads the resources of the Application.
    let exec = |script| ["-n", PLACE, "exec", pod, "--", "sh", "-c", script];
    kubectl.until_it_sees(&exec("true")).await?;
    let ended = kubectl.run(&exec("echo hello; exit 7")).await?;
    ensure!(ended.code == Some(7), "{ended:?}");
    ensure!(ended.out == "hello\n", "{ended:?}");

    let at: Api<Pod> = Api::namespaced(kubectl.client().await?, PLACE);
    let mut viewer = Viewer::open(&at, pod).await?;
    viewer.resized(111, 37).await?;
    viewer.types("echo heard > /proc/1/fd/1; exit 5\n").await?;
    terminal::ended_with(viewer, 5).await?;
    let log = ["-n", PLACE, "logs", pod];
    let look = async || kubectl.prints(&log).await;
    wait::until("its log has it", look, |text| text == "heard\n").await?;

    let alone = local(PLACE, "alone", "exec sleep infinity").to_string();
    let spoke = &stage.lab.spokes()[0];
    spoke.apply(&alone).await?;
    kubectl
        .until_it_sees(&["-n", PLACE, "logs", "alone"])
        .await?;
    let error = kubectl
        .fails(&["-n", PLACE, "exec", "alone", "--", "true"])
        .await?;
    ensure!(error.contains("belongs to no Application"), "{error}");

    let mut viewer = Viewer::open(&at, pod).await?;
    viewer.types("echo up $((1 + 1))\n").await?;
    viewer.until_it_reads("up 2").await?;
    stage.lab.faults().set("spoke1", Fault::Stall);
    timeout(SOON, terminal::ended(viewer)).await??;
    stage.lab.faults().heal("spoke1");

    spoke.delete(&alone).await?;
    stage.clear(&app).await?;
    enrol::without_variables(&stage.hub, "spoke1").await?;
    enrol::until_available(&stage.hub, "spoke1").await.map(drop)
}
