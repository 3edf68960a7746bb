//! Watches the hub's own Argo CD: its Deployments and its CRDs.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::future::join_all;
use k8s_openapi::{
    api::apps::v1::Deployment,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
};
use runtime::kube::{Event, Watch, watch_trimmed};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::pattern::{CRDS, definition};

/// The label of all of Argo CD's Deployments, for each way to install it.
const OF_ARGOCD: &str = "app.kubernetes.io/part-of=argocd";
const DEPLOYMENTS: &str = "deployments";

/// The observed Argo CD of the hub.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hub {
    deployments: BTreeMap<String, Arc<Deployment>>,
    crds: BTreeMap<String, Arc<Value>>,
    // The watches that have listed their objects.
    listed: BTreeSet<String>,
}

impl Hub {
    /// Its Deployments.
    pub fn deployments(&self) -> impl Iterator<Item = &Deployment> {
        self.deployments.values().map(AsRef::as_ref)
    }

    /// A CRD, in the form for spokes.
    pub fn crd(&self, name: &str) -> Option<Arc<Value>> {
        self.crds.get(name).cloned()
    }

    /// Whether all watches have listed their objects.
    pub fn is_listed(&self) -> bool {
        let mut all = CRDS.into_iter().chain([DEPLOYMENTS]);
        all.all(|it| self.listed.contains(it))
    }

    fn deployment(&mut self, event: Event<Deployment>) -> bool {
        match event {
            Event::Applied { object, .. } => {
                // Until a rollout is complete, the previous version stays the pattern.
                if !is_rolled_out(&object) {
                    return false;
                }
                let name = object.metadata.name.clone().unwrap_or_default();
                let known = plain(*object);
                replace(&mut self.deployments, name, known)
            }
            Event::Deleted(gone) => self.deployments.remove(&gone.name).is_some(),
            Event::Synced => self.listed.insert(DEPLOYMENTS.to_owned()),
            Event::Rewound => false,
        }
    }

    fn definition(&mut self, name: &str, event: Event<DynamicObject>) -> bool {
        match event {
            Event::Applied { object, .. } => {
                let object = serde_json::to_value(*object).ok();
                let Some(crd) = object.as_ref().and_then(definition) else {
                    return false;
                };
                replace(&mut self.crds, name.to_owned(), crd)
            }
            Event::Deleted(_) => self.crds.remove(name).is_some(),
            Event::Synced => self.listed.insert(name.to_owned()),
            Event::Rewound => false,
        }
    }

    /// A hub with these objects, completely listed.
    #[cfg(test)]
    pub(super) fn with(deployments: Vec<Deployment>, crds: &[Value]) -> Self {
        let mut hub = Self::default();
        for object in deployments {
            let object = Box::new(object);
            hub.deployment(Event::Applied {
                object,
                listed: true,
            });
        }
        for crd in crds {
            let object: DynamicObject = serde_json::from_value(crd.clone()).unwrap();
            let name = object.metadata.name.clone().unwrap();
            let object = Box::new(object);
            hub.definition(
                &name,
                Event::Applied {
                    object,
                    listed: true,
                },
            );
        }
        let names = CRDS.into_iter().chain([DEPLOYMENTS]);
        hub.listed = names.map(str::to_owned).collect();
        hub
    }
}

/// Takes over a value, and returns whether it differs from the known one.
fn replace<V: PartialEq>(known: &mut BTreeMap<String, Arc<V>>, name: String, value: V) -> bool {
    let value = Arc::new(value);
    known.insert(name, Arc::clone(&value)) != Some(value)
}

/// Whether all Pods match the template and at least one is available, as in `kubectl rollout status`.
fn is_rolled_out(deployment: &Deployment) -> bool {
    let Some(status) = &deployment.status else {
        return false;
    };
    let all = status.replicas.unwrap_or_default();
    status.observed_generation >= deployment.metadata.generation
        && status.updated_replicas.unwrap_or_default() == all
        && (status.available_replicas.unwrap_or_default() > 0
            || deployment.spec.replicas == Some(0))
}

/// The parts that do not change with every Pod: labels and containers.
fn plain(mut deployment: Deployment) -> Deployment {
    deployment.status = None;
    deployment.metadata.annotations = None;
    deployment.metadata.resource_version = None;
    deployment.metadata.generation = None;
    deployment.spec.replicas = None;
    deployment
}

/// Watches until the token is cancelled.
pub async fn follow(
    client: Client,
    namespace: String,
    hub: watch::Sender<Hub>,
    token: CancellationToken,
) {
    let deployments = Api::namespaced(client.clone(), &namespace);
    let watched = Watch::<Deployment>::new(deployments).labels(OF_ARGOCD);
    let following = watch_trimmed(watched, token.clone(), |event| {
        hub.send_if_modified(|hub| hub.deployment(event));
    });
    let crd = ApiResource::erase::<CustomResourceDefinition>(&());
    let definitions = CRDS.into_iter().map(|name| {
        let watched = Watch::<DynamicObject>::new(Api::all_with(client.clone(), &crd))
            .fields(&format!("metadata.name={name}"));
        let hub = &hub;
        watch_trimmed(watched, token.clone(), move |event| {
            hub.send_if_modified(|hub| hub.definition(name, event));
        })
    });
    tokio::join!(following, join_all(definitions));
}
