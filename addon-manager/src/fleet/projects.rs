//! The restricted AppProject of each managed cluster, if enabled.
//!
//! We create it if it is missing, repair it while it has our mark, and delete it when the cluster opts out. We never
//! change a project of that name without the mark: it has another owner.

use argocd::cluster_project;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams},
};
use ocm::name::ClusterName;

use crate::{delete_with_preconditions, hub, keys};

/// Why a request for a project failed.
#[derive(Debug, thiserror::Error)]
#[error("{action} AppProject {name}")]
pub struct Error {
    /// The attempted action.
    action: &'static str,
    /// The project.
    name: String,
    /// The cause.
    source: Box<kube::Error>,
}

impl Error {
    /// A message with the next step, for errors that a retry does not resolve.
    pub fn needs_a_person(&self) -> Option<String> {
        let next = hub::next_step(&self.source)?;
        Some(format!("{}; {next}", runtime::error::Chain(self)))
    }
}

/// The projects in the hub's Argo CD namespace.
#[derive(Clone, Debug)]
pub struct Projects {
    api: Api<DynamicObject>,
    namespace: String,
}

impl Projects {
    /// The projects of a namespace.
    pub fn new(client: Client, argocd_namespace: &str) -> Self {
        let kind = GroupVersionKind::gvk("argoproj.io", "v1alpha1", "AppProject");
        let kind = ApiResource::from_gvk(&kind);
        Self {
            api: Api::namespaced_with(client, argocd_namespace, &kind),
            namespace: argocd_namespace.to_owned(),
        }
    }

    /// Creates or repairs the project of a cluster; writes nothing if it is as desired.
    pub async fn ensure(&self, cluster: &ClusterName) -> Result<(), Error> {
        let name = cluster_project::name(cluster.as_str());
        let mut desired = cluster_project::build(cluster.as_str(), &self.namespace);
        let mut params = PatchParams::apply(keys::FIELD_MANAGER);
        if let Some(live) = self.live(&name).await? {
            let theirs =
                !cluster_project::is_ours(cluster.as_str(), live.metadata.annotations.as_ref());
            if theirs || cluster_project::is_as(&live.data, &desired) {
                return Ok(());
            }
            // The UID is a precondition: the patch fails on a later project of the same name.
            if let Some(metadata) = desired.pointer_mut("/metadata") {
                metadata["uid"] = live.metadata.uid.into();
            }
            params = params.force();
        }
        let written = self
            .api
            .patch(&name, &params, &Patch::Apply(&desired))
            .await;
        written.map_err(failed("write", &name))?;
        tracing::info!(%cluster, project = name, "wrote the cluster's AppProject");
        Ok(())
    }

    /// Deletes the project of a cluster, if we made it.
    pub async fn remove(&self, cluster: &ClusterName) -> Result<(), Error> {
        let name = cluster_project::name(cluster.as_str());
        let Some(live) = self.live(&name).await? else {
            return Ok(());
        };
        if !cluster_project::is_ours(cluster.as_str(), live.metadata.annotations.as_ref()) {
            return Ok(());
        }
        let deleted = delete_with_preconditions::delete(&self.api, &name, live.metadata.uid).await;
        if deleted.map_err(failed("delete", &name))? {
            tracing::info!(%cluster, "deleted the cluster's AppProject");
        }
        Ok(())
    }

    /// Reads the project of that name with a list, for which the principal's watch has the permission already.
    async fn live(&self, name: &str) -> Result<Option<DynamicObject>, Error> {
        let named = ListParams::default().fields(&format!("metadata.name={name}"));
        let found = self.api.list(&named).await;
        found
            .map(|found| found.items.into_iter().next())
            .map_err(failed("look for", name))
    }
}

fn failed(action: &'static str, name: &str) -> impl FnOnce(kube::Error) -> Error {
    let name = name.to_owned();
    move |source| Error {
        action,
        name,
        source: Box::new(source),
    }
}
