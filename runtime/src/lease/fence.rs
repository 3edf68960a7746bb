//! Refuses the writes of a replica whose lease has ended.
//!
//! A leader that cannot renew its lease stops its parts. But a process may stall, as with its whole machine, for longer than
//! its lease lasts. When it continues, its parts write until they are stopped, beside the next leader. The fence is checked
//! for each write instead: when a part sends it, and again after the queues of the client, immediately before it leaves. The
//! end of the lease is known in advance, so a check needs no request.
//!
//! A write that has left cannot be called back, not even by dropping its request. [`Fence::settled`] waits for these before a
//! lease is released, and a fence ends a little before its lease. Only a stall between the last check and the socket, as while
//! a new connection is made, is noticed too late.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use ::kube::Client;
use ::kube::client::Body;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tower::{BoxError, Service, service_fn};

/// This replica must not write. A retry succeeds if it leads again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this replica does not lead (any more), so it must not write")]
pub struct Refused;

/// Whether this replica may write now. Clones share it.
#[derive(Debug, Clone)]
pub struct Fence(Arc<State>);

#[derive(Debug)]
struct State {
    open: watch::Sender<Open>,
    /// The number of writes without a response.
    underway: watch::Sender<usize>,
    /// When the request of a write was dropped last.
    dropped: watch::Sender<Option<Instant>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Always,
    Until(Instant),
    Never,
}

impl Fence {
    /// Refuses no write: for a program that runs once only.
    pub fn open() -> Self {
        Self::new(Open::Always)
    }

    /// Refuses every write until [`campaign`](super::campaign) acquires the lease.
    pub fn closed() -> Self {
        Self::new(Open::Never)
    }

    fn new(open: Open) -> Self {
        Self(Arc::new(State {
            open: watch::Sender::new(open),
            underway: watch::Sender::new(0),
            dropped: watch::Sender::new(None),
        }))
    }

    /// Whether a write may leave now.
    ///
    /// # Errors
    /// This replica does not lead, or its lease has ended since its last renewal.
    pub fn check(&self) -> Result<(), Refused> {
        let open = *self.0.open.borrow();
        let is_open = match open {
            Open::Always => true,
            Open::Until(end) => Instant::now() < end,
            Open::Never => false,
        };
        if is_open { Ok(()) } else { Err(Refused) }
    }

    /// A client whose writes pass this fence; its reads always pass. A refused write fails with [`Refused`] as
    /// [`Service`](::kube::Error::Service), like a request to an API that is unavailable.
    pub fn client(&self, client: &Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let valid_until = *client.valid_until();
        let (fence, client) = (self.clone(), client.clone());
        let service = service_fn(move |request: Request<Body>| {
            let (fence, client) = (fence.clone(), client.clone());
            async move { fence.send(&client, request).await }
        });
        Client::new(service, namespace).with_valid_until(valid_until)
    }

    async fn send(
        &self,
        client: &Client,
        mut request: Request<Body>,
    ) -> Result<Response<Body>, ::kube::Error> {
        if !writes(request.method()) {
            return client.send(request).await;
        }
        // Before the check, so that a fence that closes meanwhile waits for this write.
        let mut counted = Counted::new(&self.0);
        self.check()
            .map_err(|refused| ::kube::Error::Service(Box::new(refused)))?;
        request.extensions_mut().insert(self.clone());
        counted.has_left = true;
        let answer = client.send(request).await;
        counted.has_left = false;
        answer
    }

    /// Opens the fence until this time.
    pub(super) fn extend(&self, end: Instant) {
        self.0.open.send_replace(Open::Until(end));
    }

    /// Refuses every write from now on.
    pub(super) fn close(&self) {
        self.0.open.send_replace(Open::Never);
    }

    /// Waits until every write that has left is answered, or was dropped for `travel`.
    pub(super) async fn settled(&self, travel: Duration) {
        let mut underway = self.0.underway.subscribe();
        // An error means that the sender is dropped, and we keep it.
        drop(underway.wait_for(|count| *count == 0).await);
        let dropped = *self.0.dropped.borrow();
        if let Some(dropped) = dropped {
            sleep_until(dropped + travel).await;
        }
    }
}

fn writes(method: &Method) -> bool {
    !method.is_safe()
}

/// A write without a response.
struct Counted<'a> {
    state: &'a State,
    has_left: bool,
}

impl<'a> Counted<'a> {
    fn new(state: &'a State) -> Self {
        state.underway.send_modify(|count| *count += 1);
        Self {
            state,
            has_left: false,
        }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        if self.has_left {
            self.state.dropped.send_replace(Some(Instant::now()));
        }
        self.state
            .underway
            .send_modify(|count| *count = count.saturating_sub(1));
    }
}

/// The innermost layer of a client: checks the fence of a request, if it has one, after all queues of the client.
#[derive(Debug, Clone)]
pub(crate) struct AtSend<S>(pub(crate) S);

impl<S, Q, R> Service<Request<Q>> for AtSend<S>
where
    S: Service<Request<Q>, Response = R>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
{
    type Response = R;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<R, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let fence = request.extensions().get::<Fence>();
        if let Some(Err(refused)) = fence.map(Fence::check) {
            return async move { Err(refused.into()) }.boxed();
        }
        let answer = self.0.call(request);
        async move { answer.await.map_err(Into::into) }.boxed()
    }
}

#[cfg(test)]
mod tests;
