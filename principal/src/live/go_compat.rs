//! What people at the hub ask of Go agents: they have no [lane](crate::live::tunnel), so it goes as events of the session.
//!
//! Whoever asks does not see which way is taken: [`Sessions::ask`] takes a request of HTTP and gives its answer.
//!
//! ```text
//!   resource proxy ┐                ┌─► lane ─► our agent
//!                  ├─► Sessions::ask┤
//!   redis proxy    ┘                └─► Line: resource, redis, log ─► Ear ─► session's driver ─► Go agent
//!                                             ▲                        │
//!                                             └── by event id ◄────────┘ (logs, terminals: on streams that the agent opens)
//! ```
//!
//! A [`Line`] is one session's. What is answered is looked for among what was asked on it, so no agent can answer for
//! another one. When the session ends, everything on its line ends.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, combinators::UnsyncBoxBody};
use live::cache_key::CacheKey;
use protocol::{Event, Target, payload};
use runtime::parts::Spawner;
use serde::de::DeserializeOwned;
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{fleet::{ClusterName, Mode}, live::tunnel::{Body, NotAnswered}, sync::session::Sessions};

mod answer_budget;
mod log;
mod redis;
mod resource;
mod terminal;
#[cfg(test)]
mod tests;

pub(crate) use log::Log;
use answer_budget::{Room, held};
pub(crate) use terminal::Opened as Terminal;

/// Questions of one cluster at the same time. A Go agent answers one after the other.
const MOST: usize = 64;
/// Subscriptions of one cluster, and terminals that are not open yet.
const MOST_LASTING: usize = 64;
/// Logs of one cluster at the same time: each is a stream on the connection of its session.
const MOST_LOGS: usize = 16;
/// Streams that a Go agent has open for people on the connection of its session: logs, and terminals.
pub(crate) const STREAMS: u32 = 32;

impl Sessions {
    /// Asks the agent of a cluster, whichever way there is.
    ///
    /// Dropped, the request is taken back; so it is when its answer is dropped.
    pub(crate) async fn ask(
        &self,
        cluster: &ClusterName,
        request: Request<Body>,
        patience: Duration,
    ) -> Result<Response<Body>, NotAnswered> {
        if let Some(line) = self.questions.line(cluster) {
            return line.ask(request, patience).await;
        }
        let answered = self.lanes.ask(cluster, request, patience).await?;
        Ok(answered.map(|body| UnsyncBoxBody::new(body.map_err(Into::into))))
    }
}

/// The lines of all clusters; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Questions(Arc<Mutex<BTreeMap<ClusterName, Arc<Line>>>>);

impl Questions {
    /// From now on the agent of this cluster is asked on this session.
    pub(crate) fn open(&self, cluster: &ClusterName, mode: Mode, spawner: &Spawner) -> Ear {
        let (asking, asked) = mpsc::channel(MOST);
        let line = Arc::new(Line {
            cluster: cluster.clone(),
            mode,
            spawner: spawner.clone(),
            asking,
            waiting: Mutex::new(Some(Waiting::default())),
            keys: redis::Learned::default(),
            logs: Arc::new(Semaphore::new(MOST_LOGS)),
            room: Room::default(),
            over: CancellationToken::new(),
        });
        self.lock().insert(cluster.clone(), Arc::clone(&line));
        Ear {
            all: self.clone(),
            line,
            asked,
        }
    }

    /// A log that was asked for, if this cluster's agent is the one that was asked.
    pub(crate) fn claim(&self, cluster: &ClusterName, uuid: &str) -> Option<Log> {
        let line = self.line(cluster)?;
        let mut waiting = line.lock();
        let wanted = waiting.as_mut()?.logs.remove(uuid)?;
        drop(waiting);
        wanted.open(line.over.clone())
    }

    /// Takes a terminal that was asked for to whoever did; none if this cluster's agent is not the one that was asked.
    pub(crate) fn begin(
        &self,
        cluster: &ClusterName,
        uuid: &str,
        terminal: Terminal,
    ) -> Option<()> {
        let line = self.line(cluster)?;
        let mut waiting = line.lock();
        let asker = waiting.as_mut()?.terminals.remove(uuid)?;
        asker.send(terminal).ok()
    }

    fn line(&self, cluster: &ClusterName) -> Option<Arc<Line>> {
        self.lock().get(cluster).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ClusterName, Arc<Line>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The session of a Go agent, to those who ask.
pub(crate) struct Line {
    cluster: ClusterName,
    mode: Mode,
    spawner: Spawner,
    asking: mpsc::Sender<Event>,
    /// None: the session is over.
    waiting: Mutex<Option<Waiting>>,
    keys: redis::Learned,
    /// Places for logs.
    logs: Arc<Semaphore>,
    room: Room,
    over: CancellationToken,
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line")
            .field("cluster", &self.cluster)
            .finish_non_exhaustive()
    }
}

/// Who waits for what.
#[derive(Debug, Default)]
struct Waiting {
    /// Answers, by the event id of the question.
    answers: BTreeMap<String, oneshot::Sender<Result<Bytes, NotAnswered>>>,
    /// Word of messages of redis, by connection.
    pushes: BTreeMap<String, mpsc::Sender<()>>,
    /// Logs that the agent has not opened.
    logs: BTreeMap<String, log::Wanted>,
    /// Terminals that it has not opened.
    terminals: BTreeMap<String, oneshot::Sender<Terminal>>,
}

impl Waiting {
    /// Whether somebody waits for what comes of this question.
    fn wants(&self, question: &Event) -> bool {
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

/// The driver's end of a line; dropped, the session is over for all who wait.
#[derive(Debug)]
pub(crate) struct Ear {
    all: Questions,
    line: Arc<Line>,
    asked: mpsc::Receiver<Event>,
}

impl Ear {
    /// The next question to be said, of those that somebody still waits for: what was given up, perhaps a change, must
    /// not come about afterwards. Cancel-safe; none when nobody can ask any more.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            let event = self.asked.recv().await?;
            let waiting = self.line.lock();
            if waiting.as_ref().is_some_and(|it| it.wants(&event)) {
                return Some(event);
            }
        }
    }

    /// Takes an event of the agent if it is an answer. One that nobody waits for any more is nothing.
    pub(crate) fn hears(&self, event: &Event) -> bool {
        match event.target {
            Target::Resource => self.line.answered(event),
            Target::Redis => match redis::push(event) {
                Some(connection) => self.line.pushed(&connection),
                None => self.line.answered(event),
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

impl Drop for Ear {
    fn drop(&mut self) {
        let mut lines = self.all.lock();
        let mine = lines.get(&self.line.cluster);
        if mine.is_some_and(|line| Arc::ptr_eq(line, &self.line)) {
            lines.remove(&self.line.cluster);
        }
        drop(lines);
        // Whoever waits finds that nobody answers any more.
        *self.line.lock() = None;
        self.line.over.cancel();
    }
}

impl Line {
    /// Asks one request, and answers as our agent would.
    async fn ask(
        self: &Arc<Self>,
        request: Request<Body>,
        patience: Duration,
    ) -> Result<Response<Body>, NotAnswered> {
        let target = request.uri().path_and_query();
        let target = target.map_or("", |it| it.as_str()).to_owned();
        match CacheKey::from_target(&target) {
            Some((key, false)) => redis::get(self, &key, patience).await,
            Some((key, true)) => redis::follow(self, &key, patience).await,
            None => resource::ask(self, request, &target, patience).await,
        }
    }

    /// Says a question, and waits for what the agent says to it.
    async fn question(
        self: &Arc<Self>,
        event: Event,
        patience: Duration,
    ) -> Result<Bytes, NotAnswered> {
        let (answer, answered) = oneshot::channel();
        let id = event.event_id.clone();
        let _place = self.wait_for(Place::Answer(id), |waiting, id| {
            let room = waiting.answers.len() < MOST;
            room.then(|| waiting.answers.insert(id, answer)).is_some()
        })?;
        self.say(event)?;
        timeout(patience, answered)
            .await
            .map_err(|_elapsed| NotAnswered::Late(patience))?
            .map_err(|_dropped| NotAnswered::Ended)?
    }

    /// Has the driver say an event as soon as the session takes it.
    fn say(&self, event: Event) -> Result<(), NotAnswered> {
        self.asking
            .try_send(event)
            .map_err(|refused| match refused {
                mpsc::error::TrySendError::Full(_) => NotAnswered::Busy,
                mpsc::error::TrySendError::Closed(_) => NotAnswered::Ended,
            })
    }

    /// Takes a place among those who wait, if `put` finds room; it is free again when the place is dropped.
    fn wait_for(
        self: &Arc<Self>,
        place: Place,
        put: impl FnOnce(&mut Waiting, String) -> bool,
    ) -> Result<Placed, NotAnswered> {
        let mut waiting = self.lock();
        let all = waiting.as_mut().ok_or(NotAnswered::Ended)?;
        if !put(all, place.id().to_owned()) {
            return Err(NotAnswered::Busy);
        }
        drop(waiting);
        Ok(Placed {
            line: Arc::clone(self),
            place,
        })
    }

    fn answered(&self, event: &Event) {
        let mut waiting = self.lock();
        let asker = waiting
            .as_mut()
            .and_then(|waiting| waiting.answers.remove(&event.event_id));
        drop(waiting);
        if let Some(asker) = asker {
            let _gone = asker.send(self.room.take(event.payload.clone()));
        }
    }

    fn pushed(&self, connection: &str) {
        let waiting = self.lock();
        let follower = waiting.as_ref().and_then(|it| it.pushes.get(connection));
        // Where some are not read yet one more says nothing new.
        let _told = follower.map(|follower| follower.try_send(()));
    }

    fn lock(&self) -> MutexGuard<'_, Option<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is waited for.
#[derive(Debug)]
enum Place {
    Answer(String),
    Push(String),
    Log(String),
    Terminal(String),
}

impl Place {
    fn id(&self) -> &str {
        match self {
            Self::Answer(id) | Self::Push(id) | Self::Log(id) | Self::Terminal(id) => id,
        }
    }
}

/// A place among those who wait.
#[derive(Debug)]
struct Placed {
    line: Arc<Line>,
    place: Place,
}

impl Drop for Placed {
    fn drop(&mut self) {
        if let Some(waiting) = self.line.lock().as_mut() {
            match &self.place {
                Place::Answer(id) => drop(waiting.answers.remove(id)),
                Place::Push(id) => drop(waiting.pushes.remove(id)),
                Place::Log(id) => drop(waiting.logs.remove(id)),
                Place::Terminal(id) => drop(waiting.terminals.remove(id)),
            }
        }
    }
}

/// Reads an answer; one that cannot be read is as good as none.
fn read<T: DeserializeOwned + Default>(what: &'static str, body: &Bytes) -> Result<T, NotAnswered> {
    payload::decode(what, body).map_err(NotAnswered::Unreadable)
}
