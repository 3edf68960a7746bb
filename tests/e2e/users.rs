//! Features of Argo CD, used from the hub.

use anyhow::{Context as _, Result, ensure};
use lab::steps::{
    At,
    deliver::{self, Application, CASCADE},
    enrol::ARGOCD,
    workload,
};
use lab_kubelet::Image;
use serde_json::{Value, json};

use crate::stage::{SOON, Stage, commit};

/// An Application of Applications: the spoke's Argo CD alone creates, changes and removes its children; the hub has none.
pub(crate) async fn app_of_apps_delivers_its_children(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let mut parent = stage.greeter("family", 1).await?;
    let greeter = stage.lab.git().repository("family")?;
    let children = stage.lab.git().repository("family-children")?;
    let child = |revision: &str| {
        json!({
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Application",
            "metadata": {"name": "child", "finalizers": [CASCADE]},
            "spec": {
                "project": "family",
                "source": {"repoURL": greeter.url(), "path": workload::PATH, "targetRevision": revision},
                "destination": {"name": "in-cluster", "namespace": "child"},
                "syncPolicy": {"automated": {}, "syncOptions": ["CreateNamespace=true"]},
            },
        })
        .to_string()
    };
    let first = children.commit("first", &[("apps/child.yaml", &child("v1"))])?;
    parent.repository = children.url();
    "apps".clone_into(&mut parent.path);
    "main".clone_into(&mut parent.revision);
    ARGOCD.clone_into(&mut parent.namespace);
    parent.apply(&stage.hub).await?;
    let seen = deliver::until_healthy(&stage.hub, &parent.at, &first).await?;
    let resources = &seen["status"]["resources"];
    ensure!(
        resources[0]["kind"] == "Application",
        "the hub sees the child: {resources}"
    );
    let at = Stage::replica("child");
    deliver::until_healthy(stage.spoke(1), &at, "").await?;
    stage.until_greets(1, "child", "hello").await?;

    let next = commit(&greeter, "good-day", "v2")?;
    children.commit("second", &[("apps/child.yaml", &child("v2"))])?;
    stage.refresh(&parent.at, "family").await?;
    deliver::until_healthy(stage.spoke(1), &at, &next).await?;
    let on_hub = stage.hub.get(&At::application("spoke1", "child")).await?;
    ensure!(on_hub.is_none(), "the child is the spoke's own");

    // Deleting the parent deletes the child and its resources.
    stage.clear(&parent).await?;
    stage.spoke(1).until_gone(&at, SOON).await?;
    let left = At::config_map("child", workload::NAME);
    stage.spoke(1).until_gone(&left, SOON).await
}

/// A sync window of the hub's project keeps the spoke's Argo CD from syncing, until it is taken away.
pub(crate) async fn a_sync_window_of_the_hub_holds_on_the_spoke(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let app = stage.greeter("window", 1).await?;
    let project = At::project(ARGOCD, "window");
    let windows = |windows: Value| json!({"spec": {"syncWindows": windows}});
    let closed = json!([{
        "kind": "deny",
        "schedule": "* * * * *",
        "duration": "24h",
        "applications": ["*"],
    }]);
    stage.hub.merge(&project, windows(closed)).await?;
    let has_one = |project: &Value| project["spec"]["syncWindows"].is_array();
    let what = "has the window";
    stage.spoke(1).until(&project, what, SOON, has_one).await?;
    app.apply(&stage.hub).await?;
    let compared = |app: &Value| app["status"]["sync"]["status"] == "OutOfSync";
    let what = "was compared";
    stage
        .hub
        .until(&app.at, what, lab::wait::BOUND, compared)
        .await?;
    // When the second refresh has ended, any sync of the first comparison would have happened.
    stage.refresh(&app.at, "window").await?;
    let deployed = At::config_map("window", workload::NAME);
    let deployed = stage.spoke(1).get(&deployed).await?;
    ensure!(deployed.is_none(), "it was synced in a closed window");

    stage.hub.merge(&project, windows(Value::Null)).await?;
    let open = |project: &Value| project["spec"]["syncWindows"].is_null();
    let what = "has no window any more";
    stage.spoke(1).until(&project, what, SOON, open).await?;
    stage.refresh(&app.at, "window").await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    stage.until_greets(1, "window", "hello").await?;
    stage.clear(&app).await
}

/// The image of a Job that is done at once.
const DONE: &str = "lab.local/done:1";

/// Hooks run before and after the sync, waves one after the other, and the hub shows all of it.
pub(crate) async fn hooks_and_waves_run_in_their_order(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let mut done = Image::default().user(65534);
    done.entrypoint = vec!["/bin/true".to_owned()];
    stage.lab.images().insert(DONE, done);
    let mut app = stage.greeter("in-order", 1).await?;
    let repository = stage.lab.git().repository("in-order")?;
    let files = [
        ("ordered/before.yaml", job("before", "PreSync")),
        ("ordered/a.yaml", wave("last", "2")),
        ("ordered/b.yaml", wave("first", "-1")),
        ("ordered/c.yaml", wave("middle", "0")),
        ("ordered/after.yaml", job("after", "PostSync")),
    ];
    let files = files.each_ref().map(|(path, text)| (*path, text.as_str()));
    let revision = repository.commit("ordered", &files)?;
    "ordered".clone_into(&mut app.path);
    "main".clone_into(&mut app.revision);
    let mark = stage.lab.spoke(1).audit().mark()?;
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, &revision).await?;
    let ended = |app: &Value| app["status"]["operationState"]["phase"] == "Succeeded";
    let what = "shows that the sync ended";
    let seen = stage.hub.until(&app.at, what, SOON, ended).await?;

    let entries = stage.lab.spoke(1).audit().since(mark)?;
    let names = ["before", "first", "middle", "last", "after"];
    let made: Vec<_> = entries
        .iter()
        .filter(|entry| entry.verb == "create" && entry.code == 201)
        .filter_map(|entry| entry.object.as_ref())
        .filter(|object| object.namespace == "in-order" && names.contains(&object.name.as_str()))
        .filter(|object| ["jobs", "configmaps"].contains(&object.resource.as_str()))
        .map(|object| object.name.as_str())
        .collect();
    ensure!(made == names, "they were made in another order: {made:?}");
    let results = seen["status"]["operationState"]["syncResult"]["resources"].as_array();
    let hooks: Vec<_> = results
        .context("no results")?
        .iter()
        .filter(|result| result["hookPhase"] == "Succeeded")
        .filter_map(|result| result["hookType"].as_str())
        .collect();
    ensure!(
        hooks.len() == 2 && hooks.contains(&"PreSync") && hooks.contains(&"PostSync"),
        "the hub shows these hooks: {hooks:?}"
    );
    stage.clear(&app).await
}

fn job(name: &str, hook: &str) -> String {
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "annotations": {"argocd.argoproj.io/hook": hook}},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "done", "image": DONE}],
        }}},
    })
    .to_string()
}

fn wave(name: &str, wave: &str) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "annotations": {"argocd.argoproj.io/sync-wave": wave}},
    })
    .to_string()
}

const CHART: &str = "apiVersion: v2\nname: greet\nversion: 0.1.0\n";
const CHART_MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-chart\n\
                         data:\n  greeting: {{ .Values.word | quote }}\n";
const MAP: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: word\ndata:\n  greeting: base\n";
const OVERLAY: &str = "resources: [../base]\nnamePrefix: over-\npatches:\n\
                       - patch: '[{\"op\": \"replace\", \"path\": \"/data/greeting\", \"value\": \"overlay\"}]'\n  \
                       target: {kind: ConfigMap}\n";

/// Helm charts, Kustomize overlays, and several sources at once, with their types in the hub's status.
pub(crate) async fn helm_kustomize_and_several_sources_are_rendered(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let repository = stage.lab.git().repository("rendered")?;
    let values = stage.lab.git().repository("rendered-values")?;
    repository.commit(
        "all",
        &[
            ("chart/Chart.yaml", CHART),
            ("chart/values.yaml", "word: default\n"),
            ("chart/templates/map.yaml", CHART_MAP),
            ("base/kustomization.yaml", "resources: [map.yaml]\n"),
            ("base/map.yaml", MAP),
            ("overlay/kustomization.yaml", OVERLAY),
            ("plain/map.yaml", MAP),
        ],
    )?;
    values.commit("values", &[("of/spoke1.yaml", "word: from-values\n")])?;
    let url = repository.url();
    let source = |path: &str| json!({"repoURL": url, "path": path, "targetRevision": "main"});
    let mut chart = source("chart");
    chart["helm"] = json!({"valuesObject": {"word": "from-hub"}});
    let mut overlay = source("overlay");
    overlay["kustomize"] = json!({"nameSuffix": "-here"});
    let mut referring = source("chart");
    referring["helm"] = json!({"valueFiles": ["$values/of/spoke1.yaml"], "releaseName": "valued"});
    let reference = json!({"repoURL": values.url(), "targetRevision": "main", "ref": "values"});

    let helm = rendered(stage, "by-helm", json!({"source": chart})).await?;
    let kustomize = rendered(stage, "by-kustomize", json!({"source": overlay})).await?;
    let several = json!({"sources": [referring, reference, source("plain")]});
    let several = rendered(stage, "by-several", several).await?;
    for (app, name, word) in [
        (&helm, "by-helm-chart", "from-hub"),
        (&kustomize, "over-word-here", "overlay"),
        (&several, "valued-chart", "from-values"),
        (&several, "word", "base"),
    ] {
        deliver::until_healthy(&stage.hub, &app.at, "").await?;
        until_greeting_is(stage, &app.namespace, name, word).await?;
    }
    let types = [
        stage.hub.read(&helm.at).await?["status"]["sourceType"].clone(),
        stage.hub.read(&kustomize.at).await?["status"]["sourceType"].clone(),
        stage.hub.read(&several.at).await?["status"]["sourceTypes"].clone(),
    ];
    // Argo CD takes a source that is only referred to for a plain folder.
    let wanted = [
        json!("Helm"),
        json!("Kustomize"),
        json!(["Helm", "", "Directory"]),
    ];
    ensure!(types == wanted, "the hub shows what they are: {types:?}");

    let changed = json!({"spec": {"source": {"helm": {"valuesObject": {"word": "changed"}}}}});
    stage.hub.merge(&helm.at, changed).await?;
    until_greeting_is(stage, "by-helm", "by-helm-chart", "changed").await?;
    for app in [&helm, &kustomize, &several] {
        stage.clear(app).await?;
    }
    Ok(())
}

/// An Application with these sources instead of the greeter's.
async fn rendered(stage: &Stage, name: &str, sources: Value) -> Result<Application> {
    let app = stage.greeter(name, 1).await?;
    let mut body = app.body();
    if let Some(spec) = body["spec"].as_object_mut() {
        spec.remove("source");
        spec.extend(sources.as_object().cloned().unwrap_or_default());
    }
    stage.hub.apply(&app.at, body).await?;
    Ok(app)
}

async fn until_greeting_is(stage: &Stage, namespace: &str, name: &str, word: &str) -> Result<()> {
    let is_deployed = |map: &Value| map["data"]["greeting"] == word;
    let at = At::config_map(namespace, name);
    let what = format!("says {word}");
    stage
        .spoke(1)
        .until(&at, &what, lab::wait::BOUND, is_deployed)
        .await
        .map(drop)
}

/// Annotations of Image Updater and of the notifications controllers on both sides are kept on their side.
pub(crate) async fn annotations_of_other_controllers_survive(stage: &Stage) -> Result<()> {
    const IMAGES: &str = "argocd-image-updater.argoproj.io/image-list";
    const SUBSCRIBED: &str = "notifications.argoproj.io/subscribe.on-deployed.slack";
    const NOTIFIED: &str = "notified.notifications.argoproj.io";
    stage.enrolled(1).await?;
    let mut app = stage.greeter("annotated", 1).await?;
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    let notes = |notes: Value| json!({"metadata": {"annotations": notes}});
    let on_hub = json!({IMAGES: "greeter=lab.local/greeter", SUBSCRIBED: "all", NOTIFIED: "hub"});
    stage.hub.merge(&app.at, notes(on_hub)).await?;
    let replica = Stage::replica("annotated");
    let on_spoke = json!({NOTIFIED: "spoke", "other": "here"});
    stage.spoke(1).merge(&replica, notes(on_spoke)).await?;

    let repository = stage.lab.git().repository("annotated")?;
    let next = commit(&repository, "good-day", "v2")?;
    let edit = json!({"spec": {"source": {"targetRevision": "v2"}}});
    "v2".clone_into(&mut app.revision);
    stage.hub.merge(&app.at, edit).await?;
    let hub = deliver::until_healthy(&stage.hub, &app.at, &next).await?;
    let spoke = stage.spoke(1).read(&replica).await?;
    let of = |app: &Value, names: &[&str]| -> Vec<Value> {
        let notes = &app["metadata"]["annotations"];
        names.iter().map(|name| notes[*name].clone()).collect()
    };
    let names = [IMAGES, SUBSCRIBED, NOTIFIED, "other"];
    let seen = (of(&hub, &names), of(&spoke, &names));
    let images = json!("greeter=lab.local/greeter");
    let wanted = (
        vec![images.clone(), json!("all"), json!("hub"), Value::Null],
        vec![images, json!("all"), json!("spoke"), json!("here")],
    );
    ensure!(seen == wanted, "hub and spoke have {seen:?}");
    stage.clear(&app).await
}
