//! A connection inside another one: chunks of bytes in both directions, read and written like a socket.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::stream::{BoxStream, Stream, StreamExt as _};
use futures::{FutureExt as _, Sink, SinkExt as _};
use hyper::rt::Executor;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::sync::mpsc;
use tokio_util::io::{CopyToBytes, SinkWriter, StreamReader};
use tokio_util::sync::PollSender;

use crate::parts::Spawner;

/// Chunks that wait to be sent; above this number a writer waits.
const WAITING: usize = 8;

/// The largest chunk.
const LARGEST: usize = 64 << 10;

type Chunks = Pin<Box<dyn Sink<Bytes, Error = io::Error> + Send>>;

/// One end of a connection inside another one.
#[derive(derive_more::Debug)]
#[debug("Tunnel")]
pub struct Tunnel {
    reader: StreamReader<BoxStream<'static, io::Result<Bytes>>, Bytes>,
    writer: SinkWriter<CopyToBytes<Chunks>>,
}

/// A channel for the chunks that a tunnel writes.
pub fn chunks() -> (mpsc::Sender<Bytes>, mpsc::Receiver<Bytes>) {
    mpsc::channel(WAITING)
}

impl Tunnel {
    /// Reads from `incoming` and writes to `outgoing`.
    pub fn new(
        incoming: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
        outgoing: mpsc::Sender<Bytes>,
    ) -> Self {
        let gone = |_gone| io::Error::from(io::ErrorKind::BrokenPipe);
        let chunks: Chunks = Box::pin(PollSender::new(outgoing).sink_map_err(gone));
        Self {
            reader: StreamReader::new(incoming.boxed()),
            writer: SinkWriter::new(CopyToBytes::new(chunks)),
        }
    }
}

impl AsyncRead for Tunnel {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().reader).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Tunnel {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let chunk = bytes.get(..LARGEST).unwrap_or(bytes);
        Pin::new(&mut self.get_mut().writer).poll_write(cx, chunk)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().writer).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().writer).poll_shutdown(cx)
    }
}

/// Copies bytes in both directions until one side ends or fails; everything that this side has sent is delivered.
pub async fn join(
    near: impl AsyncRead + AsyncWrite + Send,
    far: impl AsyncRead + AsyncWrite + Send,
) {
    let (mut near_reader, mut near_writer) = tokio::io::split(near);
    let (mut far_reader, mut far_writer) = tokio::io::split(far);
    // The side that is gone gets nothing more; the other one gets the end when its stream is dropped.
    let outward = async {
        drop(tokio::io::copy(&mut near_reader, &mut far_writer).await);
        drop(far_writer.shutdown().await);
    };
    let inward = async {
        drop(tokio::io::copy(&mut far_reader, &mut near_writer).await);
        drop(near_writer.shutdown().await);
    };
    tokio::select! {
        () = outward => {}
        () = inward => {}
    }
}

/// Runs hyper's tasks as supervised ones.
#[derive(Clone, Debug)]
pub struct Tasks(Spawner);

impl Tasks {
    /// They are stopped with those of `spawner`.
    pub const fn new(spawner: Spawner) -> Self {
        Self(spawner)
    }
}

impl<F> Executor<F> for Tasks
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, future: F) {
        self.0.spawn_short("request", future.map(drop));
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    /// A tunnel that reads its own output.
    fn circle() -> Tunnel {
        let (send, receive) = mpsc::channel(1);
        let incoming = futures::stream::unfold(receive, |mut receive| async move {
            Some((Ok(receive.recv().await?), receive))
        });
        let (write, mut outgoing) = chunks();
        let tunnel = Tunnel::new(incoming, write);
        #[expect(clippy::disallowed_methods, reason = "ends with the tunnel")]
        tokio::spawn(async move {
            while let Some(chunk) = outgoing.recv().await {
                if send.send(chunk).await.is_err() {
                    break;
                }
            }
        });
        tunnel
    }

    #[tokio::test]
    async fn written_bytes_are_read_and_then_the_end() {
        let (mut reader, mut writer) = tokio::io::split(circle());
        let sent = vec![7; 1 << 20];
        let writing = async {
            writer.write_all(&sent).await.unwrap();
            writer.shutdown().await.unwrap();
        };
        let mut read = vec![];
        let ((), end) = tokio::join!(writing, reader.read_to_end(&mut read));
        end.unwrap();
        assert!(read == sent);
    }

    #[tokio::test]
    async fn joined_streams_exchange_bytes_until_one_ends() {
        let (mut one, near) = tokio::io::duplex(8);
        let (far, mut other) = tokio::io::duplex(8);
        let speaking = async {
            let mut arrived = [0; 5];
            one.write_all(b"hello").await.unwrap();
            other.read_exact(&mut arrived).await.unwrap();
            assert_eq!(&arrived, b"hello");
            other.write_all(b"there").await.unwrap();
            one.read_exact(&mut arrived).await.unwrap();
            assert_eq!(&arrived, b"there");
            // Its last bytes are more than the pipe buffers.
            let last = vec![b'x'; 100];
            let mut end = vec![];
            let ((), read) = tokio::join!(
                async {
                    other.write_all(&last).await.unwrap();
                    drop(other);
                },
                one.read_to_end(&mut end)
            );
            read.unwrap();
            assert_eq!(end, last);
        };
        tokio::join!(join(near, far), speaking);
    }

    #[tokio::test]
    async fn writer_waits_for_a_slow_connection() {
        let (write, mut outgoing) = chunks();
        let mut tunnel = Tunnel::new(futures::stream::pending(), write);
        for _ in 0..WAITING {
            tunnel.write_all(b"x").await.unwrap();
        }
        let mut one_more = std::pin::pin!(tunnel.write_all(b"y"));
        assert!(futures::poll!(one_more.as_mut()).is_pending());
        assert_eq!(outgoing.recv().await.unwrap(), "x");
        one_more.await.unwrap();
        drop(outgoing);
        assert!(tunnel.write_all(b"z").await.is_err());
    }
}
