//! The session of a Go agent, as requests see it.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::stream::BoxStream;
use protocol::{Event, Target, payload, wire::terminalstreamapi::TerminalStreamData};
use runtime::parts::Spawner;
use serde::de::DeserializeOwned;
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::{
    answer_budget::AnswerBudget, key_format::LearnedKeyFormat, log_stream::LogStream,
    pending::Pending,
};
use crate::{
    fleet::{ClusterName, Mode},
    live::tunnel::NotAnswered,
};

/// Concurrent requests of one cluster. A Go agent answers one after the other.
pub(super) const MOST: usize = 64;
/// Subscriptions of one cluster, and terminals that are not open yet.
const MAX_LASTING: usize = 64;
/// Logs of one cluster at the same time: each is a stream on the connection of its session.
pub(super) const MAX_LOGS: usize = 16;

/// Frames to an agent.
pub(crate) type Frames = mpsc::Sender<Result<TerminalStreamData, Status>>;

/// The stream of a terminal that an agent has opened.
#[derive(derive_more::Debug)]
#[debug("TerminalStream")]
pub(crate) struct TerminalStream {
    pub(crate) from_agent: BoxStream<'static, Result<TerminalStreamData, Status>>,
    pub(crate) to_agent: Frames,
}

/// The session of a Go agent.
#[derive(Debug)]
pub(crate) struct GoSession {
    pub(super) cluster: ClusterName,
    pub(super) mode: Mode,
    pub(super) spawner: Spawner,
    outgoing: mpsc::Sender<Event>,
    /// Responses, by the event id of the request.
    pub(super) answers: Pending<oneshot::Sender<Result<Bytes, NotAnswered>>>,
    /// Messages of redis channels, by connection.
    pub(super) pushes: Pending<mpsc::Sender<()>>,
    /// Logs that the agent has not opened.
    pub(super) logs: Pending<(LogStream, oneshot::Sender<()>)>,
    /// Terminals that it has not opened.
    pub(super) terminals: Pending<oneshot::Sender<TerminalStream>>,
    pub(super) keys: LearnedKeyFormat,
    /// Places for logs, open ones included.
    pub(super) log_places: Arc<Semaphore>,
    pub(super) budget: AnswerBudget,
    pub(super) session_ended: CancellationToken,
}

impl GoSession {
    /// A session, and the requests to send.
    pub(super) fn new(
        cluster: ClusterName,
        mode: Mode,
        spawner: Spawner,
    ) -> (Self, mpsc::Receiver<Event>) {
        let (outgoing, asked) = mpsc::channel(MOST);
        let session = Self {
            cluster,
            mode,
            spawner,
            outgoing,
            answers: Pending::new(MOST),
            pushes: Pending::new(MAX_LASTING),
            logs: Pending::new(MAX_LOGS),
            terminals: Pending::new(MAX_LASTING),
            keys: LearnedKeyFormat::default(),
            log_places: Arc::new(Semaphore::new(MAX_LOGS)),
            budget: AnswerBudget::default(),
            session_ended: CancellationToken::new(),
        };
        (session, asked)
    }

    /// Sends a request, and waits for its response: decoded, and as received.
    pub(super) async fn request<T: DeserializeOwned + Default>(
        &self,
        event: Event,
        kind: &'static str,
        response_timeout: Duration,
    ) -> Result<(T, Bytes), NotAnswered> {
        let (answer, answered) = oneshot::channel();
        let _guard = self.answers.add(&event.event_id, answer)?;
        let raw = self.send(event, answered, response_timeout).await??;
        let decoded = payload::decode(kind, &raw).map_err(NotAnswered::Unreadable)?;
        Ok((decoded, raw))
    }

    /// Has the driver send an event as soon as the session takes it, and waits for the agent.
    pub(super) async fn send<T>(
        &self,
        event: Event,
        answered: oneshot::Receiver<T>,
        response_timeout: Duration,
    ) -> Result<T, NotAnswered> {
        self.outgoing
            .try_send(event)
            .map_err(|refused| match refused {
                mpsc::error::TrySendError::Full(_) => NotAnswered::Busy,
                mpsc::error::TrySendError::Closed(_) => NotAnswered::Ended,
            })?;
        timeout(response_timeout, answered)
            .await
            .map_err(|_elapsed| NotAnswered::TimedOut(response_timeout))?
            .map_err(|_dropped| NotAnswered::Ended)
    }

    /// Whether the response to this request is still wanted.
    pub(super) fn awaits(&self, question: &Event) -> bool {
        let id = &question.event_id;
        if question.target == Target::ContainerLog {
            self.logs.contains(id)
        } else if question.target == Target::Terminal {
            self.terminals.contains(id)
        } else {
            self.answers.contains(id)
        }
    }

    /// Answers a request.
    pub(super) fn complete(&self, event: &Event) {
        if let Some(waiter) = self.answers.take(&event.event_id) {
            let _gone = waiter.send(self.budget.take(event.payload.clone()));
        }
    }

    /// Reports a message on the redis channel of this connection.
    pub(super) fn notify_push(&self, connection: &str) {
        // While some are unread, one more adds nothing.
        let follower = self.pushes.get(connection);
        let _full = follower.map(|follower| follower.try_send(()));
    }

    /// Pending requests fail with `Ended`.
    pub(super) fn end(&self) {
        self.answers.end();
        self.pushes.end();
        self.logs.end();
        self.terminals.end();
        self.session_ended.cancel();
    }
}
