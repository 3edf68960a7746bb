//! Empty clusters without an installation, in mode autonomous, or with a faulty Argo CD on the hub.

use anyhow::{Context as _, Result, ensure};
use lab::{
    argocd,
    steps::{
        At,
        deliver::{self, Application},
        enrol,
        objects::{condition, has_condition},
        workload,
    },
};
use serde_json::{Value, json};

use super::{INSTALLED, ORIGIN, programs};
use crate::stage::{SOON, Stage, commit};

const CLUSTER: &str = "spoke2";
/// A registry without images, and an image that does not exist.
const NOWHERE: &str = "registry.example";
const MISSING: &str = "registry.example/argocd:v9";
/// Another version, which the lab has as it has every one.
const NEXT: &str = "quay.io/argoproj/argocd:v9.9.9";

/// With `INSTALL_ARGOCD=false` nothing is installed on an empty cluster; the condition names the next step. When a user
/// installs an Argo CD, the agent serves it and does not take it over.
pub(crate) async fn install_argocd_false_reports_the_next_step(stage: &Stage) -> Result<()> {
    stage.not_enrolled(2).await?;
    let (hub, spoke) = (&stage.hub, stage.spoke(2));
    let (empty, tools) = (stage.lab.spoke(2), stage.lab.tools());
    argocd::purge(empty, tools).await?;
    let app = stage.greeter("unasked", 2).await?;
    app.apply(hub).await?;
    // As with `clusteradm addon enable`, with the configuration from the first moment.
    enrol::by_addon_with_variable(hub, CLUSTER, "INSTALL_ARGOCD", "false").await?;
    let message = until_degraded(stage, "ArgoCDMissing", "INSTALL_ARGOCD is false").await?;
    ensure!(message.contains("install Argo CD there"), "{message}");
    enrol::until_available(hub, CLUSTER).await?;
    for program in programs() {
        ensure!(spoke.get(&program).await?.is_none(), "{program}");
    }

    argocd::install(std::slice::from_ref(empty), tools).await?;
    deliver::until_healthy(hub, &app.at, "").await?;
    let addon = until_calm(stage).await?;
    ensure!(
        addon["metadata"]["annotations"][ORIGIN].is_null(),
        "{addon}"
    );
    for program in programs() {
        let program = spoke.read(&program).await?;
        ensure!(
            program["metadata"]["labels"][INSTALLED].is_null(),
            "{program}"
        );
    }
    stage.clear(&app).await?;
    enrol::without_variables(hub, CLUSTER).await?;
    stage.not_enrolled(2).await
}

/// Without an Argo CD on the hub to copy, the add-on is Degraded until there is one. An autonomous cluster gets the project
/// `default`: an Application in it runs and is mirrored. A condition reports unhealthy workloads until they recover, and
/// the cluster follows upgrades of the hub's Argo CD.
pub(crate) async fn an_empty_autonomous_cluster_follows_the_hubs_argo_cd(
    stage: &Stage,
) -> Result<()> {
    stage.not_enrolled(2).await?;
    let (empty, tools) = (stage.lab.spoke(2), stage.lab.tools());
    argocd::purge(empty, tools).await?;
    let result = lived(stage).await;
    let cleared = cleared(stage).await;
    result.and(cleared)
}

async fn cleared(stage: &Stage) -> Result<()> {
    let (empty, tools) = (stage.lab.spoke(2), stage.lab.tools());
    argocd::install_application_sets(stage.lab.hub(), tools).await?;
    enrol::without_variables(&stage.hub, CLUSTER).await?;
    stage.not_enrolled(2).await?;
    stage.spoke(2).delete(&At::namespace("sown")).await?;
    argocd::purge(empty, tools).await?;
    argocd::install(std::slice::from_ref(empty), tools).await
}

async fn lived(stage: &Stage) -> Result<()> {
    let (hub, spoke, tools) = (&stage.hub, stage.spoke(2), stage.lab.tools());
    for name in argocd::DEPLOYMENTS
        .into_iter()
        .chain([argocd::APPLICATION_SETS])
    {
        hub.delete(&At::deployment(enrol::ARGOCD, name)).await?;
    }
    enrol::by_label_as(hub, CLUSTER, "autonomous").await?;
    let message = until_degraded(stage, "HubArgoCDUnreadable", "is missing").await?;
    ensure!(message.contains("install Argo CD there"), "{message}");
    ensure!(
        spoke.get(&programs()[0]).await?.is_none(),
        "installed without a pattern"
    );

    argocd::install_application_sets(stage.lab.hub(), tools).await?;
    for program in programs() {
        let runs = |it: &Value| it["status"]["readyReplicas"] == 1;
        spoke.until(&program, "runs", SOON * 2, runs).await?;
    }
    // An ordinary start leaves no condition behind.
    until_calm(stage).await?;

    let default = At::project(enrol::ARGOCD, "default");
    spoke.until_there(&default, SOON).await?;
    let own = own(stage)?;
    own.apply(spoke).await?;
    let mirror = At::application(CLUSTER, "sown");
    deliver::until_healthy(hub, &mirror, "").await?;
    stage.until_greets(2, "sown", "hello").await?;

    upgraded(stage).await?;
    spoke.delete(&own.at).await?;
    spoke.until_gone(&own.at, lab::wait::BOUND).await?;
    hub.until_gone(&mirror, SOON).await
}

/// An Application that a user creates on the spoke, as in tutorials.
fn own(stage: &Stage) -> Result<Application> {
    let repository = stage.lab.git().repository("sown")?;
    commit(&repository, "hello", "v1")?;
    Ok(Application {
        at: Stage::replica("sown"),
        project: "default".to_owned(),
        cluster: "in-cluster".to_owned(),
        namespace: "sown".to_owned(),
        repository: repository.url(),
        path: workload::PATH.to_owned(),
        revision: "v1".to_owned(),
        automated: true,
    })
}

/// An empty mirror makes the cluster's Argo CD unhealthy. Without the mirror it recovers, even while the hub's Argo CD has an
/// image that cannot be pulled: the cluster does not copy it. It follows a good image.
async fn upgraded(stage: &Stage) -> Result<()> {
    mirrored(
        stage,
        &json!([{"source": "quay.io/argoproj", "mirror": NOWHERE}]),
    )
    .await?;
    let message = until_degraded(stage, "ArgoCDUnhealthy", NOWHERE).await?;
    ensure!(message.contains("cannot be pulled"), "{message}");
    hub_has(stage, MISSING).await?;
    mirrored(stage, &json!([])).await?;
    until_calm(stage).await?;
    for program in programs() {
        let template = stage.spoke(2).read(&program).await?["spec"]["template"].to_string();
        ensure!(!template.contains(NOWHERE), "{template}");
    }
    hub_has(stage, NEXT).await?;
    for program in programs() {
        let new = |it: &Value| {
            let pod = it["spec"]["template"]["spec"].to_string();
            let status = &it["status"];
            pod.contains(NEXT) && status["readyReplicas"] == 1 && status["updatedReplicas"] == 1
        };
        stage
            .spoke(2)
            .until(&program, "is of the next version", SOON * 2, new)
            .await?;
    }
    until_calm(stage).await.map(drop)
}

/// Configures the image mirrors of the cluster.
async fn mirrored(stage: &Stage, registries: &Value) -> Result<()> {
    enrol::with_configuration(&stage.hub, CLUSTER, json!({"registries": registries})).await
}

/// Gives the hub's repo server an image; that is the one which counts, since the lab's hub has no server.
async fn hub_has(stage: &Stage, image: &str) -> Result<()> {
    let at = At::deployment(enrol::ARGOCD, argocd::DEPLOYMENTS[1]);
    let mut containers =
        stage.hub.read(&at).await?["spec"]["template"]["spec"]["containers"].clone();
    containers[0]["image"] = image.into();
    let template = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    stage.hub.merge(&at, template).await.map(drop)
}

/// The message of the condition, once it is Degraded for this reason and contains this part.
async fn until_degraded(stage: &Stage, reason: &str, part: &str) -> Result<String> {
    let message = |addon: &Value| {
        let degraded = condition(addon, "Degraded")?;
        degraded["message"].as_str().map(str::to_owned)
    };
    let is_reported = |addon: &Value| {
        has_condition(addon, "Degraded", "True", reason)
            && message(addon).is_some_and(|message| message.contains(part))
    };
    let at = At::addon(CLUSTER);
    let what = format!("says {reason}: {part}");
    let addon = stage.hub.until(&at, &what, SOON * 2, is_reported).await?;
    message(&addon).context("no message")
}

async fn until_calm(stage: &Stage) -> Result<Value> {
    let calm = |addon: &Value| has_condition(addon, "Degraded", "False", "AsExpected");
    let at = At::addon(CLUSTER);
    stage.hub.until(&at, "is not Degraded", SOON, calm).await
}
