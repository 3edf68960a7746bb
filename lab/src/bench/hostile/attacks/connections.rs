//! Connections, handshakes and frames.

use anyhow::{Context as _, Result};
use futures::future::join_all;
use protocol::{Event, wire::eventstreamapi::event_stream_client::EventStreamClient};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, sleep_until, timeout_at},
};

use super::Observed;
use crate::{
    bench::hostile::attacker::{Attacker, raw},
    raw_client::subscribe_on,
};

/// A client's preface and its empty settings (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// Connections of one attack at the same time: less than the usual limit of open files.
const SOCKETS: usize = 400;

pub(super) async fn reconnects(attacker: &Attacker, until: Instant) -> Result<Observed> {
    let storm = (0..8).map(|_| async {
        let mut count = 0_u64;
        while Instant::now() < until {
            // The principal may refuse any of these.
            drop(timeout_at(until, attacker.session()).await);
            count += 1;
        }
        count
    });
    let counts = join_all(storm).await;
    Ok(Observed::effort(counts.into_iter().sum::<u64>()))
}

/// Half of a first message each, and then silence.
pub(super) async fn half_open(attacker: &Attacker, until: Instant) -> Result<Observed> {
    let mut sockets = Vec::new();
    for _ in 0..SOCKETS {
        let connected = timeout_at(until, TcpStream::connect(&attacker.client.address)).await;
        let Ok(Ok(mut socket)) = connected else { break };
        // A record of 512 bytes, of which these are the first.
        let begun = socket.write_all(&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]);
        drop(timeout_at(until, begun).await);
        sockets.push(socket);
    }
    sleep_until(until).await;
    Ok(Observed::effort(sockets.len()))
}

pub(super) async fn streams(attacker: &Attacker, until: Instant) -> Result<Observed> {
    let token = attacker.token().await?;
    let channel = attacker.client.channel(Some(&attacker.credentials))?;
    let mut open = Vec::new();
    while Instant::now() < until && open.len() < 5_000 {
        let opening = (0..100).map(|_| {
            let client = EventStreamClient::new(channel.clone());
            timeout_at(until, subscribe_on(client, &token))
        });
        let opened = join_all(opening).await;
        open.extend(opened.into_iter().flatten().flatten().flatten());
    }
    sleep_until(until).await;
    Ok(Observed::effort(open.len()))
}

pub(super) async fn never_reads(attacker: &Attacker, until: Instant) -> Result<Observed> {
    let stream = attacker.session().await?;
    let next = |_| Some(raw(Event::request_resource_resync()));
    Ok(Observed::effort(stream.stuff(until, next).await))
}

/// The header of an HTTP/2 frame.
fn frame(length: u8, kind: u8, flags: u8, stream: u32) -> Vec<u8> {
    let mut frame = vec![0, 0, length, kind, flags];
    frame.extend(stream.to_be_bytes());
    frame
}

/// Writes the bytes of `next` on one connection after the other, and reads nothing.
async fn write_frames(
    attacker: &Attacker,
    until: Instant,
    mut next: impl FnMut() -> Vec<u8>,
) -> Result<Observed> {
    let mut count = 0_u64;
    while Instant::now() < until {
        let mut socket = attacker.client.tls(&attacker.credentials).await?;
        socket.write_all(PREFACE).await.context("the preface")?;
        let mut written = Ok(Ok(()));
        while matches!(written, Ok(Ok(()))) && Instant::now() < until {
            written = timeout_at(until, socket.write_all(&next())).await;
            count += 1;
        }
    }
    Ok(Observed::effort(count))
}

/// PING and SETTINGS, each of which the server has to answer.
pub(super) async fn control_frames(attacker: &Attacker, until: Instant) -> Result<Observed> {
    let mut both = frame(8, 6, 0, 0);
    both.extend([0; 8]);
    both.extend(frame(0, 4, 0, 0));
    let many = both.repeat(500);
    write_frames(attacker, until, || many.clone()).await
}

/// HEADERS of a POST with indexed fields only, and `RST_STREAM`.
pub(super) async fn rapid_reset(attacker: &Attacker, until: Instant) -> Result<Observed> {
    let mut stream = 1_u32;
    write_frames(attacker, until, || {
        let mut bytes = Vec::new();
        for _ in 0..500 {
            // :method POST, :scheme https, :path /, END_HEADERS.
            bytes.extend(frame(3, 1, 4, stream));
            bytes.extend([0x83, 0x87, 0x84]);
            bytes.extend(frame(4, 3, 0, stream));
            bytes.extend([0, 0, 0, 8]);
            stream = (stream + 2) & 0x7fff_ffff;
        }
        bytes
    })
    .await
}

/// Frames of unknown kinds and impossible lengths after the preface, and bytes without TLS.
pub(super) async fn garbage(attacker: &Attacker, until: Instant) -> Result<Observed> {
    let bodies = [
        vec![0xff; 70_000],
        frame(255, 0xee, 0xff, u32::MAX),
        [frame(255, 1, 0, 1), vec![0xff; 255]].concat(),
        [frame(1, 9, 0, 1), vec![0]].concat().repeat(1_000),
    ];
    for bytes in &bodies {
        let mut socket = attacker.client.tls(&attacker.credentials).await?;
        let talk = async {
            // The principal may close the connection at any of these.
            drop(socket.write_all(PREFACE).await);
            drop(socket.write_all(bytes).await);
            drop(socket.shutdown().await);
            let mut rest = Vec::new();
            drop(socket.read_to_end(&mut rest).await);
        };
        drop(timeout_at(until, talk).await);
        attacker.client.send_bytes(bytes).await?;
    }
    Ok(Observed::effort(bodies.len()))
}
