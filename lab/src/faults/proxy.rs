//! A listener in front of an address, with faults.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::task::AbortOnDropHandle;

use super::{Faults, carry::carry};

/// Listens on a port of its own and forwards connections to a target, through the faults of one (imagined) cluster.
/// Dropping it ends them all.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    _task: AbortOnDropHandle<()>,
}

impl Proxy {
    /// Starts on a free port of the loopback. Its connections count as coming from `cluster`.
    pub async fn start(target: SocketAddr, faults: &Faults, cluster: &str) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .context("listen for the proxy")?;
        let address = listener.local_addr().context("the proxy's own address")?;
        let (faults, cluster) = (faults.clone(), cluster.to_owned());
        let serve = async move {
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => if let Ok((inbound, _peer)) = accepted {
                        connections.spawn(carry(inbound, target, faults.of(cluster.clone())));
                    },
                    Some(_ended) = connections.join_next() => {}
                }
            }
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "ends with the proxy, which owns it"
        )]
        let task = AbortOnDropHandle::new(tokio::spawn(serve));
        Ok(Self {
            address,
            _task: task,
        })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
        time::{Instant, timeout},
    };

    use super::*;
    use crate::faults::Fault;

    /// An echo server.
    async fn echo() -> Result<(SocketAddr, AbortOnDropHandle<()>)> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let serve = async move {
            let mut connections = JoinSet::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                connections.spawn(async move {
                    let (mut from, mut to) = stream.split();
                    let _ended = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        };
        #[expect(clippy::disallowed_methods, reason = "ends with the test")]
        Ok((address, AbortOnDropHandle::new(tokio::spawn(serve))))
    }

    async fn round_trip(stream: &mut TcpStream, text: &str) -> Result<String> {
        stream.write_all(text.as_bytes()).await?;
        let mut answer = vec![0; text.len()];
        stream.read_exact(&mut answer).await?;
        Ok(String::from_utf8(answer)?)
    }

    #[tokio::test]
    async fn a_cut_ends_connections_and_healing_admits_new_ones() -> Result<()> {
        let (target, _server) = echo().await?;
        let faults = Faults::default();
        let proxy = Proxy::start(target, &faults, "spoke1").await?;
        let mut stream = TcpStream::connect(proxy.address()).await?;
        assert_eq!(round_trip(&mut stream, "one").await?, "one");
        faults.cut("spoke1");
        let ended = timeout(Duration::from_secs(5), round_trip(&mut stream, "two")).await;
        assert!(ended?.is_err(), "the connection ends");
        faults.heal("spoke1");
        let mut stream = TcpStream::connect(proxy.address()).await?;
        assert_eq!(round_trip(&mut stream, "three").await?, "three");
        Ok(())
    }

    #[tokio::test]
    async fn a_stall_keeps_the_connection_and_its_bytes() -> Result<()> {
        let (target, _server) = echo().await?;
        let faults = Faults::default();
        let proxy = Proxy::start(target, &faults, "spoke1").await?;
        let mut stream = TcpStream::connect(proxy.address()).await?;
        assert_eq!(round_trip(&mut stream, "one").await?, "one");
        faults.set("spoke1", Fault::Stall);
        let silent = timeout(Duration::from_millis(100), round_trip(&mut stream, "two")).await;
        assert!(silent.is_err(), "nothing passes");
        faults.heal("spoke1");
        let mut answer = [0; 3];
        timeout(Duration::from_secs(5), stream.read_exact(&mut answer)).await??;
        assert_eq!(&answer, b"two");
        Ok(())
    }

    #[tokio::test]
    async fn a_delay_holds_in_each_direction() -> Result<()> {
        let (target, _server) = echo().await?;
        let faults = Faults::default();
        faults.set_for_all(Fault::Delay(Duration::from_millis(50)));
        let proxy = Proxy::start(target, &faults, "spoke1").await?;
        let mut stream = TcpStream::connect(proxy.address()).await?;
        let began = Instant::now();
        round_trip(&mut stream, "slow").await?;
        assert!(began.elapsed() >= Duration::from_millis(100));
        Ok(())
    }

    #[tokio::test]
    async fn a_throttle_lets_only_so_much_through() -> Result<()> {
        let (target, _server) = echo().await?;
        let faults = Faults::default();
        faults.set_for_all(Fault::Throttle(1_000));
        let proxy = Proxy::start(target, &faults, "spoke1").await?;
        let mut stream = TcpStream::connect(proxy.address()).await?;
        let began = Instant::now();
        round_trip(&mut stream, &"x".repeat(300)).await?;
        assert!(began.elapsed() >= Duration::from_millis(200));
        Ok(())
    }
}
