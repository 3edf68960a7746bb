//! Which configuration applies to a cluster, how it rolls out, and how errors are reported.

use anyhow::{Context as _, Result, ensure};
use lab::{
    hello,
    product::{self, OptIn},
    steps::{At, enrol},
    wait,
};
use serde_json::{Value, json};

use super::guest::{Guest, listed};
use crate::stage::{SOON, Stage};

const ANNOTATION: &str = "open-cluster-management.io/config-spec-hash";

/// A configuration as it is named in specs.
fn named(namespace: &str, name: &str) -> Value {
    json!({
        "group": "addon.open-cluster-management.io", "resource": "addondeploymentconfigs",
        "namespace": namespace, "name": name,
    })
}

fn logs_at(level: &str) -> Value {
    json!({ "customizedVariables": listed(&[("LOG_LEVEL", level)]) })
}

/// Another agent, which is seen by its level too.
fn with_another_agent() -> Value {
    let image = product::mirrored_agent();
    let variables = [("LOG_LEVEL", "debug"), ("AGENT_IMAGE", &image)];
    json!({ "customizedVariables": listed(&variables) })
}

/// The level that the work of a cluster gives its agent.
fn level(works: &[Value]) -> Option<&str> {
    let manifests = works
        .iter()
        .filter_map(|work| work["spec"]["workload"]["manifests"].as_array());
    let deployment = manifests.flatten().find(|it| it["kind"] == "Deployment")?;
    let env = deployment["spec"]["template"]["spec"]["containers"][0]["env"].as_array()?;
    let level = env
        .iter()
        .find(|it| it["name"] == "ARGOCD_AGENT_LOG_LEVEL")?;
    level["value"].as_str()
}

async fn works(stage: &Stage, cluster: &str) -> Result<Vec<Value>> {
    stage
        .hub
        .list(&At::work(cluster, ""), &enrol::of_addon())
        .await
}

async fn until_level(stage: &Stage, cluster: &str, wanted: &str) -> Result<Vec<Value>> {
    let look = || works(stage, cluster);
    let fits = |works: &Vec<Value>| level(works) == Some(wanted);
    let what = format!("the work of {cluster} has the level {wanted}");
    wait::until(&what, look, fits).await
}

/// Waits until OCM reports this configuration as applied, and compares it with the work's annotation.
async fn until_applied(stage: &Stage, cluster: &str, wanted: &str) -> Result<()> {
    let applied = |addon: &Value| {
        let reference = &addon["status"]["configReferences"][0];
        reference["lastAppliedConfig"]["name"] == wanted
            && reference["lastAppliedConfig"] == reference["desiredConfig"]
    };
    let what = format!("has {wanted} applied");
    let addon = stage
        .hub
        .until(&At::addon(cluster), &what, SOON, applied)
        .await?;
    let desired = &addon["status"]["configReferences"][0]["desiredConfig"];
    let (namespace, hash) = (text(&desired["namespace"]), text(&desired["specHash"]));
    let key =
        format!("addondeploymentconfigs.addon.open-cluster-management.io/{namespace}/{wanted}");
    for work in works(stage, cluster).await? {
        let recorded: Value =
            serde_json::from_str(text(&work["metadata"]["annotations"][ANNOTATION]))?;
        ensure!(recorded == json!({ key.clone(): hash }), "{recorded}");
    }
    Ok(())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Sets the install strategy to Placements, with these fields of the placement.
async fn place(stage: &Stage, placement: Value) -> Result<()> {
    product::install(&stage.lab.helm(), OptIn::Placements).await?;
    let mut one = json!({ "namespace": product::NAMESPACE, "name": "argocd-agent-addon" });
    if let (Some(one), Value::Object(more)) = (one.as_object_mut(), placement) {
        one.extend(more);
    }
    let strategy = json!({ "type": "Placements", "placements": [one] });
    let spec = json!({ "spec": { "installStrategy": strategy } });
    stage
        .hub
        .merge(&At::addon_definition(), spec)
        .await
        .map(drop)
}

/// Restores the defaults of the other tests.
async fn unplace(stage: &Stage) -> Result<()> {
    let manual = json!({ "type": "Manual", "placements": null });
    let spec = json!({ "spec": { "installStrategy": manual } });
    stage.hub.merge(&At::addon_definition(), spec).await?;
    product::install(&stage.lab.helm(), OptIn::Manual).await
}

/// The defaults of the add-on, then a placement's, then the cluster's own.
pub(crate) async fn the_most_particular_configuration_counts(stage: &Stage) -> Result<()> {
    for number in 1..=3 {
        stage.not_enrolled(number).await?;
    }
    let placed = At::addon_config(product::NAMESPACE, "placed");
    let own = At::addon_config("spoke1", "own");
    stage
        .hub
        .apply(&placed, json!({ "spec": logs_at("warn") }))
        .await?;
    stage
        .hub
        .apply(&own, json!({ "spec": logs_at("debug") }))
        .await?;
    place(stage, json!({})).await?;
    enrol::by_label(&stage.hub, "spoke1").await?;
    enrol::until_available(&stage.hub, "spoke1").await?;
    until_level(stage, "spoke1", "info").await?;
    until_applied(stage, "spoke1", "argocd-agent-addon").await?;

    place(
        stage,
        json!({ "configs": [named(product::NAMESPACE, "placed")] }),
    )
    .await?;
    until_level(stage, "spoke1", "warn").await?;
    until_applied(stage, "spoke1", "placed").await?;

    let configs = json!({ "spec": { "configs": [named("spoke1", "own")] } });
    stage.hub.merge(&At::addon("spoke1"), configs).await?;
    until_level(stage, "spoke1", "debug").await?;
    until_applied(stage, "spoke1", "own").await?;

    enrol::take_label_away(&stage.hub, "spoke1").await?;
    enrol::until_removed(&stage.hub, stage.spoke(1), "spoke1").await?;
    unplace(stage).await?;
    stage.hub.delete(&placed).await?;
    stage.hub.delete(&own).await
}

const CLUSTERS: [&str; 3] = ["spoke1", "spoke2", "spoke3"];

/// The clusters whose work has the edit.
async fn changed(stage: &Stage) -> Result<Vec<&'static str>> {
    let mut changed = Vec::new();
    for cluster in CLUSTERS {
        if level(&works(stage, cluster).await?) == Some("debug") {
            changed.push(cluster);
        }
    }
    Ok(changed)
}

/// An edit of a configuration in place, of the agent's image among others, goes to one cluster after the other, as the
/// rollout strategy says. While none of them can apply it, only one has it.
pub(crate) async fn an_edited_configuration_is_rolled_out_one_cluster_at_a_time(
    stage: &Stage,
) -> Result<()> {
    for number in 1..=3 {
        stage.not_enrolled(number).await?;
    }
    let rollout = json!({ "type": "Progressive", "progressive": { "maxConcurrency": 1 } });
    place(stage, json!({ "rolloutStrategy": rollout })).await?;
    for cluster in CLUSTERS {
        enrol::by_label(&stage.hub, cluster).await?;
    }
    for cluster in CLUSTERS {
        enrol::until_available(&stage.hub, cluster).await?;
    }
    klusterlets(stage, false).await?;
    let default = At::addon_config(product::NAMESPACE, "argocd-agent-addon");
    stage
        .hub
        .merge(&default, json!({ "spec": with_another_agent() }))
        .await?;
    let changed = || changed(stage);
    let some = |it: &Vec<&str>| !it.is_empty();
    let first = wait::until("a first cluster", changed, some).await?;
    // OCM has seen the progress, and would have started the next cluster if the strategy allowed it.
    let at = At::addon(first.first().context("a cluster")?);
    let goes_on = |addon: &Value| {
        lab::steps::objects::has_condition(addon, "Progressing", "True", "Progressing")
    };
    stage.hub.until(&at, "is under way", SOON, goes_on).await?;
    let one = changed().await?;
    ensure!(one.len() == 1, "one at a time, not {one:?}");

    klusterlets(stage, true).await?;
    let hash = stage.hub.read(&at).await?["status"]["configReferences"][0]["desiredConfig"].clone();
    let counts = || async {
        // Read in this order: a cluster that finishes in between cannot hide too many at once.
        let changed = changed().await?.len();
        let mut done = 0;
        for cluster in CLUSTERS {
            let addon = stage.hub.read(&At::addon(cluster)).await?;
            done +=
                usize::from(addon["status"]["configReferences"][0]["lastAppliedConfig"] == hash);
        }
        Ok((changed, done))
    };
    let all = |(changed, done): &(usize, usize)| *changed > done + 1 || *done == 3;
    let (changed, done) = wait::until("all are done, or too many at once", counts, all).await?;
    ensure!(
        changed <= done + 1,
        "{changed} were changed when {done} were done"
    );
    for number in 1..=3 {
        let agent = enrol::agent();
        let agent = stage.spoke(number).read(&agent).await?;
        let image = &agent["spec"]["template"]["spec"]["containers"][0]["image"];
        ensure!(image == &product::mirrored_agent(), "it has {image}");
    }

    as_before(stage, &default).await
}

/// With decision groups an edit in place goes to all clusters of the first group at once, and to the next group when all
/// of the first have it.
pub(crate) async fn an_edited_configuration_is_rolled_out_group_by_group(
    stage: &Stage,
) -> Result<()> {
    for number in 1..=3 {
        stage.not_enrolled(number).await?;
    }
    place(
        stage,
        json!({ "rolloutStrategy": { "type": "ProgressivePerGroup" } }),
    )
    .await?;
    let placement = At::placement(product::NAMESPACE, "argocd-agent-addon");
    let two = json!({ "groupStrategy": { "clustersPerDecisionGroup": 2 } });
    let spec = json!({ "spec": { "decisionStrategy": two } });
    stage.hub.merge(&placement, spec).await?;
    for cluster in CLUSTERS {
        enrol::by_label(&stage.hub, cluster).await?;
    }
    for cluster in CLUSTERS {
        enrol::until_available(&stage.hub, cluster).await?;
    }
    let (first, second) = groups(stage).await?;
    klusterlets(stage, false).await?;
    let default = At::addon_config(product::NAMESPACE, "argocd-agent-addon");
    let edit = json!({ "spec": logs_at("debug") });
    stage.hub.merge(&default, edit).await?;
    let changed = || changed(stage);
    let two = |it: &Vec<&str>| it.len() >= 2;
    let one_group = wait::until("the first group", changed, two).await?;
    ensure!(one_group == first, "{one_group:?}, not {first:?}");
    for cluster in &first {
        let goes_on = |addon: &Value| {
            lab::steps::objects::has_condition(addon, "Progressing", "True", "Progressing")
        };
        let at = At::addon(cluster);
        stage.hub.until(&at, "is under way", SOON, goes_on).await?;
    }
    let one_group = changed().await?;
    ensure!(one_group == first, "the next group is early: {one_group:?}");

    let at = At::addon(&first[0]);
    let hash = stage.hub.read(&at).await?["status"]["configReferences"][0]["desiredConfig"].clone();
    klusterlets(stage, true).await?;
    let look = || async {
        // Read in this order: a cluster that finishes in between cannot make the second group look early.
        let has = changed().await?;
        let mut done = true;
        for cluster in &first {
            let addon = stage.hub.read(&At::addon(cluster)).await?;
            done &= addon["status"]["configReferences"][0]["lastAppliedConfig"] == hash;
        }
        Ok((has.len(), done))
    };
    let begun = |(has, _): &(usize, bool)| *has == 3;
    let (_, done) = wait::until("the second group has it", look, begun).await?;
    ensure!(done, "{second:?} was changed before {first:?} were done");

    as_before(stage, &default).await
}

/// Cleans up after a rollout: disables the add-on on all clusters, and empties its configuration.
async fn as_before(stage: &Stage, default: &At) -> Result<()> {
    for cluster in CLUSTERS {
        enrol::until_available(&stage.hub, cluster).await?;
        enrol::take_label_away(&stage.hub, cluster).await?;
    }
    for (number, cluster) in (1..).zip(CLUSTERS) {
        enrol::until_removed(&stage.hub, stage.spoke(number), cluster).await?;
    }
    unplace(stage).await?;
    let none = json!({ "spec": { "customizedVariables": [] } });
    stage.hub.merge(default, none).await.map(drop)
}

/// The clusters of the two decision groups, as OCM has decided.
async fn groups(stage: &Stage) -> Result<(Vec<String>, Vec<String>)> {
    let mut groups = [Vec::new(), Vec::new()];
    let decisions = At::placement_decision(product::NAMESPACE, "");
    for decision in stage.hub.list(&decisions, "").await? {
        let labels = &decision["metadata"]["labels"];
        let index = text(&labels["cluster.open-cluster-management.io/decision-group-index"]);
        let group = groups
            .get_mut(index.parse::<usize>()?)
            .with_context(|| format!("a third group: {decision}"))?;
        let decided = decision["status"]["decisions"].as_array();
        let names = decided.into_iter().flatten();
        group.extend(names.map(|it| text(&it["clusterName"]).to_owned()));
    }
    let [mut first, mut second] = groups;
    first.sort();
    second.sort();
    ensure!(
        first.len() == 2 && second.len() == 1,
        "{first:?} {second:?}"
    );
    Ok((first, second))
}

/// Starts or ends the agents of OCM on all spokes.
async fn klusterlets(stage: &Stage, run: bool) -> Result<()> {
    let mut ocm = stage.lab.ocm().await?;
    for spoke in ocm.spokes.values_mut() {
        if run {
            spoke.resume().await?;
        } else {
            spoke.stop().await;
        }
    }
    Ok(())
}

/// OCM reports an unsupported kind of configuration, because the manager declares its supported kinds; the agent does not
/// change.
pub(crate) async fn unknown_configuration_kind_is_reported(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let at = At::addon("spoke1");
    let mark = stage.lab.hub().audit().mark()?;
    let unknown = json!({ "group": "example.com", "resource": "widgets", "name": "any" });
    stage
        .hub
        .merge(&at, json!({ "spec": { "configs": [unknown] } }))
        .await?;
    let rejected = |it: &Value| {
        lab::steps::objects::has_condition(it, "Progressing", "False", "ConfigurationUnsupported")
    };
    stage.hub.until(&at, "is rejected", SOON, rejected).await?;
    until_level(stage, "spoke1", "info").await?;
    stage
        .hub
        .merge(&at, json!({ "spec": { "configs": null } }))
        .await?;
    enrol::until_available(&stage.hub, "spoke1").await?;
    let user = format!(
        "system:serviceaccount:{}:{}",
        product::NAMESPACE,
        product::MANAGER
    );
    let written = stage.lab.hub().audit().by(&user, mark)?;
    let written: Vec<_> = written.iter().filter(|it| it.is_write()).collect();
    ensure!(
        written.len() < 10,
        "writes for a word that means nothing: {written:#?}"
    );
    Ok(())
}

/// A configuration that does not exist is named in an Event and waited for; the agent stays as it is.
pub(crate) async fn missing_configuration_is_reported_until_it_exists(stage: &Stage) -> Result<()> {
    let guest = Guest::of(stage).await?;
    let at = hello::addon("spoke1");
    let configs = json!({ "spec": { "configs": [named("spoke1", hello::ADDON)] } });
    stage
        .hub
        .delete(&At::addon_config("spoke1", hello::ADDON))
        .await?;
    stage.hub.apply(&at, configs).await?;
    let events = At::event("spoke1");
    let look = || stage.hub.list(&events, "");
    let is_reported = |events: &Vec<Value>| {
        events.iter().any(|event| {
            let names = event["message"]
                .as_str()
                .is_some_and(|it| it.contains("/spoke1/hello"));
            event["reason"] == "ConfigurationAbsent" && names
        })
    };
    wait::until("an Event that names the object", look, is_reported).await?;
    let works = guest.until_works(1, "are looked at", |_| true).await?;
    ensure!(
        works.is_empty(),
        "nothing is sent before its configuration is known: {works:?}"
    );
    guest.configure(1, &[]).await?;
    guest.until_well(1).await?;
    guest.disable(1).await
}
