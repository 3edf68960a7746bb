use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use hyper_util::client::legacy::connect::dns::Name;
use tokio::net::{TcpListener, TcpSocket};
use tokio::time::Instant;
use tower::service_fn;

use super::*;
use crate::net::tests::has_ipv6;

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V4_TOO: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// The time of one family in these tests.
const SHORT: Duration = Duration::from_secs(2);

/// Connects to a name with these addresses, in the order of the resolver.
async fn dial(addresses: &[IpAddr], port: u16) -> io::Result<TcpStream> {
    let found: Vec<_> = addresses.iter().map(|ip| SocketAddr::new(*ip, 0)).collect();
    let resolver = service_fn(move |_: Name| {
        let found = found.clone();
        async move { Ok::<_, Infallible>(found.into_iter()) }
    });
    let connector = HttpConnector::new_with_resolver(resolver);
    by(connector, SHORT, "hub.example", port).await
}

/// A listener that does not answer, because its queue is full, for as long as both exist.
async fn silent(ip: IpAddr) -> (TcpListener, TcpStream) {
    let socket = match ip {
        IpAddr::V4(_) => TcpSocket::new_v4(),
        IpAddr::V6(_) => TcpSocket::new_v6(),
    };
    let socket = socket.unwrap();
    socket.bind(SocketAddr::new(ip, 0)).unwrap();
    let listener = socket.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let only = TcpStream::connect(address).await.unwrap();
    (listener, only)
}

/// A silent listener at the first address, and one that answers on the same port of the second.
async fn silent_and_answering(
    first: IpAddr,
    second: IpAddr,
) -> ((TcpListener, TcpStream), TcpListener, u16) {
    // The port may be in use at the second address.
    for _ in 0..20 {
        let silent = silent(first).await;
        let port = silent.0.local_addr().unwrap().port();
        if let Ok(answering) = TcpListener::bind((second, port)).await {
            return (silent, answering, port);
        }
    }
    panic!("no port is free at both addresses");
}

#[tokio::test]
async fn silent_family_does_not_delay_the_other() {
    if !has_ipv6("silent_family_does_not_delay_the_other").await {
        return;
    }
    for (first, second) in [(V6, V4), (V4, V6)] {
        let (_silent, _answering, port) = silent_and_answering(first, second).await;
        let began = Instant::now();
        let connected = dial(&[first, second], port).await.unwrap();
        assert_eq!(connected.peer_addr().unwrap().ip(), second);
        assert!(connected.nodelay().unwrap());
        let took = began.elapsed();
        assert!(HEAD_START <= took && took < SHORT, "{took:?}");
    }
}

#[tokio::test]
async fn first_choice_of_the_resolver_is_used_if_it_answers() {
    if !has_ipv6("first_choice_of_the_resolver_is_used_if_it_answers").await {
        return;
    }
    let both = crate::net::bind(SocketAddr::new(crate::net::ALL, 0)).await;
    let both = both.unwrap();
    let port = both.local_addr().unwrap().port();
    for (first, second) in [(V6, V4), (V4, V6)] {
        let connected = dial(&[first, second], port).await.unwrap();
        assert_eq!(connected.peer_addr().unwrap().ip(), first);
    }
}

#[tokio::test]
async fn silent_address_leaves_time_for_the_next_of_its_family() {
    let (_silent, _answering, port) = silent_and_answering(V4, V4_TOO).await;
    let connected = dial(&[V4, V4_TOO], port).await.unwrap();
    assert_eq!(connected.peer_addr().unwrap().ip(), V4_TOO);
}

#[tokio::test]
async fn silent_host_is_an_error() {
    let silent = silent(V4).await;
    let port = silent.0.local_addr().unwrap().port();
    let error = dial(&[V4], port).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert_eq!(error.to_string(), "timed out");
}

#[tokio::test]
async fn address_that_refuses_is_followed_by_the_next() {
    let listener = TcpListener::bind((V4, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let connected = dial(&[V4_TOO, V4], port).await.unwrap();
    assert_eq!(connected.peer_addr().unwrap().ip(), V4);
    let refused = dial(&[V4_TOO], port).await.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    assert!(refused.raw_os_error().is_some(), "{refused}");
}

#[tokio::test]
async fn an_address_without_a_name_needs_no_resolver() {
    let mut addresses = vec![V4];
    if has_ipv6("an_address_without_a_name_needs_no_resolver, ::1").await {
        addresses.push(V6);
    }
    for address in addresses {
        let listener = TcpListener::bind((address, 0)).await.unwrap();
        let at = listener.local_addr().unwrap();
        let connected = tcp(&address.to_string(), at.port()).await.unwrap();
        assert_eq!(connected.peer_addr().unwrap(), at);
        let connected = connect(&at.to_string(), None).await.unwrap();
        assert!(matches!(connected, Either::Right(_)));
    }
}

#[tokio::test]
async fn malformed_address_is_an_error() {
    for address in ["redis", "redis:", "redis:65536", "re dis:1", ""] {
        let error = connect(address, None).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{address}");
    }
}

#[test]
fn error_of_the_resolver_keeps_its_text() {
    let unknown = "failed to lookup address information: Name or service not known";
    let error = system_error(Box::new(io::Error::other(unknown)));
    assert_eq!(error.to_string(), unknown);
    assert_eq!(system_error("no more".into()).to_string(), "no more");
}
