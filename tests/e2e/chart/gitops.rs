//! The chart on a hub whose Argo CD installs it from Git, with the commands of their page.

use std::{collections::BTreeMap, fs};

use anyhow::{Context as _, Result, ensure};
use lab::{
    argocd,
    git::Repository,
    helm, pages, product,
    steps::{
        At, deliver,
        enrol::{self, ARGOCD},
        objects::has_condition,
    },
    tools,
    wait::{self, BOUND},
};
use serde_json::{Value, json};

use super::{UNINSTALL, leftovers};
use crate::{
    reader::{Reader, text_of},
    stage::{SOON, Stage},
};

const PAGE: &str = "docs/gitops.md";
/// The hub's own API, as Argo CD names it.
const HERE: &str = "https://kubernetes.default.svc";
/// The repository with the chart.
const REPOSITORY: &str = "hub-add-on";
const REVOKED: &str = "argocd-agent.open-cluster-management.io/revoked";
/// The annotation that requests a comparison; Argo CD removes it.
const REFRESH: &str = "argocd.argoproj.io/refresh";
const REKEY: &str = "argocd-agent.open-cluster-management.io/rekey";

/// The Application of the page.
fn application() -> At {
    At::application(ARGOCD, product::RELEASE)
}

/// Neither a second `helm upgrade` nor a second sync of Argo CD, which takes the release over, changes an object, also with
/// values that add objects. A refused value is reported, and the health checks of the page follow the add-on.
pub(crate) async fn argo_cd_keeps_the_chart_synced(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    a_second_upgrade_changes_nothing(stage).await?;
    take_over(stage).await?;
    a_second_sync_changes_nothing(stage).await?;

    let placement = At::placement(product::NAMESPACE, "argocd-agent-addon");
    set_values(stage, further_values()).await?;
    stage.hub.until_there(&placement, BOUND).await?;
    until_healthy(stage).await?;
    a_second_sync_changes_nothing(stage).await?;
    set_values(stage, without(&further_values())).await?;
    stage.hub.until_gone(&placement, BOUND).await?;

    a_refused_value_is_reported(stage).await?;
    health_follows_the_add_on(stage).await
}

/// No sync runs the hooks of the uninstallation. Before the deletion Argo CD runs them from 3.3 on, and a user with the commands of
/// the page otherwise; then nothing is left but the objects that every uninstallation keeps.
pub(crate) async fn deleted_application_leaves_a_clean_hub(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    take_over(stage).await?;
    let account = At::service_account(product::NAMESPACE, UNINSTALL);
    ensure!(
        stage.hub.get(&account).await?.is_none(),
        "a sync ran the uninstallation"
    );
    let app = stage.hub.read(&application()).await?;
    let finalizers = app["metadata"]["finalizers"].to_string();
    if finalizers.contains("pre-delete-finalizer") {
        stage.hub.delete(&application()).await?;
        stage.hub.until_gone(&application(), BOUND * 3).await?;
    } else {
        Reader::of(stage)?
            .follow(PAGE, "deleted_application_leaves_a_clean_hub", 1)
            .await?;
    }
    enrol::until_removed(&stage.hub, stage.spoke(1), "spoke1").await?;
    leftovers::are_as_promised(stage).await?;
    product::install(&stage.lab.helm(), product::OptIn::Manual).await?;
    enrol::until_available(&stage.hub, "spoke1").await.map(drop)
}

/// Argo CD on the hub installs the chart from Git over the release of the lab, with the commands of the page.
async fn take_over(stage: &Stage) -> Result<()> {
    // Only with this parameter the status of an Application has the health of each resource.
    let persist = json!({"data": {"controller.resource.health.persist": "true"}});
    stage.hub.apply(&argocd::parameters(), persist).await?;
    // argocd-server makes this key, which is not there. Without it controllers keep the settings from their start.
    let secret = At::secret(ARGOCD, "argocd-secret");
    let key = json!({"data": {"server.secretkey": "bGFi"}});
    stage.hub.apply(&secret, key).await?;
    argocd::install_in(stage.lab.hub(), ARGOCD, stage.lab.tools()).await?;
    let repository = stage.lab.git().repository(REPOSITORY)?;
    publish(&repository)?;
    Reader::of(stage)?
        .with("REPOSITORY", repository.url())
        .follow(PAGE, "argo_cd_keeps_the_chart_synced", 3)
        .await?;
    until_healthy(stage).await
}

/// Commits the chart of the source tree.
fn publish(repository: &Repository) -> Result<()> {
    let (mut files, mut folders) = (Vec::new(), vec![helm::chart()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(tools::workspace())?;
            let name = name.to_string_lossy().into_owned();
            files.push((name, fs::read_to_string(&path)?));
        }
    }
    let files: Vec<_> = files
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    repository.commit("the chart", &files).map(drop)
}

async fn a_second_upgrade_changes_nothing(stage: &Stage) -> Result<()> {
    let helm = stage.lab.helm();
    product::upgrade(&helm, &["--wait"]).await?;
    let of_release = ["get", "hooks", product::RELEASE, "-n", product::NAMESPACE];
    let hooks = helm.run(&of_release).await?;
    ensure!(
        hooks.contains("kind: ClusterRoleBinding"),
        "the uninstallation has rights before it runs: {hooks}"
    );
    let of_release = [
        "get",
        "manifest",
        product::RELEASE,
        "-n",
        product::NAMESPACE,
    ];
    let manifest = helm.run(&of_release).await?;
    let mut objects: Vec<Value> = Vec::new();
    for document in manifest.split("\n---\n") {
        objects.push(serde_saphyr::from_str(document)?);
    }
    let before = parts(stage, &objects).await?;
    product::upgrade(&helm, &["--wait"]).await?;
    are_same(&before, &parts(stage, &objects).await?)
}

async fn a_second_sync_changes_nothing(stage: &Stage) -> Result<()> {
    let app = stage.hub.read(&application()).await?;
    let listed = app["status"]["resources"].as_array();
    let objects: Vec<_> = listed.into_iter().flatten().map(as_object).collect();
    let before = parts(stage, &objects).await?;
    deliver::ask_for_sync(&stage.hub, &application(), "").await?;
    // The state of the sync before stays until this one starts.
    let done = |app: &Value| {
        app["operation"].is_null() && app["status"]["operationState"]["phase"] == "Succeeded"
    };
    let what = "was synced again";
    stage.hub.until(&application(), what, BOUND, done).await?;
    let app = compared_again(stage).await?;
    ensure!(app["status"]["sync"]["status"] == "Synced", "{app:#}");
    are_same(&before, &parts(stage, &objects).await?)
}

/// A resource in the status of an Application, as an object without a body.
fn as_object(resource: &Value) -> Value {
    let text = |field: &str| resource[field].as_str().unwrap_or_default();
    let version = match text("group") {
        "" => text("version").to_owned(),
        group => format!("{group}/{}", text("version")),
    };
    json!({
        "apiVersion": version,
        "kind": text("kind"),
        "metadata": {"name": text("name"), "namespace": resource["namespace"]},
    })
}

/// The state of these objects, without the parts that other programs write.
async fn parts(stage: &Stage, objects: &[Value]) -> Result<BTreeMap<String, Value>> {
    let mut parts = BTreeMap::new();
    for object in objects {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let kind = text("/kind").context("a kind")?;
        let name = text("/metadata/name").context("a name")?;
        let version = text("/apiVersion").context("a version")?;
        let namespace = text("/metadata/namespace");
        let api = stage.lab.hub().api(version, kind, namespace).await?;
        let mut part = serde_json::to_value(api.get(name).await?)?;
        part["status"].take();
        for field in ["managedFields", "resourceVersion"] {
            part["metadata"][field].take();
        }
        let place = namespace.unwrap_or_default();
        parts.insert(format!("{kind} {place}/{name}"), part);
    }
    ensure!(parts.len() > 20, "only {:?}", parts.keys());
    Ok(parts)
}

fn are_same(before: &BTreeMap<String, Value>, after: &BTreeMap<String, Value>) -> Result<()> {
    let changed: Vec<_> = before
        .iter()
        .filter(|(key, part)| after.get(*key) != Some(*part))
        .map(|(key, part)| (key, part, after.get(key)))
        .collect();
    ensure!(changed.is_empty(), "changed: {changed:#?}");
    Ok(())
}

/// Requests a comparison without caches, and waits for it.
async fn compared_again(stage: &Stage) -> Result<Value> {
    let asked = json!({"metadata": {"annotations": {REFRESH: "hard"}}});
    stage.hub.merge(&application(), asked).await?;
    let done = |app: &Value| app["metadata"]["annotations"][REFRESH].is_null();
    let what = "was compared again";
    stage.hub.until(&application(), what, BOUND, done).await
}

async fn set_values(stage: &Stage, values: Value) -> Result<()> {
    let patch = json!({"spec": {"source": {"helm": {"valuesObject": values}}}});
    stage.hub.merge(&application(), patch).await.map(drop)
}

/// Values that add objects, and entries of lists in which the API server fills in defaults.
fn further_values() -> Value {
    json!({
        "placement": {"enabled": true},
        "principal": {"findAddress": true},
        "clusterProjects": true,
        "monitoring": {"dashboards": {"enabled": true}},
        "networkPolicy": {"metricsFrom": [{"namespaceSelector": {}}]},
    })
}

/// A patch that removes these values.
fn without(values: &Value) -> Value {
    let keys = values.as_object().into_iter().flatten();
    keys.map(|(key, _)| (key.clone(), Value::Null)).collect()
}

async fn a_refused_value_is_reported(stage: &Stage) -> Result<()> {
    let is_reported = |app: &Value| {
        let conditions = app["status"]["conditions"].as_array();
        conditions.into_iter().flatten().any(|it| {
            let message = it["message"].as_str().unwrap_or_default();
            it["type"] == "ComparisonError" && message.contains("replicas")
        })
    };
    let refused = json!({"replicas": "many"});
    set_values(stage, refused.clone()).await?;
    let what = "reports the refused value";
    stage
        .hub
        .until(&application(), what, BOUND, is_reported)
        .await?;
    set_values(stage, without(&refused)).await?;
    let what = "no longer reports it";
    stage
        .hub
        .until(&application(), what, BOUND, |app| !is_reported(app))
        .await?;
    deliver::until_healthy(&stage.hub, &application(), "")
        .await
        .map(drop)
}

/// Argo CD enrols a cluster from Git; the health of its add-on is that of the conditions.
async fn health_follows_the_add_on(stage: &Stage) -> Result<()> {
    let (hub, addon) = (&stage.hub, At::addon("spoke2"));
    let offered = |app: &Value| health(app, "ClusterManagementAddOn") == "Healthy";
    let what = "has a healthy definition";
    until_refreshed(stage, &application(), what, offered).await?;

    let repository = stage.lab.git().repository(REPOSITORY)?;
    let enrolment = addon_of_the_page()?.replace("paris", "spoke2");
    repository.commit("enrol", &[("clusters/spoke2.yaml", enrolment.as_str())])?;
    let project = At::project(ARGOCD, "clusters");
    let spec = json!({"spec": {
        "sourceRepos": ["*"],
        "destinations": [{"server": HERE, "namespace": "*"}],
    }});
    hub.apply(&project, spec).await?;
    let clusters = At::application(ARGOCD, "clusters");
    let spec = json!({
        "metadata": {"finalizers": ["resources-finalizer.argocd.argoproj.io"]},
        "spec": {
            "project": "clusters",
            "source": {"repoURL": repository.url(), "path": "clusters", "targetRevision": "HEAD"},
            "destination": {"server": HERE, "namespace": "default"},
            "syncPolicy": {"automated": {"selfHeal": true}},
        },
    });
    hub.apply(&clusters, spec).await?;
    enrol::until_available(hub, "spoke2").await?;
    let is = |app: &Value, state: &str| {
        health(app, "ManagedClusterAddOn") == state && app["status"]["sync"]["status"] == "Synced"
    };
    let healthy = |app: &Value| is(app, "Healthy");
    until_refreshed(stage, &clusters, "is healthy", healthy).await?;

    let annotate = async |annotations: Value| {
        let patch = json!({"metadata": {"annotations": annotations}});
        hub.merge(&addon, patch).await
    };
    annotate(json!({REVOKED: "for the test"})).await?;
    let revoked = |addon: &Value| has_condition(addon, "Degraded", "True", "Revoked");
    hub.until(&addon, "is revoked", SOON, revoked).await?;
    let degraded = |app: &Value| is(app, "Degraded");
    until_refreshed(stage, &clusters, "is degraded", degraded).await?;
    annotate(json!({REKEY: "after the test", REVOKED: null})).await?;
    enrol::until_available(hub, "spoke2").await?;
    until_refreshed(stage, &clusters, "is healthy", healthy).await?;

    hub.delete(&clusters).await?;
    hub.until_gone(&clusters, BOUND).await?;
    hub.delete(&project).await?;
    // Argo CD deletes no object with an owner, and OCM makes the definition its owner.
    hub.delete(&addon).await?;
    enrol::until_removed(hub, stage.spoke(2), "spoke2").await
}

async fn until_healthy(stage: &Stage) -> Result<()> {
    let healthy = |app: &Value| {
        let status = &app["status"];
        status["sync"]["status"] == "Synced" && status["health"]["status"] == "Healthy"
    };
    until_refreshed(stage, &application(), "is synced and healthy", healthy).await
}

/// Waits for a state of an Application, and requests that Argo CD compares it meanwhile: for an object with an
/// owner it notices a changed status only then, or after minutes.
async fn until_refreshed(
    stage: &Stage,
    at: &At,
    what: &str,
    fits: impl Fn(&Value) -> bool,
) -> Result<()> {
    let hub = &stage.hub;
    let look = || async {
        let app = hub.read(at).await?;
        if app["metadata"]["annotations"][REFRESH].is_null() {
            let patch = json!({"metadata": {"annotations": {REFRESH: "normal"}}});
            hub.merge(at, patch).await?;
        }
        anyhow::Ok(app)
    };
    wait::until(&format!("{at}: {what}"), look, |app: &Value| fits(app))
        .await
        .map(drop)
}

/// The health of the first resource of a kind; null if Argo CD has no check for it.
fn health(app: &Value, kind: &str) -> Value {
    let resources = app["status"]["resources"].as_array();
    let mut resources = resources.into_iter().flatten();
    let found = resources.find(|it| it["kind"] == kind);
    found.map_or(Value::Null, |it| it["health"]["status"].clone())
}

fn addon_of_the_page() -> Result<String> {
    let page = text_of(PAGE)?;
    let texts = pages::blocks(&page).into_iter().map(|block| block.text);
    let is_addon = |text: &String| text.contains("\nkind: ManagedClusterAddOn\n");
    let mut addons = texts.filter(is_addon);
    addons.next().context("a ManagedClusterAddOn on the page")
}
