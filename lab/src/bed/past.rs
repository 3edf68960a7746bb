//! Saves and restores the etcd of the hub or of the spokes; deletes the hub's data and prepares another hub.

use std::{
    path::{Path, PathBuf},
    sync::PoisonError,
};

use anyhow::{Context as _, Result};
use lab_ocm_stand_in::{Hub, HubConfig};

use super::Lab;
use crate::{Cluster, argocd, control_plane::Etcd, namespaces};

/// A copy of the data of an etcd.
#[derive(Debug)]
pub struct Past {
    saved: PathBuf,
}

impl Lab {
    /// Saves the hub's etcd: copies its data while it is stopped, which takes a second.
    pub async fn save_hub(&self) -> Result<Past> {
        let mut etcd = self.etcd.lock().await;
        save(&mut etcd, "etcd-hub-saved").await
    }

    /// Saves the etcd of all spokes, like [`save_hub`](Self::save_hub).
    pub async fn save_spokes(&self) -> Result<Past> {
        let mut etcd = self.etcd_of_spokes.lock().await;
        save(&mut etcd, "etcd-spokes-saved").await
    }

    /// Restores the hub's etcd, with the resource versions of the copy; the API is unavailable meanwhile.
    ///
    /// Restarts everything that is not ours, as Kubernetes requires: the controllers of Kubernetes and all parts
    /// of OCM. Their watches would wait for resource versions of the future.
    pub async fn put_hub_back(&self, past: &Past) -> Result<()> {
        {
            let mut etcd = self.etcd.lock().await;
            put_back(&mut etcd, &past.saved, std::slice::from_ref(self.hub())).await?;
        }
        let mut ocm = self.ocm().await?;
        ocm.hub.stop().await;
        ocm.hub.resume().await?;
        for spoke in ocm.spokes.values_mut() {
            spoke.stop().await;
            spoke.resume().await?;
        }
        Ok(())
    }

    /// Restores the etcd of all spokes, like [`put_hub_back`](Self::put_hub_back).
    ///
    /// Kubelets and Pods keep running, and see no change until the versions have reached those that they know.
    pub async fn put_spokes_back(&self, past: &Past) -> Result<()> {
        {
            let mut etcd = self.etcd_of_spokes.lock().await;
            put_back(&mut etcd, &past.saved, self.spokes()).await?;
        }
        let mut ocm = self.ocm().await?;
        for spoke in ocm.spokes.values_mut() {
            spoke.stop().await;
            spoke.resume().await?;
        }
        Ok(())
    }

    /// Ends the hub with everything that runs on it, and deletes its data.
    pub async fn lose_hub(&self) -> Result<()> {
        self.ocm().await?.hub.stop().await;
        let kubelet = {
            let mut kubelets = self.kubelets.lock().unwrap_or_else(PoisonError::into_inner);
            (!kubelets.is_empty()).then(|| kubelets.remove(0))
        };
        kubelet.context("a hub with Pods")?.stop().await;
        self.hub().stop().await;
        self.etcd.lock().await.empty().await
    }

    /// Installs the prerequisites of the product on the spare control plane: OCM, and Argo CD's CRDs and namespace.
    pub async fn prepare_spare(&self) -> Result<()> {
        let spare = self.spare()?;
        let config = HubConfig {
            kubeconfig: spare.kubeconfig(),
            dir: self.dir.join("ocm").join("spare"),
        };
        self.ocm().await?.hub = Hub::start(config).await.context("start OCM")?;
        argocd::prepare_hub(spare, &self.tools).await
    }

    /// Joins all klusterlets to the spare, as OCM's documentation describes.
    pub async fn join_spare(&self) -> Result<()> {
        let to = self.spare()?.kubeconfig_among_pods();
        for (name, spoke) in &mut self.ocm().await?.spokes {
            let dir = self.dir.join("ocm").join(format!("{name}-at-spare"));
            std::fs::create_dir_all(&dir)?;
            let to = to.clone();
            let join = spoke.reconfigure(|config| (config.hub_kubeconfig, config.dir) = (to, dir));
            join.await
                .with_context(|| format!("join {name} to the spare"))?;
        }
        Ok(())
    }
}

async fn save(etcd: &mut Etcd, name: &str) -> Result<Past> {
    let saved = namespaces::scratch().join("state").join(name);
    if saved.exists() {
        std::fs::remove_dir_all(&saved)?;
    }
    etcd.save(&saved).await?;
    Ok(Past { saved })
}

/// Restores the data of these clusters, whose controllers restart.
async fn put_back(etcd: &mut Etcd, saved: &Path, clusters: &[Cluster]) -> Result<()> {
    for cluster in clusters {
        cluster.stop_api().await;
    }
    etcd.put_back(saved).await?;
    etcd.resume().await?;
    for cluster in clusters {
        cluster.start_api().await?;
        cluster.restart_controllers().await?;
    }
    Ok(())
}
