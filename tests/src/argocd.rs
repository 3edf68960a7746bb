//! Argo CD, the real one: its own manifests, its own program, a real redis, in Pods of the lab's
//! kubelet.
//!
//! A spoke gets what `core-install.yaml` of Argo CD has for applications: application controller,
//! repo server, redis. The hub gets the CRDs and the namespace only; there our principal stands
//! where a controller would.

mod images;
mod manifests;

use anyhow::{Context as _, Result};
use futures::future::try_join_all;
use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    core::v1::{Namespace, Pod},
};
use kube::{
    Api,
    api::{DeleteParams, ListParams},
};

use crate::{Cluster, Tools, wait};

pub use images::provide as provide_images;
use manifests::Manifests;

/// Where Argo CD is, on hub and spokes.
pub const NAMESPACE: &str = "argocd";
/// Its application controller, a `StatefulSet`.
pub const CONTROLLER: &str = "argocd-application-controller";
/// Its other programs, Deployments.
pub const DEPLOYMENTS: [&str; 2] = ["argocd-redis", "argocd-repo-server"];

/// Prepares a hub for Applications: the CRDs and the namespace.
pub async fn prepare_hub(hub: &Cluster, tools: &Tools) -> Result<()> {
    hub.apply(&namespace()).await?;
    hub.apply(&Manifests::read(tools)?.crds())
        .await
        .context("apply the CRDs of Argo CD")
}

/// Installs Argo CD on clusters, and returns when it is available on all of them.
pub async fn install(clusters: &[Cluster], tools: &Tools) -> Result<()> {
    let manifests = Manifests::read(tools)?;
    let installing = clusters
        .iter()
        .map(|cluster| install_on(cluster, &manifests));
    try_join_all(installing).await.map(drop)
}

async fn install_on(cluster: &Cluster, manifests: &Manifests) -> Result<()> {
    cluster.apply(&namespace()).await?;
    cluster
        .apply(&manifests.core())
        .await
        .context("apply the manifests of Argo CD")?;
    until_available(cluster).await
}

/// Waits until every part of Argo CD on a cluster is ready.
pub async fn until_available(cluster: &Cluster) -> Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(cluster.client(), NAMESPACE);
    for name in DEPLOYMENTS {
        wait::object(&deployments, name, "is available", is_available).await?;
    }
    let sets: Api<StatefulSet> = Api::namespaced(cluster.client(), NAMESPACE);
    let is_ready = |set: &StatefulSet| {
        set.status
            .as_ref()
            .is_some_and(|status| status.ready_replicas == Some(1))
    };
    wait::object(&sets, CONTROLLER, "is ready", is_ready)
        .await
        .map(drop)
}

fn is_available(deployment: &Deployment) -> bool {
    let status = deployment.status.as_ref();
    status.is_some_and(|status| {
        status
            .available_replicas
            .is_some_and(|replicas| replicas > 0)
    })
}

/// Removes Argo CD from a cluster, and waits until no Pod of it is left. Its CRDs and the
/// Applications stay.
pub async fn remove(cluster: &Cluster, tools: &Tools) -> Result<()> {
    cluster.delete(&Manifests::read(tools)?.programs()).await?;
    let pods: Api<Pod> = Api::namespaced(cluster.client(), NAMESPACE);
    let look = || async {
        let list = pods.list(&ListParams::default()).await?;
        Ok(list
            .items
            .into_iter()
            .filter_map(|pod| pod.metadata.name)
            .collect::<Vec<_>>())
    };
    wait::until("all Pods of Argo CD are gone", look, Vec::is_empty)
        .await
        .map(drop)
}

/// Removes everything of Argo CD from a cluster that has no Applications, the namespace included.
pub async fn purge(cluster: &Cluster, tools: &Tools) -> Result<()> {
    remove(cluster, tools).await?;
    cluster.delete(&Manifests::read(tools)?.core()).await?;
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    namespaces
        .delete(NAMESPACE, &DeleteParams::default())
        .await?;
    wait::gone(&namespaces, NAMESPACE).await
}

fn namespace() -> String {
    format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {NAMESPACE}}}}}")
}
