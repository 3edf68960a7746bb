//! Values of a cluster's redis and word of their changes, in the words of Go's redis proxy.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt as _, stream::unfold};
use http::{Response, StatusCode};
use http_body::Frame;
use http_body_util::{StreamBody, combinators::UnsyncBoxBody};
use live::cache_key::CacheKey;
use protocol::{
    Event, Target, Verb,
    payload::{
        self, RedisAnswer, RedisCommand, RedisGet, RedisPing, RedisRequest, RedisResponse,
        RedisSubscribe, RedisValue,
    },
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};
use uuid::Uuid;

use super::{Line, MOST_LASTING, Place, Placed, held, read, resource};
use crate::{fleet::ClusterName, live::tunnel::{Body, NotAnswered}};

/// A Go agent ends a subscription when it has heard nothing for ten minutes on its connection.
const PING: Duration = Duration::from_mins(1);
/// How long it may take to say that it is there.
const PONG: Duration = Duration::from_secs(30);
/// An agent that has just answered does not take much longer for a key that it understands.
const AT_ONCE: Duration = Duration::from_secs(1);
/// How long an agent that left a key unanswered is not asked so again: it may have had much to do.
const UNANSWERED: Duration = Duration::from_secs(15);
/// The longest word of a message: a name. What is longer is not even looked into.
const LONGEST_PUSH: usize = 16 << 10;
/// Messages that are not read yet; more say nothing new.
const UNREAD: usize = 4;

/// How an agent wants the keys of Applications in its Argo CD's own namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    /// It takes away what is before the underscore, which is its name at the hub (namespace mapping).
    Prefixed,
    /// As its Argo CD has them (destination mapping). What an agent of the other kind is asked like this, it leaves
    /// unanswered.
    AsTheyAre,
}

/// Nothing that an agent says tells which it is, but one that answers to a bare key can only be of the second kind, and
/// one that has a value under a prefixed one is of the first. Silence teaches nothing.
#[derive(Debug, Default)]
pub(super) struct Learned(Mutex<Knowledge>);

#[derive(Clone, Copy, Debug, Default)]
struct Knowledge {
    keys: Option<Keys>,
    /// Until when it is not tried out again.
    untried: Option<Instant>,
}

impl Learned {
    fn get(&self) -> Option<Keys> {
        self.lock().keys
    }

    fn set(&self, keys: Keys) {
        self.lock().keys = Some(keys);
    }

    /// Whether it may be tried out now.
    fn may_try(&self) -> bool {
        self.lock().untried.is_none_or(|at| at <= Instant::now())
    }

    fn unanswered(&self) {
        self.lock().untried = Some(Instant::now() + UNANSWERED);
    }

    fn lock(&self) -> MutexGuard<'_, Knowledge> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The key as an agent of this kind is asked for it; none if it has no words for it.
pub(super) fn asked(cluster: &ClusterName, key: &CacheKey, keys: Keys) -> Option<String> {
    match (keys, &key.namespace) {
        // It reads keys of four fields only.
        (Keys::Prefixed, _) if key.shard.is_some() => None,
        (Keys::AsTheyAre, _) | (Keys::Prefixed, Some(_)) => Some(key.to_string()),
        (Keys::Prefixed, None) => {
            let prefixed = key.of(Some(cluster.to_string()), key.name.clone());
            Some(prefixed.to_string())
        }
    }
}

/// Asks for a value.
pub(super) async fn get(
    line: &Arc<Line>,
    key: &CacheKey,
    patience: Duration,
) -> Result<Response<Body>, NotAnswered> {
    let (found, answer) = find(line, key, patience).await?;
    let RedisValue {
        bytes,
        cache_hit,
        error,
    } = found;
    if !error.is_empty() {
        let why = format!("the cluster's redis: {error}");
        return Ok(resource::refusal(StatusCode::BAD_GATEWAY, "", &why));
    }
    let (code, value) = if cache_hit {
        (StatusCode::OK, bytes.unwrap_or_default())
    } else {
        (StatusCode::NOT_FOUND, vec![])
    };
    let kind = "application/octet-stream";
    Ok(held(resource::with_body(code, kind, value.into()), answer))
}

/// A value, and the answer that it was in.
type Found = (RedisValue, Bytes);

/// Looks for a value, and learns on the way how the agent wants its keys.
async fn find(line: &Arc<Line>, key: &CacheKey, patience: Duration) -> Result<Found, NotAnswered> {
    let begun = Instant::now();
    let known = line.keys.get();
    // What is elsewhere than in Argo CD's namespace is called the same by both.
    let prefixed = asked(&line.cluster, key, known.unwrap_or(Keys::Prefixed));
    let first = match prefixed {
        Some(key) => value(line, key, patience).await?,
        None => Found::default(),
    };
    if known.is_some() || key.namespace.is_some() {
        return Ok(first);
    }
    let RedisValue {
        cache_hit, error, ..
    } = &first.0;
    if *cache_hit {
        line.keys.set(Keys::Prefixed);
    }
    if *cache_hit || !error.is_empty() || !line.keys.may_try() {
        return Ok(first);
    }
    let took = begun.elapsed();
    let pause = took.saturating_mul(2).max(AT_ONCE);
    let left = patience.saturating_sub(took).min(pause);
    match value(line, key.to_string(), left).await {
        Ok(second) => {
            line.keys.set(Keys::AsTheyAre);
            Ok(second)
        }
        Err(NotAnswered::Late(_)) => {
            line.keys.unanswered();
            Ok(first)
        }
        Err(why) => Err(why),
    }
}

async fn value(line: &Arc<Line>, key: String, patience: Duration) -> Result<Found, NotAnswered> {
    let command = RedisCommand {
        get: Some(RedisGet { key }),
        ..RedisCommand::default()
    };
    let connection = Uuid::new_v4().to_string();
    let (said, answer) = say(line, &connection, command, patience).await?;
    Ok((said.get.ok_or(NotAnswered::Besides)?, answer))
}

async fn say(
    line: &Arc<Line>,
    connection: &str,
    command: RedisCommand,
    patience: Duration,
) -> Result<(RedisAnswer, Bytes), NotAnswered> {
    let uuid = Uuid::new_v4().to_string();
    let request = RedisRequest {
        uuid: uuid.clone(),
        connection_uuid: connection.to_owned(),
        body: command,
    };
    let body = payload::encode(&request);
    let event = Event::question(Target::Redis, Verb::RedisRequest, &uuid, body);
    let answer = line.question(event, patience).await?;
    let said: RedisResponse = read("redis response", &answer)?;
    Ok((said.body, answer))
}

/// Whether an event says that a message has come, and on which connection.
pub(super) fn push(event: &Event) -> Option<String> {
    if event.payload.len() > LONGEST_PUSH {
        return None;
    }
    let response: RedisResponse = payload::decode("redis response", &event.payload).ok()?;
    let is_push = response.body.push_from_subscribe.is_some();
    is_push.then_some(response.connection_uuid)
}

/// Asks for word of each change: an answer that goes on with something whenever the agent tells of one.
pub(super) async fn follow(
    line: &Arc<Line>,
    key: &CacheKey,
    patience: Duration,
) -> Result<Response<Body>, NotAnswered> {
    if key.namespace.is_none() && line.keys.get().is_none() {
        find(line, key, patience).await?;
    }
    let keys = line.keys.get().unwrap_or(Keys::Prefixed);
    let Some(channel) = asked(&line.cluster, key, keys) else {
        let why = "this agent does not know this channel";
        return Ok(resource::refusal(StatusCode::NOT_FOUND, "NotFound", why));
    };
    let connection = Uuid::new_v4().to_string();
    let (tell, told) = mpsc::channel(UNREAD);
    let place = line.wait_for(Place::Push(connection.clone()), |waiting, id| {
        let room = waiting.pushes.len() < MOST_LASTING;
        room.then(|| waiting.pushes.insert(id, tell)).is_some()
    })?;
    let command = RedisCommand {
        subscribe: Some(RedisSubscribe {
            channel: channel.clone(),
        }),
        ..RedisCommand::default()
    };
    let (answer, _) = say(line, &connection, command, patience).await?;
    let subscribed = answer.subscribe_response.ok_or(NotAnswered::Besides)?;
    if !subscribed.error.is_empty() {
        let why = format!("the cluster's redis: {}", subscribed.error);
        return Ok(resource::refusal(StatusCode::BAD_GATEWAY, "", &why));
    }
    let following = Following {
        line: Arc::clone(line),
        key: key.clone(),
        channel,
        connection,
        told,
        ping: Instant::now() + PING,
        _place: place,
    };
    let news = unfold(Some(following), |following| async move {
        let mut following = following?;
        match following.next().await {
            Ok(()) => Some((Ok(Frame::data(Bytes::from_static(b"\n"))), Some(following))),
            Err(why) => Some((Err(io::Error::other(why).into()), None)),
        }
    });
    Ok(Response::new(UnsyncBoxBody::new(StreamBody::new(
        news.boxed(),
    ))))
}

/// A subscription; dropped, it ends here, and ten minutes later on the cluster.
struct Following {
    line: Arc<Line>,
    key: CacheKey,
    /// As what the agent was asked for it.
    channel: String,
    connection: String,
    told: mpsc::Receiver<()>,
    /// When the agent is told next that somebody still listens.
    ping: Instant,
    _place: Placed,
}

impl Following {
    async fn next(&mut self) -> Result<(), NotAnswered> {
        loop {
            tokio::select! {
                biased;
                told = self.told.recv() => return told.ok_or(NotAnswered::Ended),
                () = sleep_until(self.ping) => {}
            }
            self.ping = Instant::now() + PING;
            let ping = RedisCommand {
                ping: Some(RedisPing {}),
                ..RedisCommand::default()
            };
            if !self.is_told_so() {
                return Err(NotAnswered::Besides);
            }
            match say(&self.line, &self.connection, ping, PONG).await {
                Ok((answer, _)) => answer.pong.ok_or(NotAnswered::Besides)?,
                // The agent minds only ten minutes of silence.
                Err(NotAnswered::Busy) => continue,
                Err(why) => return Err(why),
            };
        }
    }

    /// Whether the channel has the name that the agent, as far as it is known, tells of.
    fn is_told_so(&self) -> bool {
        let asked = |keys| asked(&self.line.cluster, &self.key, keys);
        let known = self.line.keys.get().and_then(asked);
        known.is_none_or(|known| known == self.channel)
    }
}
