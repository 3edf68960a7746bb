//! Keeps the copies of the hub up to date and says what has to be looked at.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt as _, pin_mut};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
    runtime::{
        WatchStreamExt as _,
        utils::{Backoff, ResetTimerBackoff},
        watcher::{self, Event},
    },
};
use serde_json::{Value, json};
use tracing::{debug, info, warn};

use super::{
    Error,
    cache::Change,
    drive::Key,
    error::chain,
    hash::{Live, spec_hash},
    queue, settled,
    world::{ConfigObject, Offer, Work, World},
};
use crate::{
    api::{
        addon::{AddOnConfig, ConfigGroupResource, Version},
        cluster::ManagedCluster,
        work::ManifestWork,
    },
    keys,
    name::{AddonName, ClusterName},
};

/// What all watches need.
#[derive(Clone)]
pub(crate) struct Watches {
    pub(crate) client: Client,
    pub(crate) addon: AddonName,
    pub(crate) version: Version,
    pub(crate) world: Arc<World>,
}

/// Takes the keys that have to be looked at.
pub(crate) trait Wake: Fn(Key) + Send + Sync + 'static {}
impl<F: Fn(Key) + Send + Sync + 'static> Wake for F {}

impl Watches {
    fn api(&self, resource: &ApiResource) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), resource)
    }

    fn by_name(&self) -> watcher::Config {
        watcher::Config::default().fields(&format!("metadata.name={}", self.addon))
    }

    fn by_label(&self) -> watcher::Config {
        watcher::Config::default().labels(&format!("{}={}", keys::ADDON_NAME, self.addon))
    }

    /// `ManagedClusters` without what changes all the time and decides nothing.
    pub(crate) async fn clusters(self, wake: impl Wake) -> Error {
        let resource = ApiResource::erase::<ManagedCluster>(&());
        let source = Source {
            key: |object: &DynamicObject| named_cluster(object.metadata.name.as_deref()),
            read: |object| Some(Arc::new(cluster(object))),
        };
        let absorb = |change| {
            let changed = self.world.absorb(|state| &mut state.clusters, change);
            for cluster in changed {
                self.wake_cluster(cluster, &wake);
            }
        };
        let config = watcher::Config::default();
        follow(
            "managedclusters",
            self.api(&resource),
            config,
            source,
            absorb,
        )
        .await
    }

    /// A cluster without the add-on is nobody's business here; its certificate requests wait for it.
    fn wake_cluster(&self, cluster: ClusterName, wake: &impl Wake) {
        let (involved, requests) = {
            let state = self.world.look();
            let involved = state.addons.live().contains_key(&cluster)
                || state.works_of(&cluster).next().is_some();
            let label = Some(cluster.as_str());
            let requests = state.requests.live().iter();
            let requests = requests.filter(|(_, request)| {
                let labels = request.metadata.labels.as_ref();
                labels
                    .and_then(|l| l.get(keys::CLUSTER_NAME))
                    .map(String::as_str)
                    == label
            });
            (
                involved,
                requests.map(|(name, _)| name.clone()).collect::<Vec<_>>(),
            )
        };
        requests.into_iter().map(Key::Request).for_each(wake);
        if involved {
            wake(Key::Cluster(cluster));
        }
    }

    /// This add-on on all clusters.
    pub(crate) async fn addons(self, wake: impl Wake) -> Error {
        let resource = self.version.managed_cluster_addons();
        let source = Source {
            key: |object: &DynamicObject| named_cluster(object.metadata.namespace.as_deref()),
            read: |object| Some(Arc::new(self.version.read_addon(object))),
        };
        let absorb = |change| {
            for cluster in self.world.absorb(|state| &mut state.addons, change) {
                // Not through `involved`: this add-on may just have gone.
                self.wake_cluster(cluster.clone(), &wake);
                wake(Key::Cluster(cluster));
            }
        };
        let config = self.by_name();
        follow(
            "managedclusteraddons",
            self.api(&resource),
            config,
            source,
            absorb,
        )
        .await
    }

    /// Works with this add-on's label, measured and without their objects.
    pub(crate) async fn works(self, wake: impl Wake) -> Error {
        let resource = ApiResource::erase::<ManifestWork>(&());
        let source = Source {
            key: |object: &DynamicObject| {
                let cluster = named_cluster(object.metadata.namespace.as_deref())?;
                Some((cluster, object.metadata.name.clone()?))
            },
            read: |object| Some(Arc::new(Work::read(object))),
        };
        let absorb = |change| {
            for (cluster, _) in self.world.absorb(|state| &mut state.works, change) {
                wake(Key::Cluster(cluster));
            }
        };
        let config = self.by_label();
        follow("manifestworks", self.api(&resource), config, source, absorb).await
    }

    /// Certificate requests with this add-on's label.
    pub(crate) async fn requests(self, wake: impl Wake) -> Error {
        let resource = ApiResource::erase::<CertificateSigningRequest>(&());
        let source = Source {
            key: |object: &DynamicObject| object.metadata.name.clone(),
            read: |object| {
                let request = serde_json::from_value::<CertificateSigningRequest>(json!(object));
                request.ok().map(Arc::new)
            },
        };
        let absorb = |change| {
            let changed = self.world.absorb(|state| &mut state.requests, change);
            changed.into_iter().map(Key::Request).for_each(&wake);
        };
        let config = self.by_label();
        let what = "certificatesigningrequests";
        follow(what, self.api(&resource), config, source, absorb).await
    }

    /// This add-on's `ClusterManagementAddOn`.
    pub(crate) async fn offer(self, wake: impl Wake) -> Error {
        let resource = self.version.cluster_management_addons();
        let source = Source {
            key: |_: &DynamicObject| Some(()),
            read: |object: DynamicObject| {
                let raw = json!(object);
                let model = Arc::new(self.version.read_offer(object));
                Some(Arc::new(Offer { raw, model }))
            },
        };
        let absorb = |change| {
            let spec = || {
                let state = self.world.look();
                state
                    .offer
                    .live()
                    .get(&())
                    .map(|offer| offer.model.spec.clone())
            };
            let before = spec();
            let changed = self.world.absorb(|state| &mut state.offer, change);
            if !changed.is_empty() {
                wake(Key::Configs);
            }
            // What may be configured has changed, so clusters that wait may go on.
            if spec() != before {
                self.wake_all(&wake, |_| true);
            }
        };
        let config = self.by_name();
        follow(
            "clustermanagementaddons",
            self.api(&resource),
            config,
            source,
            absorb,
        )
        .await
    }

    /// All objects of one kind of configuration.
    pub(crate) async fn configs(self, resource: ApiResource, wake: impl Wake) -> Error {
        let kind = ConfigGroupResource {
            group: resource.group.clone(),
            resource: resource.plural.clone(),
        };
        let source = Source {
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
                let live = Live {
                    hash: spec_hash(&raw),
                    generation,
                };
                Some(Arc::new(ConfigObject { raw, live }))
            },
        };
        let absorb = |change| {
            let changed = self.world.absorb(
                |state| state.configs.entry(kind.clone()).or_default(),
                change,
            );
            for config in changed {
                wake(Key::Configs);
                self.wake_all(&wake, |named| *named == config);
            }
        };
        let config = watcher::Config::default();
        follow(
            "configurations",
            self.api(&resource),
            config,
            source,
            absorb,
        )
        .await
    }

    /// Wakes the clusters that use a configuration.
    fn wake_all(&self, wake: &impl Wake, uses: impl Fn(&AddOnConfig) -> bool) {
        let clusters: Vec<_> = {
            let state = self.world.look();
            let addons = state.addons.live().iter().filter(|(_, addon)| {
                let references = addon.config_references().iter();
                references
                    .map(|reference| settled::desired(reference).0)
                    .any(|named| uses(&named))
            });
            addons.map(|(cluster, _)| cluster.clone()).collect()
        };
        clusters.into_iter().map(Key::Cluster).for_each(wake);
    }
}

/// How the objects of a watch are read. A key is all that is needed to know that one is gone.
struct Source<F, G> {
    key: F,
    read: G,
}

/// Follows one watch for ever; the watcher itself pauses and lists again after errors.
async fn follow<K, V>(
    what: &'static str,
    api: Api<DynamicObject>,
    config: watcher::Config,
    source: Source<impl Fn(&DynamicObject) -> Option<K>, impl Fn(DynamicObject) -> Option<V>>,
    absorb: impl Fn(Change<K, V>),
) -> Error {
    let events =
        watcher::watcher(api, config).backoff(ResetTimerBackoff::new(Pauses(FIRST), HEALTHY));
    pin_mut!(events);
    let mut healthy = true;
    while let Some(event) = events.next().await {
        let event = match event {
            Ok(event) => event,
            Err(error) if healthy => {
                warn!(watch = what, error = chain(&error), "watch broken");
                healthy = false;
                continue;
            }
            Err(error) => {
                debug!(watch = what, error = chain(&error), "watch still broken");
                continue;
            }
        };
        // An attempt to list is no success yet.
        if !healthy && !matches!(event, Event::Init) {
            info!(watch = what, "watch well again");
            healthy = true;
        }
        if let Some(change) = change(what, event, &source) {
            absorb(change);
        }
    }
    Error::WatchEnded(what)
}

/// Pauses of a broken watch. Shorter at the long end than kube's own (30 s): there are few watches,
/// and after an outage of the hub every cluster waits for them.
struct Pauses(Duration);

/// The first pause.
const FIRST: Duration = Duration::from_millis(400);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(2);
/// How long a watch must be well until its failures are forgotten.
const HEALTHY: Duration = Duration::from_mins(1);

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = self.0;
        self.0 = pause.saturating_mul(2).min(LONGEST);
        Some(queue::spread(pause, rand::random()))
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {
        self.0 = FIRST;
    }
}

/// An object that cannot be read is skipped; it must not hide the others.
fn change<K, V>(
    what: &'static str,
    event: Event<DynamicObject>,
    source: &Source<impl Fn(&DynamicObject) -> Option<K>, impl Fn(DynamicObject) -> Option<V>>,
) -> Option<Change<K, V>> {
    let read = |mut object: DynamicObject| {
        object.metadata.managed_fields = None;
        let name = object.metadata.name.clone();
        let entry = (source.key)(&object).zip((source.read)(object));
        if entry.is_none() {
            warn!(
                watch = what,
                object = name,
                "object skipped: it cannot be read"
            );
        }
        entry
    };
    match event {
        Event::Init => Some(Change::Restarted),
        Event::InitApply(object) => read(object).map(|(key, value)| Change::Listed(key, value)),
        Event::InitDone => Some(Change::Complete),
        Event::Apply(object) => read(object).map(|(key, value)| Change::Applied(key, value)),
        Event::Delete(object) => (source.key)(&object).map(Change::Deleted),
    }
}

fn named_cluster(name: Option<&str>) -> Option<ClusterName> {
    ClusterName::new(name?).ok()
}

/// Reads a cluster without what changes all the time. A part that cannot be read is taken as
/// absent, which lets nobody in.
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
