//! Decides placements, and reports the clusters of sets and bindings.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use anyhow::Result;
use kube::{
    ResourceExt,
    api::{DeleteParams, DynamicObject},
};
use serde_json::{Value, json};

use super::{Hub, for_each};
use crate::{
    condition::{self, Condition},
    control::Again,
    kinds::{CLUSTER_SET, CLUSTER_SET_BINDING, MANAGED_CLUSTER, PLACEMENT, PLACEMENT_DECISION},
    klusterlet,
    placement::{self, Candidate},
};

const PLACEMENT_LABEL: &str = "cluster.open-cluster-management.io/placement";
const GROUP_INDEX: &str = "cluster.open-cluster-management.io/decision-group-index";
const GROUP_NAME: &str = "cluster.open-cluster-management.io/decision-group-name";
const DISABLED: &str = "cluster.open-cluster-management.io/experimental-scheduling-disable";
/// A PlacementDecision has no more than this many clusters.
const PER_DECISION: usize = 100;

pub(super) async fn pass(hub: Hub) -> Result<Again> {
    let candidates = candidates(&hub);
    let sets: BTreeMap<String, BTreeSet<String>> = hub
        .cache
        .list(CLUSTER_SET)
        .iter()
        .map(|set| {
            let name = set.name_any();
            let members = placement::members(&name, &set.data["spec"], &candidates);
            (name, members)
        })
        .collect();
    report_sets(&hub, &sets).await?;
    report_bindings(&hub, &sets).await?;
    for_each(hub.cache.list(PLACEMENT), async |one| {
        decide(&hub, &one, &sets, &candidates).await?;
        Ok(None)
    })
    .await
}

fn candidates(hub: &Hub) -> Vec<Candidate> {
    let clusters = hub.cache.list(MANAGED_CLUSTER);
    let living = clusters
        .iter()
        .filter(|one| one.metadata.deletion_timestamp.is_none());
    living.map(|cluster| candidate(cluster)).collect()
}

fn candidate(cluster: &DynamicObject) -> Candidate {
    let claims = cluster.data["status"]["clusterClaims"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let pair = |claim: &Value| {
        Some((
            claim["name"].as_str()?.to_owned(),
            claim["value"].as_str()?.to_owned(),
        ))
    };
    Candidate {
        name: cluster.name_any(),
        labels: cluster.labels().clone(),
        claims: claims.iter().filter_map(pair).collect(),
        taints: cluster.data["spec"]["taints"]
            .as_array()
            .cloned()
            .unwrap_or_default(),
    }
}

async fn report_sets(hub: &Hub, sets: &BTreeMap<String, BTreeSet<String>>) -> Result<()> {
    let api = CLUSTER_SET.all(&hub.client);
    for set in hub.cache.list(CLUSTER_SET) {
        let count = sets.get(&set.name_any()).map_or(0, BTreeSet::len);
        let wanted = if count == 0 {
            Condition::of(
                "ClusterSetEmpty",
                true,
                "NoClusterMatched",
                "No ManagedCluster selected",
            )
        } else {
            let message = format!("{count} ManagedClusters selected");
            Condition::of("ClusterSetEmpty", false, "ClustersSelected", message)
        };
        condition::write_status(&api, &set, |status| {
            condition::set(condition::list(status), &wanted);
        })
        .await?;
    }
    Ok(())
}

async fn report_bindings(hub: &Hub, sets: &BTreeMap<String, BTreeSet<String>>) -> Result<()> {
    for binding in hub.cache.list(CLUSTER_SET_BINDING) {
        let set = binding.data["spec"]["clusterSet"]
            .as_str()
            .unwrap_or_default();
        let wanted = if sets.contains_key(set) {
            Condition::of("Bound", true, "ClusterSetBound", "")
        } else {
            Condition::of("Bound", false, "ClusterSetNotFound", "")
        };
        let namespace = binding.namespace().unwrap_or_default();
        let api = CLUSTER_SET_BINDING.within(&hub.client, &namespace);
        condition::write_status(&api, &binding, |status| {
            condition::set(condition::list(status), &wanted);
        })
        .await?;
    }
    Ok(())
}

/// The clusters of the sets that are bound into the placement's namespace and that it wants.
fn available(
    hub: &Hub,
    one: &DynamicObject,
    sets: &BTreeMap<String, BTreeSet<String>>,
) -> BTreeSet<String> {
    let wanted: Vec<&str> = one.data["spec"]["clusterSets"]
        .as_array()
        .map(|list| list.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    hub.cache
        .within(CLUSTER_SET_BINDING, &one.namespace().unwrap_or_default())
        .iter()
        .filter(|binding| binding.data["spec"]["clusterSet"] == binding.name_any())
        .map(|binding| binding.name_any())
        .filter(|set| wanted.is_empty() || wanted.contains(&set.as_str()))
        .filter_map(|set| sets.get(&set))
        .flatten()
        .cloned()
        .collect()
}

async fn decide(
    hub: &Hub,
    one: &DynamicObject,
    sets: &BTreeMap<String, BTreeSet<String>>,
    candidates: &[Candidate],
) -> Result<()> {
    let is_disabled = one
        .annotations()
        .get(DISABLED)
        .is_some_and(|value| value == "true");
    if one.metadata.deletion_timestamp.is_some() || is_disabled {
        return Ok(());
    }
    let namespace = one.namespace().unwrap_or_default();
    let before: Vec<Arc<DynamicObject>> = hub
        .cache
        .within(PLACEMENT_DECISION, &namespace)
        .into_iter()
        .filter(|decision| decision.labels().get(PLACEMENT_LABEL) == Some(&one.name_any()))
        .collect();
    let current: BTreeSet<String> = before.iter().flat_map(|d| chosen(d)).collect();
    let allowed = available(hub, one, sets);
    let selected = placement::select(&one.data["spec"], &allowed, candidates, &current);
    let groups = placement::groups(&one.data["spec"], &selected);
    write_decisions(hub, one, &before, &groups).await?;
    report(hub, one, allowed.is_empty(), &groups).await
}

/// The decision group of one PlacementDecision.
pub(super) fn group(decision: &DynamicObject) -> u64 {
    let index = decision.labels().get(GROUP_INDEX);
    index.and_then(|index| index.parse().ok()).unwrap_or(0)
}

/// The clusters named by one PlacementDecision.
pub(super) fn chosen(decision: &DynamicObject) -> Vec<String> {
    let decisions = decision.data["status"]["decisions"].as_array();
    let name = |one: &Value| one["clusterName"].as_str().map(str::to_owned);
    decisions
        .map(|list| list.iter().filter_map(name).collect())
        .unwrap_or_default()
}

async fn write_decisions(
    hub: &Hub,
    one: &DynamicObject,
    before: &[Arc<DynamicObject>],
    groups: &[&[String]],
) -> Result<()> {
    let namespace = one.namespace().unwrap_or_default();
    let api = PLACEMENT_DECISION.within(&hub.client, &namespace);
    let mut wanted = BTreeSet::new();
    for Part {
        name,
        group,
        clusters,
    } in parts(&one.name_any(), groups)
    {
        wanted.insert(name.clone());
        let of_group = |it: &&Arc<DynamicObject>| it.name_any() == name && self::group(it) == group;
        let Some(live) = before.iter().find(of_group) else {
            let decision = decision(one, &name, group);
            let manifest = (PLACEMENT_DECISION, Some(namespace.clone()), decision);
            klusterlet::apply(&hub.client, vec![manifest]).await?;
            continue; // its status follows when the watch has delivered it
        };
        let decisions: Vec<Value> = clusters
            .iter()
            .map(|name| json!({ "clusterName": name, "reason": "" }))
            .collect();
        condition::write_status(&api, live, |status| status["decisions"] = json!(decisions))
            .await?;
    }
    for old in before
        .iter()
        .filter(|decision| !wanted.contains(&decision.name_any()))
    {
        let deleted = api.delete(&old.name_any(), &DeleteParams::default()).await;
        condition::tolerate_staleness(deleted)?;
    }
    Ok(())
}

/// The content of one PlacementDecision.
struct Part<'a> {
    name: String,
    group: u64,
    clusters: &'a [String],
}

/// The PlacementDecisions of all groups; an empty one if there are no clusters.
fn parts<'a>(placement: &str, groups: &[&'a [String]]) -> Vec<Part<'a>> {
    let of_group = |(group, clusters): (u64, &&'a [String])| {
        let clusters: &'a [String] = clusters;
        let mut parts: Vec<_> = clusters
            .chunks(PER_DECISION)
            .map(|it| (group, it))
            .collect();
        if parts.is_empty() {
            parts.push((group, clusters));
        }
        parts
    };
    let all = (0..).zip(groups).flat_map(of_group);
    (1..)
        .zip(all)
        .map(|(number, (group, clusters)): (usize, _)| Part {
            name: format!("{placement}-decision-{number}"),
            group,
            clusters,
        })
        .collect()
}

fn decision(one: &DynamicObject, name: &str, group: u64) -> Value {
    json!({
        "metadata": {
            "name": name,
            "labels": { PLACEMENT_LABEL: one.name_any(), GROUP_INDEX: group.to_string(), GROUP_NAME: "" },
            "ownerReferences": [{
                "apiVersion": PLACEMENT.api_version(),
                "kind": PLACEMENT.name,
                "name": one.name_any(),
                "uid": one.uid(),
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
    })
}

async fn report(hub: &Hub, one: &DynamicObject, no_sets: bool, groups: &[&[String]]) -> Result<()> {
    let selected: usize = groups.iter().map(|group| group.len()).sum();
    let satisfied = if no_sets {
        Condition::of(
            "PlacementSatisfied",
            false,
            "NoManagedClusterSetBindings",
            "No valid ManagedClusterSetBindings found in placement namespace",
        )
    } else if selected == 0 {
        let message = "No ManagedCluster matches any of the cluster predicate";
        Condition::of(
            "PlacementSatisfied",
            false,
            "NoManagedClusterMatched",
            message,
        )
    } else {
        let message = "All cluster decisions scheduled";
        Condition::of("PlacementSatisfied", true, "AllDecisionsScheduled", message)
    };
    let well = Condition::of(
        "PlacementMisconfigured",
        false,
        "Succeedconfigured",
        "Placement configurations check pass",
    );
    let api = PLACEMENT.within(&hub.client, &one.namespace().unwrap_or_default());
    condition::write_status(&api, one, |status| {
        status["numberOfSelectedClusters"] = json!(selected);
        let parts = parts(&one.name_any(), groups);
        let reply = (0..).zip(groups).map(|(index, group): (u64, _)| {
            let of_group = parts.iter().filter(|part| part.group == index);
            json!({
                "decisionGroupIndex": index,
                "decisionGroupName": "",
                "clusterCount": group.len(),
                "decisions": of_group.map(|part| &part.name).collect::<Vec<_>>(),
            })
        });
        status["decisionGroups"] = reply.collect();
        let conditions = condition::list(status);
        condition::set(conditions, &well);
        condition::set(conditions, &satisfied);
    })
    .await
}
