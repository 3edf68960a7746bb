//! The kubelet as a whole: its tasks, their start and their end.

use crate::Config;

/// Scheduler, kubelet, kube-proxy, DNS and load balancer of one cluster, running.
///
/// Dropping it ends its containers, by force; [`stop`](Self::stop) also waits until nothing is left.
#[derive(Debug)]
pub struct Kubelet {
    config: Config,
}

impl Kubelet {
    /// Starts everything, and returns when the node is registered and the bridge is up.
    pub async fn start(config: Config) -> anyhow::Result<Self> {
        tracing::debug!(cluster = config.cluster, "not built yet");
        Ok(Self { config })
    }

    /// Ends all containers, and returns when no process, no mount and no interface of theirs is left. Pods stay in
    /// the API as they are.
    pub async fn stop(self) {
        tracing::debug!(cluster = self.config.cluster, "stopped");
    }
}
