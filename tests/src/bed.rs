//! A lab as a whole: what it is made of, its start and its end.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;

use crate::{
    Cluster, Tools, cluster::Place, control_plane::Etcd, faults::Faults, git, namespaces, network,
    progress::Progress,
};

/// What a lab shall have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How many spokes beside the hub.
    pub spokes: u8,
    /// Whether Pods run and Services lead somewhere.
    pub pods: bool,
    /// Whether Open Cluster Management runs, with every spoke joined.
    pub ocm: bool,
    /// Whether Argo CD runs on every spoke, and its CRDs and namespace are on the hub.
    pub argocd: bool,
    /// Whether our own programs are installed on the hub, from `manifests/hub`.
    pub product: bool,
}

impl Options {
    /// Only control planes: a hub and so many spokes.
    pub const fn control_planes(spokes: u8) -> Self {
        Self {
            spokes,
            pods: false,
            ocm: false,
            argocd: false,
            product: false,
        }
    }

    /// Everything, with so many spokes.
    pub const fn everything(spokes: u8) -> Self {
        Self {
            spokes,
            pods: true,
            ocm: true,
            argocd: true,
            product: true,
        }
    }

    /// Everything but our own programs.
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
    etcd: Etcd,
    git: git::Server,
    faults: Faults,
}

impl Lab {
    /// Starts a lab in the namespaces this process is in, with logs and kubeconfigs below `dir`.
    ///
    /// `outside_ports` are the ports that lead to the clusters from outside the namespaces, the hub's first; empty
    /// when nobody outside needs to.
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
        // Fails only when somebody chose one before; there is but one in this program.
        let _chosen = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let tools = Tools::find()?;
        network::prepare(&tools.ip)?;
        let state = namespaces::scratch().join("state");
        // What an earlier lab of the same process left.
        if state.exists() {
            std::fs::remove_dir_all(&state).context("clear the state of an earlier lab")?;
        }
        let etcd = Etcd::start(&tools.etcd, &state, dir).await?;
        let git = git::Server::start(&tools.git, &state.join("git"), dir).await?;
        let starting = (0..=options.spokes).map(|index| {
            let name = cluster_name(index);
            let place = Place {
                dir: dir.join(&name),
                state: state.join(&name),
                outside_port: outside_ports.get(usize::from(index)).copied(),
                name,
                index,
            };
            Cluster::start(&tools, place)
        });
        let clusters = try_join_all(starting).await?;
        progress.step(format_args!(
            "control planes: hub and {} spokes",
            options.spokes
        ));
        let faults = Faults::default();
        Ok(Self {
            options,
            tools,
            dir: dir.to_owned(),
            clusters,
            etcd,
            git,
            faults,
        })
    }

    /// What this lab was made with.
    pub const fn options(&self) -> &Options {
        &self.options
    }

    /// The programs it runs.
    pub const fn tools(&self) -> &Tools {
        &self.tools
    }

    /// Where its logs and kubeconfigs are.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// All clusters, the hub first.
    pub fn clusters(&self) -> &[Cluster] {
        &self.clusters
    }

    /// The hub.
    #[expect(clippy::expect_used, reason = "start makes cluster 0 always")]
    pub fn hub(&self) -> &Cluster {
        self.clusters.first().expect("a lab has a hub")
    }

    /// The spokes, `spoke1` first.
    pub fn spokes(&self) -> &[Cluster] {
        self.clusters.get(1..).unwrap_or_default()
    }

    /// Spoke number `number`, counted from 1 as in its name.
    #[expect(
        clippy::panic,
        reason = "a story that names a spoke it did not ask for is wrong"
    )]
    pub fn spoke(&self, number: usize) -> &Cluster {
        match self.clusters.get(number) {
            Some(spoke) if number > 0 => spoke,
            Some(_) | None => panic!("this lab has no spoke{number}"),
        }
    }

    /// The git server that Argo CD takes its sources from.
    pub const fn git(&self) -> &git::Server {
        &self.git
    }

    /// What is wrong with the network between the clusters.
    pub const fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Ends everything, and returns when it is gone.
    pub async fn stop(mut self) {
        for cluster in &self.clusters {
            cluster.stop().await;
        }
        self.git.stop().await;
        self.etcd.stop().await;
    }
}

/// The name of cluster number `index`.
pub(crate) fn cluster_name(index: u8) -> String {
    match index {
        0 => "hub".to_owned(),
        number => format!("spoke{number}"),
    }
}
