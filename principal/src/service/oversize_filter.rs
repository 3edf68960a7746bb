//! Removes the data of oversized responses from event streams.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::Request;
use http_body::Frame;
use protocol::oversize_filter::OversizeFilter;
use tonic::{Status, body::Body, server::NamedService};
use tower::Service;

use crate::metrics::Metrics;

/// A service that receives oversized responses without their data.
#[derive(Clone, Debug)]
pub(super) struct OversizeFiltered<S> {
    pub(super) inner: S,
    pub(super) largest: usize,
    pub(super) metrics: Metrics,
}

impl<S: NamedService> NamedService for OversizeFiltered<S> {
    const NAME: &'static str = S::NAME;
}

impl<S: Service<Request<Body>>> Service<Request<Body>> for OversizeFiltered<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let filter = OversizeFilter::new(self.largest, request.headers());
        let metrics = self.metrics.clone();
        self.inner.call(request.map(|body| {
            Body::new(FilteredBody {
                body,
                filter,
                unread: Bytes::new(),
                metrics,
            })
        }))
    }
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
