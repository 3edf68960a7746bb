//! The peer of a connection, as the listener presents it to admission.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use tokio::sync::Notify;

use super::identity::PeerCertificate;

/// The peer of a connection; every request carries it.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// Where it comes from; with a load balancer in between, the balancer.
    pub(crate) address: SocketAddr,
    /// The certificate that it presented and TLS has verified; none where the listener requests none.
    pub(crate) certificate: Option<Arc<PeerCertificate>>,
    /// The value of the identity header, where one is configured.
    pub(crate) header: Option<Arc<str>>,
    pub(crate) connection: Connection,
}

/// Lets a request move its connection to the background runtime.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connection(Arc<Notify>);

impl Connection {
    /// From now on the background runtime serves the connection: its traffic may be large, and other work is urgent.
    pub(crate) fn move_to_background(&self) {
        self.0.notify_one();
    }

    /// Resolves after [`Self::move_to_background`]. Cancel-safe.
    pub(crate) async fn background_requested(&self) {
        self.0.notified().await;
    }
}

/// What limits by address count: an IPv4 address, or the first 64 bits of an IPv6 address. Each host chooses the other 64
/// bits by itself (RFC 4291, section 2.5.1), so that one host has as many addresses as it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Network(IpAddr);

impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Self {
        // A listener for both families reports IPv4 peers with mapped addresses.
        let address = address.to_canonical();
        let IpAddr::V6(v6) = address else {
            return Self(address);
        };
        let [a, b, c, d, ..] = v6.segments();
        Self(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv6_hosts_of_one_network_share_limits() {
        let network = |text: &str| Network::from(text.parse::<IpAddr>().unwrap());
        let same = ["2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff"];
        assert_eq!(network(same[0]), network(same[1]));
        let others = ["2001:db8:1:3::1", "192.0.2.1", "192.0.2.2", "::1"];
        for (index, one) in others.iter().enumerate() {
            for other in others.iter().skip(index + 1).chain(&same) {
                assert_ne!(network(one), network(other), "{one} {other}");
            }
        }
    }

    #[test]
    fn mapped_address_counts_as_its_ipv4_address() {
        let network = |text: &str| Network::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(network("::ffff:192.0.2.1"), network("192.0.2.1"));
        assert_ne!(network("::ffff:192.0.2.1"), network("::ffff:192.0.2.2"));
    }
}
