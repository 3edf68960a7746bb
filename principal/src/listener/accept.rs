//! From a port to connections.

use std::{convert::Infallible, net::SocketAddr, time::Duration};

use runtime::error::Chain;
use tokio::net::{TcpListener, TcpStream};

/// What to wait after an accept that failed, usually for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// Hands each connection to `begin`, which must be quick, for ever. An accept that fails is waited out, and told once.
pub(crate) async fn each(
    tcp: &TcpListener,
    mut begin: impl FnMut(TcpStream, SocketAddr),
) -> Infallible {
    let mut failing = false;
    loop {
        match tcp.accept().await {
            Ok((socket, address)) => {
                failing = false;
                begin(socket, address);
            }
            Err(error) => {
                if !failing {
                    tracing::warn!(error = %Chain(&error), "cannot accept connections; going on");
                }
                failing = true;
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
