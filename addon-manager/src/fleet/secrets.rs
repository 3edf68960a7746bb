//! The Argo CD cluster Secret of each managed cluster, in the hub's Argo CD namespace.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions},
};
use ocm::name::ClusterName;
use runtime::kube::{Event, Watch, watch_trimmed};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::keys;

/// Annotation on a Secret that we wrote: a digest of what we wrote. It marks the Secret as ours, and
/// tells after a restart that nothing is to be written.
const WRITTEN: &str = "argocd-agent.open-cluster-management.io/written";

/// What could not be done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API refused or could not be reached.
    #[error("{action} Secret {name}")]
    Api {
        /// What was tried.
        action: &'static str,
        /// On which Secret.
        name: String,
        /// Why not.
        source: Box<kube::Error>,
    },
    /// What is there is not known yet.
    #[error("the cluster Secrets are not listed yet")]
    NotListed,
    /// Somebody else's Secret has the name; it is never written nor deleted.
    #[error(
        "the Secret {namespace}/{name} was not made by this add-on and is left as it is, so Argo CD \
         does not have the cluster as it should be: delete or rename that Secret"
    )]
    Foreign {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A mistake of ours.
    #[error("the cluster Secret of {cluster} is not a Secret")]
    NotASecret {
        /// The cluster.
        cluster: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

/// The cluster Secrets as they are. Cheap to clone.
#[derive(Clone)]
pub struct ClusterSecrets {
    client: Client,
    namespace: String,
    api: Api<Secret>,
    // Guards plain data; held for a lookup, never over an await.
    held: Arc<Mutex<BTreeMap<String, Secret>>>,
    listed: watch::Sender<bool>,
}

impl std::fmt::Debug for ClusterSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterSecrets").finish_non_exhaustive()
    }
}

impl ClusterSecrets {
    /// The cluster Secrets of a namespace; nothing is known before [`Self::follow`] runs.
    pub fn new(client: Client, argocd_namespace: &str) -> Self {
        Self {
            client: client.clone(),
            namespace: argocd_namespace.to_owned(),
            api: Api::namespaced(client, argocd_namespace),
            held: Arc::default(),
            listed: watch::Sender::new(false),
        }
    }

    /// Follows the Secrets until the token is cancelled; `changed` is told whose changed.
    pub async fn follow(
        &self,
        token: CancellationToken,
        mut changed: impl FnMut(ClusterName) + Send,
    ) {
        let watched = Watch::<Secret>::new(Api::namespaced(self.client.clone(), &self.namespace))
            .labels(&selector());
        watch_trimmed(watched, token, |event| match event {
            Event::Applied { object, .. } => {
                if let Some(cluster) = cluster_named(&object.metadata) {
                    self.lock().insert(cluster.to_string(), *object);
                    changed(cluster);
                }
            }
            Event::Deleted(gone) => {
                let cluster = gone
                    .name
                    .strip_prefix("cluster-")
                    .and_then(|it| it.parse().ok());
                if let Some(cluster) = cluster {
                    self.lock().remove(ClusterName::as_str(&cluster));
                    changed(cluster);
                }
            }
            Event::Synced => {
                self.listed.send_replace(true);
            }
        })
        .await;
    }

    /// Waits until what is there is known.
    pub async fn listed(&self) {
        // An error only says that the sender is gone, and we hold it.
        drop(self.listed.subscribe().wait_for(|listed| *listed).await);
    }

    /// Whether `cluster` has a Secret of ours.
    pub fn has(&self, cluster: &ClusterName) -> bool {
        self.lock().get(cluster.as_str()).is_some_and(is_ours)
    }

    /// Makes the Secret of `cluster` as `desired`. Costs nothing when it is.
    pub async fn ensure(&self, cluster: &ClusterName, desired: Value) -> Result<(), Error> {
        if !*self.listed.borrow() {
            return Err(Error::NotListed);
        }
        let cluster = cluster.as_str();
        let name = argocd::cluster_secret::name(cluster);
        let mut desired = marked(desired);
        let wanted: Secret =
            serde_json::from_value(desired.clone()).map_err(|source| Error::NotASecret {
                cluster: cluster.to_owned(),
                source,
            })?;
        let known = self.lock().get(cluster).cloned();
        let live = match known {
            Some(live) => Some(live),
            None => self.look(&name).await?,
        };
        let mut params = PatchParams::apply(keys::FIELD_MANAGER);
        match todo(live.as_ref(), &wanted) {
            Todo::Nothing => return Ok(()),
            Todo::LeaveAlone => {
                let namespace = self.namespace.clone();
                return Err(Error::Foreign { namespace, name });
            }
            // Without force: should somebody make one now, after the look, the two are in conflict.
            Todo::Make => {}
            // With the UID it fails where somebody has put another in its place.
            Todo::Mend { uid } => {
                params = params.force();
                demand(&mut desired, uid);
            }
        }
        let written = self
            .api
            .patch(&name, &params, &Patch::Apply(&desired))
            .await;
        let written = written.map_err(failed("write", &name))?;
        // So that the next look need not wait for the watch.
        self.lock().insert(cluster.to_owned(), written);
        tracing::info!(cluster, "wrote the cluster Secret");
        Ok(())
    }

    /// Looks for a Secret that has the name without the labels, by which it would be followed.
    async fn look(&self, name: &str) -> Result<Option<Secret>, Error> {
        let named = ListParams::default().fields(&format!("metadata.name={name}"));
        let found = self.api.list(&named).await;
        found
            .map(|found| found.items.into_iter().next())
            .map_err(failed("look for", name))
    }

    /// Deletes the Secret of `cluster`, if we made it.
    pub async fn remove(&self, cluster: &ClusterName) -> Result<(), Error> {
        if !*self.listed.borrow() {
            return Err(Error::NotListed);
        }
        let live = self
            .lock()
            .get(cluster.as_str())
            .filter(|secret| is_ours(secret))
            .cloned();
        let Some(live) = live else { return Ok(()) };
        let name = argocd::cluster_secret::name(cluster.as_str());
        let only_this = DeleteParams {
            preconditions: Some(Preconditions {
                uid: live.metadata.uid,
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        match self.api.delete(&name, &only_this).await {
            Ok(_) => tracing::info!(%cluster, "deleted the cluster Secret"),
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {}
            Err(error) => return Err(failed("delete", &name)(error)),
        }
        self.lock().remove(cluster.as_str());
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Secret>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Selects the cluster Secrets that have an agent.
pub fn selector() -> String {
    let (kind, agent) = (argocd::keys::SECRET_TYPE, argocd::keys::AGENT_NAME);
    format!("{kind}=cluster,{agent}")
}

/// The cluster that a Secret is about, by the Secret's name.
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

/// Whether a Secret has the mark of those that we wrote.
pub fn is_marked(metadata: &ObjectMeta) -> bool {
    let annotations = metadata.annotations.as_ref();
    annotations.is_some_and(|it| it.contains_key(WRITTEN))
}

/// Adds the digest of the whole to its annotations.
fn marked(mut desired: Value) -> Value {
    let digest = hex::encode(Sha256::digest(desired.to_string()));
    if let Some(metadata) = desired.get_mut("metadata").and_then(Value::as_object_mut) {
        let annotations = metadata
            .entry("annotations")
            .or_insert_with(|| Value::Object(serde_json::Map::default()));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(WRITTEN.to_owned(), Value::String(digest));
        }
    }
    desired
}

/// What to do about a Secret.
#[derive(Debug, PartialEq, Eq)]
enum Todo {
    /// It is as it should be.
    Nothing,
    /// There is none.
    Make,
    /// It is ours and differs.
    Mend { uid: String },
    /// It is somebody else's.
    LeaveAlone,
}

fn todo(live: Option<&Secret>, wanted: &Secret) -> Todo {
    match live {
        None => Todo::Make,
        Some(live) if !is_ours(live) => Todo::LeaveAlone,
        Some(live) if is_as(live, wanted) => Todo::Nothing,
        Some(live) => Todo::Mend {
            uid: live.metadata.uid.clone().unwrap_or_default(),
        },
    }
}

/// Lets a write succeed only on the very Secret that was looked at.
fn demand(desired: &mut Value, uid: String) {
    if let Some(metadata) = desired.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("uid".to_owned(), Value::String(uid));
    }
}

/// Whether everything wanted is there. The digest among the annotations tells that nothing is there
/// which was wanted once and is no longer.
fn is_as(live: &Secret, wanted: &Secret) -> bool {
    fn holds<V: PartialEq>(
        live: Option<&BTreeMap<String, V>>,
        wanted: Option<&BTreeMap<String, V>>,
    ) -> bool {
        let mut entries = wanted.into_iter().flatten();
        entries.all(|(key, value)| live.and_then(|live| live.get(key)) == Some(value))
    }
    let texts = wanted.string_data.iter().flatten();
    let mut texts = texts.map(|(key, text)| (key, text.as_bytes()));
    let data = live.data.as_ref();
    holds(
        live.metadata.labels.as_ref(),
        wanted.metadata.labels.as_ref(),
    ) && holds(
        live.metadata.annotations.as_ref(),
        wanted.metadata.annotations.as_ref(),
    ) && holds(data, wanted.data.as_ref())
        && texts.all(|(key, text)| {
            data.and_then(|it| it.get(key))
                .is_some_and(|it| it.0 == text)
        })
}

fn failed(action: &'static str, name: &str) -> impl FnOnce(kube::Error) -> Error {
    let name = name.to_owned();
    move |source| Error::Api {
        action,
        name,
        source: Box::new(source),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn desired(label: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": "cluster-c", "labels": { "region": label } },
            "data": { "name": "Yw==" },
        })
    }

    fn secret(value: Value) -> Secret {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn what_was_written_needs_no_second_write() {
        let written = secret(marked(desired("eu")));
        assert!(is_as(&written, &secret(marked(desired("eu")))));
        assert!(!is_as(&written, &secret(marked(desired("us")))));
    }

    #[test]
    fn a_label_that_is_no_longer_wanted_is_noticed() {
        let mut more = desired("eu");
        more["metadata"]["labels"]["old"] = json!("x");
        assert!(!is_as(
            &secret(marked(more)),
            &secret(marked(desired("eu")))
        ));
    }

    #[test]
    fn labels_of_users_do_not_matter_and_edits_of_ours_do() {
        let wanted = secret(marked(desired("eu")));
        let mut live = wanted.clone();
        live.metadata
            .labels
            .as_mut()
            .unwrap()
            .insert("team".to_owned(), "a".to_owned());
        assert!(is_as(&live, &wanted));
        live.metadata
            .labels
            .as_mut()
            .unwrap()
            .insert("region".to_owned(), "x".to_owned());
        assert!(!is_as(&live, &wanted));
    }

    #[test]
    fn a_secret_that_somebody_else_made_is_left_alone() {
        let wanted = secret(marked(desired("eu")));
        // Also when it looks like ours in everything but the mark.
        assert_eq!(
            todo(Some(&secret(desired("eu"))), &wanted),
            Todo::LeaveAlone
        );
        assert_eq!(todo(None, &wanted), Todo::Make);
    }

    #[test]
    fn ours_is_mended_and_nothing_in_its_place() {
        let wanted = secret(marked(desired("eu")));
        let mut live = secret(marked(desired("us")));
        live.metadata.uid = Some("1".to_owned());
        let uid = "1".to_owned();
        assert_eq!(todo(Some(&live), &wanted), Todo::Mend { uid });
        assert_eq!(todo(Some(&wanted), &wanted), Todo::Nothing);
        let mut patch = marked(desired("eu"));
        demand(&mut patch, "1".to_owned());
        assert_eq!(patch["metadata"]["uid"], "1");
    }
}
