//! Lists and deletes the add-on's objects on the hub. Reads only metadata where names are enough.

use std::pin::pin;

use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, ListParams},
    core::PartialObjectMeta,
};
use ocm::{
    api::{addon::Version, cluster::ManagedCluster, work::ManifestWork},
    keys as ocm_keys, sdk,
};

use super::remaining::Rest;
use crate::{
    api::{self, ApiError, failed},
    fleet::secrets,
    hub as world, keys,
};

/// The page size of lists.
const PAGE: u32 = 500;

/// Why a request to the hub failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The served version of the add-on API is unknown.
    #[error(transparent)]
    Version(#[from] sdk::Error),
    /// The `ClusterManagementAddOn` belongs to another add-on now.
    #[error(
        "the ClusterManagementAddOn {} uses AddOnTemplates, so it no longer belongs to this add-on; nothing \
        was removed, and `helm uninstall --no-hooks` would delete it",
        keys::ADDON
    )]
    NotOurs,
    /// The API rejected the request or was unavailable.
    #[error(transparent)]
    Api(#[from] ApiError),
}

/// A client of the hub.
#[derive(Clone, derive_more::Debug)]
#[debug("Hub")]
pub struct Hub {
    /// The client of its API.
    pub client: Client,
    /// Namespace of its Argo CD.
    pub argocd_namespace: String,
}

impl Hub {
    /// Deletes the existing objects, and returns the rest.
    pub async fn step(&self) -> Result<Rest, Error> {
        let version = sdk::discover(&self.client).await?;
        self.remove_offer(version).await?;
        self.remove_addons(version).await?;
        let ui_secret = self.remove_ui_secret().await?;
        let mut rest = self.rest(version).await?;
        rest.ui_secret = ui_secret;
        Ok(rest)
    }

    /// Deletes the Secret of the UI; returns whether there was one. The manager may create it again until it sees that the
    /// `ClusterManagementAddOn` is gone, so the caller looks once more.
    async fn remove_ui_secret(&self) -> Result<bool, Error> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.argocd_namespace);
        let deleted = api::delete(&secrets, keys::UI_SECRET, None).await;
        Ok(deleted.map_err(failed("delete Secret", keys::UI_SECRET))?)
    }

    /// Deletes the `ClusterManagementAddOn`, if it is ours.
    async fn remove_offer(&self, version: Version) -> Result<(), Error> {
        let resource = version.cluster_management_addons();
        let offers: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let read = offers.get_opt(keys::ADDON).await;
        let Some(offer) = read.map_err(failed("read", "the ClusterManagementAddOn"))? else {
            return Ok(());
        };
        let uid = offer.metadata.uid.clone();
        if world::offers_templates(&version.read_offer(offer)) {
            return Err(Error::NotOurs);
        }
        let deleted = api::delete(&offers, keys::ADDON, uid).await;
        deleted.map_err(failed("delete", "the ClusterManagementAddOn"))?;
        Ok(())
    }

    /// Deletes the `ManagedClusterAddOns` that are not being deleted yet.
    async fn remove_addons(&self, version: Version) -> Result<(), Error> {
        let resource = version.managed_cluster_addons();
        for addon in self.addons(version).await? {
            if addon.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let namespace = addon.namespace().unwrap_or_default();
            let api: Api<DynamicObject> =
                Api::namespaced_with(self.client.clone(), &namespace, &resource);
            let deleted = api::delete(&api, keys::ADDON, addon.metadata.uid).await;
            deleted.map_err(failed("delete", "a ManagedClusterAddOn"))?;
        }
        Ok(())
    }

    /// Lists the remaining objects.
    async fn rest(&self, version: Version) -> Result<Rest, Error> {
        let mut rest = Rest::default();
        for addon in self.addons(version).await? {
            rest.of(&addon.namespace().unwrap_or_default()).addon = true;
        }
        let works: Api<ManifestWork> = Api::all(self.client.clone());
        let ours = format!("{}={}", ocm_keys::ADDON_NAME, keys::ADDON);
        let selected = ListParams::default().labels(&ours);
        let works = metadata(&works, selected).await;
        for work in works.map_err(failed("list ManifestWorks of", keys::ADDON))? {
            let left = rest.of(&work.namespace().unwrap_or_default());
            left.works.insert(work.name_any());
        }
        for cluster in self.secrets().await? {
            rest.of(&cluster).secret = true;
        }
        if !rest.is_empty() {
            self.find_lost(&mut rest).await?;
        }
        Ok(rest)
    }

    async fn addons(
        &self,
        version: Version,
    ) -> Result<Vec<PartialObjectMeta<DynamicObject>>, Error> {
        let resource: ApiResource = version.managed_cluster_addons();
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let named = ListParams::default().fields(&format!("metadata.name={}", keys::ADDON));
        let listed = metadata(&api, named).await;
        Ok(listed.map_err(failed("list ManagedClusterAddOns of", keys::ADDON))?)
    }

    /// The clusters that have a cluster Secret of ours.
    async fn secrets(&self) -> Result<Vec<String>, Error> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &self.argocd_namespace);
        let selected = ListParams::default().labels(&secrets::selector());
        let listed = metadata(&api, selected).await;
        let listed = listed.map_err(failed("list", "the cluster Secrets"))?;
        let ours = listed.iter().filter(|it| secrets::is_marked(&it.metadata));
        Ok(ours
            .filter_map(|it| secrets::cluster_named(&it.metadata))
            .map(|cluster| cluster.to_string())
            .collect())
    }

    async fn find_lost(&self, rest: &mut Rest) -> Result<(), Error> {
        let clusters: Api<ManagedCluster> = Api::all(self.client.clone());
        let mut pages = pin!(api::pages(clusters, ListParams::default().limit(PAGE)));
        let list = failed("list", "all ManagedClusters");
        while let Some(page) = pages.try_next().await.map_err(&list)? {
            for cluster in &page {
                if let Some(left) = rest.clusters.get_mut(&cluster.name_any()) {
                    left.lost = cluster.is_lost();
                }
            }
        }
        Ok(())
    }
}

/// Lists the metadata of all objects, page by page.
async fn metadata<K>(
    api: &Api<K>,
    selected: ListParams,
) -> Result<Vec<PartialObjectMeta<K>>, kube::Error>
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let (mut all, mut page) = (Vec::new(), selected.limit(PAGE));
    loop {
        let list = api.list_metadata(&page).await?;
        all.extend(list.items);
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(all),
        }
    }
}
