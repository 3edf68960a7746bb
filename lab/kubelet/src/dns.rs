//! Cluster DNS: answers names of Services, and the outside names that the lab configured.
//!
//! There is no upstream server: an unknown name does not exist, and the answer comes at once.

mod message;
mod names;

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UdpSocket},
};

use crate::{tasks::Tasks, watched::Watched};
use names::Names;

/// The most bytes of an answer by UDP when nothing else was agreed (RFC 1035, 4.2.1).
const UDP_LIMIT: usize = 512;
/// How long a client may take with a question by TCP.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// The data from which answers are made.
#[derive(Clone)]
pub(crate) struct Dns {
    pub(crate) services: Watched<Service>,
    pub(crate) slices: Watched<EndpointSlice>,
    pub(crate) hosts: Arc<BTreeMap<String, IpAddr>>,
}

impl Dns {
    /// Opens port 53 on `address` and starts to answer.
    pub(crate) async fn start(self, address: IpAddr, tasks: &Tasks) -> io::Result<()> {
        let udp = UdpSocket::bind((address, 53)).await?;
        let tcp = TcpListener::bind((address, 53)).await?;
        tasks.spawn("dns-udp", self.clone().serve_udp(udp));
        tasks.spawn("dns-tcp", self.serve_tcp(tcp, tasks.clone()));
        Ok(())
    }

    /// Answers one message; nothing if it is not a question.
    fn answer(&self, question: &[u8], limit: usize) -> Option<Vec<u8>> {
        message::answer(question, limit, |name| {
            let names = Names {
                services: &self.services.all(),
                slices: &self.slices.all(),
                hosts: &self.hosts,
            };
            names.resolve(name)
        })
    }

    async fn serve_udp(self, socket: UdpSocket) {
        let mut buffer = [0; 1500];
        loop {
            let (length, peer): (usize, SocketAddr) = match socket.recv_from(&mut buffer).await {
                Ok(received) => received,
                Err(error) => {
                    // An earlier answer met a closed port; that does not affect the next question.
                    tracing::debug!(%error, "dns");
                    continue;
                }
            };
            let answer = buffer
                .get(..length)
                .and_then(|question| self.answer(question, UDP_LIMIT));
            if let Some(answer) = answer {
                let _gone = socket.send_to(&answer, peer).await;
            }
        }
    }

    async fn serve_tcp(self, listener: TcpListener, tasks: Tasks) {
        loop {
            match listener.accept().await {
                Ok((stream, _peer)) => {
                    let dns = self.clone();
                    tasks.spawn("dns-connection", async move {
                        let talk = tokio::time::timeout(TIME_LIMIT, dns.talk(stream));
                        let _over = talk.await;
                    });
                }
                Err(error) => {
                    tracing::debug!(%error, "dns");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    /// Answers questions on one connection, each after its length in two bytes.
    async fn talk(self, mut stream: TcpStream) -> io::Result<()> {
        loop {
            let length = stream.read_u16().await?;
            let mut question = vec![0; length.into()];
            stream.read_exact(&mut question).await?;
            let Some(answer) = self.answer(&question, u16::MAX.into()) else {
                return Ok(());
            };
            stream
                .write_u16(u16::try_from(answer.len()).unwrap_or(u16::MAX))
                .await?;
            stream.write_all(&answer).await?;
        }
    }
}
