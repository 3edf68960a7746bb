//! The hub delivers Applications to their spokes, and the spokes report their state.

pub(crate) mod latency;

use anyhow::{Context as _, Result, ensure};
use lab::{
    product,
    steps::{
        At,
        deliver::{self, SOURCE_UID},
        enrol::{self, ARGOCD},
        workload,
    },
};
use serde_json::{Value, json};

use crate::stage::{SOON, Stage, commit};

/// An Application in the namespace of a cluster goes to that cluster and reads Synced and Healthy, with all of its status.
pub(crate) async fn an_application_in_a_clusters_namespace_is_synced(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let app = stage.greeter("by-namespace", 1).await?;
    let made = app.apply(&stage.hub).await?;
    let seen = deliver::until_healthy(&stage.hub, &app.at, "").await?;
    stage.until_greets(1, "by-namespace", "hello").await?;

    let replica = stage.spoke(1).read(&Stage::replica("by-namespace")).await?;
    let source = &replica["metadata"]["annotations"][SOURCE_UID];
    ensure!(
        *source == made["metadata"]["uid"],
        "the replica names its source: {source}"
    );
    ensure!(
        replica["spec"]["destination"]["name"] == "in-cluster",
        "it deploys where it is"
    );
    let kinds: Vec<_> = seen["status"]["resources"]
        .as_array()
        .into_iter()
        .flatten()
        .collect();
    ensure!(
        kinds.len() >= 2,
        "the hub sees what was deployed: {kinds:?}"
    );
    let ended = |app: &Value| app["status"]["operationState"]["phase"] == "Succeeded";
    stage
        .hub
        .until(&app.at, "shows how the sync ended", SOON, ended)
        .await?;
    stage.clear(&app).await
}

/// An Application in the hub's Argo CD namespace goes where `spec.destination.name` says.
pub(crate) async fn an_application_with_a_destination_name_is_synced(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let mut app = stage.greeter("by-destination", 1).await?;
    app.at = At::application(ARGOCD, "by-destination");
    "spoke1".clone_into(&mut app.cluster);
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    stage.until_greets(1, "by-destination", "hello").await?;
    stage.clear(&app).await
}

/// An Application of another namespace that hub and cluster allow is delivered into the namespace of the same name; a
/// condition says that Argo CD on the spoke does not watch it. If the spoke does not allow it, a condition names the setting.
pub(crate) async fn allowed_namespace_application_is_delivered(stage: &Stage) -> Result<()> {
    const TEAM: &str = "team-further";
    stage.enrolled(1).await?;
    let (hub, spoke, helm) = (&stage.hub, stage.spoke(1), stage.lab.helm());
    let allowed = format!("argocd.applicationNamespaces={{{TEAM}}}");
    product::upgrade(&helm, &["--set", &allowed, "--wait"]).await?;
    hub.apply(&At::namespace(TEAM), json!({})).await?;
    let mut app = stage.greeter("further", 1).await?;
    app.at = At::application(TEAM, "further");
    "spoke1".clone_into(&mut app.cluster);
    let sources = json!({"spec": {"sourceNamespaces": [TEAM]}});
    hub.merge(&At::project(ARGOCD, "further"), sources).await?;
    app.apply(hub).await?;
    let mentions = |word: &'static str| {
        move |app: &Value| {
            let conditions = app["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            conditions.any(|it| {
                it["message"]
                    .as_str()
                    .is_some_and(|text| text.contains(word))
            })
        }
    };
    let what = "says what admits its namespace";
    hub.until(&app.at, what, SOON, mentions("ALLOWED_NAMESPACES"))
        .await?;

    enrol::with_variable(hub, "spoke1", "ALLOWED_NAMESPACES", TEAM).await?;
    let replica = At::application(TEAM, "further");
    spoke.until_there(&replica, SOON * 2).await?;
    let what = "says that Argo CD does not look there";
    hub.until(&app.at, what, SOON, mentions("application.namespaces"))
        .await?;
    "v2".clone_into(&mut app.revision);
    app.apply(hub).await?;
    let follows = |app: &Value| app["spec"]["source"]["targetRevision"] == "v2";
    spoke.until(&replica, "follows", SOON, follows).await?;
    clear_without_controller(stage, &app).await?;

    enrol::without_variables(hub, "spoke1").await?;
    let role = At::role(TEAM, "argocd-agent-addon-agent-applications");
    spoke.until_gone(&role, SOON).await?;
    let kept = spoke.get(&At::namespace(TEAM)).await?;
    ensure!(kept.is_some(), "a namespace was deleted");
    product::upgrade(&helm, &["--wait"]).await?;
    enrol::until_available(hub, "spoke1").await.map(drop)
}

/// Removes an Application of spoke1 whose namespace has no controller there, which would act on a finalizer.
async fn clear_without_controller(stage: &Stage, app: &deliver::Application) -> Result<()> {
    let spoke = stage.spoke(1);
    let free = json!({"metadata": {"finalizers": null}});
    stage.hub.merge(&app.at, free).await?;
    let freed = |app: &Value| app["metadata"]["finalizers"].is_null();
    spoke.until(&app.at, "is free", SOON, freed).await?;
    stage.clear(app).await?;
    spoke.until_gone(&app.at, SOON).await
}

/// A pattern of namespaces admits those that exist on the cluster. The agent's rights in all namespaces go with it.
pub(crate) async fn namespaces_of_a_pattern_are_allowed(stage: &Stage) -> Result<()> {
    const TEAM: &str = "squad-one";
    stage.enrolled(1).await?;
    let (hub, spoke, helm) = (&stage.hub, stage.spoke(1), stage.lab.helm());
    let allowed = "argocd.applicationNamespaces={squad-*}";
    product::upgrade(&helm, &["--set", allowed, "--wait"]).await?;
    for side in [hub, spoke] {
        side.apply(&At::namespace(TEAM), json!({})).await?;
    }
    let mut app = stage.greeter("patterned", 1).await?;
    app.at = At::application(TEAM, "patterned");
    "spoke1".clone_into(&mut app.cluster);
    let sources = json!({"spec": {"sourceNamespaces": ["squad-*"]}});
    hub.merge(&At::project(ARGOCD, "patterned"), sources)
        .await?;
    app.apply(hub).await?;
    enrol::with_variable(hub, "spoke1", "ALLOWED_NAMESPACES", "squad-*").await?;
    let replica = At::application(TEAM, "patterned");
    spoke.until_there(&replica, SOON * 2).await?;
    let role = At::cluster_role("argocd-agent-addon-agent-applications");
    let granted = spoke.get(&role).await?;
    ensure!(granted.is_some(), "a pattern without its ClusterRole");
    clear_without_controller(stage, &app).await?;
    enrol::without_variables(hub, "spoke1").await?;
    spoke.until_gone(&role, SOON).await?;
    product::upgrade(&helm, &["--wait"]).await?;
    enrol::until_available(hub, "spoke1").await.map(drop)
}

/// A new target revision on the hub is deployed on the spoke.
pub(crate) async fn a_new_revision_goes_through(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let mut app = stage.greeter("new-revision", 1).await?;
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    let repository = stage.lab.git().repository("new-revision")?;
    let next = commit(&repository, "good-day", "v2")?;
    "v2".clone_into(&mut app.revision);
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, &next).await?;
    stage.until_greets(1, "new-revision", "good-day").await?;
    stage.clear(&app).await
}

/// A project change on the hub reaches the spokes that it admits; an edit there is reverted.
pub(crate) async fn a_changed_project_goes_through(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let app = stage.greeter("project-changes", 1).await?;
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    let project = At::project(ARGOCD, "project-changes");
    let described = json!({"spec": {"description": "for the test"}});
    stage.hub.merge(&project, described).await?;
    let is_described = |project: &Value| project["spec"]["description"] == "for the test";
    stage
        .spoke(1)
        .until(&project, "has the description", SOON, is_described)
        .await?;
    stage
        .spoke(1)
        .merge(&project, json!({"spec": {"description": "edited here"}}))
        .await?;
    stage
        .spoke(1)
        .until(
            &project,
            "has the hub's description again",
            SOON,
            is_described,
        )
        .await?;
    stage.clear(&app).await
}

/// A global project of the hub restricts the projects that it selects as clusters get them, and what is delivered at all.
/// A damaged setting counts as none.
pub(crate) async fn a_global_project_of_the_hub_counts_on_the_spoke(stage: &Stage) -> Result<()> {
    const GUARDED: &str = "e2e.example.org/guarded";
    const LIST: &str = "namespaceResourceBlacklist";
    stage.enrolled(1).await?;
    let (hub, spoke) = (&stage.hub, stage.spoke(1));
    let settings = At::config_map(ARGOCD, "argocd-cm");
    let (project, guard) = (At::project(ARGOCD, "guarded"), At::project(ARGOCD, "guard"));
    let app = stage.greeter("guarded", 1).await?;
    app.apply(hub).await?;
    deliver::until_healthy(hub, &app.at, "").await?;
    let label = json!({"metadata": {"labels": {GUARDED: "yes"}}});
    hub.merge(&project, label).await?;
    let denied = |kind: &str| json!({"spec": {LIST: [{"group": "", "kind": kind}]}});
    hub.apply(&guard, denied("Secret")).await?;
    let global =
        format!("- projectName: guard\n  labelSelector: {{matchLabels: {{{GUARDED}: \"yes\"}}}}\n");
    let set = |global: &str| {
        let part_of = json!({"app.kubernetes.io/part-of": "argocd"});
        json!({"metadata": {"labels": part_of}, "data": {"globalProjects": global}})
    };
    let refuses = |kind: &'static str| move |it: &Value| it["spec"][LIST][0]["kind"] == kind;
    let is_free = |it: &Value| !it.is_null() && it["spec"][LIST].is_null();

    hub.apply(&settings, set(&global)).await?;
    let what = "denies what the global project denies";
    spoke.until(&project, what, SOON, refuses("Secret")).await?;
    hub.merge(&guard, denied("Service")).await?;
    spoke
        .until(&project, what, SOON, refuses("Service"))
        .await?;
    let own = hub.read(&project).await?;
    ensure!(is_free(&own), "the hub's own project changed: {own}");
    let there = spoke.get(&guard).await?;
    ensure!(there.is_none(), "the guard has no destination");
    hub.apply(&settings, set("guard")).await?;
    spoke.until(&project, "is free", SOON, is_free).await?;
    hub.apply(&settings, set(&global)).await?;
    spoke
        .until(&project, what, SOON, refuses("Service"))
        .await?;

    let without = json!([{"name": "!spoke1", "namespace": "*"}]);
    hub.merge(&guard, json!({"spec": {"destinations": without}}))
        .await?;
    spoke.until_gone(&project, SOON).await?;
    let is_blocked = |app: &Value| app.to_string().contains("ArgoCDAgentNotAdmitted");
    hub.until(&app.at, "is not admitted", SOON, is_blocked)
        .await?;
    let none = json!({"data": {"globalProjects": null}});
    hub.merge(&settings, none).await?;
    spoke.until(&project, "is free", SOON, is_free).await?;
    let is_admitted = |app: &Value| !is_blocked(app);
    hub.until(&app.at, "is admitted", SOON, is_admitted).await?;
    hub.delete(&guard).await?;
    stage.clear(&app).await
}

/// The agent reverts an edit and a deletion on the spoke.
pub(crate) async fn an_edit_on_the_spoke_is_reverted(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let app = stage.greeter("spoke-edit", 1).await?;
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    let (spoke, at) = (stage.spoke(1), Stage::replica("spoke-edit"));
    let edit = json!({"spec": {"source": {"targetRevision": "elsewhere"}}});
    spoke.merge(&at, edit).await?;
    let reverted = |app: &Value| app["spec"]["source"]["targetRevision"] == "v1";
    spoke
        .until(&at, "has the hub's revision again", SOON, reverted)
        .await?;

    let uid = spoke.read(&at).await?["metadata"]["uid"].clone();
    spoke
        .merge(&at, json!({"metadata": {"finalizers": null}}))
        .await?;
    spoke.delete(&at).await?;
    let again = |app: &Value| !app.is_null() && app["metadata"]["uid"] != uid;
    spoke.until(&at, "is there again", SOON, again).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    stage.clear(&app).await
}

/// A sync that a person asks for on the hub runs on the spoke once, and the hub shows how it ended.
pub(crate) async fn a_sync_runs_once(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let mut app = stage.greeter("sync-once", 1).await?;
    app.automated = false;
    app.apply(&stage.hub).await?;
    let out_of_sync = |app: &Value| app["status"]["sync"]["status"] == "OutOfSync";
    stage
        .hub
        .until(&app.at, "is OutOfSync", lab::wait::BOUND, out_of_sync)
        .await?;
    let namespace = At::namespace("sync-once");
    stage.spoke(1).apply(&namespace, json!({})).await?;

    deliver::ask_for_sync(&stage.hub, &app.at, "v1").await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    let ended = |app: &Value| {
        app["operation"].is_null() && app["status"]["operationState"]["phase"] == "Succeeded"
    };
    let seen = stage
        .hub
        .until(&app.at, "shows that the sync ended", SOON, ended)
        .await?;
    ensure!(
        history(&seen)? == 1,
        "one entry in the history: {}",
        seen["status"]["history"]
    );

    // A second sync of the same revision is another command, and runs once too.
    deliver::ask_for_sync(&stage.hub, &app.at, "v1").await?;
    let twice = |app: &Value| ended(app) && history(app).is_ok_and(|entries| entries == 2);
    stage
        .hub
        .until(&app.at, "shows the second sync", lab::wait::BOUND, twice)
        .await?;
    stage.clear(&app).await?;
    stage.spoke(1).delete(&namespace).await
}

fn history(app: &Value) -> Result<usize> {
    app["status"]["history"]
        .as_array()
        .map(Vec::len)
        .context("no history")
}

/// With the resources finalizer, a deletion on the hub takes the workload and ends on both sides.
pub(crate) async fn a_deletion_on_the_hub_removes_the_workload(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let app = stage.greeter("cascade", 1).await?;
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    stage.hub.delete(&app.at).await?;
    stage.hub.until_gone(&app.at, lab::wait::BOUND).await?;
    let spoke = stage.spoke(1);
    spoke.until_gone(&Stage::replica("cascade"), SOON).await?;
    spoke
        .until_gone(&At::config_map("cascade", workload::NAME), SOON)
        .await?;
    spoke
        .until_gone(&At::deployment("cascade", workload::NAME), SOON)
        .await?;
    stage.clear(&app).await
}

/// An Application that its hub project rejects is not delivered; a condition names the project.
pub(crate) async fn a_project_that_does_not_admit_is_named(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let mut app = stage.greeter("not-admitted", 1).await?;
    "other-project".clone_into(&mut app.project);
    app.apply(&stage.hub).await?;
    let is_reported = |app: &Value| {
        app["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|condition| {
                condition["type"]
                    .as_str()
                    .is_some_and(|kind| kind.starts_with("ArgoCDAgent"))
                    && condition["message"]
                        .as_str()
                        .is_some_and(|m| m.contains("other-project"))
            })
    };
    stage
        .hub
        .until(
            &app.at,
            "has a condition that names the project",
            SOON,
            is_reported,
        )
        .await?;
    let replica = stage.spoke(1).get(&Stage::replica("not-admitted")).await?;
    ensure!(replica.is_none(), "it was delivered all the same");
    "not-admitted".clone_into(&mut app.project);
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    stage.clear(&app).await
}
