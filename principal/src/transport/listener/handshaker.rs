//! The TLS handshakes of one port, within bounds.
//!
//! ```text
//!   accept ─► Silent ─► Partial ─► Queued ─► turn: answer ─► Answered ─► turn: verify ─► connection
//!             └─── waits for the peer ─┘                     └ waits for the peer
//! ```
//!
//! A handshake holds a turn only while it computes. A peer that lets us wait holds nothing but its connection, which is
//! evicted when there are too many (`handshakes`).

use std::{future::poll_fn, io, net::IpAddr, task::Poll, time::Duration};

use futures::poll;
use runtime::credentials::ServerTls;
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{Accept, server::TlsStream};

use super::{
    handshake::{self, Stream},
    handshakes::{Handshake, Handshakes, Progress},
    slots::{Slot, Slots},
};
use crate::{
    admission::{identity::PeerCertificate, peer::Network},
    settings::Limits,
};

/// The outcome of an evicted connection.
const EVICTED: &str = "too_many_from_address";
/// The outcome of a handshake that got no turn in time.
const WAITED: &str = "waited_too_long";

/// The outcome in the metrics of the proxies, which have one word for all limits.
pub(crate) fn too_many(outcome: &'static str) -> &'static str {
    match outcome {
        EVICTED | WAITED => "too_many_connections",
        failed => failed,
    }
}

/// What a handshake computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    /// Key exchange, and a signature.
    Answer,
    /// The peer's certificate and signature. It has a turn of its own, so that hellos cannot delay it.
    Verify,
}

/// Completes the handshakes of one port.
#[derive(Debug)]
pub(crate) struct Handshaker {
    unauthenticated: Handshakes<Network>,
    /// Those that compute.
    turns: Slots<()>,
    /// Those of an address that compute or wait for it: no address fills the queue of `turns`.
    by_address: Slots<(Network, Step)>,
    time: Duration,
}

/// A permission to compute.
type Turn = (Slot<(Network, Step)>, Slot<()>);

impl Handshaker {
    /// With the handshake limits of the settings, but so many unauthenticated connections.
    pub(crate) fn new(limits: &Limits, unauthenticated: usize) -> Self {
        Self {
            unauthenticated: Handshakes::new(unauthenticated),
            turns: Slots::new(limits.handshakes),
            by_address: Slots::new(limits.handshakes),
            time: limits.handshake_time,
        }
    }

    /// Does the handshake of a connection, unless it is evicted. Without TLS there is nothing to do.
    pub(crate) async fn accept(
        &self,
        tls: Option<&ServerTls>,
        socket: TcpStream,
        address: IpAddr,
    ) -> Result<(Stream, Option<PeerCertificate>), &'static str> {
        let mut handshake = self.begin(address).ok_or(EVICTED)?;
        let evicted = handshake.evicted();
        tokio::select! {
            biased;
            completed = self.complete(tls, socket, &mut handshake) => completed,
            () = evicted.cancelled() => Err(EVICTED),
        }
    }

    /// Counts a connection as unauthenticated; none when its address has too many.
    pub(crate) fn begin(&self, address: IpAddr) -> Option<Handshake<Network>> {
        self.unauthenticated.begin(address.into())
    }

    /// Does the handshake. The caller closes the connection when it is evicted.
    pub(crate) async fn complete(
        &self,
        tls: Option<&ServerTls>,
        mut socket: TcpStream,
        handshake: &mut Handshake<Network>,
    ) -> Result<(Stream, Option<PeerCertificate>), &'static str> {
        // Without it a small answer may wait for the peer's delayed acknowledgement.
        socket.set_nodelay(true).map_err(|_gone| "closed")?;
        let Some(tls) = tls else {
            return Ok((Stream::Right(socket), None));
        };
        let hello = async {
            handshake::first_byte(&mut socket).await?;
            handshake.advance(Progress::Partial);
            handshake::read_hello(&socket).await
        };
        let hello = timeout(self.time, hello)
            .await
            .map_err(|_elapsed| "timeout")??;
        handshake.advance(Progress::Queued);
        let turn = self.turn(*handshake.address(), Step::Answer);
        let turn = timeout(self.time, turn).await.map_err(|_elapsed| WAITED)?;
        // The newest certificate: it may have been rotated while the connection waited.
        let config = tls.current().ok_or("no_certificate_of_ours")?;
        let accept = handshake::answer(hello, config, socket);
        let finish = timeout(self.time, self.finish(accept, turn, handshake));
        let stream = finish.await.map_err(|_elapsed| "timeout")?;
        handshake::authenticated(stream.map_err(|error| handshake::outcome(&error))?)
    }

    /// Computes when it has a turn, and waits for the peer without one.
    async fn finish(
        &self,
        mut accept: Accept<TcpStream>,
        mut turn: Turn,
        handshake: &mut Handshake<Network>,
    ) -> io::Result<TlsStream<TcpStream>> {
        loop {
            let polled = poll!(&mut accept);
            drop(turn);
            if let Poll::Ready(completed) = polled {
                return completed;
            }
            handshake.advance(Progress::Answered);
            woken().await;
            turn = self.turn(*handshake.address(), Step::Verify).await;
        }
    }

    /// Waits for a turn of this address, then for one of all. Cancel-safe.
    async fn turn(&self, address: Network, step: Step) -> Turn {
        let of_address = self.by_address.wait((address, step)).await;
        (of_address, self.turns.wait(()).await)
    }
}

/// Waits until something wakes this task, such as the socket that was polled last.
async fn woken() {
    let mut is_woken = false;
    poll_fn(|_| {
        if std::mem::replace(&mut is_woken, true) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

#[cfg(test)]
mod tests;
