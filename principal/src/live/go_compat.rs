//! Live requests to Go agents: they have no [tunnel](crate::live::tunnel), so requests travel as events of the session.
//!
//! The proxies do not see the transport: [`dispatch::ask`](super::dispatch::ask) takes an HTTP request and returns its response.
//!
//! ```text
//!   resource proxy ┐                ┌─► tunnel ─► our agent
//!                  ├─► dispatch ────┤
//!   redis proxy    ┘                └─► GoSession: resource, redis, log ─► GoRequestChannel ─► driver ─► Go agent
//!                                             ▲                                                  │
//!                                             └── by event id ◄──────────────────────────────────┘
//! ```
//!
//! Agents send logs and terminals on streams that they open. A [`GoSession`] belongs to one session: a response is matched
//! only with its own requests, so no agent can answer for another one. All its requests end with the session.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use live::cache_key::CacheKey;
use protocol::{Event, Target, payload};
use runtime::parts::Spawner;
use serde::de::DeserializeOwned;
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    fleet::{ClusterName, Mode},
    live::tunnel::{Body, NotAnswered},
};

mod answer_budget;
mod log;
mod redis;
mod resource;
mod terminal;
#[cfg(test)]
mod tests;

use answer_budget::{AnswerBudget, hold_budget};
pub(crate) use log::LogStream;
pub(crate) use terminal::TerminalStream;

/// Concurrent requests of one cluster. A Go agent answers one after the other.
const MOST: usize = 64;
/// Subscriptions of one cluster, and terminals that are not open yet.
const MAX_LASTING: usize = 64;
/// Logs of one cluster at the same time: each is a stream on the connection of its session.
const MAX_LOGS: usize = 16;

/// The sessions of all Go agents; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct GoRequests(Arc<Mutex<BTreeMap<ClusterName, Arc<GoSession>>>>);

impl GoRequests {
    /// From now on requests to this cluster use this session.
    pub(crate) fn open(
        &self,
        cluster: &ClusterName,
        mode: Mode,
        spawner: &Spawner,
    ) -> GoRequestChannel {
        let (outgoing, asked) = mpsc::channel(MOST);
        let session = Arc::new(GoSession {
            cluster: cluster.clone(),
            mode,
            spawner: spawner.clone(),
            outgoing,
            pending: Mutex::new(Some(Pending::default())),
            keys: redis::LearnedKeyFormat::default(),
            logs: Arc::new(Semaphore::new(MAX_LOGS)),
            budget: AnswerBudget::default(),
            session_ended: CancellationToken::new(),
        });
        self.lock().insert(cluster.clone(), Arc::clone(&session));
        GoRequestChannel {
            all: self.clone(),
            session,
            asked,
        }
    }

    /// The requested log, if the request went to this cluster's agent.
    pub(crate) fn open_log(&self, cluster: &ClusterName, uuid: &str) -> Option<LogStream> {
        let session = self.session(cluster)?;
        let mut pending = session.lock();
        let pending_log = pending.as_mut()?.logs.remove(uuid)?;
        drop(pending);
        pending_log.open(session.session_ended.clone())
    }

    /// Hands a terminal to its request; none if the request did not go to this cluster's agent.
    pub(crate) fn open_terminal(
        &self,
        cluster: &ClusterName,
        uuid: &str,
        terminal: TerminalStream,
    ) -> Option<()> {
        let session = self.session(cluster)?;
        let mut pending = session.lock();
        let waiter = pending.as_mut()?.terminals.remove(uuid)?;
        waiter.send(terminal).ok()
    }

    /// The session of a cluster with a Go agent.
    pub(super) fn session(&self, cluster: &ClusterName) -> Option<Arc<GoSession>> {
        self.lock().get(cluster).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ClusterName, Arc<GoSession>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The session of a Go agent, as requests see it.
pub(crate) struct GoSession {
    cluster: ClusterName,
    mode: Mode,
    spawner: Spawner,
    outgoing: mpsc::Sender<Event>,
    /// None: the session is over.
    pending: Mutex<Option<Pending>>,
    keys: redis::LearnedKeyFormat,
    /// Places for logs.
    logs: Arc<Semaphore>,
    budget: AnswerBudget,
    session_ended: CancellationToken,
}

impl fmt::Debug for GoSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line")
            .field("cluster", &self.cluster)
            .finish_non_exhaustive()
    }
}

/// Requests without a response, and streams that the agent has not opened.
#[derive(Debug, Default)]
struct Pending {
    /// Responses, by the event id of the request.
    answers: BTreeMap<String, oneshot::Sender<Result<Bytes, NotAnswered>>>,
    /// Messages of redis channels, by connection.
    pushes: BTreeMap<String, mpsc::Sender<()>>,
    /// Logs that the agent has not opened.
    logs: BTreeMap<String, log::PendingLog>,
    /// Terminals that it has not opened.
    terminals: BTreeMap<String, oneshot::Sender<TerminalStream>>,
}

impl Pending {
    /// Whether the response to this request is still wanted.
    fn contains(&self, question: &Event) -> bool {
        let id = &question.event_id;
        match question.target {
            Target::ContainerLog => self.logs.contains_key(id),
            Target::Terminal => self.terminals.contains_key(id),
            Target::Resource | Target::Redis => self.answers.contains_key(id),
            Target::Object(_)
            | Target::ApplicationSet
            | Target::Ack
            | Target::Resync
            | Target::ClusterInfo
            | Target::Heartbeat => true,
        }
    }
}

/// The driver's end of a [`GoSession`]; dropping it ends all pending requests.
#[derive(Debug)]
pub(crate) struct GoRequestChannel {
    all: GoRequests,
    session: Arc<GoSession>,
    asked: mpsc::Receiver<Event>,
}

impl GoRequestChannel {
    /// The next request to send. It skips cancelled ones: a change that a user gave up must not happen afterwards.
    /// Cancel-safe; none when all senders are gone.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            let event = self.asked.recv().await?;
            let pending = self.session.lock();
            if pending.as_ref().is_some_and(|it| it.contains(&event)) {
                return Some(event);
            }
        }
    }

    /// Takes an event of the agent if it is a response. A response without a pending request is dropped.
    pub(crate) fn handle_response(&self, event: &Event) -> bool {
        match event.target {
            Target::Resource => self.session.complete(event),
            Target::Redis => match redis::push(event) {
                Some(connection) => self.session.notify_push(&connection),
                None => self.session.complete(event),
            },
            Target::Object(_)
            | Target::ApplicationSet
            | Target::Ack
            | Target::Resync
            | Target::ClusterInfo
            | Target::ContainerLog
            | Target::Terminal
            | Target::Heartbeat => return false,
        }
        true
    }
}

impl Drop for GoRequestChannel {
    fn drop(&mut self) {
        let mut lines = self.all.lock();
        let mine = lines.get(&self.session.cluster);
        if mine.is_some_and(|session| Arc::ptr_eq(session, &self.session)) {
            lines.remove(&self.session.cluster);
        }
        drop(lines);
        // Pending requests fail with `Ended`.
        *self.session.lock() = None;
        self.session.session_ended.cancel();
    }
}

impl GoSession {
    /// Sends one request, and returns the response that our agent would.
    pub(super) async fn ask(
        self: &Arc<Self>,
        request: Request<Body>,
        response_timeout: Duration,
    ) -> Result<Response<Body>, NotAnswered> {
        let target = request.uri().path_and_query();
        let target = target.map_or("", |it| it.as_str()).to_owned();
        match CacheKey::from_target(&target) {
            Some((key, false)) => redis::get(self, &key, response_timeout).await,
            Some((key, true)) => redis::follow(self, &key, response_timeout).await,
            None => resource::ask(self, request, &target, response_timeout).await,
        }
    }

    /// Sends a request, and waits for its response.
    async fn request_and_wait(
        self: &Arc<Self>,
        event: Event,
        response_timeout: Duration,
    ) -> Result<Bytes, NotAnswered> {
        let (answer, answered) = oneshot::channel();
        let remove = |pending: &mut Pending, id: &str| drop(pending.answers.remove(id));
        let _guard = self.register(&event.event_id, remove, |pending, id| {
            let budget = pending.answers.len() < MOST;
            budget.then(|| pending.answers.insert(id, answer)).is_some()
        })?;
        self.send(event)?;
        timeout(response_timeout, answered)
            .await
            .map_err(|_elapsed| NotAnswered::TimedOut(response_timeout))?
            .map_err(|_dropped| NotAnswered::Ended)?
    }

    /// Has the driver send an event as soon as the session takes it.
    fn send(&self, event: Event) -> Result<(), NotAnswered> {
        self.outgoing
            .try_send(event)
            .map_err(|refused| match refused {
                mpsc::error::TrySendError::Full(_) => NotAnswered::Busy,
                mpsc::error::TrySendError::Closed(_) => NotAnswered::Ended,
            })
    }

    /// Adds a pending request, if `put` has room; dropping the guard removes it.
    fn register(
        self: &Arc<Self>,
        id: &str,
        remove: fn(&mut Pending, &str),
        put: impl FnOnce(&mut Pending, String) -> bool,
    ) -> Result<PendingGuard, NotAnswered> {
        let mut pending = self.lock();
        let all = pending.as_mut().ok_or(NotAnswered::Ended)?;
        if !put(all, id.to_owned()) {
            return Err(NotAnswered::Busy);
        }
        drop(pending);
        Ok(PendingGuard {
            session: Arc::clone(self),
            id: id.to_owned(),
            remove,
        })
    }

    fn complete(&self, event: &Event) {
        let mut pending = self.lock();
        let waiter = pending
            .as_mut()
            .and_then(|pending| pending.answers.remove(&event.event_id));
        drop(pending);
        if let Some(waiter) = waiter {
            let _gone = waiter.send(self.budget.take(event.payload.clone()));
        }
    }

    fn notify_push(&self, connection: &str) {
        let pending = self.lock();
        let follower = pending.as_ref().and_then(|it| it.pushes.get(connection));
        // While some are unread, one more adds nothing.
        let _full = follower.map(|follower| follower.try_send(()));
    }

    fn lock(&self) -> MutexGuard<'_, Option<Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a pending request when dropped.
#[derive(Debug)]
struct PendingGuard {
    session: Arc<GoSession>,
    id: String,
    remove: fn(&mut Pending, &str),
}

impl Drop for PendingGuard {
    fn drop(&mut self) {
        if let Some(pending) = self.session.lock().as_mut() {
            (self.remove)(pending, &self.id);
        }
    }
}

/// Decodes a response.
fn read<T: DeserializeOwned + Default>(kind: &'static str, body: &Bytes) -> Result<T, NotAnswered> {
    payload::decode(kind, body).map_err(NotAnswered::Unreadable)
}
