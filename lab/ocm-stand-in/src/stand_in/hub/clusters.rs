//! Accepted clusters get their namespace and rights, denied and deleted ones lose them, deleted ones are removed.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use anyhow::Result;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{Hub, for_each, removal};
use crate::{
    condition::{self, Condition},
    control::Again,
    kinds::{
        CLUSTER_ROLE, CLUSTER_ROLE_BINDING, CLUSTER_SET, MANAGED_CLUSTER, MANIFEST_WORK, NAMESPACE,
        ROLE_BINDING, words::CLUSTER_NAME,
    },
    klusterlet::{self, Manifest, rule},
};

/// Finalizer of the controller that grants and revokes rights.
pub(super) const RIGHTS_FINALIZER: &str = "cluster.open-cluster-management.io/api-resource-cleanup";
/// Finalizer of the controller that empties the cluster's namespace.
pub(super) const RESOURCES_FINALIZER: &str = "cluster.open-cluster-management.io/resource-cleanup";
const WORK_FINALIZER: &str = "cluster.open-cluster-management.io/manifest-work-cleanup";

/// The clusters that have the rights they should have, by UID: applied rights are not applied again.
#[derive(Debug, Default)]
pub(super) struct Accepted {
    /// Guards the map only; never locked over an await.
    done: Mutex<HashMap<String, (String, bool)>>,
}

impl Accepted {
    fn is_done(&self, cluster: &DynamicObject, accepted: bool) -> bool {
        let wanted = (cluster.uid().unwrap_or_default(), accepted);
        self.done
            .lock()
            .expect("no panic under the lock")
            .get(&cluster.name_any())
            == Some(&wanted)
    }

    fn note(&self, cluster: &DynamicObject, accepted: bool) {
        let state = (cluster.uid().unwrap_or_default(), accepted);
        self.done
            .lock()
            .expect("no panic under the lock")
            .insert(cluster.name_any(), state);
    }
}

pub(super) async fn pass(hub: Hub, accepted: Arc<Accepted>) -> Result<Again> {
    ensure_sets(&hub).await?;
    let clusters = hub.cache.list(MANAGED_CLUSTER);
    for_each(clusters, async |cluster| {
        one(&hub, &accepted, &cluster).await
    })
    .await
}

async fn one(hub: &Hub, accepted: &Accepted, cluster: &DynamicObject) -> Result<Again> {
    if cluster.metadata.deletion_timestamp.is_some() {
        return removal::remove(hub, cluster).await;
    }
    let api = MANAGED_CLUSTER.all(&hub.client);
    let missing = [RESOURCES_FINALIZER, RIGHTS_FINALIZER]
        .into_iter()
        .any(|wanted| !cluster.finalizers().iter().any(|has| has == wanted));
    if missing {
        let mut all = cluster.finalizers().to_vec();
        all.extend([RESOURCES_FINALIZER, RIGHTS_FINALIZER].map(str::to_owned));
        all.sort();
        all.dedup();
        condition::write_object(&api, cluster, json!({ "metadata": { "finalizers": all } }))
            .await?;
        return Ok(None);
    }
    let accepts = cluster.data["spec"]["hubAcceptsClient"] == true;
    let was_accepted = condition::is_true(&cluster.data, "HubAcceptedManagedCluster");
    if !accepts && !was_accepted {
        return Ok(None);
    }
    let name = cluster.name_any();
    if !accepted.is_done(cluster, accepts) {
        klusterlet::apply(&hub.client, rights(&name, accepts)).await?;
        accepted.note(cluster, accepts);
    }
    if !accepts && !revoke(hub, &name, false).await? {
        // As in OCM it counts as accepted while it has works.
        return Ok(None);
    }
    let (reason, message) = if accepts {
        ("HubClusterAdminAccepted", "Accepted by hub cluster admin")
    } else {
        ("HubClusterAdminDenied", "Denied by hub cluster admin")
    };
    condition::write_status(&api, cluster, |status| {
        let wanted = Condition::of("HubAcceptedManagedCluster", accepts, reason, message);
        condition::set(condition::list(status), &wanted);
    })
    .await?;
    Ok(None)
}

/// The sets that every hub has: `default` by label, `global` with all clusters.
async fn ensure_sets(hub: &Hub) -> Result<()> {
    let sets = [
        (
            "default",
            json!({ "selectorType": "ExclusiveClusterSetLabel" }),
        ),
        (
            "global",
            json!({ "selectorType": "LabelSelector", "labelSelector": {} }),
        ),
    ];
    for (name, selector) in sets {
        if hub.cache.get(CLUSTER_SET, name).is_none() {
            let set = json!({
                "metadata": { "name": name }, "spec": { "clusterSelector": selector },
            });
            klusterlet::apply(&hub.client, vec![(CLUSTER_SET, None, set)]).await?;
        }
    }
    Ok(())
}

/// The names of the two bindings in the cluster's namespace.
fn bindings(cluster: &str) -> [String; 2] {
    let prefix = format!("open-cluster-management:managedcluster:{cluster}");
    [format!("{prefix}:registration"), format!("{prefix}:work")]
}

/// A part of the rights of a cluster on the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Its own object, and certificate requests.
    Cluster,
    /// The registration agent's rights in its namespace: lease and add-ons.
    Registration,
    /// The work agent's.
    Work,
}

/// The rights that a deleted or denied cluster loses at once. With works on it, the work agent needs its own to remove them.
const fn lost(is_deleted: bool, has_works: bool) -> &'static [Part] {
    match (is_deleted, has_works) {
        (true, true) => &[Part::Cluster, Part::Registration],
        (true, false) => &[Part::Cluster, Part::Registration, Part::Work],
        // The cluster's own role was replaced by one with fewer rights.
        (false, true) => &[Part::Registration],
        (false, false) => &[Part::Registration, Part::Work],
    }
}

/// Takes the rights away that a deleted or denied cluster loses now; true once it has none.
pub(super) async fn revoke(hub: &Hub, cluster: &str, is_deleted: bool) -> Result<bool> {
    let lost = lost(
        is_deleted,
        !hub.cache.within(MANIFEST_WORK, cluster).is_empty(),
    );
    let own = format!("open-cluster-management:managedcluster:{cluster}");
    let [registration, work] = bindings(cluster);
    let within = ROLE_BINDING.within(&hub.client, cluster);
    for part in lost {
        match part {
            Part::Cluster => {
                for kind in [CLUSTER_ROLE_BINDING, CLUSTER_ROLE] {
                    delete(&kind.all(&hub.client), &own).await?;
                }
            }
            Part::Registration => delete(&within, &registration).await?,
            Part::Work => {
                let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
                let freed = within.patch(&work, &PatchParams::default(), &free).await;
                condition::tolerate_staleness(freed)?;
                delete(&within, &work).await?;
            }
        }
    }
    Ok(lost.contains(&Part::Work))
}

async fn delete(api: &Api<DynamicObject>, name: &str) -> Result<()> {
    condition::tolerate_staleness(api.delete(name, &DeleteParams::default()).await)
}

/// The namespace, roles and bindings of one cluster, as OCM makes them.
fn rights(cluster: &str, accepted: bool) -> Vec<Manifest> {
    let own = format!("open-cluster-management:managedcluster:{cluster}");
    let label = json!({ CLUSTER_NAME: cluster });
    let common = json!({ CLUSTER_NAME: "" });
    let role = |name: &str, labels: &Value, rules: Vec<Value>| {
        let metadata = json!({ "name": name, "labels": labels });
        (
            CLUSTER_ROLE,
            None,
            json!({ "metadata": metadata, "rules": rules }),
        )
    };
    let mut manifests = vec![
        (
            NAMESPACE,
            None,
            json!({ "metadata": { "name": cluster, "labels": label } }),
        ),
        role(
            "open-cluster-management:managedcluster:registration",
            &common,
            registration_rules(),
        ),
        role(
            "open-cluster-management:managedcluster:work",
            &common,
            work_rules(),
        ),
        role(&own, &label, cluster_rules(cluster, accepted)),
        (CLUSTER_ROLE_BINDING, None, binding(&own, &own, cluster)),
    ];
    if accepted {
        let [registration, work] = bindings(cluster);
        let mut of_work = binding(
            &work,
            "open-cluster-management:managedcluster:work",
            cluster,
        );
        of_work["metadata"]["finalizers"] = json!([WORK_FINALIZER]);
        let of_registration = binding(
            &registration,
            "open-cluster-management:managedcluster:registration",
            cluster,
        );
        manifests.push((ROLE_BINDING, Some(cluster.to_owned()), of_registration));
        manifests.push((ROLE_BINDING, Some(cluster.to_owned()), of_work));
    }
    manifests
}

fn binding(name: &str, role: &str, cluster: &str) -> Value {
    let api_group = "rbac.authorization.k8s.io";
    let group = |prefix: &str| json!({ "kind": "Group", "apiGroup": api_group, "name": format!("{prefix}:{cluster}") });
    json!({
        "metadata": { "name": name, "labels": { CLUSTER_NAME: cluster } },
        "roleRef": { "apiGroup": api_group, "kind": "ClusterRole", "name": role },
        "subjects": [group("system:open-cluster-management"), group("open-cluster-management")],
    })
}

fn registration_rules() -> Vec<Value> {
    let add_ons = "addon.open-cluster-management.io";
    let read = ["get", "list", "watch"];
    vec![
        rule(
            &["coordination.k8s.io"],
            &["leases"],
            &["get", "list", "watch", "update"],
        ),
        rule(&[add_ons], &["managedclusteraddons"], &read),
        rule(
            &[add_ons],
            &["managedclusteraddons/status"],
            &["patch", "update"],
        ),
        rule(&["events.k8s.io"], &["events"], &["create"]),
    ]
}

fn work_rules() -> Vec<Value> {
    let works = "work.open-cluster-management.io";
    vec![
        rule(
            &["", "events.k8s.io"],
            &["events"],
            &["create", "patch", "update"],
        ),
        rule(
            &[works],
            &["manifestworks"],
            &["get", "list", "watch", "update", "patch"],
        ),
        rule(&[works], &["manifestworks/status"], &["patch", "update"]),
    ]
}

fn cluster_rules(cluster: &str, accepted: bool) -> Vec<Value> {
    let group = "cluster.open-cluster-management.io";
    let named = |resource: &str, verbs: &[&str]| {
        let mut rule = rule(&[group], &[resource], verbs);
        rule["resourceNames"] = json!([cluster]);
        rule
    };
    if !accepted {
        return vec![named("managedclusters", &["get", "list", "watch"])];
    }
    vec![
        rule(
            &["certificates.k8s.io"],
            &["certificatesigningrequests"],
            &["create", "get", "list", "watch"],
        ),
        rule(
            &["register.open-cluster-management.io"],
            &["managedclusters/clientcertificates"],
            &["renew"],
        ),
        named("managedclusters", &["get", "list", "update", "watch"]),
        named("managedclusters/status", &["patch", "update"]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn works_keep_only_the_rights_of_the_work_agent() {
        for is_deleted in [true, false] {
            assert!(!lost(is_deleted, true).contains(&Part::Work));
            assert!(lost(is_deleted, false).contains(&Part::Work));
            for has_works in [true, false] {
                let lost = lost(is_deleted, has_works);
                assert!(lost.contains(&Part::Registration));
                assert_eq!(lost.contains(&Part::Cluster), is_deleted);
            }
        }
    }
}
