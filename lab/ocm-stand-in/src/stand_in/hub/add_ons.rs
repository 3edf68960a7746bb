//! Sets the owner of ManagedClusterAddOns to their ClusterManagementAddOn; creates and deletes them for placements.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex},
};

use anyhow::Result;
use kube::{
    ResourceExt,
    api::{DeleteParams, DynamicObject, PostParams},
};
use serde_json::{Value, json};

use super::{Hub, for_each, placements};
use crate::{
    condition,
    control::Again,
    kinds::{
        CLUSTER_MANAGEMENT_ADD_ON, MANAGED_CLUSTER, MANAGED_CLUSTER_ADD_ON, PLACEMENT,
        PLACEMENT_DECISION,
    },
};

const LIFECYCLE: &str = "addon.open-cluster-management.io/lifecycle";
const FAMILY: &str = "addon.open-cluster-management.io/";
const PLACEMENT_LABEL: &str = "cluster.open-cluster-management.io/placement";

/// The add-ons that OCM's add-on manager manages: those that do not manage themselves.
pub(super) fn managed(hub: &Hub) -> Vec<Arc<DynamicObject>> {
    let mut all = hub.cache.list(CLUSTER_MANAGEMENT_ADD_ON);
    all.retain(|one| {
        let lifecycle = one.annotations().get(LIFECYCLE).map(String::as_str);
        matches!(lifecycle, None | Some("" | "addon-manager"))
            && one.metadata.deletion_timestamp.is_none()
    });
    all
}

/// The ManagedClusterAddOns of one add-on, over all clusters.
pub(super) fn instances(hub: &Hub, name: &str) -> Vec<Arc<DynamicObject>> {
    let mut all = hub.cache.list(MANAGED_CLUSTER_ADD_ON);
    all.retain(|add_on| add_on.name_any() == name);
    all
}

/// The clusters that a placement has selected.
pub(super) fn decided(hub: &Hub, namespace: &str, name: &str) -> BTreeMap<String, u64> {
    hub.cache
        .within(PLACEMENT_DECISION, namespace)
        .iter()
        .filter(|decision| {
            decision
                .labels()
                .get(PLACEMENT_LABEL)
                .is_some_and(|of| of == name)
        })
        .flat_map(|decision| {
            let group = placements::group(decision);
            let chosen = placements::chosen(decision).into_iter();
            chosen.map(move |cluster| (cluster, group))
        })
        .collect()
}

/// The placements of an install strategy, if it is of that type.
pub(super) fn strategy(management: &Value) -> Option<&[Value]> {
    let strategy = &management["spec"]["installStrategy"];
    (strategy["type"] == "Placements").then(|| {
        strategy["placements"]
            .as_array()
            .map_or(&[][..], Vec::as_slice)
    })
}

/// Annotations of the add-on family.
type Family = BTreeMap<String, String>;

/// The family that was passed on last, by cluster and add-on.
#[derive(Debug, Default)]
pub(super) struct Families {
    /// Guards the map only; never locked over an await.
    passed_on: Mutex<HashMap<(String, String), Family>>,
}

impl Families {
    fn note(&self, cluster: &str, add_on: &str, family: Family) {
        self.passed_on
            .lock()
            .expect("no panic under the lock")
            .insert((cluster.to_owned(), add_on.to_owned()), family);
    }

    /// Whether the family of a cluster has changed since. At the first sight of an add-on it has not.
    fn has_changed(&self, cluster: &str, add_on: &str, family: &Family) -> bool {
        *self
            .passed_on
            .lock()
            .expect("no panic under the lock")
            .entry((cluster.to_owned(), add_on.to_owned()))
            .or_insert_with(|| family.clone())
            != *family
    }
}

pub(super) async fn pass(hub: Hub, families: Arc<Families>) -> Result<Again> {
    for_each(managed(&hub), async |management| {
        own(&hub, &management).await?;
        install(&hub, &families, &management).await?;
        Ok(None)
    })
    .await
}

fn owner(management: &DynamicObject) -> Value {
    json!({
        "apiVersion": CLUSTER_MANAGEMENT_ADD_ON.api_version(),
        "kind": CLUSTER_MANAGEMENT_ADD_ON.name,
        "name": management.name_any(),
        "uid": management.uid(),
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// Adds the owner reference to ManagedClusterAddOns that other clients created.
async fn own(hub: &Hub, management: &DynamicObject) -> Result<()> {
    for add_on in instances(hub, &management.name_any()) {
        let uid = management.uid();
        if add_on
            .owner_references()
            .iter()
            .any(|owner| Some(&owner.uid) == uid.as_ref())
        {
            continue;
        }
        // An owner of the same kind and name but another UID was deleted and recreated.
        let mut owners: Vec<Value> = add_on
            .owner_references()
            .iter()
            .filter(|owner| owner.kind != CLUSTER_MANAGEMENT_ADD_ON.name)
            .map(serde_json::to_value)
            .collect::<Result<_, _>>()?;
        owners.push(owner(management));
        let api =
            MANAGED_CLUSTER_ADD_ON.within(&hub.client, &add_on.namespace().unwrap_or_default());
        let patch = json!({ "metadata": { "ownerReferences": owners } });
        condition::write_object(&api, &add_on, patch).await?;
    }
    Ok(())
}

/// Creates the ManagedClusterAddOns that placements selected, and deletes all others.
async fn install(hub: &Hub, families: &Families, management: &DynamicObject) -> Result<()> {
    let Some(placements) = strategy(&management.data) else {
        return Ok(());
    };
    let name = management.name_any();
    let mut required = BTreeSet::new();
    for one in placements {
        let (namespace, placement) = (one["namespace"].as_str(), one["name"].as_str());
        let (namespace, placement) = (namespace.unwrap_or_default(), placement.unwrap_or_default());
        if hub
            .cache
            .get_within(PLACEMENT, namespace, placement)
            .is_some()
        {
            required.extend(decided(hub, namespace, placement).into_keys());
        }
    }
    let existing = instances(hub, &name);
    for cluster in &required {
        if !existing
            .iter()
            .any(|add_on| add_on.namespace().as_ref() == Some(cluster))
        {
            create(hub, families, management, cluster).await?;
        }
    }
    for add_on in existing {
        let cluster = add_on.namespace().unwrap_or_default();
        if required.contains(&cluster) {
            copy_annotations(hub, families, &add_on, &cluster).await?;
        } else if add_on.metadata.deletion_timestamp.is_none() {
            let api = MANAGED_CLUSTER_ADD_ON.within(&hub.client, &cluster);
            condition::tolerate_staleness(api.delete(&name, &DeleteParams::default()).await)?;
        }
    }
    Ok(())
}

/// The annotations of the add-on family that a ManagedCluster passes on to its add-ons.
fn family(hub: &Hub, cluster: &str) -> Family {
    let known = hub.cache.get(MANAGED_CLUSTER, cluster);
    let all = known
        .map(|cluster| cluster.annotations().clone())
        .unwrap_or_default();
    all.into_iter()
        .filter(|(key, _)| key.starts_with(FAMILY))
        .collect()
}

async fn create(
    hub: &Hub,
    families: &Families,
    management: &DynamicObject,
    cluster: &str,
) -> Result<()> {
    let family = family(hub, cluster);
    let add_on: DynamicObject = serde_json::from_value(json!({
        "apiVersion": MANAGED_CLUSTER_ADD_ON.api_version(),
        "kind": MANAGED_CLUSTER_ADD_ON.name,
        "metadata": {
            "name": management.name_any(),
            "namespace": cluster,
            "annotations": family,
            "ownerReferences": [owner(management)],
        },
        "spec": {},
    }))?;
    let api = MANAGED_CLUSTER_ADD_ON.within(&hub.client, cluster);
    condition::tolerate_staleness(api.create(&PostParams::default(), &add_on).await)?;
    families.note(cluster, &management.name_any(), family);
    Ok(())
}

/// Passes on the family of a ManagedCluster when it has changed. As in OCM the add-on then has no other of the family, also
/// none that a user gave it.
async fn copy_annotations(
    hub: &Hub,
    families: &Families,
    add_on: &DynamicObject,
    cluster: &str,
) -> Result<()> {
    let (name, family) = (add_on.name_any(), family(hub, cluster));
    if !families.has_changed(cluster, &name, &family) {
        return Ok(());
    }
    let change = difference(add_on.annotations(), &family);
    if change.is_empty() {
        families.note(cluster, &name, family.clone());
        return Ok(());
    }
    let api = MANAGED_CLUSTER_ADD_ON.within(&hub.client, cluster);
    let patch = json!({ "metadata": { "annotations": change } });
    condition::write_object(&api, add_on, patch).await
}

/// The change after which an add-on has this family; none removes an annotation.
fn difference<'a>(has: &'a Family, family: &'a Family) -> BTreeMap<&'a str, Option<&'a str>> {
    let removed = has
        .keys()
        .filter(|key| key.starts_with(FAMILY) && !family.contains_key(*key))
        .map(|key| (key.as_str(), None));
    let set = family
        .iter()
        .filter(|(key, value)| has.get(*key) != Some(*value))
        .map(|(key, value)| (key.as_str(), Some(value.as_str())));
    removed.chain(set).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn family(entries: &[(&str, &str)]) -> Family {
        let entries = entries.iter();
        entries
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn annotations_that_a_cluster_lost_go_from_its_add_on() {
        let (same, new) = (format!("{FAMILY}same"), format!("{FAMILY}new"));
        let (edited, stale) = (format!("{FAMILY}edited"), format!("{FAMILY}stale"));
        let has = family(&[
            (&same, "1"),
            (&edited, "1"),
            (&stale, "1"),
            ("other.io/stays", "1"),
        ]);
        let wanted = family(&[(&same, "1"), (&edited, "2"), (&new, "3")]);
        let change = BTreeMap::from([
            (edited.as_str(), Some("2")),
            (new.as_str(), Some("3")),
            (stale.as_str(), None),
        ]);
        assert_eq!(difference(&has, &wanted), change);
        assert!(difference(&wanted, &wanted).is_empty());
    }

    #[test]
    fn a_family_is_passed_on_only_after_a_change() {
        let families = Families::default();
        let (first, second) = (family(&[("a", "1")]), family(&[("a", "2")]));
        assert!(!families.has_changed("c", "a", &first), "the first sight");
        assert!(families.has_changed("c", "a", &second));
        assert!(families.has_changed("c", "a", &second), "until it is there");
        families.note("c", "a", second.clone());
        assert!(!families.has_changed("c", "a", &second));
        assert!(!families.has_changed("other", "a", &second));
    }
}
