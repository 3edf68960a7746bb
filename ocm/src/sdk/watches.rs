//! The watches: they keep the cache current and wake the keys that changed.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::{
    api::{ApiResource, DynamicObject},
    runtime::watcher,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use self::follow::Source;
use super::{
    Addon, ConfigKind, Error, Hosts,
    csr::{self, Summary},
    hash::{Live, spec_hash},
    hub::Hub,
    key::Key,
    object_cache::{ConfigObject, Decision, Offer, Permission, Work},
    permissions::Part,
    place,
    queue::Wake,
};
use crate::{
    api::{
        addon::{AddOnConfig, ConfigReference, ManagedClusterAddOn},
        cluster::{ManagedCluster, placement_decisions},
        work::ManifestWork,
    },
    keys,
    name::ClusterName,
};

mod follow;
#[cfg(test)]
mod pages;
mod text;
mod turn;
mod wake;

/// Objects per page of a list.
const PAGE: u32 = 100;
/// The same of large objects: works, and certificate requests, of which one cluster may create any number. Both may have up
/// to 1.5 MB each.
const LARGE_PAGE: u32 = 20;

impl<A: Addon> Hub<A> {
    fn by_name(&self) -> watcher::Config {
        all().fields(&format!("metadata.name={}", self.addon.name()))
    }

    fn by_label(&self) -> watcher::Config {
        all().labels(&format!("{}={}", keys::ADDON_NAME, self.addon.name()))
    }

    /// `ManagedClusters` without fields that change often and decide nothing.
    pub(crate) async fn clusters(self: Arc<Self>) -> Error {
        let source = Source {
            what: "managedclusters",
            resource: ApiResource::erase::<ManagedCluster>(&()),
            config: all(),
            key: |object: &DynamicObject| cluster_name(object.metadata.name.as_ref()),
            read: |object| Some(Arc::new(cluster(object))),
        };
        let apply = |change| {
            let changed = self.world.apply(|state| &mut state.clusters, change);
            let changed = changed.into_iter().map(|(name, before)| {
                let now = self.world.lock().clusters.live().get(&name).cloned();
                (name, wake::of_cluster(before.as_deref(), now.as_deref()))
            });
            let changed: BTreeMap<_, _> = changed.collect();
            for (name, wake) in &changed {
                self.wake_cluster(name, *wake);
            }
            self.wake_hosted(&changed);
        };
        source.follow(&self, apply).await
    }

    /// Wakes the certificate requests of a cluster, and the cluster itself if it has the add-on or works.
    fn wake_cluster(&self, cluster: &ClusterName, wake: Wake) {
        self.wake_requests(cluster, wake);
        let involved = {
            let state = self.world.lock();
            let has_addon = state.addons.live().contains_key(cluster);
            has_addon || state.works_of(cluster).next().is_some()
        };
        if involved {
            self.pending.wake(Key::Cluster(cluster.clone()), wake);
        }
    }

    fn wake_requests(&self, cluster: &ClusterName, wake: Wake) {
        let state = self.world.lock();
        for (name, request) in state.requests() {
            if request.is_open() && request.claimed.as_ref() == Some(cluster) {
                self.pending.wake(Key::Request(name.clone()), wake);
            }
        }
    }

    /// Wakes the clusters whose agents these hosts run, since the state of a host decides where they go.
    fn wake_hosted(&self, hosts: &BTreeMap<ClusterName, Wake>) {
        if self.addon.hosts() == Hosts::None || hosts.is_empty() {
            return;
        }
        for (cluster, addon) in self.world.lock().addons.live() {
            if let Some(wake) = addon.hosting_cluster().and_then(|host| hosts.get(host)) {
                self.pending.wake(Key::Cluster(cluster.clone()), *wake);
            }
        }
    }

    /// Wakes clusters with the add-on.
    fn wake_addons(&self, which: impl Fn(&ManagedClusterAddOn) -> bool) {
        for (cluster, addon) in self.world.lock().addons.live() {
            if which(addon) {
                self.pending.add(Key::Cluster(cluster.clone()));
            }
        }
    }

    /// This add-on on all clusters.
    pub(crate) async fn addons(self: Arc<Self>) -> Error {
        let source = Source {
            what: "managedclusteraddons",
            resource: self.version.managed_cluster_addons(),
            config: self.by_name(),
            key: |object: &DynamicObject| cluster_name(object.metadata.namespace.as_ref()),
            read: |object| Some(Arc::new(self.version.read_addon(object))),
        };
        let apply = |change| {
            for (cluster, before) in self.world.apply(|state| &mut state.addons, change) {
                let now = self.world.lock().addons.live().get(&cluster).cloned();
                let wake = wake::of_addon(before.as_deref(), now.as_deref());
                self.wake_requests(&cluster, wake);
                self.pending.wake(Key::Cluster(cluster), wake);
            }
        };
        source.follow(&self, apply).await
    }

    /// Works of this add-on, without their objects. The label selector limits the traffic; the name decides to which
    /// cluster a work belongs.
    pub(crate) async fn works(self: Arc<Self>) -> Error {
        let source = Source {
            what: "manifestworks",
            resource: ApiResource::erase::<ManifestWork>(&()),
            config: self.by_label().page_size(LARGE_PAGE),
            key: |object: &DynamicObject| {
                let (namespace, name) = namespaced(object)?;
                let cluster = place::served(self.addon.name(), &namespace, &name)?;
                Some((cluster, namespace, name))
            },
            read: |object| Some(Arc::new(Work::read(object))),
        };
        let apply = |change| {
            for (key, before) in self.world.apply(|state| &mut state.works, change) {
                let now = self.world.lock().works.live().get(&key).cloned();
                let wake = wake::of_work(before.as_deref(), now.as_deref());
                self.pending.wake(Key::Cluster(key.0), wake);
            }
        };
        source.follow(&self, apply).await
    }

    /// Roles, or `RoleBindings`, of this add-on's agents.
    pub(crate) async fn permissions(self: Arc<Self>, part: Part) -> Error {
        let name = super::permissions::name(self.addon.name());
        let source = Source {
            what: match part {
                Part::Role => "roles",
                Part::Binding => "rolebindings",
            },
            resource: part.resource(),
            config: self.by_label().fields(&format!("metadata.name={name}")),
            key: |object: &DynamicObject| cluster_name(object.metadata.namespace.as_ref()),
            read: |object| match part {
                Part::Role => typed(&object).map(Permission::Role),
                Part::Binding => typed(&object).map(Permission::Binding),
            },
        };
        let apply = |change| {
            let changed = self
                .world
                .apply(|state| state.permissions.entry(part).or_default(), change);
            for (cluster, _) in changed {
                self.pending.add(Key::Cluster(cluster));
            }
        };
        source.follow(&self, apply).await
    }

    /// Certificate requests with this add-on's label; or those to a custom signer of ours without it, since no other
    /// component would report them.
    pub(crate) async fn requests(self: Arc<Self>, signer: Option<String>) -> Error {
        let (what, config) = match &signer {
            None => ("certificatesigningrequests", self.by_label()),
            Some(signer) => (
                "certificatesigningrequests without our label",
                all()
                    .labels(&format!("{}!={}", keys::ADDON_NAME, self.addon.name()))
                    .fields(&format!("spec.signerName={signer}")),
            ),
        };
        let accepts_awsirsa = self.addon.accepts_awsirsa();
        let source = Source {
            what,
            resource: ApiResource::erase::<CertificateSigningRequest>(&()),
            config: config.page_size(LARGE_PAGE),
            key: |object: &DynamicObject| object.metadata.name.clone(),
            read: |object| Summary::read(&object, accepts_awsirsa).map(Arc::new),
        };
        let apply = |change| {
            let changed = self.world.apply(
                |state| state.requests.entry(signer.clone()).or_default(),
                change,
            );
            let count = changed.len();
            for (name, before) in changed {
                if let Some(before) = before {
                    for next in self.next_requests(&name, &before, count) {
                        self.pending.add(Key::Request(next));
                    }
                }
                self.pending.add(Key::Request(name));
            }
        };
        source.follow(&self, apply).await
    }

    /// The requests that are judged now because this one, which was open before, no longer is, as one of this many.
    fn next_requests(&self, name: &str, before: &Summary, count: usize) -> Vec<String> {
        let state = self.world.lock();
        let is_open = state.request(name).is_some_and(|it| it.is_open());
        if !before.is_open() || is_open {
            return Vec::new();
        }
        let queue = csr::queue(state.requests(), before.sender.as_ref());
        let judged = queue.into_iter().take(csr::OPEN_LIMIT);
        let new = judged.skip(csr::OPEN_LIMIT.saturating_sub(count));
        new.map(str::to_owned).collect()
    }

    /// This add-on's `ClusterManagementAddOn`.
    pub(crate) async fn offer(self: Arc<Self>) -> Error {
        let source = Source {
            what: "clustermanagementaddons",
            resource: self.version.cluster_management_addons(),
            config: self.by_name(),
            key: |_: &DynamicObject| Some(()),
            read: |object: DynamicObject| {
                let raw = json!(object);
                let model = Arc::new(self.version.read_offer(object));
                Some(Arc::new(Offer { raw, model }))
            },
        };
        let apply = |change| {
            for ((), before) in self.world.apply(|state| &mut state.offer, change) {
                self.pending.add(Key::Configs);
                let now = self.world.lock().offer.live().get(&()).cloned();
                let [before, now] = [before, now].map(|it| it.map(|it| it.model.spec.clone()));
                // Waiting clusters may proceed with the changed configurations.
                if before != now {
                    self.wake_addons(|_| true);
                }
            }
        };
        source.follow(&self, apply).await
    }

    /// All objects of one kind of configuration.
    pub(crate) async fn configs(self: Arc<Self>, config: ConfigKind) -> Error {
        let kind = config.group_resource();
        let source = Source {
            what: "configurations",
            resource: config.0,
            config: all(),
            key: |object: &DynamicObject| {
                Some(AddOnConfig {
                    group: kind.group.clone(),
                    resource: kind.resource.clone(),
                    namespace: object.metadata.namespace.clone().unwrap_or_default(),
                    name: object.metadata.name.clone()?,
                })
            },
            read: |object: DynamicObject| {
                let generation = object.metadata.generation.unwrap_or_default();
                let raw = json!(object);
                let hash = spec_hash(&raw);
                let live = Live { hash, generation };
                Some(Arc::new(ConfigObject { raw, live }))
            },
        };
        let apply = |change| {
            let configs = self.world.apply(
                |state| state.configs.entry(kind.clone()).or_default(),
                change,
            );
            for (config, _) in configs {
                self.pending.add(Key::Configs);
                self.wake_addons(|addon| {
                    let references = addon.config_references().iter();
                    let mut named = references.map(ConfigReference::desired);
                    named.any(|(named, _)| named == config)
                });
            }
        };
        source.follow(&self, apply).await
    }

    /// Decisions of all placements: OCM configures the clusters that a placement selects.
    pub(crate) async fn decisions(self: Arc<Self>) -> Error {
        let source = Source {
            what: "placementdecisions",
            resource: placement_decisions(),
            config: all(),
            key: namespaced,
            read: |object| Decision::read(&object).map(Arc::new),
        };
        let apply = |change| {
            for (key, before) in self.world.apply(|state| &mut state.decisions, change) {
                let moved = self.world.lock().moved(&key, before.as_deref());
                for cluster in moved {
                    self.pending.add(Key::Cluster(cluster));
                }
            }
        };
        source.follow(&self, apply).await
    }
}

fn all() -> watcher::Config {
    watcher::Config::default().page_size(PAGE)
}

fn typed<T: DeserializeOwned>(object: &DynamicObject) -> Option<Arc<T>> {
    serde_json::from_value(json!(object)).ok().map(Arc::new)
}

fn cluster_name(name: Option<&String>) -> Option<ClusterName> {
    ClusterName::new(name?).ok()
}

fn namespaced(object: &DynamicObject) -> Option<(String, String)> {
    let metadata = &object.metadata;
    metadata.namespace.clone().zip(metadata.name.clone())
}

/// Reads a cluster without fields that change often. An unreadable part counts as absent, which admits
/// no cluster.
fn cluster(object: DynamicObject) -> ManagedCluster {
    let DynamicObject {
        mut metadata,
        mut data,
        ..
    } = object;
    (metadata.resource_version, metadata.generation) = (None, None);
    let mut part = |name| data.get_mut(name).map(Value::take).unwrap_or_default();
    let spec = serde_json::from_value(part("spec")).unwrap_or_default();
    let status = serde_json::from_value(part("status")).ok();
    ManagedCluster {
        metadata,
        spec,
        status,
    }
}
