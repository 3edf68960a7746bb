//! The SDK's cache of the hub's objects, which the watches keep current.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::DynamicObject;
use serde_json::Value;
use tokio::{sync::watch, time::Instant};

use super::{
    cache::{Cache, Change, Update},
    csr,
    hash::Live,
    key::Key,
    permissions,
    settled::{Configuration, Configured},
};
use crate::{
    api::{
        addon::{
            AddOnConfig, ClusterManagementAddOn, ConfigGroupResource, InstallStrategy,
            ManagedClusterAddOn, PlacementStrategy,
        },
        cluster::ManagedCluster,
    },
    keys,
    name::ClusterName,
};

mod observed;
mod own_writes;

use self::own_writes::Wait;
pub(crate) use self::{
    observed::{Observed, Work},
    own_writes::Expected,
};

/// The `ClusterManagementAddOn`, as served and as a model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Offer {
    /// As served.
    pub(crate) raw: Value,
    /// As a model.
    pub(crate) model: Arc<ClusterManagementAddOn>,
}

/// A configuration object, as served, with its hash.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ConfigObject {
    /// As served, without managed fields.
    pub(crate) raw: Value,
    /// Its hash and generation.
    pub(crate) live: Live,
}

/// The clusters that a `PlacementDecision` selects.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decision {
    /// The namespace and the name of the Placement.
    pub(crate) placement: (String, String),
    /// The clusters.
    pub(crate) clusters: BTreeSet<ClusterName>,
}

impl Decision {
    /// Reads the label and the status.
    pub(crate) fn read(decision: &DynamicObject) -> Option<Self> {
        let metadata = &decision.metadata;
        let placement = metadata.labels.as_ref()?.get(keys::PLACEMENT)?.clone();
        let decisions = decision.data.pointer("/status/decisions");
        let decisions = decisions.and_then(Value::as_array).into_iter().flatten();
        let clusters = decisions.filter_map(|it| it.get("clusterName")?.as_str());
        Some(Self {
            placement: (metadata.namespace.clone()?, placement),
            clusters: clusters
                .filter_map(|name| ClusterName::new(name).ok())
                .collect(),
        })
    }

    /// Whether it belongs to this placement.
    pub(crate) fn is_of(&self, placement: &PlacementStrategy) -> bool {
        (&self.placement.0, &self.placement.1) == (&placement.namespace, &placement.name)
    }

    /// The clusters that this decision selects and the other one does not.
    pub(crate) fn beyond<'a>(
        &'a self,
        other: Option<&'a Self>,
    ) -> impl Iterator<Item = &'a ClusterName> {
        let other = other.filter(|other| other.placement == self.placement);
        let clusters = self.clusters.iter();
        clusters.filter(move |cluster| !other.is_some_and(|it| it.clusters.contains(*cluster)))
    }
}

/// The cluster that a work is for, its namespace and its name.
pub(crate) type WorkKey = (ClusterName, String, String);

/// A Role or a `RoleBinding` of an agent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Permission {
    /// The permissions.
    Role(Arc<Role>),
    /// The subject.
    Binding(Arc<RoleBinding>),
}

/// All cached objects.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) clusters: Cache<ClusterName, Arc<ManagedCluster>>,
    pub(crate) addons: Cache<ClusterName, Arc<ManagedClusterAddOn>>,
    /// By the cluster that they are for, their namespace and their name.
    pub(crate) works: Cache<WorkKey, Arc<Work>>,
    /// Certificate requests by name: those with our label, and for each custom signer of ours those without it.
    pub(crate) requests: BTreeMap<Option<String>, Cache<String, Arc<csr::Summary>>>,
    pub(crate) offer: Cache<(), Arc<Offer>>,
    /// By namespace and name.
    pub(crate) decisions: Cache<(String, String), Arc<Decision>>,
    /// Watched only if agents get permissions.
    pub(crate) permissions: BTreeMap<permissions::Part, Cache<ClusterName, Permission>>,
    pub(crate) configs: BTreeMap<ConfigGroupResource, Cache<AddOnConfig, Arc<ConfigObject>>>,
    awaited: BTreeMap<Key, Vec<Wait>>,
}

impl State {
    /// Whether everything has been listed once.
    pub(crate) fn is_synced(&self) -> bool {
        self.clusters.is_synced()
            && self.addons.is_synced()
            && self.works.is_synced()
            && self.requests.values().all(Cache::is_synced)
            && self.offer.is_synced()
            && self.decisions.is_synced()
            && self.permissions.values().all(Cache::is_synced)
            && self.configs.values().all(Cache::is_synced)
    }

    /// The certificate requests, with our label or without.
    pub(crate) fn requests(&self) -> impl Iterator<Item = (&String, &Arc<csr::Summary>)> {
        self.requests.values().flat_map(Cache::live)
    }

    /// A certificate request, with our label or without.
    pub(crate) fn request(&self, name: &str) -> Option<&Arc<csr::Summary>> {
        self.requests.values().find_map(|it| it.live().get(name))
    }

    /// The `ClusterManagementAddOn`.
    pub(crate) fn offer(&self) -> Option<Arc<ClusterManagementAddOn>> {
        let offer = self.offer.live().get(&());
        offer.map(|offer| Arc::clone(&offer.model))
    }

    /// A configuration object.
    pub(crate) fn config(&self, named: &AddOnConfig) -> Option<&Arc<ConfigObject>> {
        self.configs.get(&named.kind())?.live().get(named)
    }

    /// The placements of the `ClusterManagementAddOn`; none if they do not decide configurations.
    pub(crate) fn placements(&self) -> &[PlacementStrategy] {
        let offer = self.offer.live().get(&());
        let strategy = offer.map(|offer| &offer.model.spec.install_strategy);
        let decides = |it: &&InstallStrategy| {
            it.is_placements() && it.placements.iter().any(|it| !it.configs.is_empty())
        };
        strategy.filter(decides).map_or(&[], |it| &it.placements)
    }

    /// The configurations of the placement that counts for a cluster: as for OCM, the last one that selects it.
    pub(crate) fn placed(&self, cluster: &ClusterName) -> &[AddOnConfig] {
        let selects = |placement: &&PlacementStrategy| {
            // Only those of its namespace: an author may ask for all clusters at each change.
            let from = (placement.namespace.clone(), String::new());
            let decisions = self.decisions.live().range(from..);
            let mut decisions = decisions.take_while(|((it, _), _)| *it == placement.namespace);
            decisions.any(|(_, it)| it.is_of(placement) && it.clusters.contains(cluster))
        };
        let last = self.placements().iter().rev().find(selects);
        last.map_or(&[], |placement| &placement.configs)
    }

    /// The configuration of the add-on on one cluster.
    pub(crate) fn configured(&self, cluster: &ClusterName) -> Configuration {
        let Some(addon) = self.addons.live().get(cluster) else {
            return Configuration::default();
        };
        let offer = self.offer.live().get(&());
        let configured = Configured {
            addon,
            offer: offer.map(|it| it.model.as_ref()),
            placed: self.placed(cluster),
        };
        let supported: Vec<_> = self.configs.keys().cloned().collect();
        configured.configuration(&supported)
    }

    /// The clusters with the add-on that a changed decision adds to a placement, or removes from it.
    pub(crate) fn moved(
        &self,
        key: &(String, String),
        before: Option<&Decision>,
    ) -> Vec<ClusterName> {
        let now = self.decisions.live().get(key).map(AsRef::as_ref);
        let decides = |it: &&Decision| {
            self.placements()
                .iter()
                .any(|placement| it.is_of(placement))
        };
        let (before, now) = (before.filter(decides), now.filter(decides));
        let removed = before.into_iter().flat_map(|it| it.beyond(now));
        let added = now.into_iter().flat_map(|it| it.beyond(before));
        let addons = self.addons.live();
        let moved = removed.chain(added).filter(|it| addons.contains_key(*it));
        moved.cloned().collect()
    }

    /// A cluster's works.
    pub(crate) fn works_of<'a>(
        &'a self,
        cluster: &'a ClusterName,
    ) -> impl Iterator<Item = &'a Arc<Work>> {
        let from = (cluster.clone(), String::new(), String::new());
        let works = self.works.live().range(from..);
        let works = works.take_while(move |((owner, _, _), _)| owner == cluster);
        works.map(|(_, work)| work)
    }

    fn permissions_of(&self, cluster: &ClusterName) -> permissions::Live {
        let mut live = permissions::Live::default();
        for permissions in self.permissions.values() {
            match permissions.live().get(cluster) {
                Some(Permission::Role(role)) => live.role = Some(Arc::clone(role)),
                Some(Permission::Binding(binding)) => live.binding = Some(Arc::clone(binding)),
                None => {}
            }
        }
        live
    }
}

/// All cached objects, shared. The lock is released before every await.
#[derive(Debug, Default)]
pub(crate) struct ObjectCache {
    state: Mutex<State>,
    revision: watch::Sender<u64>,
}

impl ObjectCache {
    /// Locks the cache. It is plain data, so a poisoned lock does no harm.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies an event and returns the keys that changed, with their former values.
    pub(crate) fn apply<K: Clone + Ord, V: Clone + PartialEq>(
        &self,
        cache: impl FnOnce(&mut State) -> &mut Cache<K, V>,
        update: Update<K, V>,
    ) -> Vec<(K, Option<V>)> {
        let completes = matches!(update.change, Change::Complete);
        let changed = cache(&mut self.lock()).apply(update);
        if completes || !changed.is_empty() {
            self.revision
                .send_modify(|revision| *revision = revision.wrapping_add(1));
        }
        changed
    }

    /// Counts changes.
    pub(crate) fn revision(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// Everything about one cluster.
    pub(crate) fn observe(&self, cluster: &ClusterName) -> Observed {
        let state = self.lock();
        let addon = state.addons.live().get(cluster).cloned();
        let host = addon.as_ref().and_then(|addon| addon.hosting_cluster());
        let host = host.and_then(|host| state.clusters.live().get(host));
        let works: Vec<_> = state.works_of(cluster).cloned().collect();
        let namespaces = works.iter().map(|work| &work.report.namespace);
        let clusters = state.clusters.live();
        let abandoned = namespaces.filter(|name| !clusters.contains_key(name.as_str()));
        Observed {
            cluster: clusters.get(cluster).cloned(),
            host: host.cloned(),
            abandoned: abandoned.cloned().collect(),
            permissions: state.permissions_of(cluster),
            placed: state.placed(cluster).to_vec(),
            addon,
            works,
            offer: state.offer(),
        }
    }

    /// Makes a key wait until the cache shows an own write: a reconcile of the state before it would
    /// repeat the write.
    pub(crate) fn expect(&self, key: Key, expected: Expected) {
        let mut state = self.lock();
        let wait = Wait::new(&state, &key, expected, Instant::now());
        state.awaited.entry(key).or_default().push(wait);
    }

    /// Whether the cache does not show an own write yet.
    pub(crate) fn is_behind(&self, key: &Key, now: Instant) -> bool {
        let mut state = self.lock();
        let mut waits = state.awaited.remove(key).unwrap_or_default();
        waits.retain_mut(|wait| wait.lasts(&state, key, now));
        let behind = !waits.is_empty();
        if behind {
            state.awaited.insert(key.clone(), waits);
        }
        behind
    }
}

#[cfg(test)]
mod tests;
