//! The listener: HTTP/1.1 with bounds on connections, requests, headers and time.
//!
//! Only argocd-server calls it, behind whose proxy any number of pages may be open. A connection over the bound waits in
//! the queue of the kernel until another one ends, and each one ends soon after its last request.

use std::{pin::pin, sync::Arc, time::Duration};

use http::{StatusCode, request};
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use runtime::{error::Chain, parts::Spawner};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::answer::{self, Answer};

/// Pause after a failed accept, usually because there are no file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// The bounds of the server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Open connections.
    pub connections: usize,
    /// Requests that are answered at the same time; further ones wait.
    pub requests: usize,
    /// For the head of a request, for its answer, and for reading that: each.
    pub time: Duration,
    /// Bytes of the head of a request.
    pub head: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 64,
            requests: 16,
            time: Duration::from_secs(10),
            head: 16 << 10,
        }
    }
}

/// The parts that all connections share.
#[derive(Debug)]
struct Shared<A> {
    limits: Limits,
    requests: Semaphore,
    answer: A,
}

/// Serves connections until the spawner's token is cancelled. `answer` gets the head of each request; a body is not read.
pub async fn run<A, F>(listener: TcpListener, limits: Limits, spawner: Spawner, answer: A)
where
    A: Fn(request::Parts) -> F + Send + Sync + 'static,
    F: Future<Output = Answer> + Send + 'static,
{
    let slots = Arc::new(Semaphore::new(limits.connections));
    let shared = Arc::new(Shared {
        limits,
        requests: Semaphore::new(limits.requests),
        answer,
    });
    let mut failing = false;
    let token = spawner.token().clone();
    loop {
        let next = async {
            // An error means a closed semaphore, and nothing closes it.
            let slot = Arc::clone(&slots).acquire_owned().await;
            (slot, listener.accept().await)
        };
        let Some((slot, accepted)) = token.run_until_cancelled(next).await else {
            return;
        };
        match (slot, accepted) {
            (Ok(slot), Ok((socket, _address))) => {
                failing = false;
                let serving = serve(socket, Arc::clone(&shared), slot, token.clone());
                spawner.spawn_short("ui api connection", serving);
            }
            (Err(_), _) => return,
            (_, Err(error)) => {
                if !failing {
                    tracing::warn!(error = %Chain(&error), "cannot accept connections of the UI; retrying");
                }
                failing = true;
                sleep(PAUSE).await;
            }
        }
    }
}

/// Serves one connection. It ends at the latest when the client has had the time for its last request and for the answer.
async fn serve<A, F>(
    socket: TcpStream,
    shared: Arc<Shared<A>>,
    slot: OwnedSemaphorePermit,
    token: CancellationToken,
) where
    A: Fn(request::Parts) -> F + Send + Sync + 'static,
    F: Future<Output = Answer> + Send + 'static,
{
    let limits = shared.limits;
    let begun = Arc::new(watch::Sender::new(Instant::now()));
    let noted = Arc::clone(&begun);
    let service = service_fn(move |request: Request<Incoming>| {
        noted.send_replace(Instant::now());
        let (shared, head) = (Arc::clone(&shared), request.into_parts().0);
        async move { Ok::<_, std::convert::Infallible>(answer_in_time(&shared, head).await) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.time)
        .max_header_size(limits.head)
        .serve_connection(TokioIo::new(socket), service);
    let mut serving = pin!(serving);
    // For the last answer, when the program stops.
    let mut last_end = None::<Instant>;
    loop {
        let end = || {
            let end = *begun.borrow() + limits.time + limits.time;
            last_end.map_or(end, |last| end.min(last))
        };
        tokio::select! {
            ended = serving.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(error = %Chain(&error), "a connection of the UI failed");
                }
                break;
            }
            () = token.cancelled(), if last_end.is_none() => {
                last_end = Some(Instant::now() + limits.time / 2);
                serving.as_mut().graceful_shutdown();
            }
            () = sleep_until(end()) => {
                // Another request may have begun meanwhile.
                if Instant::now() >= end() {
                    tracing::debug!("a connection of the UI is too slow or idle; closing it");
                    break;
                }
            }
        }
    }
    drop(slot);
}

/// The answer to a request, at most so late as the limits say.
async fn answer_in_time<A, F>(shared: &Shared<A>, head: request::Parts) -> Answer
where
    A: Fn(request::Parts) -> F,
    F: Future<Output = Answer>,
{
    let answering = async {
        // An error means a closed semaphore, and nothing closes it.
        let _turn = shared.requests.acquire().await.ok();
        (shared.answer)(head).await
    };
    let answered = timeout(shared.limits.time, answering).await;
    answered.unwrap_or_else(|_elapsed| {
        answer::error(
            StatusCode::SERVICE_UNAVAILABLE,
            "the hub program is too busy to answer in time",
            "the page asks again by itself; if this stays, look at the hub program's CPU and its requests to the API",
        )
    })
}

#[cfg(test)]
mod tests;
