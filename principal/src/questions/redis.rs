//! Values of a cluster's redis and word of their changes, in the words of Go's redis proxy.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use argocd::cache_key::CacheKey;
use bytes::Bytes;
use futures::{StreamExt as _, stream::unfold};
use http::{Response, StatusCode};
use http_body::Frame;
use http_body_util::{StreamBody, combinators::UnsyncBoxBody};
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

use super::{Line, MOST_LASTING, Place, Placed, read, resource};
use crate::{
    fleet::ClusterName,
    lane::{Body, NotAnswered},
};

/// A Go agent ends a subscription when it has heard nothing for ten minutes on its connection.
const PING: Duration = Duration::from_mins(1);
/// How long it may take to say that it is there.
const PONG: Duration = Duration::from_secs(30);
/// An agent that has just answered does not take longer for a key that it understands.
const AT_ONCE: Duration = Duration::from_secs(1);
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

/// Nothing that an agent says tells which it is, but one that answers to a bare key can only be of the second kind.
#[derive(Debug, Default)]
pub(super) struct Learned(Mutex<Option<Keys>>);

impl Learned {
    fn get(&self) -> Option<Keys> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, keys: Keys) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(keys);
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
    let RedisValue {
        bytes,
        cache_hit,
        error,
    } = find(line, key, patience).await?;
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
    Ok(resource::with_body(code, kind, value.into()))
}

/// Looks for a value, and learns on the way how the agent wants its keys.
async fn find(
    line: &Arc<Line>,
    key: &CacheKey,
    patience: Duration,
) -> Result<RedisValue, NotAnswered> {
    let until = Instant::now() + patience;
    let known = line.keys.get();
    // What is elsewhere than in Argo CD's namespace is called the same by both.
    let prefixed = asked(&line.cluster, key, known.unwrap_or(Keys::Prefixed));
    let first = match prefixed {
        Some(key) => value(line, key, patience).await?,
        None => RedisValue::default(),
    };
    if known.is_some() || key.namespace.is_some() {
        return Ok(first);
    }
    if first.cache_hit || !first.error.is_empty() {
        if first.cache_hit {
            line.keys.set(Keys::Prefixed);
        }
        return Ok(first);
    }
    let left = until.saturating_duration_since(Instant::now()).min(AT_ONCE);
    match value(line, key.to_string(), left).await {
        Ok(second) => {
            line.keys.set(Keys::AsTheyAre);
            Ok(second)
        }
        Err(NotAnswered::Late(_)) => {
            if left == AT_ONCE && key.shard.is_none() {
                line.keys.set(Keys::Prefixed);
            }
            Ok(first)
        }
        Err(why) => Err(why),
    }
}

async fn value(
    line: &Arc<Line>,
    key: String,
    patience: Duration,
) -> Result<RedisValue, NotAnswered> {
    let command = RedisCommand {
        get: Some(RedisGet { key }),
        ..RedisCommand::default()
    };
    let connection = Uuid::new_v4().to_string();
    let answer = say(line, &connection, command, patience).await?;
    answer.get.ok_or(NotAnswered::Besides)
}

async fn say(
    line: &Arc<Line>,
    connection: &str,
    command: RedisCommand,
    patience: Duration,
) -> Result<RedisAnswer, NotAnswered> {
    let uuid = Uuid::new_v4().to_string();
    let request = RedisRequest {
        uuid: uuid.clone(),
        connection_uuid: connection.to_owned(),
        body: command,
    };
    let body = payload::encode(&request);
    let event = Event::question(Target::Redis, Verb::RedisRequest, &uuid, body);
    let answer = line.question(event, patience).await?;
    let answer: RedisResponse = read("redis response", &answer)?;
    Ok(answer.body)
}

/// Whether an event says that a message has come, and on which connection.
pub(super) fn push(event: &Event) -> Option<String> {
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
        let why = "this agent knows no such channel";
        return Ok(resource::refusal(StatusCode::NOT_FOUND, "NotFound", why));
    };
    let connection = Uuid::new_v4().to_string();
    let (tell, told) = mpsc::channel(UNREAD);
    let place = line.wait_for(Place::Push(connection.clone()), |waiting, id| {
        let room = waiting.pushes.len() < MOST_LASTING;
        room.then(|| waiting.pushes.insert(id, tell)).is_some()
    })?;
    let command = RedisCommand {
        subscribe: Some(RedisSubscribe { channel }),
        ..RedisCommand::default()
    };
    let answer = say(line, &connection, command, patience).await?;
    let subscribed = answer.subscribe_response.ok_or(NotAnswered::Besides)?;
    if !subscribed.error.is_empty() {
        let why = format!("the cluster's redis: {}", subscribed.error);
        return Ok(resource::refusal(StatusCode::BAD_GATEWAY, "", &why));
    }
    let following = Following {
        line: Arc::clone(line),
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
            let answer = say(&self.line, &self.connection, ping, PONG).await?;
            answer.pong.ok_or(NotAnswered::Besides)?;
        }
    }
}
