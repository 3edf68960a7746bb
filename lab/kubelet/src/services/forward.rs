//! Forwards connections from a port of a Service to one of its endpoints.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};

use super::table::{Port, Route};
use crate::{Config, Forward, Network, Target, tasks::Tasks};

/// Accepts and forwards the connections of one cluster.
#[derive(Clone)]
pub(crate) struct Carrier {
    cluster: String,
    network: Network,
    outside: Arc<dyn Forward>,
    tasks: Tasks,
    /// Endpoints take turns.
    turn: Arc<AtomicUsize>,
}

/// How long a connect may take before the next endpoint is tried; on one machine it takes no time.
const CONNECT: Duration = Duration::from_secs(5);

/// Opens a port.
pub(super) async fn listen(port: Port) -> std::io::Result<TcpListener> {
    TcpListener::bind((port.ip, port.number)).await
}

impl Carrier {
    pub(crate) fn new(config: &Config, tasks: &Tasks) -> Self {
        Self {
            cluster: config.cluster.clone(),
            network: config.network.clone(),
            outside: Arc::clone(&config.forward),
            tasks: tasks.clone(),
            turn: Arc::default(),
        }
    }

    /// Accepts connections until the future is dropped. Accepted ones continue.
    pub(super) async fn accept(
        self,
        listener: TcpListener,
        port: Port,
        route: watch::Receiver<Route>,
    ) {
        loop {
            let (inbound, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of descriptors, most likely: wait until some are closed.
                    tracing::warn!(?port, %error, "cannot accept");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            if !port.outside && !self.network.admits(peer.ip()) {
                tracing::debug!(%peer, ?port, "a Pod of another cluster was turned away");
                continue;
            }
            let route = route.borrow().clone();
            let carrier = self.clone();
            self.tasks
                .spawn("connection", carrier.carry(inbound, peer, port, route));
        }
    }

    async fn carry(self, inbound: TcpStream, peer: SocketAddr, port: Port, route: Route) {
        let endpoints = self.in_turn(&route.endpoints);
        if port.outside {
            let Some(endpoint) = endpoints.first().copied() else {
                return;
            };
            let Route { service, .. } = route;
            let target = Target {
                cluster: self.cluster,
                service,
                port: port.number,
                endpoint,
            };
            self.outside.forward(inbound, peer, target).await;
            return;
        }
        let mut inbound = inbound;
        for endpoint in endpoints {
            match tokio::time::timeout(CONNECT, TcpStream::connect(endpoint)).await {
                Ok(Ok(mut outbound)) => {
                    // Small messages must not be delayed: measurements in the lab are of
                    // the product.
                    let _best_effort = (inbound.set_nodelay(true), outbound.set_nodelay(true));
                    // The two ends handle errors of the connection.
                    let _ended = tokio::io::copy_bidirectional(&mut inbound, &mut outbound).await;
                    return;
                }
                Ok(Err(error)) => {
                    tracing::debug!(service = route.service, %endpoint, %error, "no answer");
                }
                Err(_elapsed) => {
                    tracing::debug!(service = route.service, %endpoint, "no answer in time");
                }
            }
        }
    }

    /// The endpoints, beginning with the one whose turn it is.
    fn in_turn(&self, endpoints: &[SocketAddr]) -> Vec<SocketAddr> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let first = turn.checked_rem(endpoints.len()).unwrap_or_default();
        endpoints
            .iter()
            .cycle()
            .skip(first)
            .take(endpoints.len())
            .copied()
            .collect()
    }
}
