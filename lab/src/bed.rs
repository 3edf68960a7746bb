//! A lab as a whole: its parts, its start and its end.

mod layers;
mod past;

use std::{
    path::{Path, PathBuf},
    sync::PoisonError,
};

use anyhow::{Context, Result, anyhow, ensure};
use futures::future::try_join_all;
use lab_kubelet::{Family, Images, Kubelet, Network};
use tokio::sync::{MappedMutexGuard, Mutex, MutexGuard};

use crate::{
    Cluster, Tools,
    cluster::Place,
    control_plane::{Etcd, Of},
    faults::Faults,
    git,
    helm::Helm,
    namespaces, network, product,
    progress::Progress,
    world,
};

pub use layers::Ocm;
pub use past::Past;

/// The parts of a lab.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "layers that can each be omitted"
)]
pub struct Options {
    /// How many spokes beside the hub.
    pub spokes: u8,
    /// Whether kubelets run Pods and serve Services.
    pub pods: bool,
    /// Whether Open Cluster Management runs, with every spoke joined.
    pub ocm: bool,
    /// Whether Argo CD runs on every spoke, and its CRDs and namespace are on the hub.
    pub argocd: bool,
    /// Whether our own programs are installed on the hub, from the chart in `manifests/hub`.
    pub product: bool,
    /// Whether there is another control plane, which only runs Pods and can become the hub.
    pub spare: bool,
    /// The addresses of Pods and Services, of one family only.
    pub family: Family,
}

impl Options {
    /// Only control planes: a hub and this many spokes.
    pub const fn control_planes(spokes: u8) -> Self {
        Self {
            spokes,
            pods: false,
            ocm: false,
            argocd: false,
            product: false,
            spare: false,
            family: Family::V4,
        }
    }

    /// All parts, with this many spokes.
    pub const fn everything(spokes: u8) -> Self {
        Self {
            spokes,
            pods: true,
            ocm: true,
            argocd: true,
            product: true,
            spare: false,
            family: Family::V4,
        }
    }

    /// All parts except our own programs.
    pub const fn without_product(spokes: u8) -> Self {
        Self {
            product: false,
            ..Self::everything(spokes)
        }
    }
}

/// A hub and its spokes, running.
///
/// Dropping a lab ends its programs at once; [`stop`](Self::stop) waits for that. Only one can run at a time: they
/// use the same addresses.
#[derive(Debug)]
pub struct Lab {
    options: Options,
    tools: Tools,
    dir: PathBuf,
    clusters: Vec<Cluster>,
    // Locked while the hub's data are saved or restored.
    etcd: Mutex<Etcd>,
    // Likewise, with the data of all spokes.
    etcd_of_spokes: Mutex<Etcd>,
    git: git::Server,
    faults: Faults,
    images: Images,
    // The kubelet to be ended is taken out; locked only for that.
    kubelets: std::sync::Mutex<Vec<Kubelet>>,
    // Locked by the test that ends or resumes a part of OCM.
    ocm: Mutex<Option<Ocm>>,
}

impl Lab {
    /// Starts a lab in the namespaces of this process, with logs and kubeconfigs below `dir`.
    ///
    /// `outside_ports` are the ports that lead to the clusters from outside the namespaces, the hub's first; empty
    /// without access from outside.
    pub async fn start(
        options: Options,
        dir: &Path,
        outside_ports: &[u16],
        progress: &mut Progress,
    ) -> Result<Self> {
        ensure!(
            namespaces::are_ours(),
            "a lab needs namespaces of its own: see lab::namespaces"
        );
        // Fails only when a provider is installed already; this program has but one.
        let _chosen = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let tools = Tools::find()?;
        network::prepare(&tools.ip)?;
        let state = namespaces::scratch().join("state");
        // Left by an earlier lab of the same process.
        if state.exists() {
            std::fs::remove_dir_all(&state).context("clear the state of an earlier lab")?;
        }
        let (etcd, etcd_of_spokes) = tokio::try_join!(
            Etcd::start(Of::Hub, &tools.etcd, &state, dir),
            Etcd::start(Of::Spokes, &tools.etcd, &state, dir),
        )?;
        let git = git::Server::start(&tools.git, &state.join("git"), dir).await?;
        let clusters = control_planes(&options, &tools, dir, &state, outside_ports).await?;
        progress.step(format_args!(
            "control planes: hub and spokes ({})",
            options.spokes
        ));
        let mut lab = Self {
            options,
            tools,
            dir: dir.to_owned(),
            clusters,
            etcd: Mutex::new(etcd),
            etcd_of_spokes: Mutex::new(etcd_of_spokes),
            git,
            faults: Faults::default(),
            images: Images::default(),
            kubelets: std::sync::Mutex::default(),
            ocm: Mutex::new(None),
        };
        match lab.start_layers(progress).await {
            Ok(()) => Ok(lab),
            Err(error) => Err(lab.explain(error).await),
        }
    }

    /// Ends a lab that did not start, and adds its state to the error.
    async fn explain(self, error: anyhow::Error) -> anyhow::Error {
        let kept = world::directory("start");
        let seen = world::keep(&self, &kept).await;
        self.stop().await;
        let seen = seen.unwrap_or_else(|error| format!("it could not be kept: {error:#}"));
        anyhow!("{error:#}\n\nthe world ({}):\n{seen}", kept.display())
    }

    /// Starts the layers above the control planes.
    async fn start_layers(&mut self, progress: &mut Progress) -> Result<()> {
        let Options {
            spokes: _,
            pods,
            ocm,
            argocd,
            product,
            spare: _,
            family: _,
        } = self.options;
        if pods {
            let kubelets = layers::kubelets(&self.clusters, &self.images, &self.faults).await?;
            *self
                .kubelets
                .get_mut()
                .unwrap_or_else(PoisonError::into_inner) = kubelets;
            progress.step("kubelets: Pods can run");
        }
        // Two layers report progress; locked for a line each.
        let progress = std::sync::Mutex::new(progress);
        let step = |what: String| {
            progress
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .step(what);
        };
        let start_ocm = async {
            if !ocm {
                return Ok(None);
            }
            let started = layers::ocm(self.fleet(), pods, &self.dir).await?;
            let kind = if started.hub.is_real() {
                "real"
            } else {
                "stand-in"
            };
            step(format!(
                "Open Cluster Management ({kind}): every spoke joined"
            ));
            anyhow::Ok(Some(started))
        };
        let start_argocd = async {
            if argocd {
                layers::argocd(self.fleet(), &self.images, &self.tools).await?;
                step("Argo CD: available on every spoke".to_owned());
            }
            anyhow::Ok(())
        };
        // Neither needs the other, and both mostly wait.
        let (ocm, ()) = tokio::try_join!(start_ocm, start_argocd)?;
        *self.ocm.get_mut() = ocm;
        if product {
            product::provide_images(&self.images)?;
            product::install(&self.helm(), product::OptIn::Manual).await?;
            step("the product's chart is installed on the hub".to_owned());
        }
        Ok(())
    }

    /// The options of this lab.
    pub const fn options(&self) -> &Options {
        &self.options
    }

    /// The programs it runs.
    pub const fn tools(&self) -> &Tools {
        &self.tools
    }

    /// Helm on the hub.
    pub fn helm(&self) -> Helm {
        Helm::on(&self.tools, self.hub())
    }

    /// The directory of its logs and kubeconfigs.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// All clusters, the hub first.
    pub fn clusters(&self) -> &[Cluster] {
        &self.clusters
    }

    /// The hub.
    ///
    /// # Panics
    /// Never: there is no lab without.
    pub fn hub(&self) -> &Cluster {
        self.clusters.first().expect("a lab starts with cluster 0")
    }

    /// The spokes, `spoke1` first.
    pub fn spokes(&self) -> &[Cluster] {
        self.fleet().get(1..).unwrap_or_default()
    }

    /// The hub and its spokes.
    fn fleet(&self) -> &[Cluster] {
        let count = usize::from(self.options.spokes) + 1;
        self.clusters.get(..count).unwrap_or(&self.clusters)
    }

    /// The control plane that can become the hub.
    pub fn spare(&self) -> Result<&Cluster> {
        let last = self.clusters.last().filter(|_| self.options.spare);
        last.context("this lab has no spare control plane")
    }

    /// Spoke number `number`, counted from 1 as in its name.
    ///
    /// # Panics
    /// When the lab has fewer spokes.
    #[expect(
        clippy::panic,
        reason = "a test that uses a spoke it did not request is wrong"
    )]
    pub fn spoke(&self, number: usize) -> &Cluster {
        match self.fleet().get(number) {
            Some(spoke) if number > 0 => spoke,
            Some(_) | None => panic!("this lab has no spoke{number}"),
        }
    }

    /// The git server that Argo CD takes its sources from.
    pub const fn git(&self) -> &git::Server {
        &self.git
    }

    /// The faults of the network between the clusters.
    pub const fn faults(&self) -> &Faults {
        &self.faults
    }

    /// The replacements of container images, in every cluster.
    pub const fn images(&self) -> &Images {
        &self.images
    }

    /// Open Cluster Management, to end or resume parts of it; locked for other callers meanwhile.
    pub async fn ocm(&self) -> Result<MappedMutexGuard<'_, Ocm>> {
        let guard = self.ocm.lock().await;
        MutexGuard::try_map(guard, Option::as_mut)
            .ok()
            .context("this lab has no OCM")
    }

    /// Ends everything, and returns when it is gone.
    pub async fn stop(mut self) {
        if let Some(Ocm { mut hub, spokes }) = self.ocm.get_mut().take() {
            for mut spoke in spokes.into_values() {
                spoke.stop().await;
            }
            hub.stop().await;
        }
        let kubelets = self.kubelets.get_mut();
        for kubelet in std::mem::take(kubelets.unwrap_or_else(PoisonError::into_inner)) {
            kubelet.stop().await;
        }
        for cluster in &self.clusters {
            cluster.stop().await;
        }
        self.git.stop().await;
        self.etcd.get_mut().stop().await;
        self.etcd_of_spokes.get_mut().stop().await;
    }
}

/// Starts all control planes at once.
async fn control_planes(
    options: &Options,
    tools: &Tools,
    dir: &Path,
    state: &Path,
    outside_ports: &[u16],
) -> Result<Vec<Cluster>> {
    let spare = options.spare.then_some(options.spokes + 1);
    let starting = (0..=options.spokes).chain(spare).map(|index| {
        let name = if Some(index) == spare {
            "spare".to_owned()
        } else {
            cluster_name(index)
        };
        let place = Place {
            dir: dir.join(&name),
            state: state.join(&name),
            outside_port: outside_ports.get(usize::from(index)).copied(),
            name,
            index,
            network: Network {
                family: options.family,
                ..Network::numbered(index)
            },
        };
        Cluster::start(tools, place)
    });
    try_join_all(starting).await
}

/// The name of cluster number `index`.
pub(crate) fn cluster_name(index: u8) -> String {
    match index {
        0 => "hub".to_owned(),
        number => format!("spoke{number}"),
    }
}
