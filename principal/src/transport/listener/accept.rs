//! The accept loop of all ports.

use std::{io, net::SocketAddr, time::Duration};

use runtime::{error::Chain, net, parts::Spawner};
use tokio::net::{TcpListener, TcpStream};

/// Pause after a failed accept, usually for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// A port that is taken. Nothing is accepted before [`Self::serve`].
#[derive(Debug)]
pub(crate) struct Port {
    tcp: TcpListener,
    /// Where it listens.
    pub(crate) address: SocketAddr,
}

impl Port {
    /// Takes a port.
    pub(crate) async fn bind(address: SocketAddr) -> io::Result<Self> {
        let tcp = net::bind(address).await?;
        let address = tcp.local_addr()?;
        Ok(Self { tcp, address })
    }

    /// Serves each connection in a task of this name, until the program stops. Failed accepts are retried, and logged
    /// once. The address of an IPv4 peer is an IPv4 address.
    pub(crate) async fn serve<F>(
        self,
        spawner: &Spawner,
        name: &'static str,
        serve: impl Fn(TcpStream, SocketAddr) -> F,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut failing = false;
        while let Some(accepted) = spawner.token().run_until_cancelled(self.tcp.accept()).await {
            match accepted {
                Ok((socket, address)) => {
                    failing = false;
                    spawner.spawn_short(name, serve(socket, net::canonical(address)));
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
}

#[cfg(test)]
mod tests {
    use runtime::parts::Parts;
    use tokio::sync::mpsc;
    use tokio_util::sync::CancellationToken;

    use super::*;

    #[tokio::test]
    async fn ipv4_peer_has_an_ipv4_address() {
        let port = Port::bind(SocketAddr::new(net::ALL, 0)).await.unwrap();
        let to = SocketAddr::from(([127, 0, 0, 1], port.address.port()));
        let parts = Parts::new(CancellationToken::new());
        let spawner = parts.spawner();
        let (send, mut peers) = mpsc::channel(1);
        let serve = |_socket: TcpStream, address: SocketAddr| {
            let send = send.clone();
            async move {
                send.send(address).await.unwrap();
            }
        };
        let client = async {
            let socket = TcpStream::connect(to).await.unwrap();
            assert_eq!(peers.recv().await, socket.local_addr().ok());
        };
        tokio::select! {
            () = port.serve(&spawner, "test", serve) => panic!("the port is closed"),
            () = client => {}
        }
    }
}
