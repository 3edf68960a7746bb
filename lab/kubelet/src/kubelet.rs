//! The kubelet as a whole: its tasks, their start and their end.

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use kube::Api;
use tokio::time::timeout;

use crate::{
    Config, Network,
    dns::Dns,
    events::Events,
    net::{self, Addresses},
    node,
    objects::Objects,
    pods::{self, Shared},
    running::Running,
    scheduler,
    server::Server,
    services::Services,
    tasks::Tasks,
    watched::Watched,
};

/// Scheduler, kubelet, kube-proxy, DNS and load balancer of one cluster, running.
///
/// Dropping it kills its containers; [`stop`](Self::stop) also waits until nothing is left.
#[derive(Debug)]
#[must_use = "a kubelet that is dropped stops"]
pub struct Kubelet {
    cluster: String,
    network: Network,
    tasks: Tasks,
}

/// How long the processes of a whole cluster may take to end when they are killed.
const TIME_LIMIT: Duration = Duration::from_secs(20);

impl Kubelet {
    /// Starts everything, and returns when the bridge is up and the node registered.
    ///
    /// # Errors
    /// When the machine does not permit a bridge or open ports, or the API does not answer.
    pub async fn start(config: Config) -> anyhow::Result<Self> {
        let Config {
            cluster,
            client,
            network,
            ..
        } = &config;
        let tasks = Tasks::new();
        // From here on, an error drops the value, which stops the tasks that run.
        let kubelet = Self {
            cluster: cluster.clone(),
            network: network.clone(),
            tasks: tasks.clone(),
        };
        tokio::fs::create_dir_all(&config.state)
            .await
            .context("make the kubelet's directory")?;
        net::raise(network, config.load_balancers.prefix())
            .await
            .context("make the network of the cluster")?;
        node::register(client, cluster, network)
            .await
            .context("register the node")?;

        let pods = Watched::start(Api::all(client.clone()), &tasks);
        let services: Watched<Service> = Watched::start(Api::all(client.clone()), &tasks);
        let slices: Watched<EndpointSlice> = Watched::start(Api::all(client.clone()), &tasks);
        let hosts = Arc::new(config.hosts.clone());
        Dns {
            services: services.clone(),
            slices: slices.clone(),
            hosts,
        }
        .start(network.gateway(), &tasks)
        .await
        .context("open port 53 of the bridge")?;
        let running = serve(&config, &tasks).await?;
        let shared = Shared {
            running,
            client: client.clone(),
            node: cluster.clone(),
            network: network.clone(),
            addresses: Addresses::new(network),
            images: config.images.clone(),
            objects: Objects::start(client, services.clone(), &tasks),
            events: Events::start(client.clone(), cluster, &tasks),
            state: config.state.clone(),
            logs: config.logs.clone(),
            tasks: tasks.clone(),
        };
        tasks.spawn(
            "scheduler",
            scheduler::run(client.clone(), cluster.clone(), pods.clone()),
        );
        tasks.spawn(
            "services",
            Services::new(&config, &tasks).run(services, slices),
        );
        tasks.spawn("pods", pods::run(shared, pods));
        Ok(kubelet)
    }

    /// Kills all containers, and returns when none of their processes, mounts and network devices
    /// is left.
    ///
    /// In the API the Pods stay unchanged, as if the machine were switched off. A kubelet that is
    /// started later starts their containers again.
    pub async fn stop(self) {
        if timeout(TIME_LIMIT, self.tasks.finish()).await.is_err() {
            // The rest ends with the namespaces of this process.
            tracing::error!(cluster = self.cluster, "containers do not end");
        }
        if let Err(error) = net::lower(&self.network).await {
            tracing::warn!(cluster = self.cluster, %error, "the bridge is left behind");
        }
    }
}

/// Serves the API server if configured, and returns the table of running containers.
async fn serve(config: &Config, tasks: &Tasks) -> anyhow::Result<Running> {
    let running = Running::default();
    if let Some(serving) = &config.serving {
        let server = Server {
            running: running.clone(),
            logs: config.logs.clone(),
            tasks: tasks.clone(),
        };
        let started = server.start(config.network.gateway(), serving).await;
        started.context("serve logs and commands")?;
    }
    Ok(running)
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.tasks.stop().cancel();
    }
}
