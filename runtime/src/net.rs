//! Addresses and listening sockets of all programs, for IPv4 and IPv6.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::io::Errno;
use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpSocket};

/// All addresses of both families, the default of every listener: kubelets probe the Pod's first address, which may be of
/// either family.
pub const ALL: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

/// Connections that wait for an accept, as many as [`TcpListener::bind`] permits.
const BACKLOG: u32 = 128;

/// Listens on exactly this address. [`ALL`] accepts IPv4, too, and is `0.0.0.0` where the kernel has no IPv6.
///
/// # Errors
/// The address is not available.
pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    if address.ip() == ALL {
        return or_ipv4(dual_stack(address), address.port()).await;
    }
    TcpListener::bind(address).await
}

fn dual_stack(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v6()?;
    // The default of the system (net.ipv6.bindv6only) may be another.
    sockopt::set_ipv6_v6only(&socket, false)?;
    // As in `TcpListener::bind`: closing connections of an earlier process do not occupy the port.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// The listener of both families, or one of IPv4 if there is no IPv6.
async fn or_ipv4(both: io::Result<TcpListener>, port: u16) -> io::Result<TcpListener> {
    match both {
        Err(error) if means_no_ipv6(&error) => {
            tracing::info!(port, %error, "this machine has no IPv6; listening on IPv4 only");
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await
        }
        both => both,
    }
}

fn means_no_ipv6(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL))
}

/// `host:port`, with the brackets of an IPv6 address.
pub fn authority(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// The host, without brackets, and the port of an address: host:port, or without a port if there is a default. A bare
/// IPv6 address has no port.
pub fn host_and_port(address: &str, default: Option<u16>) -> Option<(&str, u16)> {
    if address.parse::<Ipv6Addr>().is_ok() {
        return Some((address, default?));
    }
    // Colons inside of brackets belong to the address.
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if !address.ends_with(']') => (host, port.parse().ok()?),
        Some(_) | None => (address, default?),
    };
    let (host, is_host) = match bracketed(host) {
        Some(v6) => (v6, v6.parse::<Ipv6Addr>().is_ok()),
        None => (host, !host.is_empty() && !host.contains(':')),
    };
    (is_host && port != 0).then_some((host, port))
}

/// The host inside of the brackets that an IPv6 address has in front of a port; none without both.
pub fn bracketed(host: &str) -> Option<&str> {
    host.strip_prefix('[')?.strip_suffix(']')
}

/// The address of a peer as logs and limits have it: a listener for both families reports IPv4 peers with mapped
/// addresses (`::ffff:192.0.2.1`).
pub const fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
        // With its scope, which a new address would not have.
        IpAddr::V6(_) => address,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use tokio::net::TcpStream;

    use super::*;

    const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

    /// Whether this machine has the IPv6 loopback; if not, prints which part of a test is skipped.
    pub(crate) async fn has_ipv6(part: &str) -> bool {
        let bound = TcpListener::bind((V6, 0)).await;
        if let Err(error) = &bound {
            println!("skipped {part}: this machine has no IPv6 ({error})");
        }
        bound.is_ok()
    }

    #[tokio::test]
    async fn default_listener_accepts_both_families() {
        let listener = bind(SocketAddr::new(ALL, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut clients = vec![V4];
        if has_ipv6("default_listener_accepts_both_families, ::1").await {
            assert!(!sockopt::ipv6_v6only(&listener).unwrap());
            clients.push(V6);
        }
        for client in clients {
            let connected = TcpStream::connect((client, port)).await.unwrap();
            let (_accepted, peer) = listener.accept().await.unwrap();
            assert_eq!(canonical(peer), connected.local_addr().unwrap());
            assert_eq!(canonical(peer).ip(), client);
        }
    }

    #[tokio::test]
    async fn explicit_address_is_bound_exactly() {
        let mut addresses = vec![V4, Ipv4Addr::UNSPECIFIED.into()];
        if has_ipv6("explicit_address_is_bound_exactly, ::1").await {
            addresses.push(V6);
        }
        for address in addresses {
            let listener = bind(SocketAddr::new(address, 0)).await.unwrap();
            assert_eq!(listener.local_addr().unwrap().ip(), address);
        }
    }

    #[tokio::test]
    async fn port_in_use_is_an_error() {
        let first = bind(SocketAddr::new(ALL, 0)).await.unwrap();
        let port = first.local_addr().unwrap().port();
        let second = bind(SocketAddr::new(ALL, port)).await.unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::AddrInUse);
    }

    #[tokio::test]
    async fn kernel_without_ipv6_gets_an_ipv4_listener() {
        for errno in [Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL] {
            let listener = or_ipv4(Err(errno.into()), 0).await.unwrap();
            let address = listener.local_addr().unwrap();
            assert_eq!(address.ip(), IpAddr::V4(Ipv4Addr::UNSPECIFIED), "{errno}");
        }
        for errno in [Errno::ADDRINUSE, Errno::ACCESS, Errno::MFILE] {
            let error = or_ipv4(Err(errno.into()), 0).await.unwrap_err();
            assert_eq!(Errno::from_io_error(&error), Some(errno));
        }
    }

    #[test]
    fn an_ipv6_address_gets_brackets() {
        assert_eq!(authority("::1", 443), "[::1]:443");
        assert_eq!(authority("10.0.0.1", 443), "10.0.0.1:443");
        assert_eq!(authority("hub.example", 443), "hub.example:443");
    }

    #[test]
    fn address_is_a_host_and_a_port() {
        for (address, parts) in [
            ("[2001:db8::1]:6379", Some(("2001:db8::1", 6379))),
            ("argocd-redis:6379", Some(("argocd-redis", 6379))),
            ("10.0.0.1:1", Some(("10.0.0.1", 1))),
            ("argocd-redis", None),
            ("2001:db8::1", None),
            ("[2001:db8::1]", None),
            ("1:2:3:4:5:6:7:8:9", None),
            ("a:b:1", None),
            ("[a]:1", None),
            ("[10.0.0.1]:1", None),
            (":1", None),
            ("a:0", None),
            ("a:65536", None),
            ("a:-1", None),
            ("a:", None),
            ("", None),
        ] {
            assert_eq!(host_and_port(address, None), parts, "{address}");
        }
    }

    #[test]
    fn address_without_a_port_has_the_default() {
        for (address, parts) in [
            ("hub.example", Some(("hub.example", 443))),
            ("hub.example:1", Some(("hub.example", 1))),
            ("2001:db8::1", Some(("2001:db8::1", 443))),
            ("[2001:db8::1]", Some(("2001:db8::1", 443))),
            ("[2001:db8::1]:1", Some(("2001:db8::1", 1))),
            ("[2001:db8::1", None),
            ("2001:db8::1]", None),
            ("[2001:db8::1]1", None),
            ("hub.example:", None),
            ("hub.example:x", None),
            ("", None),
        ] {
            assert_eq!(host_and_port(address, Some(443)), parts, "{address}");
        }
    }

    #[test]
    fn one_pair_of_brackets_is_removed_and_a_single_one_is_not() {
        for (host, inside) in [
            ("[::1]", Some("::1")),
            ("[[::1]]", Some("[::1]")),
            ("[]", Some("")),
            ("[", None),
            ("[::1", None),
            ("::1]", None),
            ("::1", None),
            ("hub.example", None),
            ("", None),
        ] {
            assert_eq!(bracketed(host), inside, "{host}");
        }
    }

    #[test]
    fn mapped_peer_becomes_ipv4_and_others_keep_their_scope() {
        for (peer, shown) in [
            ("[::ffff:192.0.2.1]:5", "192.0.2.1:5"),
            ("192.0.2.1:5", "192.0.2.1:5"),
            ("[2001:db8::1]:5", "[2001:db8::1]:5"),
            ("[::1]:5", "[::1]:5"),
            ("[fe80::1%3]:5", "[fe80::1%3]:5"),
        ] {
            let peer: SocketAddr = peer.parse().unwrap();
            assert_eq!(canonical(peer).to_string(), shown);
        }
    }
}
