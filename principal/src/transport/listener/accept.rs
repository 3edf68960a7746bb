//! The accept loop of all ports.

use std::{io, net::SocketAddr, time::Duration};

use runtime::{error::Chain, parts::Spawner};
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
        let tcp = TcpListener::bind(address).await?;
        let address = tcp.local_addr()?;
        Ok(Self { tcp, address })
    }

    /// Serves each connection in a task of this name, until the program stops. Failed accepts are retried, and logged
    /// once.
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
}
