//! The hub's half of OCM, with either runner.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::{crds, real, real_binaries, stand_in, tasks::Tasks};

/// Configuration of the hub's half of OCM.
#[derive(Clone, Debug)]
pub struct HubConfig {
    /// Cluster admin of the hub, with an address that works where the lab runs.
    pub kubeconfig: PathBuf,
    /// Directory for certificates and logs; made if absent.
    pub dir: PathBuf,
}

/// Only the CRDs of OCM on a hub, and the conversion between the two versions of its add-on API: for tests that play
/// OCM themselves. Dropping it ends the conversion.
#[derive(Debug)]
pub struct Conversion {
    _tasks: Tasks,
}

impl Conversion {
    /// Installs the CRDs and serves the webhook, always that of the stand-in.
    pub async fn serve(kubeconfig: &Path) -> Result<Self> {
        let client = crate::client::from_kubeconfig(kubeconfig, "lab-ocm").await?;
        crds::install(&client, "hub").await?;
        let mut tasks = Tasks::default();
        stand_in::hub::serve_conversion(&client, &mut tasks).await?;
        Ok(Self { _tasks: tasks })
    }
}

/// OCM's controllers on the hub. Dropping it ends them at once, like a crash.
#[derive(Debug)]
pub struct Hub {
    config: HubConfig,
    running: Option<Running>,
}

#[derive(Debug)]
enum Running {
    StandIn(stand_in::hub::Controllers),
    Real(real::Processes),
}

impl Hub {
    /// Installs the CRDs and starts OCM's hub half; returns once both add-on API versions are served, or the one that OCM
    /// before 1.2 has.
    ///
    /// Runs the binaries of `OCM_BIN_DIR` if that is set, else the stand-in.
    pub async fn start(config: HubConfig) -> Result<Self> {
        tokio::fs::create_dir_all(&config.dir).await?;
        let client = crate::client::from_kubeconfig(&config.kubeconfig, "lab-ocm").await?;
        match real_binaries()
            .map(|dir| real::converts(&dir))
            .transpose()?
        {
            Some(false) => crds::install_old_hub(&client).await?,
            Some(true) | None => crds::install(&client, "hub").await?,
        }
        let mut hub = Self {
            config,
            running: None,
        };
        hub.resume().await?;
        Ok(hub)
    }

    /// Whether these are the real OCM processes.
    pub const fn is_real(&self) -> bool {
        matches!(self.running, Some(Running::Real(_)))
    }

    /// Ends the controllers; their objects stay. [`Self::resume`] starts them again.
    pub async fn stop(&mut self) {
        match self.running.take() {
            Some(Running::StandIn(controllers)) => controllers.stop().await,
            Some(Running::Real(processes)) => processes.stop().await,
            None => {}
        }
    }

    /// Ends the controllers without warning.
    pub fn kill(&mut self) {
        self.running = None;
    }

    /// Starts the controllers if they do not run.
    pub async fn resume(&mut self) -> Result<()> {
        if self.running.is_some() {
            return Ok(());
        }
        self.running = Some(match real_binaries() {
            Some(binaries) => Running::Real(real::start_hub(&binaries, &self.config).await?),
            None => Running::StandIn(stand_in::hub::Controllers::start(&self.config).await?),
        });
        Ok(())
    }
}
