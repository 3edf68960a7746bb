//! Removes the data of oversized responses from the bytes of a socket, before they are read.
//!
//! A `WebSocket` reader buffers whole messages, and Go agents send a response as one. [`LongFrames`] decides which bytes
//! are removed.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, Bytes};
use protocol::websocket::LongFrames;
use tokio::io::{AsyncRead, ReadBuf};

use crate::metrics::Metrics;

/// The bytes of a peer; with a filter for calls that may have oversized messages.
#[derive(Debug)]
pub(super) struct FilteredReader<S> {
    inner: S,
    frames: Option<(LongFrames, Metrics)>,
    /// Filtered bytes that did not fit yet.
    rest: Bytes,
}

impl<S> FilteredReader<S> {
    pub(super) const fn new(inner: S, frames: Option<(LongFrames, Metrics)>) -> Self {
        Self {
            inner,
            frames,
            rest: Bytes::new(),
        }
    }

    /// Writes out filtered bytes; false if there are none.
    fn drain(&mut self, out: &mut ReadBuf<'_>) -> bool {
        let some = self.rest.len().min(out.remaining());
        out.put_slice(&self.rest.split_to(some));
        some > 0
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for FilteredReader<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            if this.drain(out) {
                return Poll::Ready(Ok(()));
            }
            let before = out.filled().len();
            ready!(Pin::new(&mut this.inner).poll_read(context, out))?;
            let Some((frames, metrics)) = &mut this.frames else {
                return Poll::Ready(Ok(()));
            };
            let mut read = out.filled();
            read.advance(before);
            // The end, and most of what is large and not too large.
            if read.is_empty() || frames.pass(read.len()) {
                return Poll::Ready(Ok(()));
            }
            this.rest = frames.push(Bytes::copy_from_slice(read));
            for _ in 0..frames.take_cut() {
                metrics.event_refused("too_large");
            }
            out.set_filled(before);
        }
    }
}
