//! Routing conflicts, objects that are left alone, disputes about a spec, commands, and mass deletions.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lab::{
    product,
    steps::{
        At,
        deliver::{self, Application, SOURCE_UID},
        enrol::ARGOCD,
        workload,
    },
    wait::BOUND,
};
use lab_kubelet::Image;
use serde_json::{Value, json};

use crate::{
    programs::Program,
    stage::{SOON, Stage},
};

/// The condition is set after half a minute of a dispute, and removed a minute after the last edit.
const DISPUTE: Duration = Duration::from_mins(4);

fn reports(app: &Value, kind: &str, words: &str) -> bool {
    let conditions = app["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|it| it["type"] == kind && it["message"].as_str().is_some_and(|it| it.contains(words)))
}

/// An Application without automated sync, as soon as the spoke's Argo CD has compared it.
async fn compared(stage: &Stage, name: &str) -> Result<Application> {
    let mut app = stage.greeter(name, 1).await?;
    app.automated = false;
    app.apply(&stage.hub).await?;
    let is_out_of_sync = |app: &Value| app["status"]["sync"]["status"] == "OutOfSync";
    stage
        .hub
        .until(&app.at, "is OutOfSync", BOUND, is_out_of_sync)
        .await?;
    Ok(app)
}

/// An Application with the hub as its destination is not delivered and not changed.
pub(crate) async fn an_application_of_the_hubs_own_stays_there(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let mut own = stage.greeter("hub-local", 1).await?;
    own.at = At::application(ARGOCD, "hub-local");
    let made = own.apply(&stage.hub).await?;
    // A later delivery shows that the principal has seen this one.
    let app = stage.greeter("beside-hub-local", 1).await?;
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    let now = stage.hub.read(&own.at).await?;
    ensure!(now == made, "it was touched: {now:#}");
    let replica = stage.spoke(1).get(&Stage::replica("hub-local")).await?;
    ensure!(replica.is_none(), "it was delivered");
    stage
        .hub
        .merge(&own.at, json!({"metadata": {"finalizers": null}}))
        .await?;
    stage.clear(&own).await?;
    stage.clear(&app).await
}

/// A server URL routes to its cluster as its name does. Of two Applications with one name on a spoke, the older keeps it
/// until it is deleted.
pub(crate) async fn the_older_of_two_namesakes_keeps_the_name(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let first = stage.greeter("one-name", 1).await?;
    first.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &first.at, "").await?;

    // Creation times are whole seconds, and the delivery may take less.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut second = first.clone();
    second.at = At::application(ARGOCD, "one-name");
    let mut body = second.body();
    body["spec"]["destination"] = json!({"server": server(stage).await?, "namespace": "one-name"});
    stage.hub.apply(&second.at, body.clone()).await?;
    let is_reported = |app: &Value| reports(app, "ArgoCDAgentNameConflict", "one-name");
    stage
        .hub
        .until(&second.at, "says that the name is taken", SOON, is_reported)
        .await?;
    let uid = stage.hub.read(&first.at).await?["metadata"]["uid"].clone();
    let kept = stage.spoke(1).read(&Stage::replica("one-name")).await?;
    ensure!(
        kept["metadata"]["annotations"][SOURCE_UID] == uid,
        "the older lost it"
    );

    stage.hub.delete(&first.at).await?;
    stage.hub.until_gone(&first.at, BOUND).await?;
    let seen = deliver::until_healthy(&stage.hub, &second.at, "").await?;
    ensure!(
        !is_reported(&seen),
        "the conflict is still reported: {}",
        seen["status"]["conditions"]
    );
    stage.clear(&second).await
}

/// The server URL in the cluster Secret of spoke1.
async fn server(stage: &Stage) -> Result<String> {
    let label = "argocd.argoproj.io/secret-type=cluster";
    let secrets = stage.hub.list(&At::secret(ARGOCD, ""), label).await?;
    for secret in secrets {
        if crate::stage::text(&secret, "name")? == "spoke1" {
            return crate::stage::text(&secret, "server");
        }
    }
    anyhow::bail!("no cluster Secret of spoke1")
}

/// An Application whose destination contradicts its namespace is not delivered; a condition reports it until it is corrected.
pub(crate) async fn contradicting_destination_is_reported_until_corrected(
    stage: &Stage,
) -> Result<()> {
    stage.enrolled(1).await?;
    let mut app = stage.greeter("contradiction", 1).await?;
    "spoke2".clone_into(&mut app.cluster);
    app.apply(&stage.hub).await?;
    let is_reported = |app: &Value| reports(app, "ArgoCDAgentConflict", "spoke2");
    stage
        .hub
        .until(&app.at, "says the contradiction", SOON, is_reported)
        .await?;
    let replica = stage.spoke(1).get(&Stage::replica("contradiction")).await?;
    ensure!(replica.is_none(), "it was delivered all the same");
    "in-cluster".clone_into(&mut app.cluster);
    app.apply(&stage.hub).await?;
    let seen = deliver::until_healthy(&stage.hub, &app.at, "").await?;
    ensure!(!is_reported(&seen), "it is still reported");
    stage.clear(&app).await
}

/// The image of a hook that takes its time.
const SLEEPER: &str = "lab.local/sleeper:1";

/// A sync that takes too long is ended from the hub, once, and the hub shows how it ended.
pub(crate) async fn a_running_sync_is_terminated_from_the_hub(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let mut sleeper = Image::default().user(65534);
    sleeper.entrypoint = ["/bin/sleep", "3600"].map(str::to_owned).to_vec();
    stage.lab.images().insert(SLEEPER, sleeper);
    let mut app = stage.greeter("too-long", 1).await?;
    let repository = stage.lab.git().repository("too-long")?;
    let hook = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "sleeper", "annotations": {"argocd.argoproj.io/hook": "PreSync"}},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "sleeper", "image": SLEEPER}],
        }}},
    });
    repository.commit("sleeps", &[("hook/job.yaml", &hook.to_string())])?;
    "hook".clone_into(&mut app.path);
    "main".clone_into(&mut app.revision);
    app.automated = false;
    app.apply(&stage.hub).await?;
    let namespace = At::namespace("too-long");
    stage.spoke(1).apply(&namespace, json!({})).await?;
    deliver::ask_for_sync(&stage.hub, &app.at, "main").await?;
    let phase = |app: &Value| app["status"]["operationState"]["phase"].clone();
    let runs = |app: &Value| phase(app) == "Running";
    stage
        .hub
        .until(&app.at, "shows that the sync runs", BOUND, runs)
        .await?;
    // As Argo CD's UI and CLI do it.
    let end = json!({"status": {"operationState": {"phase": "Terminating"}}});
    stage.hub.merge(&app.at, end).await?;
    let ended = |app: &Value| {
        app["operation"].is_null() && ["Failed", "Error"].iter().any(|it| phase(app) == *it)
    };
    stage
        .hub
        .until(&app.at, "shows that the sync was ended", BOUND, ended)
        .await?;
    // Argo CD 3.2 leaves its finalizer on a hook that was ended right after its begin, and then waits for it when the
    // Application goes. That is no business of this test.
    let hook = At::of("batch/v1", ("Job", "jobs"), Some("too-long"), "sleeper");
    if stage.spoke(1).get(&hook).await?.is_some() {
        let free = json!({"metadata": {"finalizers": null}});
        let _gone_meanwhile = stage.spoke(1).merge(&hook, free).await;
    }
    stage.clear(&app).await?;
    stage.spoke(1).delete(&namespace).await
}

/// The agent ignores a replica with the label, and reconciles it again when the label is removed.
pub(crate) async fn ignore_sync_label_is_honoured(stage: &Stage) -> Result<()> {
    const LABEL: &str = "argocd-agent.argoproj-labs.io/ignore-sync";
    stage.enrolled(1).await?;
    let mut app = compared(stage, "left-alone").await?;
    let mut other = compared(stage, "beside-left-alone").await?;
    let (spoke, at) = (stage.spoke(1), Stage::replica("left-alone"));
    let edit = json!({
        "metadata": {"labels": {LABEL: "true"}},
        "spec": {"source": {"path": "somewhere-else"}},
    });
    spoke.merge(&at, edit).await?;
    // The agent watches both: when it reverts the later edit, it has seen the label.
    let beside = Stage::replica("beside-left-alone");
    let later = json!({"spec": {"source": {"path": "elsewhere"}}});
    spoke.merge(&beside, later).await?;
    let is_at = |app: &Value, revision: &str| {
        let source = &app["spec"]["source"];
        source["path"] == workload::PATH && source["targetRevision"] == revision
    };
    spoke
        .until(&beside, "is reverted", SOON, |app| is_at(app, "v1"))
        .await?;
    // The principal delivers both changes of the hub in their order.
    for app in [&mut app, &mut other] {
        "v2".clone_into(&mut app.revision);
        app.apply(&stage.hub).await?;
    }
    spoke
        .until(&beside, "is delivered", BOUND, |app| is_at(app, "v2"))
        .await?;
    let alone = spoke.read(&at).await?;
    let source = &alone["spec"]["source"];
    ensure!(
        source["path"] == "somewhere-else" && source["targetRevision"] == "v1",
        "it was not left alone: {source}"
    );
    spoke
        .merge(&at, json!({"metadata": {"labels": {LABEL: null}}}))
        .await?;
    spoke
        .until(&at, "is as the hub wants it", SOON, |app| is_at(app, "v2"))
        .await?;
    stage.clear(&app).await?;
    stage.clear(&other).await
}

/// The hub names another field manager that keeps changing the spec of a replica, until it stops.
pub(crate) async fn a_contested_spec_is_reported_until_the_dispute_ends(
    stage: &Stage,
) -> Result<()> {
    stage.enrolled(1).await?;
    let app = compared(stage, "dispute").await?;
    let (spoke, at) = (stage.spoke(1), Stage::replica("dispute"));
    let is_reported = |app: &Value| reports(app, "ArgoCDAgentSpecContested", "a-user");
    let quarrel = async {
        loop {
            let edit = json!({"spec": {"source": {"path": "mine"}}});
            spoke.merge(&at, edit).await?;
            let theirs = |app: &Value| app["spec"]["source"]["path"] == workload::PATH;
            spoke
                .until(&at, "is as the hub wants it", BOUND, theirs)
                .await?;
        }
    };
    let reported = stage
        .hub
        .until(&app.at, "says who disputes it", DISPUTE, is_reported);
    tokio::select! {
        result = reported => drop(result?),
        over = quarrel => {
            let over: Result<std::convert::Infallible> = over;
            over.map(|never| match never {})?;
        }
    }
    let over = |app: &Value| !is_reported(app);
    stage
        .hub
        .until(&app.at, "says no more of it", DISPUTE, over)
        .await?;
    let last = spoke.read(&at).await?;
    ensure!(
        last["spec"]["source"]["path"] == workload::PATH,
        "the hub's spec did not win"
    );
    stage.clear(&app).await
}

/// An Application that was on the spoke first becomes the hub's in place: nothing that runs is replaced.
pub(crate) async fn an_application_that_was_there_first_is_adopted(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let app = stage.greeter("there-first", 1).await?;
    let (spoke, at) = (stage.spoke(1), Stage::replica("there-first"));
    let mut own = app.clone();
    own.at = at.clone();
    "default".clone_into(&mut own.project);
    spoke
        .apply(&At::project(ARGOCD, "default"), open_project())
        .await?;
    own.apply(spoke).await?;
    deliver::until_healthy(spoke, &at, "").await?;
    let map = At::config_map("there-first", workload::NAME);
    let before = (uid(stage, &at).await?, uid(stage, &map).await?);
    let made = app.apply(&stage.hub).await?;
    let adopted = |app: &Value| {
        app["metadata"]["annotations"][SOURCE_UID] == made["metadata"]["uid"]
            && app["spec"]["project"] == "there-first"
    };
    spoke.until(&at, "is the hub's", SOON, adopted).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    let after = (uid(stage, &at).await?, uid(stage, &map).await?);
    ensure!(
        before == after,
        "something was replaced: {before:?}, now {after:?}"
    );
    stage.clear(&app).await
}

fn open_project() -> Value {
    json!({"spec": {
        "sourceRepos": ["*"],
        "destinations": [{"server": "*", "namespace": "*"}],
        "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
    }})
}

async fn uid(stage: &Stage, at: &At) -> Result<Value> {
    Ok(stage.spoke(1).read(at).await?["metadata"]["uid"].clone())
}

/// More than ten: fewer are deleted without a confirmation.
const MANY: usize = 12;

/// Most of the hub's Applications are deleted while the hub program is down. No replica is deleted before a confirmation.
pub(crate) async fn a_mass_delete_waits_for_a_person(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let mut app = stage.greeter("many", 1).await?;
    app.automated = false;
    let apps: Vec<Application> = (0..MANY)
        .map(|number| Application {
            at: At::application("spoke1", &format!("many-{number}")),
            ..app.clone()
        })
        .collect();
    for app in &apps {
        let mut body = app.body();
        body["metadata"] = json!({});
        stage.hub.apply(&app.at, body).await?;
    }
    for app in &apps {
        let there = |app: &Value| !app.is_null();
        let replica = Stage::replica(app.at.name());
        stage
            .spoke(1)
            .until(&replica, "is there", BOUND, there)
            .await?;
    }
    lose(stage, &apps).await?;

    let addon = At::addon("spoke1");
    let is_blocked = |addon: &Value| blocked_deletion_digest(addon).is_some();
    let seen = stage
        .hub
        .until(&addon, "reports the blocked deletion", BOUND, is_blocked)
        .await?;
    for app in &apps {
        stage.spoke(1).read(&Stage::replica(app.at.name())).await?;
    }
    let digest = blocked_deletion_digest(&seen).context("no digest")?;
    stage.hub.merge(&addon, confirmed(&json!(digest))).await?;
    for app in &apps {
        stage
            .spoke(1)
            .until_gone(&Stage::replica(app.at.name()), BOUND)
            .await?;
    }
    let calm = |addon: &Value| blocked_deletion_digest(addon).is_none();
    stage.hub.until(&addon, "is calm again", SOON, calm).await?;
    stage.hub.merge(&addon, confirmed(&Value::Null)).await?;
    stage.hub.delete(&At::project(ARGOCD, "many")).await
}

/// They go from the hub while its program is away.
async fn lose(stage: &Stage, apps: &[Application]) -> Result<()> {
    let manager = At::deployment(product::NAMESPACE, product::MANAGER);
    let replicas = |count: u8| json!({"spec": {"replicas": count}});
    stage.hub.merge(&manager, replicas(0)).await?;
    Program::Manager.until_none(stage).await?;
    for app in apps {
        stage.hub.delete(&app.at).await?;
    }
    stage.hub.merge(&manager, replicas(1)).await.map(drop)
}

/// The annotation that confirms the list with this digest; null removes it.
pub(crate) fn confirmed(digest: &Value) -> Value {
    const CONFIRM: &str = "argocd-agent.open-cluster-management.io/confirm-delete";
    json!({"metadata": {"annotations": {CONFIRM: digest}}})
}

/// The digest that the message of `MassDeleteHeld` asks to confirm.
pub(crate) fn blocked_deletion_digest(addon: &Value) -> Option<String> {
    let conditions = addon["status"]["conditions"].as_array()?;
    let blocked = conditions.iter().find(|it| {
        it["type"] == "Degraded" && it["status"] == "True" && it["reason"] == "MassDeleteHeld"
    })?;
    let (_, after) = blocked["message"].as_str()?.split_once("confirm-delete=")?;
    Some(after.split_whitespace().next()?.to_owned())
}
