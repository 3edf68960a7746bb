//! Sets the configuration of each ManagedClusterAddOn, and reports the progress of a rollout.

use std::collections::BTreeMap;

use anyhow::Result;
use kube::{ResourceExt, api::DynamicObject};
use serde_json::{Value, json};

use super::{
    Hub,
    add_ons::{decided, instances, managed, strategy},
    for_each,
};
use crate::{
    condition::{self, Condition},
    control::Again,
    kinds::{CLUSTER_MANAGEMENT_ADD_ON, MANAGED_CLUSTER_ADD_ON, PLACEMENT},
    rollout::{self, Config, Member, State},
};

pub(super) async fn pass(hub: Hub) -> Result<Again> {
    for_each(managed(&hub), async |management| {
        let counts = configure(&hub, &management).await?;
        condition::write_status(
            &CLUSTER_MANAGEMENT_ADD_ON.all(&hub.client),
            &management,
            |status| {
                report(status, &management.data, &counts);
            },
        )
        .await?;
        Ok(None)
    })
    .await
}

/// The number of add-ons of one placement by progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    selected: usize,
    configured: usize,
    upgrading: usize,
    done: usize,
}

/// One placement of the install strategy with the clusters that its configuration is for.
struct Node {
    /// By name, with the decision group of each.
    clusters: BTreeMap<String, u64>,
    configs: Vec<Config>,
    rollout: Value,
}

impl Node {
    fn member(&self, add_on: &DynamicObject) -> Member {
        let wanted = rollout::of_add_on(&self.configs, &add_on.data);
        let cluster = add_on.namespace().unwrap_or_default();
        Member {
            group: self.clusters.get(&cluster).copied().unwrap_or_default(),
            state: rollout::state(&add_on.data, &wanted),
            cluster,
        }
    }
}

/// The placements in their order; a later one takes shared clusters from an earlier one.
fn nodes(hub: &Hub, management: &Value, defaults: &[Config]) -> Vec<Node> {
    let progressions = management["status"]["installProgressions"].as_array();
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    strategy(management)
        .unwrap_or_default()
        .iter()
        .map(|place| {
            let (namespace, name) = (text(place, "namespace"), text(place, "name"));
            let known = hub.cache.get_within(PLACEMENT, &namespace, &name).is_some();
            let progression = progressions.into_iter().flatten().find(|one| {
                (text(one, "namespace"), text(one, "name")) == (namespace.clone(), name.clone())
            });
            Node {
                clusters: if known {
                    decided(hub, &namespace, &name)
                } else {
                    BTreeMap::new()
                },
                rollout: place["rolloutStrategy"].clone(),
                configs: progression.map_or_else(
                    || defaults.to_vec(),
                    |one| rollout::of_placement(defaults, one),
                ),
            }
        })
        .collect()
}

/// Sets the configuration of every add-on; returns the progress of each placement.
async fn configure(hub: &Hub, management: &DynamicObject) -> Result<Vec<Counts>> {
    let defaults = rollout::defaults(&management.data);
    let nodes = nodes(hub, &management.data, &defaults);
    let mut owner: BTreeMap<&String, usize> = BTreeMap::new();
    for (index, node) in nodes.iter().enumerate() {
        owner.extend(node.clusters.keys().map(|cluster| (cluster, index)));
    }
    let mut counts: Vec<Counts> = nodes
        .iter()
        .enumerate()
        .map(|(index, node)| Counts {
            selected: node.clusters.len(),
            configured: owner.values().filter(|of| **of == index).count(),
            ..Counts::default()
        })
        .collect();
    let all = instances(hub, &management.name_any());
    let node_of = |add_on: &DynamicObject| {
        let cluster = add_on.namespace()?;
        owner.get(&cluster).copied()
    };
    let batches: Vec<_> = nodes
        .iter()
        .enumerate()
        .map(|(index, node)| {
            let of_node = all.iter().filter(|add_on| node_of(add_on) == Some(index));
            let states = of_node.map(|add_on| node.member(add_on));
            rollout::batch(&node.rollout, &states.collect::<Vec<_>>())
        })
        .collect();
    for add_on in all {
        let node = node_of(&add_on);
        let cluster = add_on.namespace().unwrap_or_default();
        let batch = node.and_then(|index| batches.get(index));
        if batch.is_some_and(|batch| !batch.contains(&cluster)) {
            wait_for_turn(hub, &add_on).await?;
            if let Some(counts) = node.and_then(|index| counts.get_mut(index)) {
                counts.upgrading += 1;
            }
            continue;
        }
        let inherited = node
            .and_then(|index| nodes.get(index))
            .map_or(&defaults, |node| &node.configs);
        let state = configure_one(hub, &add_on, inherited).await?;
        if let Some(counts) = node.and_then(|index| counts.get_mut(index)) {
            match state {
                State::Succeeded => counts.done += 1,
                State::ToApply | State::Progressing | State::Failed => counts.upgrading += 1,
            }
        }
    }
    Ok(counts)
}

async fn configure_one(hub: &Hub, add_on: &DynamicObject, inherited: &[Config]) -> Result<State> {
    let wanted = rollout::of_add_on(inherited, &add_on.data);
    let api = MANAGED_CLUSTER_ADD_ON.within(&hub.client, &add_on.namespace().unwrap_or_default());
    condition::write_status(&api, add_on, |status| {
        let references = rollout::references(&add_on.data, &wanted);
        let had_none = status["configReferences"]
            .as_array()
            .is_none_or(Vec::is_empty);
        if !(wanted.is_empty() && had_none) {
            status["configReferences"] = references;
        }
        condition::set(condition::list(status), &configured(true));
    })
    .await?;
    Ok(rollout::state(&add_on.data, &wanted))
}

/// Its turn has not come: it keeps its current configuration.
async fn wait_for_turn(hub: &Hub, add_on: &DynamicObject) -> Result<()> {
    let api = MANAGED_CLUSTER_ADD_ON.within(&hub.client, &add_on.namespace().unwrap_or_default());
    condition::write_status(&api, add_on, |status| {
        condition::set(condition::list(status), &configured(false));
    })
    .await
}

/// False for an add-on that waits for its turn in a rollout.
fn configured(is_configured: bool) -> Condition {
    let (reason, message) = if is_configured {
        ("ConfigurationsConfigured", "Configurations configured")
    } else {
        let message = "Configurations updated and not configured yet";
        ("ConfigurationsNotConfigured", message)
    };
    Condition::of("Configured", is_configured, reason, message)
}

/// The skeletons and the roll-up in the ClusterManagementAddOn's status.
fn report(status: &mut Value, management: &Value, counts: &[Counts]) {
    let defaults = rollout::default_references(management);
    let progressions = rollout::progressions(management);
    for (key, wanted) in [
        ("defaultConfigReferences", defaults),
        ("installProgressions", progressions),
    ] {
        let is_empty = wanted.as_array().is_none_or(Vec::is_empty);
        if !(is_empty && status.get(key).is_none()) {
            status[key] = wanted;
        }
    }
    let progressions = status["installProgressions"]
        .as_array_mut()
        .into_iter()
        .flatten();
    for (progression, counts) in progressions.zip(counts) {
        let wanted = progress(*counts);
        if wanted.status == "False" {
            let keys = ["lastAppliedConfig", "lastKnownGoodConfig"];
            rollout::mark_applied(&mut progression["configReferences"], &keys);
        }
        let conditions = progression["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        progression["conditions"] = json!(conditions);
        condition::set(condition::list(progression), &wanted);
    }
}

fn progress(counts: Counts) -> Condition {
    let Counts {
        selected,
        configured,
        upgrading,
        done,
    } = counts;
    if done != configured || configured == 0 {
        let message = format!(
            "selected clusters {selected}. configured addons {}/{configured} progressing..., 0 failed 0 timeout.",
            upgrading + done,
        );
        return Condition::of("Progressing", true, "Progressing", message);
    }
    let message = format!(
        "selected clusters {selected}. configured addons {done}/{configured} completed with no errors, 0 failed 0 timeout.",
    );
    Condition::of("Progressing", false, "Completed", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_add_on_that_waits_for_its_turn_is_not_configured() {
        for (is_configured, status, reason) in [
            (true, "True", "ConfigurationsConfigured"),
            (false, "False", "ConfigurationsNotConfigured"),
        ] {
            let condition = configured(is_configured);
            assert_eq!(
                (condition.status, condition.reason.as_str()),
                (status, reason)
            );
        }
    }
}
