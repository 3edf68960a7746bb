//! Two tenants whose Applications run on the same cluster.

use anyhow::{Context as _, Result, ensure};
use lab::{
    audit::Object,
    steps::{
        At, Objects,
        deliver::{self, Application},
        enrol::{self, ARGOCD},
        workload,
    },
    wait,
};
use serde_json::{Value, json};

use super::{
    ANN, Accounts, BOB, about, body, clear, deploy, greeter, no_user, nothing_was_asked, patch,
    project, until_blocked, user,
};
use crate::{
    console::line::Console,
    stage::{SOON, Stage},
    trees,
};

/// A tenant reaches no object of another's on the cluster that both use: not with requests about its own Application, not
/// with manifests that name such an object, and not with an Application of the other's name.
pub(crate) async fn tenants_of_one_cluster_share_no_object(stage: &Stage) -> Result<()> {
    let accounts = Accounts::open(stage).await?;
    enrol::with_variable(&stage.hub, "spoke1", "UI_ACCESS", "terminal").await?;
    enrol::until_available(&stage.hub, "spoke1").await?;
    project(stage, ANN, &["spoke1"], ("spoke1", "ann-shares")).await?;
    project(stage, BOB, &[], ("spoke1", "bob-shares")).await?;
    let ann = user(stage, ANN, &["spoke1"]).await?;
    let anns = greeter(stage, ANN, At::application("spoke1", "ann-shares"), 1).await?;
    let bobs = greeter(stage, BOB, At::application(ARGOCD, "bob-shares"), 1).await?;
    deploy(stage, &stage.hub, &bobs).await?;
    deploy(stage, &ann, &anns).await?;

    let mark = stage.lab.spoke(1).audit().mark()?;
    // An empty namespace: of all namespaces.
    let is_of_bobs = |it: &Object| ["", "bob-shares"].contains(&it.namespace.as_str());
    own_application_names_no_other_object(stage, &accounts.ann, &bobs).await?;
    nothing_was_asked(stage, 1, mark, is_of_bobs)?;
    let grab = manifests_reach_no_other_namespace(stage, &ann, &accounts.ann, &anns).await?;
    namesakes_show_nothing(stage, &ann, &anns).await?;
    nothing_was_asked(stage, 1, mark, is_of_bobs)?;
    stage.until_greets(1, "bob-shares", "hello").await?;
    // The same request of its owner, to show that it works.
    let own = format!(
        "/api/v1/applications/bob-shares/resource?{}",
        about(ARGOCD, "bob-shares", "ConfigMap")
    );
    let map = accounts.bob.gets(stage, &own).await?;
    ensure!(
        map["manifest"]
            .as_str()
            .is_some_and(|it| it.contains("hello")),
        "{map}"
    );

    stage.hub.delete(&grab).await?;
    stage.hub.until_gone(&grab, wait::BOUND).await?;
    accounts.close(stage).await?;
    clear(stage, &[(&anns, 1), (&bobs, 1)]).await?;
    no_user(stage, ANN, &["spoke1"]).await?;
    enrol::without_variables(&stage.hub, "spoke1").await?;
    enrol::until_available(&stage.hub, "spoke1").await.map(drop)
}

/// Requests about the own Application that name an object of another's.
async fn own_application_names_no_other_object(
    stage: &Stage,
    console: &Console,
    bobs: &Application,
) -> Result<()> {
    let (pod, uid) = super::pod(stage, bobs, 1).await?;
    let here = "/api/v1/applications/ann-shares";
    let (all, name) = ("appNamespace=spoke1", workload::NAME);
    let map = about("spoke1", "bob-shares", "ConfigMap");
    let deployment = about("spoke1", "bob-shares", "Deployment");
    let merge = "patchType=application/merge-patch%2Bjson";
    let of_pod = format!("{all}&resourceNamespace=bob-shares&resourceName={pod}&resourceUID={uid}");
    let shell = format!(
        "pod={pod}&container={name}&appName=ann-shares&appNamespace=spoke1&projectName=ann&namespace=bob-shares"
    );
    let log = format!("{all}&namespace=bob-shares&podName={pod}&container={name}");
    let (nothing, restart) = (String::new, json!("restart").to_string());
    for (method, target, body) in [
        ("GET", format!("resource?{map}"), nothing()),
        ("GET", format!("resource/actions?{deployment}"), nothing()),
        ("GET", format!("events?{of_pod}"), nothing()),
        ("POST", format!("resource?{map}&{merge}"), patch()),
        ("POST", format!("resource/actions?{deployment}"), restart),
        ("DELETE", format!("resource?{map}"), nothing()),
    ] {
        let target = format!("{here}/{target}");
        let (status, text) = console.asks(stage, method, &target, &body).await?;
        ensure!(
            status == 400 && text.contains("not found as part of"),
            "{method} {target}: {status} {text}"
        );
    }
    let shell = format!("/terminal?{shell}");
    let (status, text) = console.asks(stage, "GET", &shell, "").await?;
    let is_refused = status == 400 && text.contains("doesn't belong");
    ensure!(is_refused, "{shell}: {status} {text}");
    let log = format!("{here}/logs?{log}");
    let (_, text) = console.asks(stage, "GET", &log, "").await?;
    ensure!(text.is_empty(), "a log: {text}");
    Ok(())
}

/// Argo CD on the cluster refuses a manifest beyond the tenant's project, which came with the Application, and the object
/// that it names does not become one of this Application.
async fn manifests_reach_no_other_namespace(
    stage: &Stage,
    ann: &Objects,
    console: &Console,
    anns: &Application,
) -> Result<At> {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": workload::NAME, "namespace": "bob-shares"},
        "data": {"greeting": "grabbed"},
    });
    let repository = stage.lab.git().repository("ann-shares")?;
    repository.commit("grab", &[("grab/map.yaml", &map.to_string())])?;
    let mut grab = anns.clone();
    grab.at = At::application("spoke1", "grab");
    "grab".clone_into(&mut grab.path);
    "main".clone_into(&mut grab.revision);
    grab.automated = false;
    ann.apply(&grab.at, body(&grab)).await?;
    deliver::ask_for_sync(ann, &grab.at, "main").await?;
    let refused = |app: &Value| {
        let sync = &app["status"]["operationState"];
        let results = sync["syncResult"]["resources"].to_string();
        sync["phase"] == "Failed"
            && results.contains("namespace bob-shares is not permitted in project")
    };
    let what = "says that its project does not permit it";
    stage.hub.until(&grab.at, what, 2 * SOON, refused).await?;
    let map = about("spoke1", "bob-shares", "ConfigMap");
    let map = format!("/api/v1/applications/grab/resource?{map}");
    let (status, text) = console.asks(stage, "GET", &map, "").await?;
    ensure!(
        status == 400 && text.contains("not found as part of"),
        "{status} {text}"
    );
    Ok(grab.at)
}

/// An Application of a name that another tenant's or the cluster's own has there is blocked, and Argo CD's server finds
/// nothing under it.
async fn namesakes_show_nothing(stage: &Stage, ann: &Objects, anns: &Application) -> Result<()> {
    let spoke = stage.spoke(1);
    let own = At::application(ARGOCD, "cluster-shares");
    let mut clusters = greeter(stage, "default", own, 1).await?;
    "in-cluster".clone_into(&mut clusters.cluster);
    let everything = json!({"spec": {
        "sourceRepos": ["*"],
        "destinations": [{"server": "*", "namespace": "*"}],
    }});
    let default = At::project(ARGOCD, "default");
    spoke.apply(&default, everything).await?;
    spoke.apply(&clusters.at, body(&clusters)).await?;
    deliver::until_healthy(spoke, &clusters.at, "").await?;

    let mut client = trees::client(stage, &trees::password(stage).await?).await?;
    let key = |instance: &str| format!("app|resources-tree|{instance}|1.8.3.gz");
    for (name, kind, words) in [
        ("bob-shares", "ArgoCDAgentNameConflict", "bob-shares"),
        (
            "cluster-shares",
            "ArgoCDAgentNotAdmitted",
            "spec.destinations",
        ),
    ] {
        let at = At::application("spoke1", name);
        let mut namesake = body(anns);
        namesake["metadata"] = json!({});
        namesake["spec"]["destination"]["namespace"] = name.into();
        ann.apply(&at, namesake).await?;
        until_blocked(stage, &at, kind, words).await?;
        let none = client.value(&key(&format!("spoke1_{name}"))).await?;
        ensure!(none.is_none(), "the tree of another Application, {name}");
        stage.hub.delete(&at).await?;
    }
    let theirs = client.value(&key("bob-shares")).await?;
    theirs.context("the tree of its owner")?;
    deliver::until_healthy(spoke, &clusters.at, "").await?;
    spoke.delete(&clusters.at).await?;
    spoke.until_gone(&clusters.at, wait::BOUND).await?;
    spoke.delete(&At::namespace("cluster-shares")).await
}
