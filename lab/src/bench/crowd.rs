//! Many simulated clusters: their objects on the hub, and a stand-in that cheaply makes the writes of OCM's controllers and
//! of the clusters' agents.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context as _, Result};
use futures::{FutureExt as _, StreamExt as _, stream};
use jiff::Timestamp;
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    runtime::{WatchStreamExt as _, watcher},
};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::ocm::Edition;
use crate::steps::{ADDON, At, Objects};

/// Longer than any measurement, in seconds.
const LEASE: u32 = 24 * 3600;

/// The number of concurrent writes: more than the API server handles at once.
const AT_ONCE: usize = 32;

/// The clusters.
#[derive(Clone)]
pub(super) struct Crowd {
    hub: Objects,
    names: Arc<Vec<String>>,
    ocm: Edition,
}

impl Crowd {
    /// This many clusters, none of which exists yet.
    pub(super) fn new(client: Client, size: usize, ocm: Edition) -> Self {
        let names = (0..size).map(|number| format!("crowd-{number:05}"));
        Self {
            hub: Objects::new(client),
            names: Arc::new(names.collect()),
            ocm,
        }
    }

    /// Their names.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Does something for each of them, many at a time.
    async fn each<F>(&self, act: impl Fn(Self, String) -> F) -> Result<()>
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let names = self.names.iter();
        let acts: Vec<_> = names
            .map(|name| act(self.clone(), name.clone()).boxed())
            .collect();
        let mut acts = stream::iter(acts).buffer_unordered(AT_ONCE);
        while let Some(done) = acts.next().await {
            done?;
        }
        Ok(())
    }

    /// Creates their namespaces and `ManagedClusters`, accepted, joined and available.
    pub(super) async fn join(&self) -> Result<()> {
        self.each(|crowd, name| async move {
            let label = json!({ "open-cluster-management.io/cluster-name": name });
            let namespace = json!({ "metadata": { "labels": label } });
            crowd.create(&At::namespace(&name), namespace).await?;
            let at = At::cluster(&name);
            // A simulated cluster does not renew its lease.
            let spec =
                json!({ "spec": { "hubAcceptsClient": true, "leaseDurationSeconds": LEASE } });
            crowd.create(&at, spec).await?;
            let stated = [
                "HubAcceptedManagedCluster",
                "ManagedClusterJoined",
                "ManagedClusterConditionAvailable",
            ];
            let conditions = stated.map(|kind| condition(kind, None));
            let status = json!({ "status": { "conditions": conditions } });
            crowd.hub.merge_status(&at, status).await.map(drop)
        })
        .await
    }

    /// Enables the add-on on all of them, and gives each its configuration like OCM's add-on manager does, if that does
    /// not run.
    pub(super) async fn enable(&self, owner: &Value, config: &Value) -> Result<()> {
        self.each(|crowd, name| {
            let (owner, config) = (owner.clone(), config.clone());
            async move {
                let at = addon(crowd.ocm, &name);
                if crowd.ocm.is_real {
                    return crowd.create(&at, json!({ "spec": {} })).await;
                }
                let metadata = json!({ "ownerReferences": [owner] });
                crowd
                    .create(&at, json!({ "metadata": metadata, "spec": {} }))
                    .await?;
                let reference = json!({
                    "group": "addon.open-cluster-management.io",
                    "resource": "addondeploymentconfigs",
                    "desiredConfig": config,
                });
                let status = json!({
                    "apiVersion": crowd.ocm.api_version(),
                    "kind": "ManagedClusterAddOn",
                    "metadata": { "name": ADDON, "namespace": name },
                    "status": {
                        "configReferences": [reference],
                        "conditions": [condition("Configured", None)],
                    },
                });
                let params = PatchParams::apply("simulated-ocm").force();
                let patch = Patch::Apply(&status);
                crowd
                    .hub
                    .api(&at)
                    .patch_status(ADDON, &params, &patch)
                    .await?;
                Ok(())
            }
        })
        .await
    }

    async fn create(&self, at: &At, object: Value) -> Result<()> {
        let api = self.hub.api(at);
        let mut object = object;
        let (api_version, kind) = at.kind();
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
        object["metadata"]["name"] = at.name().into();
        let object: DynamicObject = serde_json::from_value(object)?;
        let made = api.create(&PostParams::default(), &object).await;
        made.map(drop).with_context(|| format!("make {at}"))
    }

    /// Plays all work agents: reports every work, and every change of one, as applied. The value is the number of
    /// works.
    pub(super) fn work_agents(&self) -> (watch::Receiver<usize>, AbortOnDropHandle<()>) {
        let works: Api<DynamicObject> = self.hub.everywhere(&At::work("", ""));
        let (count, seen) = watch::channel(0);
        let hub = self.hub.clone();
        let play = async move {
            let mut answered = BTreeMap::new();
            let events = watcher(works, watcher::Config::default())
                .default_backoff()
                .applied_objects();
            let answers = events.filter_map(|work| {
                let fresh = work.ok().filter(|work| {
                    let generation = work.metadata.generation;
                    let before = answered.insert(work.metadata.namespace.clone(), generation);
                    count.send_replace(answered.len());
                    before != Some(generation)
                });
                std::future::ready(fresh)
            });
            let answers = answers.map(move |work| answer(hub.clone(), work).boxed());
            let mut answers = std::pin::pin!(answers.buffer_unordered(AT_ONCE));
            while let Some(answered) = answers.next().await {
                if let Err(error) = answered {
                    tracing::warn!(error = %format!("{error:#}"), "a work was not answered");
                }
            }
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "ends with its handle, which the caller has"
        )]
        let task = AbortOnDropHandle::new(tokio::spawn(play));
        (seen, task)
    }
}

/// The add-on of a cluster, in the newest version that the hub serves.
pub(super) fn addon(ocm: Edition, cluster: &str) -> At {
    At::of(
        &ocm.api_version(),
        ("ManagedClusterAddOn", "managedclusteraddons"),
        Some(cluster),
        ADDON,
    )
}

fn condition(kind: &str, generation: Option<i64>) -> Value {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let mut condition = json!({
        "type": kind, "status": "True", "reason": "Simulated", "message": "",
        "lastTransitionTime": now,
    });
    if let Some(generation) = generation {
        condition["observedGeneration"] = generation.into();
    }
    condition
}

/// Reports that a work is applied, and that its Deployment has a replica.
async fn answer(hub: Objects, work: DynamicObject) -> Result<()> {
    let (name, namespace) = (work.metadata.name, work.metadata.namespace);
    let (name, namespace) = (name.unwrap_or_default(), namespace.unwrap_or_default());
    let generation = work.metadata.generation;
    let manifests = work.data["spec"]["workload"]["manifests"].as_array();
    let deployments = manifests.into_iter().flatten().enumerate();
    let deployments = deployments.filter(|(_, it)| it["kind"] == "Deployment");
    let reports: Vec<Value> = deployments
        .map(|(ordinal, it)| {
            let value = |name: &str| json!({ "name": name, "fieldValue": { "type": "Integer", "integer": 1 } });
            json!({
                "resourceMeta": {
                    "ordinal": ordinal, "group": "apps", "version": "v1", "kind": "Deployment",
                    "resource": "deployments", "namespace": it["metadata"]["namespace"],
                    "name": it["metadata"]["name"],
                },
                "conditions": [condition("Applied", None), condition("Available", None)],
                "statusFeedback": { "values": [value("Replicas"), value("ReadyReplicas")] },
            })
        })
        .collect();
    let conditions = ["Applied", "Available"].map(|kind| condition(kind, generation));
    let status = json!({ "status": {
        "conditions": conditions, "resourceStatus": { "manifests": reports },
    }});
    hub.merge_status(&At::work(&namespace, &name), status)
        .await
        .map(drop)
}
