//! Argo CD, the real one: its own manifests, its own program, a real redis, in Pods of the lab's
//! kubelet.
//!
//! A spoke gets the parts of Argo CD's `core-install.yaml` for applications: application controller,
//! repo server, redis. The hub gets only the CRDs and the namespace; there our principal replaces
//! the controller. Tests can also install the hub's `ApplicationSet` controller, the API server, and an application
//! controller beside our principal.

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

use crate::{Cluster, Tools, steps::At, wait};

pub use images::provide as provide_images;
use manifests::Manifests;

/// The namespace of Argo CD, on hub and spokes.
pub const NAMESPACE: &str = "argocd";
/// Its application controller, a `StatefulSet`.
pub const CONTROLLER: &str = "argocd-application-controller";
/// Its other programs, Deployments.
pub const DEPLOYMENTS: [&str; 2] = ["argocd-redis", "argocd-repo-server"];

/// The controller that creates Applications from `ApplicationSets`, a Deployment.
pub const APPLICATION_SETS: &str = "argocd-applicationset-controller";

/// The server of API and UI, a Deployment and a Service.
pub const SERVER: &str = "argocd-server";

/// The parameters of its programs on the hub.
pub fn parameters() -> At {
    At::config_map(NAMESPACE, manifests::PARAMETERS)
}

/// Prepares a hub for Applications: the CRDs and the namespace.
pub async fn prepare_hub(hub: &Cluster, tools: &Tools) -> Result<()> {
    hub.apply(&namespace(NAMESPACE)).await?;
    hub.apply(&Manifests::read(tools, NAMESPACE)?.crds())
        .await
        .context("apply the CRDs of Argo CD")
}

/// Installs Argo CD on clusters, and returns when it is available on all of them.
pub async fn install(clusters: &[Cluster], tools: &Tools) -> Result<()> {
    let manifests = Manifests::read(tools, NAMESPACE)?;
    let installing = clusters
        .iter()
        .map(|cluster| install_on(cluster, NAMESPACE, &manifests));
    try_join_all(installing).await.map(drop)
}

/// Installs Argo CD on a cluster in another namespace than the usual one.
pub async fn install_in(cluster: &Cluster, namespace: &str, tools: &Tools) -> Result<()> {
    install_on(cluster, namespace, &Manifests::read(tools, namespace)?).await
}

async fn install_on(cluster: &Cluster, namespace: &str, manifests: &Manifests) -> Result<()> {
    cluster.apply(&self::namespace(namespace)).await?;
    cluster
        .apply(&manifests.core())
        .await
        .context("apply the manifests of Argo CD")?;
    until_available(cluster, namespace).await
}

/// Installs the `ApplicationSet` controller on a hub, with progressive syncs, and returns when it is
/// available.
pub async fn install_application_sets(hub: &Cluster, tools: &Tools) -> Result<()> {
    hub.apply(&Manifests::read(tools, NAMESPACE)?.application_sets())
        .await
        .context("apply the manifests of Argo CD")?;
    until_deployed(hub, NAMESPACE, &DEPLOYMENTS).await?;
    until_deployed(hub, NAMESPACE, &[APPLICATION_SETS]).await
}

/// Installs Argo CD's server on a hub, beside the `ApplicationSet` controller, with Argo CD's own settings, and
/// returns when it is available.
pub async fn install_server(hub: &Cluster, tools: &Tools) -> Result<()> {
    hub.apply(&Manifests::read(tools, NAMESPACE)?.server())
        .await
        .context("apply the manifests of Argo CD's server")?;
    until_deployed(hub, NAMESPACE, &[SERVER]).await
}

/// Argo CD's `install.yaml`, as far as it runs on a hub of the lab: without the application controller.
pub fn hub_manifests(tools: &Tools) -> Result<String> {
    let manifests = Manifests::read(tools, NAMESPACE)?;
    let all = [
        manifests.crds(),
        manifests.application_sets(),
        manifests.server(),
    ];
    Ok(all.join("\n---\n"))
}

/// Installs the application controller on a hub that has the [`ApplicationSet` controller](install_application_sets), as
/// for clusters in push mode, and returns when it is ready.
pub async fn install_controller(hub: &Cluster, tools: &Tools) -> Result<()> {
    hub.apply(&Manifests::read(tools, NAMESPACE)?.controller())
        .await
        .context("apply the manifests of Argo CD's application controller")?;
    until_controlled(hub, NAMESPACE).await
}

/// Removes the application controller from a hub, and waits until its Pod is gone.
pub async fn remove_controller(hub: &Cluster, tools: &Tools) -> Result<()> {
    hub.delete(&Manifests::read(tools, NAMESPACE)?.controller())
        .await?;
    let labels = format!("app.kubernetes.io/name={CONTROLLER}");
    until_no_pod(hub, NAMESPACE, &labels).await
}

async fn until_deployed(cluster: &Cluster, namespace: &str, names: &[&str]) -> Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(cluster.client(), namespace);
    for name in names {
        wait::object(&deployments, name, "is available", is_available).await?;
    }
    Ok(())
}

/// Waits until every part of Argo CD on a cluster is ready.
async fn until_available(cluster: &Cluster, namespace: &str) -> Result<()> {
    until_deployed(cluster, namespace, &DEPLOYMENTS).await?;
    until_controlled(cluster, namespace).await
}

/// Waits until the application controller is ready.
async fn until_controlled(cluster: &Cluster, namespace: &str) -> Result<()> {
    let sets: Api<StatefulSet> = Api::namespaced(cluster.client(), namespace);
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

/// Removes the programs of Argo CD, and waits until none of its Pods is left.
async fn remove_from(cluster: &Cluster, namespace: &str, manifests: &Manifests) -> Result<()> {
    cluster.delete(&manifests.programs()).await?;
    until_no_pod(cluster, namespace, "").await
}

/// Waits until no Pod with these labels (empty: none at all) is left.
async fn until_no_pod(cluster: &Cluster, namespace: &str, labels: &str) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(cluster.client(), namespace);
    let wanted = ListParams::default().labels(labels);
    let look = || async {
        let list = pods.list(&wanted).await?;
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
    purge_from(cluster, NAMESPACE, tools).await
}

/// Like [`purge`], from another namespace. Removes the CRDs too.
pub async fn purge_from(cluster: &Cluster, namespace: &str, tools: &Tools) -> Result<()> {
    let manifests = Manifests::read(tools, namespace)?;
    remove_from(cluster, namespace, &manifests).await?;
    cluster.delete(&manifests.core()).await?;
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    namespaces
        .delete(namespace, &DeleteParams::default())
        .await?;
    wait::gone(&namespaces, namespace).await
}

fn namespace(name: &str) -> String {
    format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}")
}
