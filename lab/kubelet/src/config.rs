//! Configuration of a kubelet.

use std::{
    collections::BTreeMap,
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr},
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
    pub hosts: BTreeMap<String, Ipv4Addr>,
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

/// The addresses of one cluster. All prefixes are /24: a lab has few Pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
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
            bridge: format!("br{index}"),
            pods: [10, 244, index],
            services: [10, 96, index],
        }
    }

    /// The address of the bridge: the Pods' gateway and name server.
    pub const fn gateway(&self) -> Ipv4Addr {
        let [a, b, c] = self.pods;
        Ipv4Addr::new(a, b, c, 1)
    }

    /// Whether a connection from `peer` may use this cluster's `ClusterIPs`. The cluster's own Pods
    /// and processes beside the kubelet may. Pods of another cluster may not: there these addresses
    /// mean something else.
    pub const fn admits(&self, peer: IpAddr) -> bool {
        let IpAddr::V4(peer) = peer else { return false };
        let [a, b, c, _] = peer.octets();
        let [pods_a, pods_b, pods_c] = self.pods;
        let a_pod_of_the_lab = a == pods_a && b == pods_b;
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
}
