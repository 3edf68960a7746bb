//! Plays kube-proxy and the load balancer of a cloud: leads `ClusterIPs` and load balancer addresses
//! to ready endpoints.
//!
//! A port listens only while there is a ready endpoint, so without one the connection of a client is
//! refused, as by a real kube-proxy. Established connections outlive changes.

mod balance;
mod forward;
mod table;

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{Config, Family, tasks::Tasks, watched::Watched};

pub(crate) use forward::Carrier;
use table::{Port, Route};
pub(crate) use table::{owner, ready_addresses};

/// Forwards connections to the Services of one cluster.
pub(crate) struct Services {
    client: Client,
    cluster: String,
    api_server: SocketAddr,
    node: IpAddr,
    family: Family,
    balancers: crate::LoadBalancers,
    carrier: Carrier,
    tasks: Tasks,
    listeners: BTreeMap<Port, Listener>,
}

/// A listening port. Dropping it closes the port.
struct Listener {
    route: watch::Sender<Route>,
    _open: DropGuard,
}

/// How soon opening a port, or writing an address, is retried after an error.
const AGAIN: Duration = Duration::from_secs(1);

impl Services {
    pub(crate) fn new(config: &Config, tasks: &Tasks) -> Self {
        Self {
            client: config.client.clone(),
            cluster: config.cluster.clone(),
            api_server: config.api_server,
            node: config.network.gateway(),
            family: config.network.family,
            balancers: config.load_balancers.clone(),
            carrier: Carrier::new(config, tasks),
            tasks: tasks.clone(),
            listeners: BTreeMap::new(),
        }
    }

    /// Follows the Services until it is dropped.
    pub(crate) async fn run(
        mut self,
        mut services: Watched<Service>,
        mut slices: Watched<EndpointSlice>,
    ) {
        loop {
            let (all, slices_now) = (services.all(), slices.all());
            let (balancers, cluster) = (self.balancers.clone(), self.cluster.clone());
            let family = self.family;
            let address = |service: &str| {
                let ipv4 = balancers.address(&format!("{cluster}/{service}"))?;
                Some(family.address(ipv4.octets()))
            };
            let wanted = table::table(&all, &slices_now, self.api_server, self.node, &address);
            let opened = self.open(wanted).await;
            let written = balance::write_addresses(&self.client, &all, &address).await;
            let pause = async {
                if opened && written {
                    std::future::pending::<()>().await;
                }
                tokio::time::sleep(AGAIN).await;
            };
            tokio::select! {
                () = services.changed() => {}
                () = slices.changed() => {}
                () = pause => {}
            }
        }
    }

    /// Opens and closes ports until they match `wanted`; true if all are open.
    async fn open(&mut self, mut wanted: BTreeMap<Port, Route>) -> bool {
        self.listeners
            .retain(|port, listener| match wanted.remove(port) {
                Some(route) => {
                    listener.route.send_if_modified(|known| {
                        let updates = *known != route;
                        *known = route;
                        updates
                    });
                    true
                }
                None => false,
            });
        let mut all = true;
        for (port, route) in wanted {
            let (route, routes) = watch::channel(route);
            let open = CancellationToken::new();
            match forward::listen(port).await {
                Ok(socket) => {
                    let accepting = self.carrier.clone().accept(socket, port, routes);
                    let closed = open.clone();
                    self.tasks.spawn("service", async move {
                        tokio::select! {
                            () = closed.cancelled() => {}
                            () = accepting => {}
                        }
                    });
                    self.listeners.insert(
                        port,
                        Listener {
                            route,
                            _open: open.drop_guard(),
                        },
                    );
                }
                Err(error) => {
                    let service = &route.borrow().service;
                    tracing::warn!(cluster = self.cluster, service, ?port, %error, "cannot open a Service");
                    all = false;
                }
            }
        }
        all
    }
}

/// A Service's own address, if it has one.
pub(crate) fn cluster_ip(service: &Service) -> Option<IpAddr> {
    service.spec.as_ref()?.cluster_ip.as_ref()?.parse().ok()
}
