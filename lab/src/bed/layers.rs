//! The layers above the control planes: Pods, Open Cluster Management, Argo CD and our own programs.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::Arc,
};

use anyhow::{Context, Result};
use futures::future::try_join_all;
use lab_kubelet::{Config, Images, Kubelet, LoadBalancers};
use lab_ocm_stand_in::{Hub, HubConfig, Spoke, SpokeConfig};

use crate::{Cluster, Tools, argocd, faults::Faults, git, namespaces};

/// Open Cluster Management, real or its stand-in: tests end and resume its parts.
#[derive(Debug)]
pub struct Ocm {
    /// The controllers on the hub.
    pub hub: Hub,
    /// The agents of each spoke, by its name.
    pub spokes: BTreeMap<String, Spoke>,
}

/// Starts a kubelet for each cluster.
pub(super) async fn kubelets(
    clusters: &[Cluster],
    images: &Images,
    faults: &Faults,
) -> Result<Vec<Kubelet>> {
    let load_balancers = LoadBalancers::default();
    let starting = clusters.iter().map(|cluster| {
        let api_server = SocketAddr::from((Ipv4Addr::LOCALHOST, cluster.api_port()));
        let network = cluster.network().clone();
        let mut config = Config::new(cluster.name(), cluster.client(), api_server);
        config.hosts = BTreeMap::from([(git::HOST.to_owned(), network.gateway())]);
        config.network = network;
        config.images = images.clone();
        // Overlays need a file system that the machine's own root may not be; memory always is.
        config.state = namespaces::scratch()
            .join("state")
            .join(cluster.name())
            .join("pods");
        config.logs = cluster.dir().join("pods");
        config.serving = Some(cluster.kubelet_serving());
        config.load_balancers = load_balancers.clone();
        config.forward = Arc::new(faults.clone());
        async move {
            let name = cluster.name();
            Kubelet::start(config)
                .await
                .with_context(|| format!("start the kubelet of {name}"))
        }
    });
    try_join_all(starting).await
}

/// Starts Open Cluster Management, and joins every spoke. Add-ons' agents get the hub's address from their klusterlet,
/// so where there are Pods it must be an address that Pods can reach.
pub(super) async fn ocm(clusters: &[Cluster], pods: bool, dir: &Path) -> Result<Ocm> {
    let (hub, spokes) = clusters.split_first().context("a lab has a hub")?;
    let dir = dir.join("ocm");
    let config = HubConfig {
        kubeconfig: hub.kubeconfig(),
        dir: dir.join("hub"),
    };
    let hub_half = Hub::start(config).await.context("start OCM on the hub")?;
    let joining = spokes.iter().map(|spoke| {
        let name = spoke.name();
        let to_hub = if pods {
            hub.kubeconfig_among_pods()
        } else {
            hub.kubeconfig()
        };
        let config = SpokeConfig::new(name, to_hub, spoke.kubeconfig(), dir.join(name));
        async move {
            let joined = Spoke::join(config).await;
            Ok::<_, anyhow::Error>((
                name.to_owned(),
                joined.with_context(|| format!("join {name} to OCM"))?,
            ))
        }
    });
    let spokes = try_join_all(joining).await?.into_iter().collect();
    Ok(Ocm {
        hub: hub_half,
        spokes,
    })
}

/// Installs Argo CD on every spoke, and prepares the hub for Applications.
pub(super) async fn argocd(clusters: &[Cluster], images: &Images, tools: &Tools) -> Result<()> {
    let (hub, spokes) = clusters.split_first().context("a lab has a hub")?;
    argocd::provide_images(images, tools).context("find the replacements of Argo CD's images")?;
    tokio::try_join!(
        argocd::prepare_hub(hub, tools),
        argocd::install(spokes, tools)
    )
    .map(drop)
}
