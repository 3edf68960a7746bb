//! Removes the data of oversized responses from event streams.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::Request;
use http_body::Frame;
use protocol::oversize_filter::OversizeFilter;
use tonic::{Status, body::Body};

use crate::metrics::Metrics;

/// The request without the data of messages above `largest` bytes; counts them.
pub(super) fn apply(request: Request<Body>, largest: usize, metrics: &Metrics) -> Request<Body> {
    let filter = OversizeFilter::new(largest, request.headers());
    request.map(|body| {
        Body::new(FilteredBody {
            body,
            filter,
            unread: Bytes::new(),
            metrics: metrics.clone(),
        })
    })
}

struct FilteredBody {
    body: Body,
    filter: OversizeFilter,
    /// Received bytes that were not filtered yet.
    unread: Bytes,
    metrics: Metrics,
}

impl http_body::Body for FilteredBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        loop {
            if this.unread.is_empty() {
                let frame = ready!(Pin::new(&mut this.body).poll_frame(context));
                this.unread = match frame.map(|frame| frame.map(Frame::into_data)) {
                    None => return Poll::Ready(None),
                    Some(Err(status)) => return Poll::Ready(Some(Err(status))),
                    Some(Ok(Err(other))) => return Poll::Ready(Some(Ok(other))),
                    Some(Ok(Ok(data))) => data,
                };
            }
            let output = this.filter.push(&mut this.unread);
            for _ in 0..this.filter.take_cut() {
                this.metrics.event_refused("too_large");
            }
            if let Some(output) = output {
                return Poll::Ready(Some(Ok(Frame::data(output))));
            }
        }
    }
}
