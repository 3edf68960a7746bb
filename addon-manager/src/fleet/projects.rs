//! The restricted AppProject of each managed cluster, where the setting asks for it.
//!
//! Made where it is missing, mended while it carries our mark, and deleted when the cluster is opted out. A project
//! of that name without the mark is somebody else's and is never touched.

use argocd::cluster_project;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams},
};
use ocm::name::ClusterName;

use crate::{delete_with_preconditions, hub, keys};

/// What could not be done.
#[derive(Debug, thiserror::Error)]
#[error("{action} AppProject {name}")]
pub struct Error {
    /// What was tried.
    action: &'static str,
    /// On which project.
    name: String,
    /// Why not.
    source: Box<kube::Error>,
}

impl Error {
    /// What to tell a person, where waiting does not help.
    pub fn needs_a_person(&self) -> Option<String> {
        let next = hub::next_step(&self.source)?;
        Some(format!("{}; {next}", runtime::error::Chain(self)))
    }
}

/// The projects in the hub's Argo CD namespace.
#[derive(Clone)]
pub struct Projects {
    api: Api<DynamicObject>,
    namespace: String,
}

impl std::fmt::Debug for Projects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Projects").finish_non_exhaustive()
    }
}

impl Projects {
    /// The projects of a namespace.
    pub fn new(client: Client, argocd_namespace: &str) -> Self {
        let kind = ApiResource {
            group: "argoproj.io".to_owned(),
            version: "v1alpha1".to_owned(),
            api_version: argocd::keys::API_VERSION.to_owned(),
            kind: "AppProject".to_owned(),
            plural: "appprojects".to_owned(),
        };
        Self {
            api: Api::namespaced_with(client, argocd_namespace, &kind),
            namespace: argocd_namespace.to_owned(),
        }
    }

    /// Makes the project of a cluster as it should be; writes nothing when it is.
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
            // On the very project that was looked at.
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

    /// The project of that name, by a list: the right that the principal's watch has anyhow.
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
