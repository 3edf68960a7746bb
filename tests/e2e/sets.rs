//! `ApplicationSets` on the hub, with Argo CD's own controller for them: the Applications that it makes run on the spokes.

pub(crate) mod placement;

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lab::{
    argocd,
    steps::{At, deliver, enrol::ARGOCD, workload},
    wait,
};
use serde_json::{Value, json};

use crate::stage::{SOON, Stage, commit};

/// An Ingress without a controller: Argo CD shows it as Progressing until it has an address.
const NEVER_READY: &str = "\
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: without-controller
spec:
  defaultBackend: {service: {name: greeter, port: {number: 80}}}
";

/// Makes sure that the hub has the controller, both spokes the add-on, and there is a project for all of it.
pub(crate) async fn prepare(stage: &Stage, project: &str) -> Result<()> {
    let controller = At::deployment(ARGOCD, argocd::APPLICATION_SETS);
    if stage.hub.get(&controller).await?.is_none() {
        argocd::install_application_sets(stage.lab.hub(), stage.lab.tools()).await?;
    }
    stage.enrolled(1).await?;
    stage.enrolled(2).await?;
    let spec = json!({"spec": {
        "sourceRepos": ["*"],
        "destinations": [{"name": "*", "server": "*", "namespace": "*"}],
        "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
    }});
    stage
        .hub
        .apply(&At::project(ARGOCD, project), spec)
        .await
        .map(drop)
}

/// Lets this many of Argo CD's controllers of `ApplicationSets` run, none or one, and waits until it is so.
pub(crate) async fn run_controllers(stage: &Stage, count: usize) -> Result<()> {
    let controller = At::deployment(ARGOCD, argocd::APPLICATION_SETS);
    let replicas = json!({"spec": {"replicas": count}});
    stage.hub.merge(&controller, replicas).await?;
    let labels = format!("app.kubernetes.io/name={}", argocd::APPLICATION_SETS);
    let pods = At::pod(ARGOCD, "");
    let look = || async { Ok(stage.hub.list(&pods, &labels).await?.len()) };
    let what = format!("{count} controllers of ApplicationSets");
    wait::until(&what, look, |found| *found == count)
        .await
        .map(drop)
}

/// The template of an Application of the greeter.
fn template(
    name: &str,
    destination: &Value,
    repository: &str,
    path: &str,
    revision: &str,
) -> Value {
    json!({
        "metadata": {"name": name, "finalizers": [deliver::CASCADE]},
        "spec": {
            "project": "sets",
            "source": {"repoURL": repository, "path": path, "targetRevision": revision},
            "destination": destination,
            "syncPolicy": {
                "automated": {"prune": true, "selfHeal": true},
                "syncOptions": ["CreateNamespace=true"],
            },
        },
    })
}

async fn make(stage: &Stage, name: &str, generators: Value, template: Value) -> Result<At> {
    let at = At::application_set(ARGOCD, name);
    let spec = json!({"spec": {
        "goTemplate": true,
        "goTemplateOptions": ["missingkey=error"],
        "generators": generators,
        "template": template,
    }});
    stage.hub.apply(&at, spec).await?;
    Ok(at)
}

/// A set with one Application on spoke1 that preserves its resources on deletion.
pub(crate) fn leaving(repository: &str, revision: &str) -> Value {
    let destination = json!({"name": "{{.cluster}}", "namespace": "set-again"});
    let mut body = template(
        "set-again-{{.cluster}}",
        &destination,
        repository,
        workload::PATH,
        revision,
    );
    body["metadata"]["finalizers"] = json!([]);
    json!({"spec": {
        "goTemplate": true,
        "generators": [{"list": {"elements": [{"cluster": "spoke1"}]}}],
        "syncPolicy": {"preserveResourcesOnDeletion": true},
        "template": body,
    }})
}

/// Removes a set with its Applications and their resources.
async fn clear(stage: &Stage, set: &At, applications: &[At]) -> Result<()> {
    stage.hub.delete(set).await?;
    for at in applications {
        stage.hub.until_gone(at, wait::BOUND).await?;
    }
    Ok(())
}

/// A list of clusters: one Application for each, on each.
pub(crate) async fn a_list_of_clusters_gets_its_applications(stage: &Stage) -> Result<()> {
    prepare(stage, "sets").await?;
    let repository = stage.lab.git().repository("set-list")?;
    commit(&repository, "hello", "v1")?;
    let elements = json!([{"list": {"elements": [{"cluster": "spoke1"}, {"cluster": "spoke2"}]}}]);
    let destination = json!({"name": "{{.cluster}}", "namespace": "set-list"});
    let path = workload::PATH;
    let body = template(
        "set-list-{{.cluster}}",
        &destination,
        &repository.url(),
        path,
        "v1",
    );
    let set = make(stage, "set-list", elements, body).await?;
    let apps = ["set-list-spoke1", "set-list-spoke2"].map(|name| At::application(ARGOCD, name));
    for (number, at) in (1..).zip(&apps) {
        deliver::until_healthy(&stage.hub, at, "").await?;
        stage.until_greets(number, "set-list", "hello").await?;
    }
    clear(stage, &set, &apps).await
}

/// Clusters by label: a cluster whose ManagedCluster has the label gets the Application, and one that loses the label loses
/// the Application with its resources. The destination is the server of the cluster Secret, as in Argo CD's examples.
pub(crate) async fn clusters_with_a_label_get_their_application(stage: &Stage) -> Result<()> {
    prepare(stage, "sets").await?;
    let repository = stage.lab.git().repository("set-label")?;
    commit(&repository, "hello", "v1")?;
    label(stage, "spoke1", json!("yes")).await?;
    let selector = json!([{"clusters": {"selector": {"matchLabels": {"in-the-set": "yes"}}}}]);
    let destination = json!({"server": "{{.server}}", "namespace": "set-label"});
    let path = workload::PATH;
    let body = template(
        "set-label-{{.name}}",
        &destination,
        &repository.url(),
        path,
        "v1",
    );
    let set = make(stage, "set-label", selector, body).await?;
    let apps = ["set-label-spoke1", "set-label-spoke2"].map(|name| At::application(ARGOCD, name));
    deliver::until_healthy(&stage.hub, &apps[0], "").await?;
    ensure!(
        stage.hub.get(&apps[1]).await?.is_none(),
        "spoke2 has no such label"
    );

    label(stage, "spoke2", json!("yes")).await?;
    deliver::until_healthy(&stage.hub, &apps[1], "").await?;
    stage.until_greets(2, "set-label", "hello").await?;
    label(stage, "spoke1", Value::Null).await?;
    stage.hub.until_gone(&apps[0], wait::BOUND).await?;
    let left = At::config_map("set-label", workload::NAME);
    stage.spoke(1).until_gone(&left, SOON).await?;

    clear(stage, &set, &apps).await?;
    label(stage, "spoke2", Value::Null).await
}

async fn label(stage: &Stage, cluster: &str, value: Value) -> Result<()> {
    let labels = json!({"metadata": {"labels": {"in-the-set": value}}});
    stage
        .hub
        .merge(&At::cluster(cluster), labels)
        .await
        .map(drop)
}

/// Folders of a repository: each is an Application, and a folder that is added or removed adds or removes one.
pub(crate) async fn folders_of_a_repository_are_applications(stage: &Stage) -> Result<()> {
    prepare(stage, "sets").await?;
    let repository = stage.lab.git().repository("set-folders")?;
    let map = |word: &str| {
        format!(
            "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: word}}, data: {{word: {word}}}}}"
        )
    };
    repository.commit("one", &[("apps/folder-one/map.yaml", &map("one"))])?;
    let folders = json!([{"git": {
        "repoURL": repository.url(),
        "revision": "main",
        "directories": [{"path": "apps/*"}],
    }}]);
    let destination = json!({"name": "spoke1", "namespace": "{{.path.basename}}"});
    let body = template(
        "{{.path.basename}}",
        &destination,
        &repository.url(),
        "{{.path.path}}",
        "main",
    );
    let set = make(stage, "set-folders", folders, body).await?;
    let apps = ["folder-one", "folder-two"].map(|name| At::application(ARGOCD, name));
    deliver::until_healthy(&stage.hub, &apps[0], "").await?;

    repository.commit("two", &[("apps/folder-two/map.yaml", &map("two"))])?;
    looking_again(
        stage,
        &set,
        deliver::until_healthy(&stage.hub, &apps[1], ""),
    )
    .await?;
    let word = At::config_map("folder-two", "word");
    let is_two = |map: &Value| map["data"]["word"] == "two";
    stage
        .spoke(1)
        .until(&word, "says two", SOON, is_two)
        .await?;
    repository.remove("not one", "apps/folder-one/map.yaml")?;
    let gone = stage.hub.until_gone(&apps[0], wait::BOUND);
    looking_again(stage, &set, gone).await?;
    let gone = At::config_map("folder-one", "word");
    stage.spoke(1).until_gone(&gone, SOON).await?;
    clear(stage, &set, &apps).await
}

/// Waits for something while requesting refreshes of the set each second, as the webhook of a git server does. The
/// controller polls only every few minutes, and drops a request that arrives during a reconcile.
async fn looking_again<T>(
    stage: &Stage,
    set: &At,
    seen: impl Future<Output = Result<T>>,
) -> Result<T> {
    let asked = json!({"metadata": {"annotations": {"argocd.argoproj.io/application-set-refresh": "true"}}});
    let asking = async {
        let mut seconds = tokio::time::interval(Duration::from_secs(1));
        loop {
            seconds.tick().await;
            stage.hub.merge(set, asked.clone()).await?;
        }
    };
    tokio::select! {
        seen = seen => seen,
        failed = asking => failed,
    }
}

/// A change goes through the clusters step by step: the second begins when the first is healthy.
///
/// The first revision never becomes healthy, so the first cluster holds the rollout before the change, too. A change of
/// healthy Applications has no order that a test could rely on: Argo CD's controller learns of it by the revision that an
/// Application's status shows, and begins with the cluster that reports first.
pub(crate) async fn a_change_rolls_from_cluster_to_cluster(stage: &Stage) -> Result<()> {
    prepare(stage, "sets").await?;
    let repository = stage.lab.git().repository("set-rolls")?;
    let ingress = format!("{}/ingress.yaml", workload::PATH);
    repository.commit(
        "an Ingress that gets no address",
        &[(&ingress, NEVER_READY)],
    )?;
    let first = commit(&repository, "hello", "v1")?;
    let at = At::application_set(ARGOCD, "set-rolls");
    stage
        .hub
        .apply(&at, rolling(&repository.url(), "v1"))
        .await?;
    let apps = ["rolls-spoke1", "rolls-spoke2"].map(|name| At::application(ARGOCD, name));
    let progressing = |app: &Value| {
        app["status"]["operationState"]["syncResult"]["revision"] == first
            && app["status"]["health"]["status"] == "Progressing"
    };
    let what = "is synced and waits for its Ingress";
    stage
        .hub
        .until(&apps[0], what, deliver::SYNC, progressing)
        .await?;
    let compared = |app: &Value| {
        app["status"]["sync"]["status"] == "OutOfSync" && app["status"]["sync"]["revision"] == first
    };
    let second = stage
        .hub
        .until(&apps[1], "is compared", deliver::SYNC, compared)
        .await?;
    ensure!(
        second["status"].get("operationState").is_none(),
        "the second cluster began before the first was healthy: {second}"
    );

    repository.remove("no Ingress", &ingress)?;
    let next = commit(&repository, "good-day", "v2")?;
    stage
        .hub
        .apply(&at, rolling(&repository.url(), "v2"))
        .await?;
    let mut times = Vec::new();
    for (number, app) in (1..).zip(&apps) {
        deliver::until_healthy(&stage.hub, app, &next).await?;
        stage.until_greets(number, "set-rolls", "good-day").await?;
        times.push(sync_times(stage, app, &next).await?);
    }
    ensure!(
        times[0].1 <= times[1].0,
        "the second cluster began before the first had ended: {times:?}"
    );
    clear(stage, &at, &apps).await
}

/// When the sync to this revision started and finished.
async fn sync_times(
    stage: &Stage,
    app: &At,
    revision: &str,
) -> Result<(jiff::Timestamp, jiff::Timestamp)> {
    let ended = |app: &Value| {
        let sync = &app["status"]["operationState"];
        sync["phase"] == "Succeeded" && sync["syncResult"]["revision"] == revision
    };
    let app = stage.hub.until(app, "shows its sync", SOON, ended).await?;
    let sync = &app["status"]["operationState"];
    let time = |name: &str| -> Result<jiff::Timestamp> {
        Ok(sync[name].as_str().context("a time")?.parse()?)
    };
    Ok((time("startedAt")?, time("finishedAt")?))
}

fn rolling(repository: &str, revision: &str) -> Value {
    let destination = json!({"name": "{{.cluster}}", "namespace": "set-rolls"});
    let mut body = template(
        "rolls-{{.cluster}}",
        &destination,
        repository,
        workload::PATH,
        revision,
    );
    body["metadata"]["labels"] = json!({"step": "{{.step}}"});
    let step = |name: &str| json!({"matchExpressions": [{"key": "step", "operator": "In", "values": [name]}]});
    json!({"spec": {
        "goTemplate": true,
        "generators": [{"list": {"elements": [
            {"cluster": "spoke1", "step": "first"},
            {"cluster": "spoke2", "step": "second"},
        ]}}],
        "strategy": {
            "type": "RollingSync",
            "rollingSync": {"steps": [step("first"), step("second")]},
        },
        "template": body,
    }})
}
