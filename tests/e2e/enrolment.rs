//! A cluster opts in, in each of the three ways.

use anyhow::{Result, ensure};
use lab::{
    product::{self, OptIn},
    steps::{
        At, clusteradm, enrol,
        objects::{has_condition, is_rolled_out},
    },
};
use serde_json::{Value, json};

use crate::stage::{SOON, Stage};

/// The label is enough: add-on, certificate, agent, connection, cluster Secret.
pub(crate) async fn a_label_enrols_a_cluster(stage: &Stage) -> Result<()> {
    stage.not_enrolled(1).await?;
    let team = json!({"metadata": {"labels": {"team": "blue"}}});
    stage.hub.merge(&At::cluster("spoke1"), team).await?;
    enrol::by_label(&stage.hub, "spoke1").await?;
    let addon = enrol::until_available(&stage.hub, "spoke1").await?;
    let registrations = addon["status"]["registrations"]
        .as_array()
        .map_or(0, Vec::len);
    ensure!(
        registrations == 1,
        "one identity and no more: {}",
        addon["status"]["registrations"]
    );

    let secret = stage
        .hub
        .until_there(&enrol::cluster_secret("spoke1"), SOON)
        .await?;
    let labels = &secret["metadata"]["labels"];
    ensure!(
        labels["argocd.argoproj.io/secret-type"] == "cluster",
        "Argo CD's label: {labels}"
    );
    let follows = |secret: &Value| secret["metadata"]["labels"]["team"] == "blue";
    let what = "has the ManagedCluster's labels";
    stage
        .hub
        .until(&enrol::cluster_secret("spoke1"), what, SOON, follows)
        .await
        .map(drop)
}

/// `clusteradm addon enable` writes a `ManagedClusterAddOn` of v1alpha1; the label plays no part.
pub(crate) async fn addon_enable_enrols_a_cluster(stage: &Stage) -> Result<()> {
    stage.not_enrolled(2).await?;
    clusteradm::enable(&stage.hub, &stage.lab.hub().kubeconfig(), "spoke2").await?;
    enrol::until_available(&stage.hub, "spoke2").await?;
    stage
        .hub
        .until_there(&enrol::cluster_secret("spoke2"), SOON)
        .await?;
    stage.not_enrolled(2).await
}

/// With the chart's values for Placements, OCM makes and takes away the add-on as the label comes and goes.
pub(crate) async fn a_placement_enrols_a_cluster(stage: &Stage) -> Result<()> {
    stage.not_enrolled(1).await?;
    stage.not_enrolled(2).await?;
    product::install(&stage.lab.helm(), OptIn::Placements).await?;
    let result = by_placement(stage).await;
    product::install(&stage.lab.helm(), OptIn::Manual).await?;
    result
}

async fn by_placement(stage: &Stage) -> Result<()> {
    enrol::by_label(&stage.hub, "spoke2").await?;
    enrol::until_available(&stage.hub, "spoke2").await?;
    ensure!(
        stage.hub.get(&At::addon("spoke1")).await?.is_none(),
        "spoke1 was not chosen"
    );
    enrol::take_label_away(&stage.hub, "spoke2").await?;
    enrol::until_removed(&stage.hub, stage.spoke(2), "spoke2").await
}

/// An invalid label value creates no add-on, and an Event names the valid values.
pub(crate) async fn invalid_mode_label_is_reported_as_event(stage: &Stage) -> Result<()> {
    stage.not_enrolled(2).await?;
    let bad = json!({"metadata": {"labels": {enrol::MODE: "manged"}}});
    stage.hub.merge(&At::cluster("spoke2"), bad).await?;
    let events = At::event("default");
    let look = || stage.hub.list(&events, "");
    let is_reported = |events: &Vec<Value>| {
        events.iter().any(|event| {
            let note = event["message"].as_str().unwrap_or_default();
            event["involvedObject"]["name"] == "spoke2" && note.contains("managed")
        })
    };
    lab::wait::until("an Event that names the accepted values", look, is_reported).await?;
    ensure!(
        stage.hub.get(&At::addon("spoke2")).await?.is_none(),
        "no add-on was made"
    );
    enrol::take_label_away(&stage.hub, "spoke2").await
}

/// A configuration that a cluster's add-on names itself reaches its agent, and goes again. A misspelled variable is reported.
pub(crate) async fn a_configuration_of_its_own_reaches_the_agent(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let own = At::addon_config("spoke1", "own");
    let variables = json!([
        {"name": "LOG_LEVEL", "value": "debug"},
        {"name": "ALOWED_NAMESPACES", "value": "team-a"},
    ]);
    stage
        .hub
        .apply(&own, json!({"spec": {"customizedVariables": variables}}))
        .await?;
    let named = json!({"spec": {"configs": [{
        "group": "addon.open-cluster-management.io",
        "resource": "addondeploymentconfigs",
        "namespace": "spoke1",
        "name": "own",
    }]}});
    stage.hub.merge(&At::addon("spoke1"), named).await?;
    until_log_level(stage, "debug").await?;
    enrol::until_available(&stage.hub, "spoke1").await?;
    let addon = At::addon("spoke1");
    let is_reported = |it: &Value| has_condition(it, "Degraded", "False", "ConfigurationUnknown");
    stage
        .hub
        .until(&addon, "names the misspelled variable", SOON, is_reported)
        .await?;
    stage
        .hub
        .merge(&addon, json!({"spec": {"configs": null}}))
        .await?;
    until_log_level(stage, "info").await?;
    stage
        .hub
        .until(&addon, "has known variables", SOON, |it| !is_reported(it))
        .await?;
    stage.hub.delete(&own).await?;
    enrol::until_available(&stage.hub, "spoke1").await.map(drop)
}

/// Without a label the cluster's configuration sets the mode; the add-on records it, and the agent runs in it.
pub(crate) async fn configuration_sets_the_mode_without_a_label(stage: &Stage) -> Result<()> {
    stage.not_enrolled(2).await?;
    let hub = &stage.hub;
    let own = At::addon_config("spoke2", "mode");
    let variables = json!([{"name": "MODE", "value": "autonomous"}]);
    hub.apply(&own, json!({"spec": {"customizedVariables": variables}}))
        .await?;
    let spec = json!({"spec": {
        "installNamespace": enrol::AGENT_NAMESPACE,
        "configs": [{
            "group": "addon.open-cluster-management.io",
            "resource": "addondeploymentconfigs",
            "namespace": "spoke2",
            "name": "mode",
        }],
    }});
    hub.apply(&At::addon("spoke2"), spec).await?;
    let made = enrol::until_available(hub, "spoke2").await?;
    ensure!(
        made["metadata"]["annotations"][enrol::MODE] == "autonomous",
        "the mode is not recorded: {}",
        made["metadata"]["annotations"]
    );
    let agent = enrol::agent();
    let agent = stage.spoke(2).read(&agent).await?;
    let expected = r#"{"name":"ARGOCD_AGENT_MODE","value":"autonomous"}"#;
    ensure!(
        agent["spec"]["template"].to_string().contains(expected),
        "the agent runs in another mode"
    );
    stage.not_enrolled(2).await?;
    hub.delete(&own).await
}

async fn until_log_level(stage: &Stage, level: &str) -> Result<()> {
    let agent = enrol::agent();
    let logs = |agent: &Value| {
        let env = &agent["spec"]["template"]["spec"]["containers"][0]["env"];
        env.as_array().into_iter().flatten().any(|variable| {
            variable["name"] == "ARGOCD_AGENT_LOG_LEVEL" && variable["value"] == level
        })
    };
    let what = format!("logs at level {level}");
    stage
        .spoke(1)
        .until(&agent, &what, lab::wait::BOUND, logs)
        .await
        .map(drop)
}

/// A cluster that turns out to be the hub itself is rejected, and the agent is removed from it; its add-on stays and
/// reports the reason. When the claim is gone, the cluster is served again.
pub(crate) async fn a_cluster_that_turns_out_to_be_the_hub_loses_the_agent(
    stage: &Stage,
) -> Result<()> {
    stage.not_enrolled(2).await?;
    enrol::by_addon(&stage.hub, "spoke2").await?;
    enrol::until_available(&stage.hub, "spoke2").await?;
    let itself = stage.hub.read(&At::namespace("kube-system")).await?;
    let claim = At::cluster_claim("id.k8s.io");
    let id = json!({"spec": {"value": itself["metadata"]["uid"]}});
    stage.spoke(2).apply(&claim, id).await?;

    let addon = At::addon("spoke2");
    let refused = |addon: &Value| has_condition(addon, "Degraded", "True", "ReservedCluster");
    let what = "is Degraded as ReservedCluster";
    stage
        .hub
        .until(&addon, what, lab::wait::BOUND, refused)
        .await?;
    let agent = enrol::agent();
    let spoke = stage.spoke(2);
    spoke.until_gone(&agent, lab::wait::BOUND).await?;
    let secret = enrol::cluster_secret("spoke2");
    stage.hub.until_gone(&secret, lab::wait::BOUND).await?;
    ensure!(
        stage.hub.get(&addon).await?.is_some(),
        "the add-on stays to say why"
    );

    spoke.delete(&claim).await?;
    enrol::until_available(&stage.hub, "spoke2").await?;
    stage.hub.until_there(&secret, SOON).await?;
    stage.not_enrolled(2).await
}

/// Where a cluster may fetch images only from a registry of one's own, a configuration names it, and the agent runs from
/// there.
pub(crate) async fn a_mirror_of_images_is_used(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let mirrors = json!([{"source": product::MIRRORED, "mirror": product::MIRROR}]);
    let mirrors = json!({ "registries": mirrors });
    enrol::with_configuration(&stage.hub, "spoke1", mirrors).await?;
    let agent = enrol::agent();
    let image = |it: &Value| {
        let image = &it["spec"]["template"]["spec"]["containers"][0]["image"];
        image.as_str().unwrap_or_default().to_owned()
    };
    let runs_mirrored = |it: &Value| is_rolled_out(it) && image(it).starts_with(product::MIRROR);
    stage
        .spoke(1)
        .until(&agent, "runs from the mirror", SOON, runs_mirrored)
        .await?;
    enrol::until_available(&stage.hub, "spoke1").await?;
    enrol::without_variables(&stage.hub, "spoke1").await?;
    let is_back = |it: &Value| image(it).starts_with(product::MIRRORED);
    stage
        .spoke(1)
        .until(&agent, "runs from its own registry again", SOON, is_back)
        .await?;
    enrol::until_available(&stage.hub, "spoke1").await.map(drop)
}
