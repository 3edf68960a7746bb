//! Carries out the steps of the plan: writes add-ons and Events.

mod leave;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Api, Client,
    api::{DynamicObject, PostParams},
    runtime::events::{Event, EventType, Recorder},
};
use ocm::api::addon::{AddOnDeploymentConfig, Version};
use principal::Mode;
use serde_json::{Value, json};

use super::plan::{Action, Source, Step};
use crate::{
    addon::settings,
    api::{self, Annotated, ApiError, failed},
    fleet::applications,
    hub::Own,
    keys,
};

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API rejected the request or was unavailable.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The Applications of a cluster could not be counted.
    #[error("count the Applications of {cluster}")]
    Count {
        /// The cluster.
        cluster: String,
        /// The cause.
        source: ApiError,
    },
    /// The configuration asks for a mode that does not exist.
    #[error("AddOnDeploymentConfig {namespace}/{name}")]
    UnknownMode {
        /// Namespace of the configuration.
        namespace: String,
        /// Its name.
        name: String,
        /// The cause.
        source: settings::Error,
    },
}

/// The outcome of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// An Event was written.
    Notified,
    /// The `ManagedClusterAddOn` was written, or exists already; its resource version.
    Wrote(String),
    /// The `ManagedClusterAddOn` is being deleted, or is gone; its UID.
    Gone(String),
    /// It cannot be done yet; a change in the view triggers the retry.
    Later,
    /// This number of Applications blocks the change of mode.
    Blocked(usize),
    /// The removal waits until the cluster has applied that its Argo CD stays.
    Waits,
}

/// Writes `ManagedClusterAddOns`.
#[derive(Clone, derive_more::Debug)]
#[debug("Writer({version:?})")]
pub struct Writer {
    /// The client of the hub's API.
    pub client: Client,
    /// The version of the add-on API.
    pub version: Version,
    /// Writes Events.
    pub events: Recorder,
    /// The identity of this hub.
    pub own: Own,
    /// The host in the `server` URLs of clusters.
    pub resource_proxy: String,
}

impl Writer {
    /// Carries out one step. A concurrent change by another client is no error.
    pub async fn apply(&self, step: &Step) -> Result<Done, Error> {
        let (cluster, uid) = (&step.cluster, &step.uid);
        match &step.action {
            Action::Change(mode) => match self.applications(cluster).await? {
                0 => self.record(cluster, uid, *mode).await,
                count => Ok(Done::Blocked(count)),
            },
            Action::Make {
                mode,
                again,
                former,
            } => {
                let mode = self.without_change(cluster, *mode, *former).await?;
                self.make(cluster, mode, *again).await
            }
            Action::Delete => self.delete(cluster, uid).await,
            Action::Leave(leave) => self.leave(cluster, uid, *leave).await,
            Action::Stay => {
                let ended = json!({ keys::KEEPING_SINCE: null });
                self.annotate(cluster, uid, &ended, "end the removal of")
                    .await
            }
            Action::Record { mode, former } => {
                let Some(mode) = self.mode(mode).await? else {
                    return Ok(Done::Later);
                };
                let mode = self.without_change(cluster, mode, *former).await?;
                self.record(cluster, uid, mode).await
            }
            Action::Restore {
                annotations,
                version,
            } => self.restore(cluster, (uid, version), annotations).await,
            Action::Refuse { reason, message } => {
                let about = managed_cluster(cluster, uid);
                self.emit_event(&about, cluster, EventType::Warning, reason, message)
                    .await?;
                Ok(Done::Notified)
            }
        }
    }

    async fn delete(&self, cluster: &str, uid: &str) -> Result<Done, Error> {
        let addons = self.addons(cluster);
        let deleted = api::delete(&addons, keys::ADDON, Some(uid.to_owned())).await;
        deleted.map_err(failed("delete the ManagedClusterAddOn of", cluster))?;
        Ok(Done::Gone(uid.to_owned()))
    }

    /// How many Applications go to the cluster.
    async fn applications(&self, cluster: &str) -> Result<usize, Error> {
        let server = argocd::cluster_secret::server_url(&self.resource_proxy, cluster);
        let count = applications::count(&self.client, &self.own, cluster, &server).await;
        count.map_err(|source| Error::Count {
            cluster: cluster.to_owned(),
            source,
        })
    }

    /// The mode to record: the former one while the cluster has Applications, because their ownership would change
    /// unnoticed.
    async fn without_change(
        &self,
        cluster: &str,
        asked: Mode,
        former: Option<Mode>,
    ) -> Result<Mode, Error> {
        match former.filter(|it| *it != asked) {
            Some(former) if self.applications(cluster).await? > 0 => Ok(former),
            Some(_) | None => Ok(asked),
        }
    }

    fn addons(&self, cluster: &str) -> Api<DynamicObject> {
        let resource = self.version.managed_cluster_addons();
        Api::namespaced_with(self.client.clone(), cluster, &resource)
    }

    async fn make(&self, cluster: &str, mode: Mode, again: bool) -> Result<Done, Error> {
        let failed = failed("create the ManagedClusterAddOn of", cluster);
        let object = json!({
            "apiVersion": self.version.api_version(),
            "kind": "ManagedClusterAddOn",
            "metadata": {
                "name": keys::ADDON,
                "namespace": cluster,
                "annotations": { keys::MODE: mode.as_str(), keys::MADE_FOR_LABEL: "true" },
            },
            "spec": {},
        });
        let object: DynamicObject = serde_json::from_value(object)
            .map_err(|source| failed(kube::Error::SerdeError(source)))?;
        let created = self
            .addons(cluster)
            .create(&PostParams::default(), &object)
            .await;
        let metadata = match created {
            Ok(created) => created.metadata,
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                // Another client created it first, or our view is stale.
                let there = self.addons(cluster).get_metadata_opt(keys::ADDON).await;
                let there = there.map_err(failed)?;
                return Ok(there.map_or(Done::Later, |there| wrote(there.metadata)));
            }
            Err(error) => return Err(failed(error).into()),
        };
        if again {
            let about = self.reference(cluster, metadata.uid.clone());
            let message = format!(
                "recreated: the cluster still has the label {}; remove the label to opt out",
                keys::MODE
            );
            self.emit_event(&about, cluster, EventType::Normal, "MadeAgain", &message)
                .await?;
        }
        Ok(wrote(metadata))
    }

    fn reference(&self, cluster: &str, uid: Option<String>) -> ObjectReference {
        ObjectReference {
            api_version: Some(self.version.api_version()),
            kind: Some("ManagedClusterAddOn".to_owned()),
            name: Some(keys::ADDON.to_owned()),
            namespace: Some(cluster.to_owned()),
            uid,
            ..ObjectReference::default()
        }
    }

    async fn record(&self, cluster: &str, uid: &str, mode: Mode) -> Result<Done, Error> {
        let annotations = json!({ keys::MODE: mode.as_str() });
        self.annotate(cluster, uid, &annotations, "record the mode of")
            .await
    }

    /// Writes no Event unless the annotations are restored.
    async fn restore(
        &self,
        cluster: &str,
        object: (&str, &str),
        annotations: &BTreeMap<&'static str, String>,
    ) -> Result<Done, Error> {
        let (uid, _) = object;
        let wanted = json!(annotations);
        let done =
            api::annotate_unchanged(&self.client, self.version, cluster, object, &wanted).await;
        let done = done.map_err(failed("restore the annotations of", cluster))?;
        let metadata = match done {
            Annotated::Written(metadata) => *metadata,
            // The view is old: an administrator may have removed the annotation on purpose.
            Annotated::Changed => return Ok(Done::Later),
            Annotated::Gone => return Ok(Done::Gone(uid.to_owned())),
        };
        let about = self.reference(cluster, Some(uid.to_owned()));
        let message = restored(cluster, annotations);
        let (kind, reason) = (EventType::Normal, "AnnotationsRestored");
        self.emit_event(&about, cluster, kind, reason, &message)
            .await?;
        Ok(wrote(metadata))
    }

    async fn annotate(
        &self,
        cluster: &str,
        uid: &str,
        annotations: &Value,
        action: &'static str,
    ) -> Result<Done, Error> {
        let written = api::annotate(&self.client, self.version, cluster, uid, annotations).await;
        let written = written.map_err(failed(action, cluster))?;
        Ok(written.map_or_else(|| Done::Gone(uid.to_owned()), wrote))
    }

    /// The mode of a source; none while its configuration does not exist.
    async fn mode(&self, source: &Source) -> Result<Option<Mode>, Error> {
        let (namespace, name) = match source {
            Source::Known(mode) => return Ok(Some(*mode)),
            Source::Config(namespace, name) => (namespace, name),
        };
        let configs: Api<AddOnDeploymentConfig> = Api::namespaced(self.client.clone(), namespace);
        let read = configs.get_opt(name).await;
        let config = read.map_err(failed("read the AddOnDeploymentConfig of", name))?;
        let mode = config.map(|config| settings::configured_mode(&config.spec));
        mode.transpose().map_err(|source| Error::UnknownMode {
            namespace: namespace.clone(),
            name: name.clone(),
            source,
        })
    }

    async fn emit_event(
        &self,
        about: &ObjectReference,
        cluster: &str,
        kind: EventType,
        reason: &str,
        message: &str,
    ) -> Result<(), Error> {
        let event = Event {
            type_: kind,
            reason: reason.to_owned(),
            note: Some(message.to_owned()),
            action: "OptIn".to_owned(),
            secondary: None,
        };
        let published = self.events.publish(&event, about).await;
        Ok(published.map_err(failed("write an Event of", cluster))?)
    }
}

/// The message of the Event about restored annotations.
fn restored(cluster: &str, annotations: &BTreeMap<&'static str, String>) -> String {
    let names: Vec<_> = annotations.keys().copied().collect();
    let names = names.join(", ");
    let revoked = annotations.contains_key(keys::REVOKED);
    let next = revoked.then(|| {
        format!("; the agent stays revoked until `argocd-agentctl agent restore {cluster}`")
    });
    let next = next.unwrap_or_default();
    format!(
        "restored annotations that another client removed ({names}); `clusteradm addon enable` removes all \
        annotations of an add-on that is enabled already{next}"
    )
}

fn managed_cluster(name: &str, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("cluster.open-cluster-management.io/v1".to_owned()),
        kind: Some("ManagedCluster".to_owned()),
        name: Some(name.to_owned()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}

fn wrote(metadata: ObjectMeta) -> Done {
    Done::Wrote(metadata.resource_version.unwrap_or_default())
}
