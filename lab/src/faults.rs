//! Faults of the network between clusters: cut, stalled, slow or narrow, for all clusters or for one.
//!
//! `tc netem` is not always available, so faults are injected where connections pass through a process of the lab anyway:
//! at the load balancer of the kubelet ([`Faults`] is its [`lab_kubelet::Forward`]), or at a [`Proxy`] of one's own.

mod carry;
mod proxy;

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use futures::future::BoxFuture;
use lab_kubelet::{Family, Forward, Target};
use tokio::{net::TcpStream, sync::watch};

use crate::bed::cluster_name;
pub use proxy::Proxy;

/// A fault of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// None: bytes pass.
    #[default]
    None,
    /// Connections end at once, and new ones fail.
    Cut,
    /// Connections stay, but no bytes pass, as with a firewall that lost their state. New ones open and are silent.
    Stall,
    /// All bytes arrive this much later, in each direction.
    Delay(Duration),
    /// The most bytes per second, in each direction of each connection.
    Throttle(u32),
}

/// The faults of a lab, by the cluster that a connection comes from. Clones share them; a change takes effect at once,
/// also on existing connections.
#[derive(Clone, Debug)]
pub struct Faults {
    table: Arc<watch::Sender<Table>>,
}

type Table = BTreeMap<String, Fault>;

/// The key of the fault for every cluster that has no fault of its own.
const ALL_CLUSTERS: &str = "*";

impl Default for Faults {
    fn default() -> Self {
        Self {
            table: Arc::new(watch::Sender::new(Table::new())),
        }
    }
}

impl Faults {
    /// Sets the fault of connections that come from a cluster (`spoke1`).
    pub fn set(&self, cluster: &str, fault: Fault) {
        self.table.send_modify(|table| {
            table.insert(cluster.to_owned(), fault);
        });
    }

    /// Sets the fault of connections from every cluster that has none of its own.
    pub fn set_for_all(&self, fault: Fault) {
        self.set(ALL_CLUSTERS, fault);
    }

    /// Cuts the connections of a cluster.
    pub fn cut(&self, cluster: &str) {
        self.set(cluster, Fault::Cut);
    }

    /// Removes the fault of a cluster.
    pub fn heal(&self, cluster: &str) {
        self.table.send_modify(|table| {
            table.remove(cluster);
        });
    }

    /// Removes all faults.
    pub fn heal_all(&self) {
        self.table.send_modify(Table::clear);
    }

    /// The fault for connections from `cluster`, now and later.
    fn of(&self, cluster: String) -> Current {
        Current {
            table: self.table.subscribe(),
            cluster,
        }
    }
}

/// The current fault of one connection.
#[derive(Clone, Debug)]
struct Current {
    table: watch::Receiver<Table>,
    cluster: String,
}

impl Current {
    fn get(&mut self) -> Fault {
        let table = self.table.borrow_and_update();
        table
            .get(&self.cluster)
            .or_else(|| table.get(ALL_CLUSTERS))
            .copied()
            .unwrap_or_default()
    }

    /// Returns when the fault differs from `than`. Cancel-safe.
    async fn changes(&mut self, than: Fault) -> Fault {
        loop {
            if self.table.changed().await.is_err() {
                // The lab is gone, and this connection with it.
                std::future::pending::<()>().await;
            }
            let now = self.get();
            if now != than {
                return now;
            }
        }
    }
}

impl Forward for Faults {
    fn forward(
        &self,
        inbound: TcpStream,
        peer: SocketAddr,
        target: Target,
    ) -> BoxFuture<'static, ()> {
        let current = self.of(cluster_of(peer.ip()));
        Box::pin(carry::carry(inbound, target.endpoint, current))
    }
}

/// The cluster of a Pod's address; an address that is no Pod's counts as the hub's.
fn cluster_of(address: IpAddr) -> String {
    match Family::bytes(address) {
        [10, 244, index, _] => cluster_name(index),
        _ => cluster_name(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clusters_own_fault_overrides_the_general_one() {
        let faults = Faults::default();
        faults.set_for_all(Fault::Stall);
        faults.cut("spoke1");
        assert_eq!(faults.of("spoke1".into()).get(), Fault::Cut);
        assert_eq!(faults.of("spoke2".into()).get(), Fault::Stall);
        faults.heal_all();
        assert_eq!(faults.of("spoke1".into()).get(), Fault::None);
    }

    #[test]
    fn a_pod_is_known_by_its_address() {
        assert_eq!(cluster_of([10, 244, 2, 7].into()), "spoke2");
        assert_eq!(cluster_of("fd00::10.244.2.7".parse().unwrap()), "spoke2");
        assert_eq!(cluster_of([127, 0, 0, 1].into()), "hub");
    }
}
