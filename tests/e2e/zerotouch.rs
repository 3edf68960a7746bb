//! The label installs Argo CD on a cluster without one, and leaves an existing one alone.

pub(crate) mod further;
mod proxied;
mod tuned;

use anyhow::{Result, ensure};
use lab::{
    argocd,
    steps::{At, Objects, clusteradm, deliver, enrol, objects::has_condition, workload},
    wait,
};
use serde_json::{Value, json};

use crate::{
    restricted,
    stage::{SOON, Stage, commit},
};

/// The annotation of the add-on that records who installed the cluster's Argo CD.
const ORIGIN: &str = "argocd-agent.open-cluster-management.io/argocd";
/// The label of objects that we installed.
const INSTALLED: &str = "argocd-agent.open-cluster-management.io/brought";

/// The workloads of an Argo CD.
fn programs() -> Vec<At> {
    let deployments = argocd::DEPLOYMENTS;
    let deployments = deployments.map(|name| At::deployment(enrol::ARGOCD, name));
    let controller = At::stateful_set(enrol::ARGOCD, argocd::CONTROLLER);
    deployments.into_iter().chain([controller]).collect()
}

/// With the label alone, an Application of the hub becomes Synced on an empty cluster. An opt-out deletes the workloads of
/// Argo CD and leaves everything else; the next opt-in reuses it in a namespace that admits restricted Pods only, and with
/// `KEEP_ARGOCD` an opt-out keeps the workloads. In between, settings for the fleet come and go, and a repository is fetched
/// through a forward proxy.
pub(crate) async fn an_empty_cluster_gets_its_argo_cd_with_the_label(stage: &Stage) -> Result<()> {
    stage.not_enrolled(2).await?;
    let (empty, tools) = (stage.lab.spoke(2), stage.lab.tools());
    argocd::purge(empty, tools).await?;
    // The hub's own is the pattern.
    argocd::install_application_sets(stage.lab.hub(), tools).await?;
    let result = lived(stage).await;
    let restored = restored(stage).await;
    result.and(restored)
}

/// Leaves the cluster without the add-on and with an Argo CD of its own, as it was before.
async fn restored(stage: &Stage) -> Result<()> {
    let (empty, tools) = (stage.lab.spoke(2), stage.lab.tools());
    stage.not_enrolled(2).await?;
    cleared(stage).await?;
    argocd::purge(empty, tools).await?;
    argocd::install(std::slice::from_ref(empty), tools).await
}

/// Deletes the objects that outlived the add-on, without finalizers, as no controller is left to remove them.
async fn cleared(stage: &Stage) -> Result<()> {
    let free = || json!({"metadata": {"finalizers": null}});
    let hub = At::application("spoke2", "zero");
    let replica = Stage::replica("zero");
    for (side, at) in [(&stage.hub, hub), (stage.spoke(2), replica)] {
        // On a cluster without Argo CD the kind itself is missing.
        if side.get(&at).await.is_ok_and(|it| it.is_some()) {
            side.merge(&at, free()).await?;
            side.delete(&at).await?;
            side.until_gone(&at, wait::BOUND).await?;
        }
    }
    let kind = |kind: &str| {
        let name = "argocd-agent-addon-argocd-application-controller";
        let api = "rbac.authorization.k8s.io/v1";
        format!("{{apiVersion: {api}, kind: {kind}, metadata: {{name: {name}}}}}")
    };
    let both = [kind("ClusterRoleBinding"), kind("ClusterRole")].join("\n---\n");
    stage.lab.spoke(2).delete(&both).await?;
    stage
        .hub
        .delete(&At::project(enrol::ARGOCD, "zero"))
        .await?;
    stage.spoke(2).delete(&At::namespace("zero")).await
}

/// The UIDs of the installed programs.
async fn uids(spoke: &Objects) -> Result<Vec<Value>> {
    let mut uids = Vec::new();
    for program in programs() {
        uids.push(spoke.read(&program).await?["metadata"]["uid"].clone());
    }
    Ok(uids)
}

async fn lived(stage: &Stage) -> Result<()> {
    let (hub, spoke) = (&stage.hub, stage.spoke(2));
    let app = stage.greeter("zero", 2).await?;
    app.apply(hub).await?;
    enrol::by_label(hub, "spoke2").await?;
    let at = At::addon("spoke2");
    let installed = |addon: &Value| addon["metadata"]["annotations"][ORIGIN] == "brought";
    hub.until(&at, "gets an Argo CD", SOON * 2, installed)
        .await?;
    let ours = |it: &Value| it["metadata"]["labels"][INSTALLED] == "true";
    let runs = |it: &Value| ours(it) && it["status"]["readyReplicas"] == 1;
    for program in programs() {
        spoke.until(&program, "runs", SOON * 2, runs).await?;
    }
    deliver::until_healthy(hub, &app.at, "").await?;
    stage.until_greets(2, "zero", "hello").await?;
    enrol::until_available(hub, "spoke2").await?;
    let calm = |addon: &Value| has_condition(addon, "Degraded", "False", "AsExpected");
    hub.until(&at, "is not Degraded", SOON, calm).await?;

    let before = uids(spoke).await?;
    clusteradm::enable(hub, &stage.lab.hub().kubeconfig(), "spoke2").await?;
    hub.until(&at, "keeps the decision", SOON, installed)
        .await?;
    enrol::until_available(hub, "spoke2").await?;
    ensure!(uids(spoke).await? == before, "Argo CD was installed again");
    tuned::settings_of_the_fleet_come_and_go(stage).await?;
    proxied::a_repository_is_fetched_through_the_proxy(stage).await?;

    let stays = stays(stage).await?;
    enrol::take_label_away(hub, "spoke2").await?;
    enrol::until_removed(hub, spoke, "spoke2").await?;
    for program in programs() {
        spoke.until_gone(&program, wait::BOUND).await?;
    }
    ensure!(
        self::stays(stage).await? == stays,
        "something was recreated"
    );

    kept(stage, app, &stays).await?;
    kept_at_once(stage, &stays).await
}

/// Opts in again with `KEEP_ARGOCD`, and out, while the namespace admits restricted Pods only. The definitions that we
/// installed before are ours again, and follow the hub's.
async fn kept(stage: &Stage, mut app: deliver::Application, stays: &[Value]) -> Result<()> {
    let (hub, spoke) = (&stage.hub, stage.spoke(2));
    restricted::restrict(spoke, enrol::ARGOCD).await?;
    restricted::refuses_others(spoke, enrol::ARGOCD).await?;
    enrol::by_label(hub, "spoke2").await?;
    enrol::with_variable(hub, "spoke2", "KEEP_ARGOCD", "true").await?;
    let repository = stage.lab.git().repository("zero")?;
    let next = commit(&repository, "again", "v2")?;
    "v2".clone_into(&mut app.revision);
    app.apply(hub).await?;
    deliver::until_healthy(hub, &app.at, &next).await?;
    let ours = |addon: &Value| addon["metadata"]["annotations"][ORIGIN] == "brought";
    let at = At::addon("spoke2");
    hub.until(&at, "knows its definitions again", SOON, ours)
        .await?;
    definitions_follow(stage).await?;
    let orphan = "addon.open-cluster-management.io/deletion-orphan";
    let free = |it: &Value| it["metadata"]["annotations"].get(orphan).is_some();
    let programs = programs();
    for program in &programs {
        spoke.until(program, "is to stay", SOON, free).await?;
    }
    enrol::until_available(hub, "spoke2").await?;

    enrol::take_label_away(hub, "spoke2").await?;
    enrol::until_removed(hub, spoke, "spoke2").await?;
    hub.delete(&At::addon_config("spoke2", "variables")).await?;
    for program in &programs {
        let program = spoke.read(program).await?;
        let deleting = &program["metadata"]["deletionTimestamp"];
        ensure!(deleting.is_null(), "{program}");
    }
    ensure!(
        self::stays(stage).await? == stays,
        "something was recreated"
    );
    Ok(())
}

/// Sets `KEEP_ARGOCD` and opts out in the same second. The add-on goes only after the cluster has applied the setting, so the
/// programs stay, too.
async fn kept_at_once(stage: &Stage, stays: &[Value]) -> Result<()> {
    let (hub, spoke) = (&stage.hub, stage.spoke(2));
    enrol::by_label(hub, "spoke2").await?;
    enrol::until_available(hub, "spoke2").await?;
    // The programs of the last opt-in stayed. Now a work without the setting owns them, so its removal would delete them.
    let owned = |it: &Value| {
        let owners = it["metadata"]["ownerReferences"].to_string();
        owners.contains("AppliedManifestWork")
    };
    let programs = programs();
    for program in &programs {
        spoke
            .until(program, "is of a work", SOON * 2, owned)
            .await?;
    }
    let before = uids(spoke).await?;
    enrol::with_variable(hub, "spoke2", "KEEP_ARGOCD", "true").await?;
    enrol::take_label_away(hub, "spoke2").await?;
    enrol::until_removed(hub, spoke, "spoke2").await?;
    hub.delete(&At::addon_config("spoke2", "variables")).await?;
    ensure!(
        self::stays(stage).await? == stays,
        "something was recreated"
    );
    for at in [
        At::namespace(enrol::ARGOCD),
        definition(),
        Stage::replica("zero"),
    ] {
        let deleting = spoke.read(&at).await?["metadata"]["deletionTimestamp"].clone();
        ensure!(deleting.is_null(), "{at} is deleted since {deleting}");
    }
    for program in &programs {
        let deleting = spoke.read(program).await?["metadata"]["deletionTimestamp"].clone();
        ensure!(deleting.is_null(), "{program} is deleted since {deleting}");
    }
    ensure!(uids(spoke).await? == before, "Argo CD was not kept");
    Ok(())
}

fn definition() -> At {
    let kind = ("CustomResourceDefinition", "customresourcedefinitions");
    let name = "applications.argoproj.io";
    At::of("apiextensions.k8s.io/v1", kind, None, name)
}

/// The cluster's definition follows a change of the hub's.
async fn definitions_follow(stage: &Stage) -> Result<()> {
    let (hub, spoke, at) = (&stage.hub, stage.spoke(2), definition());
    let before = hub.read(&at).await?["spec"]["names"]["shortNames"].clone();
    for names in [json!(["app", "apps", "zero"]), before] {
        let changed = json!({"spec": {"names": {"shortNames": names}}});
        hub.merge(&at, changed).await?;
        let follows = |it: &Value| it["spec"]["names"]["shortNames"] == names;
        spoke.until(&at, "follows the hub's", SOON, follows).await?;
    }
    Ok(())
}

/// The UIDs of the objects that must outlive the add-on.
async fn stays(stage: &Stage) -> Result<Vec<Value>> {
    let mut uids = Vec::new();
    for at in [
        At::namespace(enrol::ARGOCD),
        definition(),
        Stage::replica("zero"),
        At::config_map("zero", workload::NAME),
        At::config_map(enrol::ARGOCD, "argocd-cm"),
        At::secret(enrol::ARGOCD, "argocd-secret"),
        At::secret(enrol::ARGOCD, "argocd-redis"),
    ] {
        uids.push(stage.spoke(2).read(&at).await?["metadata"]["uid"].clone());
    }
    Ok(uids)
}

/// With `INSTALL_ARGOCD=true` an Argo CD of another origin is not touched, and the add-on is Degraded as `ArgoCDNotOurs`.
pub(crate) async fn an_argo_cd_of_ones_own_is_left_alone(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let (hub, spoke, at) = (&stage.hub, stage.spoke(1), At::addon("spoke1"));
    enrol::with_variable(hub, "spoke1", "INSTALL_ARGOCD", "true").await?;
    let is_reported = |addon: &Value| has_condition(addon, "Degraded", "True", "ArgoCDNotOurs");
    hub.until(&at, "says that it is not ours", SOON, is_reported)
        .await?;
    for program in programs() {
        let program = spoke.read(&program).await?;
        ensure!(
            program["metadata"]["labels"][INSTALLED].is_null(),
            "{program}"
        );
        let fields = program["metadata"]["managedFields"].to_string();
        ensure!(!fields.contains("work-agent"), "{fields}");
    }
    enrol::without_variables(hub, "spoke1").await?;
    let calm = |addon: &Value| has_condition(addon, "Degraded", "False", "AsExpected");
    let addon = hub.until(&at, "is not Degraded", SOON, calm).await?;
    let annotations = &addon["metadata"]["annotations"];
    ensure!(annotations[ORIGIN].is_null(), "{annotations}");
    enrol::until_available(hub, "spoke1").await.map(drop)
}
