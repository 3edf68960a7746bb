//! The cost of a process: memory, bytes from its API, and its own metrics.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result};
use tokio::{
    io::{AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_util::task::AbortOnDropHandle;

/// The resident memory of a process, in MiB.
pub(super) fn resident(process: u32) -> Result<u64> {
    Ok(resident_kib(process)? / 1024)
}

/// The resident memory of a process, in KiB.
pub(super) fn resident_kib(process: u32) -> Result<u64> {
    runtime::process::resident_kib(&reply(process, "status")?).context("VmRSS")
}

/// The most resident memory of a process so far, in MiB.
pub(super) fn peak(process: u32) -> Result<u64> {
    let kib = runtime::process::peak_kib(&reply(process, "status")?).context("VmHWM")?;
    Ok(kib / 1024)
}

/// The processor time that a process has used.
pub(super) fn processor(process: u32) -> Result<Duration> {
    runtime::process::processor(&reply(process, "stat")?).context("utime and stime")
}

fn reply(process: u32, file: &str) -> Result<String> {
    let path = format!("/proc/{process}/{file}");
    std::fs::read_to_string(&path).with_context(|| format!("read {path}"))
}

/// The sum of a metric over its series that contain this text.
pub(super) async fn metric(port: u16, name: &str, with: &str) -> Result<u64> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    let request = "GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n";
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    let lines = text
        .lines()
        .filter(|line| !line.starts_with('#') && line.contains(name) && line.contains(with));
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    Ok(values.sum())
}

/// A listener in front of an address that counts the bytes of responses.
#[derive(Debug)]
pub(super) struct Counter {
    address: SocketAddr,
    bytes: Arc<AtomicU64>,
    _task: AbortOnDropHandle<()>,
}

impl Counter {
    /// Starts on a free port of the loopback.
    pub(super) async fn start(target: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let bytes = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&bytes);
        let serve = async move {
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => if let Ok((inbound, _peer)) = accepted {
                        connections.spawn(carry(inbound, target, Arc::clone(&counted)));
                    },
                    Some(_ended) = connections.join_next() => {}
                }
            }
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "ends with the counter, which owns it"
        )]
        let task = AbortOnDropHandle::new(tokio::spawn(serve));
        Ok(Self {
            address,
            bytes,
            _task: task,
        })
    }

    /// Where it listens.
    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many KiB were received so far.
    pub(super) fn kib(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed) / 1024
    }
}

async fn carry(mut inbound: TcpStream, target: SocketAddr, bytes: Arc<AtomicU64>) {
    let Ok(mut outbound) = TcpStream::connect(target).await else {
        return;
    };
    let (mut asks, mut takes_in) = inbound.split();
    let (mut answers, mut listens) = outbound.split();
    // Either end may close the connection, which ends both directions.
    tokio::select! {
        _ended = tokio::io::copy(&mut asks, &mut listens) => {}
        _ended = counted(&mut answers, &mut takes_in, &bytes) => {}
    }
}

async fn counted(
    from: &mut (impl AsyncReadExt + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    bytes: &AtomicU64,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let count = from.read(&mut buffer).await?;
        let Some(read) = buffer.get(..count).filter(|read| !read.is_empty()) else {
            return Ok(());
        };
        to.write_all(read).await?;
        bytes.fetch_add(read.len() as u64, Ordering::Relaxed);
    }
}
