//! One spoke's half of OCM, with either runner.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use anyhow::Result;

use crate::{crds, klusterlet, real, real_binaries, stand_in};

/// Configuration of one spoke's half of OCM.
#[derive(Clone, Debug)]
pub struct SpokeConfig {
    /// Name of the managed cluster, which is also its namespace on the hub.
    pub cluster: String,
    /// Cluster admin of the hub. Used to accept the cluster, never by the agents themselves.
    pub hub_kubeconfig: PathBuf,
    /// Cluster admin of the spoke. Used to install the klusterlet, never by the agents themselves.
    pub kubeconfig: PathBuf,
    /// Directory for the agents' credentials and logs; kept over [`Spoke::kill`] and [`Spoke::resume`].
    pub dir: PathBuf,
    /// Labels of the ManagedCluster from the start.
    pub labels: BTreeMap<String, String>,
    /// `spec.leaseDurationSeconds`: a lost cluster turns Unknown after five of these.
    pub lease_seconds: u32,
    /// How often the work agent checks the objects it applied.
    pub feedback_interval: Duration,
    /// Whether add-ons that are clients of the hub's API server get tokens instead of certificates.
    pub tokens: bool,
    /// Cluster admin of the cluster that the klusterlet itself runs on, if that is not the spoke: hosted mode.
    pub management_kubeconfig: Option<PathBuf>,
}

impl SpokeConfig {
    /// A spoke with the lab's usual timing: leases of 10 s, feedback every 2 s.
    pub fn new(
        cluster: impl Into<String>,
        hub_kubeconfig: impl Into<PathBuf>,
        kubeconfig: impl Into<PathBuf>,
        dir: impl Into<PathBuf>,
    ) -> Self {
        Self {
            cluster: cluster.into(),
            hub_kubeconfig: hub_kubeconfig.into(),
            kubeconfig: kubeconfig.into(),
            dir: dir.into(),
            labels: BTreeMap::new(),
            lease_seconds: 10,
            feedback_interval: Duration::from_secs(2),
            tokens: false,
            management_kubeconfig: None,
        }
    }
}

/// The klusterlet's agents of one spoke. Dropping it ends them at once, like a crash.
#[derive(Debug)]
pub struct Spoke {
    config: SpokeConfig,
    running: Option<Running>,
}

#[derive(Debug)]
enum Running {
    StandIn(stand_in::spoke::Agents),
    Real(real::Processes),
}

impl Spoke {
    /// Installs the klusterlet on the spoke and starts its agents; the hub has not accepted it yet.
    ///
    /// Runs the binaries of `OCM_BIN_DIR` if that is set, else the stand-in.
    pub async fn start(config: SpokeConfig) -> Result<Self> {
        tokio::fs::create_dir_all(&config.dir).await?;
        let client = crate::client::from_kubeconfig(&config.kubeconfig, "lab-ocm").await?;
        crds::install(&client, "spoke").await?;
        klusterlet::install(&client).await?;
        let mut spoke = Self {
            config,
            running: None,
        };
        spoke.resume().await?;
        Ok(spoke)
    }

    /// Starts, accepts, and waits until the ManagedCluster is joined and Available.
    pub async fn join(config: SpokeConfig) -> Result<Self> {
        let spoke = Self::start(config).await?;
        spoke.accept().await?;
        Ok(spoke)
    }

    /// Does the same as `clusteradm accept`, then waits until the ManagedCluster is joined and Available.
    pub async fn accept(&self) -> Result<()> {
        let hub = crate::client::from_kubeconfig(&self.config.hub_kubeconfig, "lab-ocm").await?;
        klusterlet::accept(&hub, &self.config).await
    }

    /// Whether these are the real OCM processes.
    pub const fn is_real(&self) -> bool {
        matches!(self.running, Some(Running::Real(_)))
    }

    /// The name of the managed cluster.
    pub fn cluster(&self) -> &str {
        &self.config.cluster
    }

    /// Restarts the agents with a changed configuration, and waits until the hub sees the cluster.
    pub async fn reconfigure(&mut self, change: impl FnOnce(&mut SpokeConfig)) -> Result<()> {
        self.stop().await;
        change(&mut self.config);
        self.resume().await?;
        self.accept().await
    }

    /// Ends the agents; the cluster stays unchanged, and the hub notices when the lease runs out.
    pub async fn stop(&mut self) {
        match self.running.take() {
            Some(Running::StandIn(agents)) => agents.stop().await,
            Some(Running::Real(processes)) => processes.stop().await,
            None => {}
        }
    }

    /// Ends the agents without warning.
    pub fn kill(&mut self) {
        self.running = None;
    }

    /// Starts the agents if they do not run, with the hub credentials they had.
    pub async fn resume(&mut self) -> Result<()> {
        if self.running.is_some() {
            return Ok(());
        }
        self.running = Some(match real_binaries() {
            Some(binaries) => Running::Real(real::start_spoke(&binaries, &self.config).await?),
            None => Running::StandIn(stand_in::spoke::Agents::start(&self.config).await?),
        });
        Ok(())
    }
}
