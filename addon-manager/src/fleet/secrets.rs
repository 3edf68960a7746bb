//! The Argo CD cluster Secret of each managed cluster, in the hub's Argo CD namespace.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use argocd::cluster_secret::Access;
use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use ocm::name::ClusterName;
use runtime::kube::{Event, Watch, watch_trimmed};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    api::{self, ApiError, failed},
    keys,
    lock::lock,
};

mod cache;
mod contest;
mod todo;

use cache::{SecretCache, Writing};
pub use contest::{Field, contested};
use contest::{conflicting_fields, conflicting_manager, without};
use todo::{Todo, demand, marked, todo};

/// Annotation on a Secret that we wrote: the digest of its content. It marks the Secret as ours, and saves a write after
/// a restart.
const WRITTEN: &str = "argocd-agent.open-cluster-management.io/written";

/// Why a request for a cluster Secret failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API rejected the request or was unavailable.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The Secrets are not listed yet.
    #[error("the cluster Secrets are not read yet")]
    NotListed,
    /// A Secret of another owner has the name; we never write or delete it.
    #[error(
        "the Secret {0} was not created by this add-on, which does not change it, so Argo CD cannot \
        manage the cluster correctly: delete or rename that Secret"
    )]
    Foreign(String),
    /// Another field manager changed a field that Argo CD needs.
    #[error(
        "{manager} changed {fields} of the Secret {secret}; the add-on keeps the change, but Argo CD \
        cannot use it: set the annotation {WRITTEN} of that Secret to an empty value to restore it"
    )]
    Contested {
        /// Its namespace and name.
        secret: String,
        /// The changed fields.
        fields: String,
        /// The field manager that changed them.
        manager: String,
    },
    /// The rendered object is invalid: a programming error.
    #[error("the cluster Secret of {cluster} is not a Secret")]
    NotASecret {
        /// The cluster.
        cluster: String,
        /// The cause.
        source: serde_json::Error,
    },
}

impl Error {
    /// A message with the next step, for errors that a retry does not resolve.
    pub fn needs_a_person(&self) -> Option<String> {
        match self {
            Self::Foreign(_) | Self::Contested { .. } => Some(self.to_string()),
            Self::Api(error) => error.needs_a_person(),
            Self::NotListed | Self::NotASecret { .. } => None,
        }
    }
}

/// Reads and writes the cluster Secrets. Cheap to clone.
#[derive(Clone, derive_more::Debug)]
#[debug("ClusterSecrets({namespace})")]
pub struct ClusterSecrets {
    namespace: String,
    api: Api<Secret>,
    // Locked for a lookup, never across an await.
    cache: Arc<Mutex<SecretCache>>,
    // Labels and annotations that another field manager sets to other values, by cluster. Locked likewise.
    contested: Arc<Mutex<BTreeMap<String, BTreeSet<Field>>>>,
    listed: watch::Sender<bool>,
}

impl ClusterSecrets {
    /// The cluster Secrets of a namespace; the cache is empty before [`Self::follow`] runs.
    pub fn new(client: Client, argocd_namespace: &str) -> Self {
        Self {
            namespace: argocd_namespace.to_owned(),
            api: Api::namespaced(client, argocd_namespace),
            cache: Arc::default(),
            contested: Arc::default(),
            listed: watch::Sender::new(false),
        }
    }

    /// Watches the Secrets until the token is cancelled, and calls `changed` with the cluster of each changed Secret.
    pub async fn follow(
        &self,
        token: CancellationToken,
        mut changed: impl FnMut(ClusterName) + Send,
    ) {
        let api = Api::namespaced(self.api.clone().into_client(), &self.namespace);
        let watched = Watch::<Secret>::new(api).labels(&selector());
        watch_trimmed(watched, token, |event| match event {
            Event::Applied { object, .. } => {
                if let Some(cluster) = cluster_named(&object.metadata) {
                    lock(&self.cache).observed(cluster.as_str(), *object);
                    changed(cluster);
                }
            }
            Event::Deleted(gone) => {
                let cluster = gone
                    .name
                    .strip_prefix("cluster-")
                    .and_then(|it| it.parse().ok());
                if let Some(cluster) = cluster {
                    lock(&self.cache).gone(ClusterName::as_str(&cluster), &gone.uid);
                    changed(cluster);
                }
            }
            Event::Synced => {
                let unreported = lock(&self.cache).listed();
                self.listed.send_replace(true);
                unreported
                    .iter()
                    .filter_map(|it| it.parse().ok())
                    .for_each(&mut changed);
            }
            Event::Rewound => lock(&self.cache).rewound(),
        })
        .await;
    }

    /// Waits until the Secrets are listed.
    pub async fn listed(&self) {
        // An error means that the sender is dropped, and we keep it.
        drop(self.listed.subscribe().wait_for(|listed| *listed).await);
    }

    /// Whether `cluster` has a Secret of ours.
    pub fn has(&self, cluster: &ClusterName) -> bool {
        lock(&self.cache).get(cluster.as_str()).is_some_and(is_ours)
    }

    /// The credentials in the Secret of `cluster`, if it is ours.
    pub fn access(&self, cluster: &ClusterName) -> Option<Access> {
        let cache = lock(&self.cache);
        let live = cache.get(cluster.as_str()).filter(|it| is_ours(it))?;
        let config = live.data.as_ref()?.get("config")?;
        Some(argocd::cluster_secret::access(&config.0))
    }

    /// Makes the Secret of `cluster` equal to `desired`; writes nothing if it is. Returns the labels and annotations that
    /// keep the values of another field manager.
    pub async fn ensure(
        &self,
        cluster: &ClusterName,
        desired: Value,
    ) -> Result<BTreeSet<Field>, Error> {
        if !*self.listed.borrow() {
            return Err(Error::NotListed);
        }
        let cluster = cluster.as_str();
        let name = argocd::cluster_secret::name(cluster);
        let known = lock(&self.cache).get(cluster).cloned();
        let live = match known {
            Some(live) => Some(live),
            // It may lack the labels that the watch selects.
            None => api::find(&self.api, &name)
                .await
                .map_err(failed("look for Secret", &name))?,
        };
        let mut contested = self.contested(cluster, live.as_ref(), &desired);
        loop {
            let given_way = without(desired.clone(), &contested);
            match self.write(cluster, &name, live.as_ref(), given_way).await {
                Ok(()) => {
                    self.remember(cluster, &contested);
                    return Ok(contested);
                }
                Err(error) => {
                    let more = conflicting_fields(&error);
                    // Only labels and annotations may differ.
                    if more.is_empty() || !more.iter().all(Field::may_differ) {
                        return Err(self.contention(&name, error, &more));
                    }
                    let before = contested.len();
                    contested.extend(more);
                    if contested.len() == before {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// The fields that another field manager set to other values, and still has.
    fn contested(&self, cluster: &str, live: Option<&Secret>, desired: &Value) -> BTreeSet<Field> {
        let known = lock(&self.contested);
        let known = known.get(cluster).into_iter().flatten();
        let differs = |field: &&Field| {
            let theirs = live.and_then(|live| field.of(live));
            theirs.is_some() && theirs != field.in_json(desired)
        };
        known.filter(differs).cloned().collect()
    }

    fn remember(&self, cluster: &str, contested: &BTreeSet<Field>) {
        let mut all = lock(&self.contested);
        if contested.is_empty() {
            all.remove(cluster);
        } else {
            all.insert(cluster.to_owned(), contested.clone());
        }
    }

    fn contention(&self, name: &str, error: Error, fields: &BTreeSet<Field>) -> Error {
        let Some(manager) = conflicting_manager(&error) else {
            return error;
        };
        let fields: Vec<&str> = fields.iter().map(|field| field.0.as_str()).collect();
        Error::Contested {
            secret: format!("{}/{name}", self.namespace),
            fields: fields.join(", "),
            manager,
        }
    }

    /// Writes the desired Secret, if it differs from the live one and the live one is ours.
    async fn write(
        &self,
        cluster: &str,
        name: &str,
        live: Option<&Secret>,
        desired: Value,
    ) -> Result<(), Error> {
        let mut desired = marked(desired);
        let wanted: Secret =
            serde_json::from_value(desired.clone()).map_err(|source| Error::NotASecret {
                cluster: cluster.to_owned(),
                source,
            })?;
        let mut params = PatchParams::apply(keys::FIELD_MANAGER);
        match todo(cluster, live, &wanted) {
            Todo::Nothing => return Ok(()),
            Todo::LeaveAlone => {
                return Err(Error::Foreign(format!("{}/{name}", self.namespace)));
            }
            // Without force: if another client creates it meanwhile, the apply fails with a conflict.
            Todo::Make => {}
            // With the UID, the apply fails if the Secret was replaced; without force, if another field manager changed
            // our fields.
            Todo::Mend { uid } => demand(&mut desired, &uid),
            Todo::TakeOver { uid } => {
                params = params.force();
                demand(&mut desired, &uid);
                tracing::info!(cluster, "adopting the cluster Secret");
            }
        }
        let writing = Writing::begin(&self.cache, cluster);
        let written = self.api.patch(name, &params, &Patch::Apply(&desired)).await;
        // So that the next reconcile need not wait for the watch.
        writing.answered(written.map_err(failed("write Secret", name))?);
        tracing::info!(cluster, "wrote the cluster Secret");
        Ok(())
    }

    /// Deletes the Secret of `cluster`, if we made it.
    pub async fn remove(&self, cluster: &ClusterName) -> Result<(), Error> {
        if !*self.listed.borrow() {
            return Err(Error::NotListed);
        }
        let live = lock(&self.cache).get(cluster.as_str()).cloned();
        let Some(live) = live.filter(is_ours) else {
            return Ok(());
        };
        let name = argocd::cluster_secret::name(cluster.as_str());
        let uid = live.metadata.uid;
        let deleted = api::delete(&self.api, &name, uid.clone()).await;
        if deleted.map_err(failed("delete Secret", &name))? {
            tracing::info!(%cluster, "deleted the cluster Secret");
        }
        lock(&self.cache).gone(cluster.as_str(), &uid.unwrap_or_default());
        Ok(())
    }
}

/// The label selector of the cluster Secrets that have an agent.
pub fn selector() -> String {
    let (clusters, agent) = (argocd::keys::CLUSTER_SELECTOR, argocd::keys::AGENT_NAME);
    format!("{clusters},{agent}")
}

/// The cluster of a Secret, from the Secret's name.
pub fn cluster_named(metadata: &ObjectMeta) -> Option<ClusterName> {
    metadata
        .name
        .as_deref()?
        .strip_prefix("cluster-")?
        .parse()
        .ok()
}

fn is_ours(secret: &Secret) -> bool {
    is_marked(&secret.metadata)
}

/// Whether a Secret has our mark.
pub fn is_marked(metadata: &ObjectMeta) -> bool {
    let annotations = metadata.annotations.as_ref();
    annotations.is_some_and(|it| it.contains_key(WRITTEN))
}

#[cfg(test)]
mod tests;
