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
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::{Request, Response, StatusCode};
use live::{cache_key::CacheKey, request::Request as Asked};
use protocol::{Event, Target};
use runtime::parts::Spawner;
use tokio::sync::mpsc;

use crate::{
    fleet::{ClusterName, Mode},
    live::{
        tunnel::{Body, NotAnswered},
        whole,
    },
};

mod answer_budget;
mod key_format;
mod log;
mod log_stream;
mod pending;
mod redis;
mod resource;
mod session;
mod terminal;
#[cfg(test)]
mod tests;

pub(crate) use log_stream::LogStream;
pub(crate) use session::{GoSession, TerminalStream};

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
        let (session, asked) = GoSession::new(cluster.clone(), mode, spawner.clone());
        let session = Arc::new(session);
        self.lock().insert(cluster.clone(), Arc::clone(&session));
        GoRequestChannel {
            all: self.clone(),
            session,
            asked,
        }
    }

    /// The requested log, if the request went to this cluster's agent.
    pub(crate) fn open_log(&self, cluster: &ClusterName, uuid: &str) -> Option<LogStream> {
        let (log, waiter) = self.session(cluster)?.logs.take(uuid)?;
        waiter.send(()).ok()?;
        Some(log)
    }

    /// Hands a terminal to its request; none if the request did not go to this cluster's agent.
    pub(crate) fn open_terminal(
        &self,
        cluster: &ClusterName,
        uuid: &str,
        terminal: TerminalStream,
    ) -> Option<()> {
        let waiter = self.session(cluster)?.terminals.take(uuid)?;
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
            if self.session.awaits(&event) {
                return Some(event);
            }
        }
    }

    /// Takes an event of the agent if it is a response. A response without a pending request is dropped.
    pub(crate) fn handle_response(&self, event: &Event) -> bool {
        let push = (event.target == Target::Redis).then(|| redis::push(event));
        match push.flatten() {
            Some(connection) => self.session.notify_push(&connection),
            None if matches!(event.target, Target::Redis | Target::Resource) => {
                self.session.complete(event);
            }
            None => return false,
        }
        true
    }
}

impl Drop for GoRequestChannel {
    fn drop(&mut self) {
        let mut sessions = self.all.lock();
        let mine = sessions.get(&self.session.cluster);
        if mine.is_some_and(|session| Arc::ptr_eq(session, &self.session)) {
            sessions.remove(&self.session.cluster);
        }
        drop(sessions);
        self.session.end();
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
        let target = target.map_or("", |it| it.as_str());
        match CacheKey::from_target(target) {
            Some((key, false)) => return redis::get(self, &key, response_timeout).await,
            Some((key, true)) => return redis::follow(self, &key, response_timeout).await,
            None => {}
        }
        let Ok(asked) = Asked::parse(request.method().as_str(), target) else {
            let why = "invalid request";
            return Ok(whole::refusal(StatusCode::FORBIDDEN, why));
        };
        if asked.is_exec() {
            return terminal::ask(self, &asked, request, response_timeout).await;
        }
        resource::ask(self, &asked, request, response_timeout).await
    }
}
