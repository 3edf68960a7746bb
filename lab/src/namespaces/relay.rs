//! Relays connections from the caller's loopback to the lab's.
//!
//! A socket stays in the network namespace in which it was created: the listeners were created outside, and
//! connections of the supervisor go inside.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use anyhow::{Context, Result};
use tokio::{io::copy_bidirectional, net::TcpStream, task::JoinSet};

use super::FIRST_PORT;

/// Starts relaying. Dropping the returned set ends it.
pub(super) fn start(listeners: Vec<TcpListener>) -> Result<JoinSet<()>> {
    let mut relays = JoinSet::new();
    for (listener, port) in listeners.into_iter().zip(FIRST_PORT..) {
        listener
            .set_nonblocking(true)
            .context("prepare a listener")?;
        let listener = tokio::net::TcpListener::from_std(listener).context("adopt a listener")?;
        relays.spawn(relay(listener, (Ipv4Addr::LOCALHOST, port).into()));
    }
    Ok(relays)
}

/// Carries all connections of a listener to an address, until it is dropped.
pub(crate) async fn relay(listener: tokio::net::TcpListener, target: SocketAddr) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _peer)) => { connections.spawn(carry(stream, target)); }
                // The caller lacks file descriptors for a moment; the next connection may succeed.
                Err(_) => tokio::task::yield_now().await,
            },
            Some(_ended) = connections.join_next() => {}
        }
    }
}

async fn carry(mut outside: TcpStream, target: SocketAddr) {
    if let Ok(mut inside) = TcpStream::connect(target).await {
        // The two ends handle errors of the connection.
        let _ended = copy_bidirectional(&mut outside, &mut inside).await;
    }
}
