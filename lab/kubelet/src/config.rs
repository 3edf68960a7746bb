//! Configuration of a kubelet.

use std::{
    collections::BTreeMap,
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
};

use crate::{Direct, Forward, Images, LoadBalancers};

/// Configuration of a [`Kubelet`](crate::Kubelet) for its cluster.
#[derive(Clone)]
pub struct Config {
    /// The name of the cluster, for logs, and the name of its only node.
    pub cluster: String,
    /// A client of the cluster's API with the permissions of a scheduler and a kubelet.
    pub client: kube::Client,
    /// Where the API server listens, seen from the network namespace of this process. The Service
    /// `default/kubernetes` leads there, regardless of its endpoints.
    pub api_server: SocketAddr,
    /// The cluster's addresses.
    pub network: Network,
    /// The replacement of each container image.
    pub images: Images,
    /// Where the files of Pods are while they run: volumes and mount points. May be in memory.
    pub state: PathBuf,
    /// Where the output of containers is kept: `<namespace>/<pod>/<container>.<run>.log`, each line
    /// with its time; [`printed`](crate::printed) reads them.
    pub logs: PathBuf,
    /// The certificates for requests of the API server for logs and commands. Without them the
    /// kubelet does not serve these requests.
    pub serving: Option<Serving>,
    /// The addresses for Services of type `LoadBalancer`, shared by all clusters of the lab.
    pub load_balancers: LoadBalancers,
    /// Outside host names, which the cluster's DNS answers beside the names of Services.
    pub hosts: BTreeMap<String, IpAddr>,
    /// Forwards the connections that arrive through a load balancer.
    pub forward: Arc<dyn Forward>,
}

impl Config {
    /// A configuration with the defaults of the lab: no outside names, connections forwarded
    /// unchanged.
    pub fn new(cluster: impl Into<String>, client: kube::Client, api_server: SocketAddr) -> Self {
        Self {
            cluster: cluster.into(),
            client,
            api_server,
            network: Network::numbered(0),
            images: Images::default(),
            state: PathBuf::from("pods"),
            logs: PathBuf::from("logs"),
            serving: None,
            load_balancers: LoadBalancers::default(),
            hosts: BTreeMap::new(),
            forward: Arc::new(Direct),
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("cluster", &self.cluster)
            .field("api_server", &self.api_server)
            .field("network", &self.network)
            .field("state", &self.state)
            .field("logs", &self.logs)
            .finish_non_exhaustive()
    }
}

/// The certificates for serving logs and commands to the API server, as PEM.
#[derive(Clone)]
pub struct Serving {
    /// The authority of the API server's client certificate. It must issue no other certificates,
    /// because the kubelet admits every client that has one.
    pub authority: String,
    /// The certificate for the address of the bridge.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serving").finish_non_exhaustive()
    }
}

/// The family of a cluster's addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    /// IPv4 alone.
    #[default]
    V4,
    /// IPv6 alone: `fd00::` and, as the last four bytes, those that the address has with IPv4.
    V6,
}

impl Family {
    /// The address with these (last) bytes.
    pub const fn address(self, [a, b, c, d]: [u8; 4]) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
            Self::V6 => {
                let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
                IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, high, low))
            }
        }
    }

    /// The (last) bytes of an address of either family.
    pub const fn bytes(address: IpAddr) -> [u8; 4] {
        match address {
            IpAddr::V4(address) => address.octets(),
            IpAddr::V6(address) => {
                let [.., a, b, c, d] = address.octets();
                [a, b, c, d]
            }
        }
    }

    /// The prefix of the addresses whose (last) bytes begin with these three.
    pub fn prefix(self, [a, b, c]: [u8; 3]) -> String {
        format!("{}/{}", self.address([a, b, c, 0]), self.prefix_length())
    }

    /// The length of each prefix: the last byte is different.
    pub const fn prefix_length(self) -> u8 {
        match self {
            Self::V4 => 24,
            Self::V6 => 120,
        }
    }
}

/// The addresses of one cluster. The addresses of a prefix differ in the last byte: a lab has few
/// Pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// The family of all of them.
    pub family: Family,
    /// The bridge that connects the Pods. The kubelet creates it if it is missing.
    pub bridge: String,
    /// The three bytes that all Pod addresses of this cluster begin with; `.1` is the bridge, and
    /// answers DNS.
    pub pods: [u8; 3],
    /// The three bytes that all `ClusterIPs` begin with.
    pub services: [u8; 3],
}

impl Network {
    /// The addresses of the lab's cluster number `index`: Pods in `10.244.<index>.0/24` on
    /// `br<index>`, Services in `10.96.<index>.0/24`.
    pub fn numbered(index: u8) -> Self {
        Self {
            family: Family::V4,
            bridge: format!("br{index}"),
            pods: [10, 244, index],
            services: [10, 96, index],
        }
    }

    /// The address of the bridge: the Pods' gateway and name server.
    pub const fn gateway(&self) -> IpAddr {
        let [a, b, c] = self.pods;
        self.family.address([a, b, c, 1])
    }

    /// The first address for Services, which is that of `default/kubernetes`.
    pub const fn first_service(&self) -> IpAddr {
        let [a, b, c] = self.services;
        self.family.address([a, b, c, 1])
    }

    /// Whether a connection from `peer` may use this cluster's `ClusterIPs`. The cluster's own Pods
    /// and processes beside the kubelet may. Pods of another cluster may not: there these addresses
    /// mean something else.
    pub const fn admits(&self, peer: IpAddr) -> bool {
        let [a, b, c, d] = Family::bytes(peer);
        let [pods_a, pods_b, pods_c] = self.pods;
        // Processes beside the kubelet connect from any bridge.
        let a_pod_of_the_lab = a == pods_a && b == pods_b && d != 1;
        !a_pod_of_the_lab || c == pods_c
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_of_another_cluster_are_not_admitted() {
        let network = Network::numbered(1);
        assert!(network.admits([10, 244, 1, 9].into()));
        assert!(network.admits([127, 0, 0, 1].into()));
        assert!(!network.admits([10, 244, 2, 9].into()));
    }

    #[test]
    fn ipv6_addresses_end_with_the_bytes_of_ipv4() {
        let network = Network {
            family: Family::V6,
            ..Network::numbered(1)
        };
        assert_eq!(network.gateway().to_string(), "fd00::af4:101");
        assert_eq!(network.first_service().to_string(), "fd00::a60:101");
        let services = network.family.prefix(network.services);
        assert_eq!(services, "fd00::a60:100/120");
        assert!(network.admits(network.family.address([10, 244, 1, 9])));
        assert!(!network.admits(network.family.address([10, 244, 2, 9])));
        let bridge_of_another = network.family.address([10, 244, 2, 1]);
        assert!(network.admits(bridge_of_another) && network.admits(Ipv6Addr::LOCALHOST.into()));
    }
}
