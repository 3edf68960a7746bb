//! Rare cases that do harm when one end does not expect them.

use anyhow::{Result, ensure};
use lab::{
    peers::{Make, Pair},
    steps::{At, deliver::CASCADE},
};
use serde_json::{Value, json};

use super::{PROJECT, Replicated, SOON, SOURCE_UID, allow, body};

const REFRESH: &str = "argocd.argoproj.io/refresh";
const HYDRATE: &str = "argocd.argoproj.io/hydrate";

/// Another Application is delivered and changed, and its status comes back: by then an end that would restore the first
/// one by mistake has done so.
async fn another_is_delivered(pair: &Pair) -> Result<()> {
    let other = Replicated::new(pair, "another");
    other.deliver(pair, &[]).await?;
    other.set_status(pair, "Synced", "Healthy").await?;
    other.until_status(pair, "Synced", "Healthy").await?;
    other.set_revision(pair, "v2").await?;
    other.until_revision(pair, "v2").await.map(drop)
}

/// As `argocd app delete --cascade=false` does it: the finalizers go, and at once the Application.
pub(crate) async fn a_deletion_without_cascade_spares_the_workload(pair: &mut Pair) -> Result<()> {
    let app = Replicated::new(pair, "app");
    app.deliver(pair, &[CASCADE]).await?;
    pair.hub
        .merge(&app.hub, json!({"metadata": {"finalizers": null}}))
        .await?;
    pair.hub.delete(&app.hub).await?;
    // With the finalizer it would wait for a controller to take the workload away.
    pair.spoke.until_gone(&app.spoke, SOON).await
}

pub(crate) async fn a_hydration_is_asked_for_once(pair: &mut Pair) -> Result<()> {
    let app = Replicated::new(pair, "app");
    app.deliver(pair, &[]).await?;
    let asked = json!({"metadata": {"annotations": {REFRESH: "normal", HYDRATE: "normal"}}});
    pair.hub.merge(&app.hub, asked).await?;
    let is_asked = |app: &Value| app["metadata"]["annotations"][HYDRATE] == "normal";
    pair.spoke
        .until(&app.spoke, "is asked to hydrate", SOON, is_asked)
        .await?;
    let done = json!({"metadata": {"annotations": {REFRESH: null, HYDRATE: null}}});
    pair.spoke.merge(&app.spoke, done).await?;
    app.set_status(pair, "Synced", "Healthy").await?;
    let is_done = |app: &Value| {
        let annotations = &app["metadata"]["annotations"];
        annotations[REFRESH].is_null() && annotations[HYDRATE].is_null()
    };
    // A Go principal never takes it away.
    let is_shown = |app: &Value| {
        pair.pairing.principal == Make::Go && app["metadata"]["annotations"][REFRESH].is_null()
            || is_done(app)
    };
    pair.hub
        .until(&app.hub, "shows that it was done", SOON, is_shown)
        .await?;
    app.set_revision(pair, "v2").await?;
    app.until_revision(pair, "v2").await?;
    another_is_delivered(pair).await?;
    let replica = pair.spoke.read(&app.spoke).await?;
    ensure!(is_done(&replica), "{replica:#}");
    Ok(())
}

pub(crate) async fn a_sync_that_an_application_is_made_with_runs_once(
    pair: &mut Pair,
) -> Result<()> {
    allow(pair, PROJECT).await?;
    let app = Replicated::new(pair, "app");
    let operation = json!({"sync": {"revision": "abc"}, "initiatedBy": {"username": "admin"}});
    let mut object = body(&pair.names.agent, &[]);
    object["operation"] = operation.clone();
    pair.hub.apply(&app.hub, object).await?;
    let asked = |app: &Value| app["operation"]["sync"]["revision"] == "abc";
    pair.spoke
        .until(&app.spoke, "is asked to sync", SOON, asked)
        .await?;
    let ended = json!({
        "operation": null,
        "status": {"operationState": {
            "operation": operation, "phase": "Succeeded", "message": "done",
            "startedAt": "2026-11-23T03:00:00Z", "finishedAt": "2026-11-23T03:00:05Z",
            "syncResult": {"revision": "abc"},
        }},
    });
    pair.spoke.merge(&app.spoke, ended).await?;
    let shown = |app: &Value| {
        app["status"]["operationState"]["message"] == "done" && app["operation"].is_null()
    };
    pair.hub
        .until(&app.hub, "shows the end of it", SOON, shown)
        .await?;
    another_is_delivered(pair).await?;
    let replica = pair.spoke.read(&app.spoke).await?;
    ensure!(replica["operation"].is_null(), "{replica:#}");
    Ok(())
}

/// Created and deleted on the hub while its agent is offline.
pub(crate) async fn an_application_made_and_deleted_offline_never_runs(
    pair: &mut Pair,
) -> Result<()> {
    let other = Replicated::new(pair, "other");
    other.deliver(pair, &[]).await?;
    pair.agent.kill().await;
    let app = Replicated::new(pair, "app");
    pair.hub
        .apply(&app.hub, body(&pair.names.agent, &[CASCADE]))
        .await?;
    pair.hub.delete(&app.hub).await?;
    pair.start_agent().await?;
    other.set_revision(pair, "v2").await?;
    other.until_revision(pair, "v2").await?;
    pair.hub.until_gone(&app.hub, SOON).await?;
    another_is_delivered(pair).await?;
    let replica = pair.spoke.get(&app.spoke).await?;
    ensure!(replica.is_none(), "{replica:#?}");
    Ok(())
}

/// One is deleted with its workload while the agent is offline, another is deleted and recreated under its name.
pub(crate) async fn offline_deletion_and_recreation_converge(pair: &mut Pair) -> Result<()> {
    let (going, recreated) = (
        Replicated::new(pair, "going"),
        Replicated::new(pair, "recreated"),
    );
    going.deliver(pair, &[CASCADE]).await?;
    recreated.deliver(pair, &[]).await?;
    pair.agent.kill().await;
    pair.hub.delete(&going.hub).await?;
    pair.hub.delete(&recreated.hub).await?;
    pair.hub.until_gone(&recreated.hub, SOON).await?;
    let made = pair
        .hub
        .apply(&recreated.hub, body(&pair.names.agent, &[]))
        .await?;
    pair.start_agent().await?;
    let is_going = |app: &Value| !app["metadata"]["deletionTimestamp"].is_null();
    pair.spoke
        .until(&going.spoke, "is being deleted", SOON, is_going)
        .await?;
    ensure!(is_going(&pair.hub.read(&going.hub).await?));
    pair.spoke
        .merge(&going.spoke, json!({"metadata": {"finalizers": null}}))
        .await?;
    pair.hub.until_gone(&going.hub, SOON).await?;
    let is_new = |app: &Value| {
        app["metadata"]["annotations"][SOURCE_UID] == made["metadata"]["uid"]
            && app["metadata"]["deletionTimestamp"].is_null()
    };
    pair.spoke
        .until(&recreated.spoke, "is of the new one", SOON, is_new)
        .await?;
    another_is_delivered(pair).await?;
    ensure!(is_new(&pair.spoke.read(&recreated.spoke).await?));
    recreated.set_status(pair, "Synced", "Healthy").await?;
    recreated
        .until_status(pair, "Synced", "Healthy")
        .await
        .map(drop)
}

/// As large as the API server accepts, and not plain ASCII.
pub(crate) async fn a_large_application_with_an_odd_name_arrives_and_comes_back(
    pair: &mut Pair,
) -> Result<()> {
    allow(pair, PROJECT).await?;
    let name = format!("a.{}", "x-".repeat(90) + "9");
    let app = Replicated::new(pair, &name);
    let values = "name: Zoë \u{1f680} <&>\u{2028}\\ \"q\"\n".repeat(14_000);
    let mut object = body(&pair.names.agent, &[]);
    object["spec"]["source"]["helm"] = json!({"values": values});
    object["metadata"]["annotations"] = json!({"odd.example/a": "", "b": "ä=\n,{}\"", "c.d": "e"});
    object["metadata"]["labels"] = json!({"empty": "", "team": "a"});
    pair.hub.apply(&app.hub, object).await?;
    let replica = app.until_revision(pair, "v1").await?;
    ensure!(replica["spec"]["source"]["helm"]["values"] == values);
    ensure!(replica["metadata"]["labels"]["empty"] == "");
    ensure!(replica["metadata"]["annotations"]["b"] == "ä=\n,{}\"");
    let resources: Vec<Value> = (0..4000)
        .map(|n| {
            json!({"kind": "ConfigMap", "version": "v1", "namespace": "guestbook", "name": format!("map-{n}-{}", "y".repeat(60)),
                   "status": "Synced"})
        })
        .collect();
    let status = json!({"status": {"resources": resources, "sync": {"status": "Synced"}, "health": {"status": "Healthy"}}});
    pair.spoke.merge(&app.spoke, status).await?;
    let shown = app.until_status(pair, "Synced", "Healthy").await?;
    let count = shown["status"]["resources"].as_array().map(Vec::len);
    ensure!(count == Some(4000), "{count:?}");
    app.set_revision(pair, "v2").await?;
    app.until_revision(pair, "v2").await.map(drop)
}

/// A hub's own owner and finalizer mean nothing on a spoke.
pub(crate) async fn hub_finalizers_do_not_reach_the_replica(pair: &mut Pair) -> Result<()> {
    allow(pair, PROJECT).await?;
    let app = Replicated::new(pair, "app");
    // The owner exists: the garbage collector deletes what has none.
    let set = json!({"spec": {"generators": [], "template": {
        "metadata": {}, "spec": {"project": PROJECT, "destination": {}},
    }}});
    let set = pair
        .hub
        .apply(&At::application_set(&pair.names.agent, "set"), set)
        .await?;
    let mut object = body(&pair.names.agent, &[CASCADE, "hub.example/archive"]);
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "name": "set",
        "uid": set["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
    }]);
    pair.hub.apply(&app.hub, object).await?;
    let replica = app.until_revision(pair, "v1").await?;
    ensure!(
        replica["metadata"]["ownerReferences"].is_null(),
        "{replica:#}"
    );
    pair.hub.delete(&app.hub).await?;
    let is_going = |app: &Value| !app["metadata"]["deletionTimestamp"].is_null();
    let replica = pair
        .spoke
        .until(&app.spoke, "is being deleted", SOON, is_going)
        .await?;
    let finalizers = replica["metadata"]["finalizers"].to_string();
    ensure!(finalizers.contains(CASCADE), "{finalizers}");
    // As the application controller does when the workload is gone. The garbage collector may remove its own at the same time.
    let none = json!({"metadata": {"finalizers": null}});
    pair.spoke.merge(&app.spoke, none).await?;
    pair.spoke.until_gone(&app.spoke, SOON).await?;
    // A Go principal takes away every finalizer.
    if pair.pairing.principal == Make::Ours {
        let archived = json!(["hub.example/archive"]);
        let released = |app: &Value| app["metadata"]["finalizers"] == archived;
        pair.hub
            .until(&app.hub, "waits for the hub's own only", SOON, released)
            .await?;
        another_is_delivered(pair).await?;
        let again = pair.spoke.get(&app.spoke).await?;
        ensure!(again.is_none(), "it was made again: {again:#?}");
        pair.hub
            .merge(&app.hub, json!({"metadata": {"finalizers": null}}))
            .await?;
    }
    pair.hub.until_gone(&app.hub, SOON).await
}

/// Every Argo CD has a project `default`.
pub(crate) async fn a_project_that_both_ends_have_becomes_the_hubs(pair: &mut Pair) -> Result<()> {
    let names = pair.names.clone();
    let at = At::project(&names.spoke, "default");
    let theirs = json!({"spec": {
        "sourceRepos": ["https://git.example/theirs"], "destinations": [{"server": "*", "namespace": "*"}],
    }});
    pair.spoke.apply(&at, theirs).await?;
    let ours = json!({"spec": {
        "sourceRepos": ["*"],
        "destinations": [{"name": "*", "server": "*", "namespace": "*"}],
        "sourceNamespaces": ["*"],
    }});
    pair.hub
        .apply(&At::project(&names.hub, "default"), ours)
        .await?;
    let follows = |project: &Value| project["spec"]["sourceRepos"] == json!(["*"]);
    pair.spoke
        .until(&at, "is as the hub has it", SOON, follows)
        .await
        .map(drop)
}
