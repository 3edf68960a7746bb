//! The accept loop of all ports.

use std::{net::SocketAddr, time::Duration};

use runtime::{error::Chain, parts::Spawner};
use tokio::net::{TcpListener, TcpStream};

/// Pause after a failed accept, usually for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// Serves each connection in a task of this name, until the program stops. Failed accepts are retried, and logged once.
pub(crate) async fn serve<F>(
    tcp: &TcpListener,
    spawner: &Spawner,
    name: &'static str,
    serve: impl Fn(TcpStream, SocketAddr) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut failing = false;
    while let Some(accepted) = spawner.token().run_until_cancelled(tcp.accept()).await {
        match accepted {
            Ok((socket, address)) => {
                failing = false;
                spawner.spawn_short(name, serve(socket, address));
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
