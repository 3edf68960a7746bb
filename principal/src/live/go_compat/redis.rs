//! Values of a cluster's redis and subscriptions to their changes, in the format of Go's redis proxy.

use std::{io, sync::Arc, time::Duration};

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

use super::{
    answer_budget::hold_budget,
    key_format::{KeyFormat, wire_key},
    pending::PendingGuard,
    session::GoSession,
};
use crate::live::{
    tunnel::{Body, NotAnswered},
    whole,
};

/// A Go agent ends a subscription after ten minutes without a message on its connection.
const PING: Duration = Duration::from_mins(1);
/// How long it may take to answer a ping.
const PONG: Duration = Duration::from_secs(30);
/// An agent that has just answered does not take much longer for a key that it understands.
const AT_ONCE: Duration = Duration::from_secs(1);
/// The longest push event: it has a name only. Longer events are not decoded.
const LONGEST_PUSH: usize = 16 << 10;
/// Unread messages; more would add nothing.
const UNREAD: usize = 4;

/// Gets a value.
pub(super) async fn get(
    session: &GoSession,
    key: &CacheKey,
    response_timeout: Duration,
) -> Result<Response<Body>, NotAnswered> {
    let (found, answer) = find(session, key, response_timeout).await?;
    if !found.error.is_empty() {
        let why = format!("the cluster's redis: {}", found.error);
        return Ok(whole::refusal(StatusCode::BAD_GATEWAY, &why));
    }
    let (code, value) = if found.cache_hit {
        (StatusCode::OK, found.bytes.unwrap_or_default())
    } else {
        (StatusCode::NOT_FOUND, vec![])
    };
    let kind = "application/octet-stream";
    Ok(hold_budget(
        whole::with_body(code, kind, value.into()),
        answer,
    ))
}

/// A value, and the answer that it was in.
type Found = (RedisValue, Bytes);

/// Gets a value, and learns the key format of the agent.
async fn find(
    session: &GoSession,
    key: &CacheKey,
    response_timeout: Duration,
) -> Result<Found, NotAnswered> {
    let begun = Instant::now();
    let known = session.keys.get();
    // What is elsewhere than in Argo CD's namespace is called the same by both.
    let prefixed = wire_key(&session.cluster, key, known.unwrap_or(KeyFormat::Prefixed));
    let first = match prefixed {
        Some(key) => value(session, key, response_timeout).await?,
        None => Found::default(),
    };
    if known.is_some() || key.namespace.is_some() {
        return Ok(first);
    }
    let RedisValue {
        cache_hit, error, ..
    } = &first.0;
    if *cache_hit {
        session.keys.set(KeyFormat::Prefixed);
    }
    if *cache_hit || !error.is_empty() || !session.keys.may_try() {
        return Ok(first);
    }
    let took = begun.elapsed();
    let pause = took.saturating_mul(2).max(AT_ONCE);
    let left = response_timeout.saturating_sub(took).min(pause);
    match value(session, key.to_string(), left).await {
        Ok(second) => {
            session.keys.set(KeyFormat::Bare);
            Ok(second)
        }
        Err(NotAnswered::TimedOut(_)) => {
            session.keys.unanswered();
            Ok(first)
        }
        Err(why) => Err(why),
    }
}

async fn value(
    session: &GoSession,
    key: String,
    response_timeout: Duration,
) -> Result<Found, NotAnswered> {
    let command = RedisCommand {
        get: Some(RedisGet { key }),
        ..RedisCommand::default()
    };
    let connection = Uuid::new_v4().to_string();
    let (response, answer) = send(session, &connection, command, response_timeout).await?;
    Ok((response.get.ok_or(NotAnswered::Unexpected)?, answer))
}

async fn send(
    session: &GoSession,
    connection: &str,
    command: RedisCommand,
    response_timeout: Duration,
) -> Result<(RedisAnswer, Bytes), NotAnswered> {
    let uuid = Uuid::new_v4().to_string();
    let request = RedisRequest {
        uuid: uuid.clone(),
        connection_uuid: connection.to_owned(),
        body: command,
    };
    let body = payload::encode(&request);
    let event = Event::live_request(Target::Redis, Verb::RedisRequest, &uuid, body);
    let answer = session.request(event, "redis response", response_timeout);
    let (response, raw): (RedisResponse, _) = answer.await?;
    Ok((response.body, raw))
}

/// The connection of a push event, if it is one.
pub(super) fn push(event: &Event) -> Option<String> {
    if event.payload.len() > LONGEST_PUSH {
        return None;
    }
    let response: RedisResponse = payload::decode("redis response", &event.payload).ok()?;
    let is_push = response.body.push_from_subscribe.is_some();
    is_push.then_some(response.connection_uuid)
}

/// Subscribes to changes: the response body gets a line for each message of the agent.
pub(super) async fn follow(
    session: &Arc<GoSession>,
    key: &CacheKey,
    response_timeout: Duration,
) -> Result<Response<Body>, NotAnswered> {
    if key.namespace.is_none() && session.keys.get().is_none() {
        find(session, key, response_timeout).await?;
    }
    let keys = session.keys.get().unwrap_or(KeyFormat::Prefixed);
    let Some(channel) = wire_key(&session.cluster, key, keys) else {
        let why = "this agent does not know this channel";
        return Ok(whole::refusal(StatusCode::NOT_FOUND, why));
    };
    let connection = Uuid::new_v4().to_string();
    let (pushes, received) = mpsc::channel(UNREAD);
    let guard = session.pushes.add(&connection, pushes)?;
    let command = RedisCommand {
        subscribe: Some(RedisSubscribe {
            channel: channel.clone(),
        }),
        ..RedisCommand::default()
    };
    let (answer, _) = send(session, &connection, command, response_timeout).await?;
    let subscribed = answer.subscribe_response.ok_or(NotAnswered::Unexpected)?;
    if !subscribed.error.is_empty() {
        let why = format!("the cluster's redis: {}", subscribed.error);
        return Ok(whole::refusal(StatusCode::BAD_GATEWAY, &why));
    }
    let subscription = Subscription {
        session: Arc::clone(session),
        key: key.clone(),
        channel,
        connection,
        received,
        ping: Instant::now() + PING,
        _guard: guard,
    };
    let frames = unfold(Some(subscription), |subscription| async move {
        let mut subscription = subscription?;
        match subscription.next().await {
            Ok(()) => Some((
                Ok(Frame::data(Bytes::from_static(b"\n"))),
                Some(subscription),
            )),
            Err(why) => Some((Err(io::Error::other(why).into()), None)),
        }
    });
    Ok(Response::new(UnsyncBoxBody::new(StreamBody::new(
        frames.boxed(),
    ))))
}

/// A subscription; dropped, it ends here, and ten minutes later on the cluster.
struct Subscription {
    session: Arc<GoSession>,
    key: CacheKey,
    /// The name in the agent's key format.
    channel: String,
    connection: String,
    received: mpsc::Receiver<()>,
    /// When the next ping is due.
    ping: Instant,
    _guard: PendingGuard<mpsc::Sender<()>>,
}

impl Subscription {
    async fn next(&mut self) -> Result<(), NotAnswered> {
        loop {
            tokio::select! {
                biased;
                received = self.received.recv() => return received.ok_or(NotAnswered::Ended),
                () = sleep_until(self.ping) => {}
            }
            self.ping = Instant::now() + PING;
            let ping = RedisCommand {
                ping: Some(RedisPing {}),
                ..RedisCommand::default()
            };
            if !self.channel_name_is_current() {
                return Err(NotAnswered::Unexpected);
            }
            match send(&self.session, &self.connection, ping, PONG).await {
                Ok((answer, _)) => answer.pong.ok_or(NotAnswered::Unexpected)?,
                // The agent minds only ten minutes of silence.
                Err(NotAnswered::Busy) => continue,
                Err(why) => return Err(why),
            };
        }
    }

    /// Whether the channel still has the right name for the key format that was learned.
    fn channel_name_is_current(&self) -> bool {
        let on_wire = |keys| wire_key(&self.session.cluster, &self.key, keys);
        let known = self.session.keys.get().and_then(on_wire);
        known.is_none_or(|known| known == self.channel)
    }
}
