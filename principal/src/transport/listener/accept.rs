//! The accept loop of all ports.

use std::{convert::Infallible, net::SocketAddr, time::Duration};

use runtime::{error::Chain, parts::Spawner};
use tokio::net::{TcpListener, TcpStream};

/// Pause after a failed accept, usually for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// Serves each connection in a task of this name, until the program stops.
pub(crate) async fn serve<F>(
    tcp: &TcpListener,
    spawner: &Spawner,
    name: &'static str,
    serve: impl Fn(TcpStream, SocketAddr) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let accepting = each(tcp, |socket, address| {
        spawner.spawn_short(name, serve(socket, address));
    });
    spawner.token().run_until_cancelled(accepting).await;
}

/// Hands each connection to `begin`, which must be quick. Failed accepts are retried, and logged once.
async fn each(tcp: &TcpListener, mut begin: impl FnMut(TcpStream, SocketAddr)) -> Infallible {
    let mut failing = false;
    loop {
        match tcp.accept().await {
            Ok((socket, address)) => {
                failing = false;
                begin(socket, address);
            }
            Err(error) => {
                if !failing {
                    tracing::warn!(error = %Chain(&error), "cannot accept connections; retrying");
                }
                failing = true;
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
