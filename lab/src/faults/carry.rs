//! Forwards one connection through the faults.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    sync::mpsc,
    time::{Instant, sleep, sleep_until},
};

use super::{Current, Fault};

/// The most bytes of one read.
const CHUNK: usize = 16 * 1024;

/// How many chunks may be in flight in one direction: with 16 KiB each, the capacity of a slow line with some hundred
/// milliseconds of latency. At the bound reading stops, which slows the sender down.
const UNDER_WAY: usize = 64;

/// Forwards a connection to `endpoint` until one side ends it, or the fault cuts it.
pub(super) async fn carry(mut inbound: TcpStream, endpoint: SocketAddr, mut current: Current) {
    if !may_open(&mut current).await {
        return;
    }
    let Ok(mut outbound) = TcpStream::connect(endpoint).await else {
        return;
    };
    // Small messages must not be delayed; fails only on a connection that has ended.
    let _ended = inbound
        .set_nodelay(true)
        .and_then(|()| outbound.set_nodelay(true));
    let cut = until_cut(current.clone());
    let (from_in, to_in) = inbound.split();
    let (from_out, to_out) = outbound.split();
    let there = one_way(from_in, to_out, current.clone());
    let back = one_way(from_out, to_in, current);
    tokio::select! {
        biased;
        () = cut => {}
        _ended = async { tokio::try_join!(there, back) } => {}
    }
}

/// Waits while no bytes may pass; false if the fault refuses the connection.
async fn may_open(current: &mut Current) -> bool {
    let mut fault = current.get();
    loop {
        match fault {
            Fault::Cut => return false,
            Fault::Stall => fault = current.changes(fault).await,
            Fault::None | Fault::Delay(_) | Fault::Throttle(_) => return true,
        }
    }
}

async fn until_cut(mut current: Current) {
    let mut fault = current.get();
    while fault != Fault::Cut {
        fault = current.changes(fault).await;
    }
}

/// Forwards one direction: one half reads and records the time, the other writes when it is due.
async fn one_way(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut current: Current,
) -> io::Result<()> {
    let (sender, mut receiver) = mpsc::channel::<(Instant, Vec<u8>)>(UNDER_WAY);
    let read = async move {
        loop {
            let mut chunk = vec![0; CHUNK];
            let length = from.read(&mut chunk).await?;
            chunk.truncate(length);
            // The writer ends only with an error, which ends us too.
            if length == 0 || sender.send((Instant::now(), chunk)).await.is_err() {
                return io::Result::Ok(());
            }
        }
    };
    let write = async move {
        while let Some((read_at, chunk)) = receiver.recv().await {
            pass(&mut to, read_at, &chunk, &mut current).await?;
        }
        to.shutdown().await
    };
    tokio::try_join!(read, write).map(drop)
}

/// Writes a chunk under the current fault.
async fn pass(
    to: &mut (impl AsyncWrite + Unpin),
    read_at: Instant,
    chunk: &[u8],
    current: &mut Current,
) -> io::Result<()> {
    let mut fault = current.get();
    loop {
        match fault {
            Fault::None => return to.write_all(chunk).await,
            // `carry` is about to end the connection.
            Fault::Cut | Fault::Stall => fault = current.changes(fault).await,
            Fault::Delay(delay) => {
                tokio::select! {
                    () = sleep_until(read_at + delay) => return to.write_all(chunk).await,
                    changed = current.changes(fault) => fault = changed,
                }
            }
            Fault::Throttle(per_second) => return trickle(to, chunk, per_second).await,
        }
    }
}

/// Writes ten times a second the share that the rate allows.
async fn trickle(
    to: &mut (impl AsyncWrite + Unpin),
    chunk: &[u8],
    per_second: u32,
) -> io::Result<()> {
    let portion = usize::try_from(per_second / 10)
        .unwrap_or(usize::MAX)
        .max(1);
    for part in chunk.chunks(portion) {
        to.write_all(part).await?;
        sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}
