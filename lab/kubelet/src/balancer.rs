//! Load balancers: allocates addresses for Services of type `LoadBalancer` and forwards their
//! connections.

use std::{
    collections::BTreeMap,
    fmt,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
};

use futures::future::BoxFuture;
use tokio::net::TcpStream;

/// Allocates addresses for Services of type `LoadBalancer`. Clones share one table, so that
/// clusters do not collide, and a recreated Service gets its old address.
#[derive(Clone, Debug)]
pub struct LoadBalancers {
    prefix: [u8; 3],
    // Guards the table for the length of one look.
    given: Arc<Mutex<BTreeMap<String, u8>>>,
}

impl Default for LoadBalancers {
    /// The lab's range, `10.240.0.0/24`.
    fn default() -> Self {
        Self {
            prefix: [10, 240, 0],
            given: Arc::default(),
        }
    }
}

impl LoadBalancers {
    /// The three bytes that all addresses begin with.
    pub const fn prefix(&self) -> [u8; 3] {
        self.prefix
    }

    /// The address of a Service (`cluster/namespace/name`): every call returns the same one. None
    /// when all 254 are taken.
    pub fn address(&self, service: &str) -> Option<Ipv4Addr> {
        let [a, b, c] = self.prefix;
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let last = if let Some(&last) = given.get(service) {
            last
        } else {
            let free = (1..=254).find(|byte| !given.values().any(|taken| taken == byte))?;
            given.insert(service.to_owned(), free);
            free
        };
        Some(Ipv4Addr::new(a, b, c, last))
    }
}

/// The destination of a connection that arrived through a load balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The cluster the Service is in.
    pub cluster: String,
    /// `namespace/name` of the Service.
    pub service: String,
    /// The load balancer's port that received the connection.
    pub port: u16,
    /// The address of one ready Pod.
    pub endpoint: SocketAddr,
}

/// Forwards the connections of load balancers. The lab puts its fault-injecting proxy here.
pub trait Forward: Send + Sync + fmt::Debug {
    /// Forwards one connection from `peer` until it ends. Dropping the future ends it.
    fn forward(
        &self,
        inbound: TcpStream,
        peer: SocketAddr,
        target: Target,
    ) -> BoxFuture<'static, ()>;
}

/// Forwards connections unchanged.
#[derive(Clone, Copy, Debug)]
pub struct Direct;

impl Forward for Direct {
    fn forward(
        &self,
        mut inbound: TcpStream,
        _peer: SocketAddr,
        target: Target,
    ) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            match TcpStream::connect(target.endpoint).await {
                Ok(mut outbound) => {
                    // As in the lab's other forwarders, small messages are not delayed.
                    let _best_effort = (inbound.set_nodelay(true), outbound.set_nodelay(true));
                    // The two ends handle errors of the connection.
                    let _ended = tokio::io::copy_bidirectional(&mut inbound, &mut outbound).await;
                }
                Err(error) => {
                    tracing::debug!(service = target.service, %error, "endpoint does not answer");
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_stays_with_its_service() {
        let balancers = LoadBalancers::default();
        let first = balancers.address("hub/a/x");
        assert_eq!(first, Some(Ipv4Addr::new(10, 240, 0, 1)));
        assert_eq!(
            balancers.clone().address("spoke1/a/x"),
            Some(Ipv4Addr::new(10, 240, 0, 2))
        );
        assert_eq!(balancers.address("hub/a/x"), first);
    }
}
