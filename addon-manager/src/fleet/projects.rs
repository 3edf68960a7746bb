//! The restricted AppProject of each managed cluster, if enabled.
//!
//! We create it if it is missing, repair it while it has our mark, and delete it when the cluster opts out. We never
//! change a project of that name without the mark: it has another owner.

use argocd::cluster_project;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams},
};
use ocm::name::ClusterName;

use crate::{
    api::{self, ApiError, failed},
    keys,
};

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
    pub async fn ensure(&self, cluster: &ClusterName) -> Result<(), ApiError> {
        let name = cluster_project::name(cluster.as_str());
        let mut desired = cluster_project::build(cluster.as_str(), &self.namespace);
        let mut params = PatchParams::apply(keys::FIELD_MANAGER);
        if let Some(live) = api::find(&self.api, &name)
            .await
            .map_err(failed("look for AppProject", &name))?
        {
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
        written.map_err(failed("write AppProject", &name))?;
        tracing::info!(%cluster, project = name, "wrote the cluster's AppProject");
        Ok(())
    }

    /// Deletes the project of a cluster, if we made it.
    pub async fn remove(&self, cluster: &ClusterName) -> Result<(), ApiError> {
        let name = cluster_project::name(cluster.as_str());
        let Some(live) = api::find(&self.api, &name)
            .await
            .map_err(failed("look for AppProject", &name))?
        else {
            return Ok(());
        };
        if !cluster_project::is_ours(cluster.as_str(), live.metadata.annotations.as_ref()) {
            return Ok(());
        }
        let deleted = api::delete(&self.api, &name, live.metadata.uid).await;
        if deleted.map_err(failed("delete AppProject", &name))? {
            tracing::info!(%cluster, "deleted the cluster's AppProject");
        }
        Ok(())
    }
}
