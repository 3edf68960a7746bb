//! Requests of a Go principal's redis proxy: values of this cluster's redis, and notifications of its channels.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::{BoxStream, unfold};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty, Limited};
use live::cache_key::CacheKey;
use protocol::Event;
use protocol::payload::{
    self, RedisAnswer, RedisPong, RedisPush, RedisRequest, RedisResponse, RedisSubscribed,
    RedisValue,
};
use tokio::time::{Instant, sleep};

use crate::live::tunnel::{ApiHandler, Body};
use crate::lock::lock;
use crate::transport::Welcome;

/// The largest answer: it is one message of the session, and delays others.
pub(super) const LARGEST: usize = 16 << 20;
/// Idle timeout of a connection of Argo CD at the hub: the principal pings once a minute.
const GONE: Duration = Duration::from_mins(10);
/// How often a subscription checks that timeout.
const LOOK: Duration = Duration::from_mins(1);
/// The most known connections; a new one evicts the one that is idle longest.
const MOST: usize = 1024;

/// The answer to a request, and the events that follow it.
pub(super) type Answered = (Event, Option<BoxStream<'static, Event>>);

/// A request, and the identifiers of its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    uuid: String,
    connection: String,
    asked: Asked,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Asked {
    Get(String),
    Subscribe(String),
    Ping,
    /// An unknown command.
    Unknown,
}

/// The reaction to a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Plan {
    Answer(Event),
    Ask(Question),
    /// No answer: the principal closes the connection, and Argo CD opens another one.
    Silence,
}

/// Reads a request. The event id identifies it.
pub(super) fn read(event: &Event) -> Question {
    let request: RedisRequest =
        payload::decode("redis request", &event.payload).unwrap_or_default();
    let command = request.body;
    let asked = match (command.get, command.subscribe, command.ping) {
        (Some(get), ..) => Asked::Get(get.key),
        (None, Some(subscribe), _) => Asked::Subscribe(subscribe.channel),
        (None, None, Some(_)) => Asked::Ping,
        (None, None, None) => Asked::Unknown,
    };
    Question {
        uuid: event.event_id.clone(),
        connection: request.connection_uuid,
        asked,
    }
}

/// Plans the reaction; `is_known`: the connection had requests before in this session.
pub(super) fn plan(question: Question, is_known: bool, has_cache: bool, is_full: bool) -> Plan {
    const FULL: &str = "too many concurrent requests";
    match &question.asked {
        // Its subscriptions of another session have ended, which it would not notice otherwise.
        Asked::Ping if !is_known => Plan::Silence,
        Asked::Unknown => Plan::Silence,
        Asked::Ping => Plan::Answer(question.answer(|body| body.pong = Some(RedisPong {}))),
        Asked::Get(_) if !has_cache => Plan::Answer(question.value(RedisValue::default())),
        Asked::Subscribe(_) if !has_cache => Plan::Answer(question.subscribed("")),
        Asked::Get(_) if is_full => Plan::Answer(question.value(failed(FULL))),
        Asked::Subscribe(_) if is_full => Plan::Answer(question.subscribed(FULL)),
        Asked::Get(_) | Asked::Subscribe(_) => Plan::Ask(question),
    }
}

fn failed(why: &str) -> RedisValue {
    RedisValue {
        error: why.to_owned(),
        ..RedisValue::default()
    }
}

impl Question {
    /// The answer with what `fill` puts into its body.
    fn answer(&self, fill: impl FnOnce(&mut RedisAnswer)) -> Event {
        let mut response = RedisResponse {
            uuid: self.uuid.clone(),
            connection_uuid: self.connection.clone(),
            body: RedisAnswer::default(),
        };
        fill(&mut response.body);
        Event::redis_response(&response)
    }

    fn value(&self, value: RedisValue) -> Event {
        self.answer(|body| body.get = Some(value))
    }

    fn subscribed(&self, error: &str) -> Event {
        let error = error.to_owned();
        self.answer(|body| body.subscribe_response = Some(RedisSubscribed { error }))
    }

    fn push(&self, channel: &str) -> Event {
        let channel_name = channel.to_owned();
        self.answer(|body| body.push_from_subscribe = Some(RedisPush { channel_name }))
    }
}

/// The connections of Argo CD at the hub with requests in this session, and the time of the last one; clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Connections(Arc<Mutex<BTreeMap<String, Instant>>>);

impl Connections {
    /// Notes the connection of a request, and returns whether it was known before. A ping alone makes no connection
    /// known.
    pub(super) fn note(&self, question: &Question, now: Instant) -> bool {
        let mut all = lock(&self.0);
        all.retain(|_, arrived| !is_gone(*arrived, now));
        let is_known = all.contains_key(&question.connection);
        if !is_known && matches!(question.asked, Asked::Ping | Asked::Unknown) {
            return false;
        }
        if !is_known && all.len() >= MOST {
            let oldest = all.iter().min_by_key(|(_, arrived)| **arrived);
            if let Some(oldest) = oldest.map(|(connection, _)| connection.clone()) {
                all.remove(&oldest);
            }
        }
        all.insert(question.connection.clone(), now);
        is_known
    }

    /// Whether the connection is known and not timed out.
    fn has(&self, connection: &str, now: Instant) -> bool {
        let arrived = lock(&self.0).get(connection).copied();
        arrived.is_some_and(|arrived| !is_gone(arrived, now))
    }

    fn forget(&self, connection: &str) {
        lock(&self.0).remove(connection);
    }
}

fn is_gone(arrived: Instant, now: Instant) -> bool {
    now.saturating_duration_since(arrived) >= GONE
}

/// Answers a request from this cluster's redis.
pub(super) async fn ask(
    api_handler: &ApiHandler,
    welcome: &Welcome,
    question: Question,
    connections: Connections,
) -> Answered {
    match &question.asked {
        Asked::Get(key) => {
            let value = get(api_handler, welcome, &question.uuid, key).await;
            (question.value(value), None)
        }
        Asked::Subscribe(channel) => {
            let answered = request(api_handler, welcome, &question.uuid, channel, true).await;
            // A channel of no Application, or without access, never has messages.
            let Some(answered) = answered.filter(|it| !is_nothing(it.status())) else {
                return (question.subscribed(""), None);
            };
            if answered.status() != StatusCode::OK {
                return (question.subscribed(NOT_READ), None);
            }
            let (answer, channel) = (question.subscribed(""), channel.clone());
            let pushes = pushes(answered.into_body(), question, channel, connections);
            (answer, Some(pushes))
        }
        Asked::Ping | Asked::Unknown => (question.value(RedisValue::default()), None),
    }
}

const NOT_READ: &str = "cannot read redis";

fn is_nothing(status: StatusCode) -> bool {
    matches!(status, StatusCode::NOT_FOUND | StatusCode::FORBIDDEN)
}

async fn get(api_handler: &ApiHandler, welcome: &Welcome, uuid: &str, key: &str) -> RedisValue {
    let answered = request(api_handler, welcome, uuid, key, false).await;
    let Some(answered) = answered.filter(|it| !is_nothing(it.status())) else {
        return RedisValue::default();
    };
    if answered.status() != StatusCode::OK {
        return failed(NOT_READ);
    }
    let body = Limited::new(answered.into_body(), LARGEST).collect().await;
    match body {
        Ok(body) => RedisValue {
            bytes: Some(Vec::from(body.to_bytes())),
            cache_hit: true,
            error: String::new(),
        },
        Err(_) => failed("the value is too large or truncated"),
    }
}

/// Asks the cache as the tunnel does; none for a key of no Application of this cluster.
async fn request(
    api_handler: &ApiHandler,
    welcome: &Welcome,
    uuid: &str,
    key: &str,
    watch: bool,
) -> Option<Response<Body>> {
    let key = CacheKey::parse(key.as_bytes())?;
    let key = key_here(&key, welcome, api_handler.keeps_namespaces());
    let request = Request::get(key.target(watch)).header("x-request-id", uuid);
    let request = request.body(Empty::<Bytes>::new()).ok()?;
    Some(api_handler.cache()?.answer(request).await)
}

/// Maps a key of the hub to this cluster. If namespaces are not kept, all Applications are in Argo CD's namespace.
pub(super) fn key_here(key: &CacheKey, welcome: &Welcome, keeps_namespaces: bool) -> CacheKey {
    let namespace = key.namespace.clone().filter(|namespace| {
        let is_own = *namespace == welcome.principal_namespace
            || welcome.agent_name.as_ref() == Some(namespace);
        keeps_namespaces && !is_own
    });
    key.of(namespace, key.name.clone())
}

/// An event for each message, until redis or the subscriber is gone.
fn pushes(
    body: Body,
    question: Question,
    channel: String,
    connections: Connections,
) -> BoxStream<'static, Event> {
    let begun = Some((body, question, channel, connections));
    unfold(begun, |listening| async move {
        let (mut body, question, channel, connections) = listening?;
        loop {
            if !connections.has(&question.connection, Instant::now()) {
                return None;
            }
            tokio::select! {
                biased;
                frame = body.frame() => {
                    let Some(Ok(frame)) = frame else {
                        // Its next ping gets no answer, so that Argo CD subscribes again.
                        connections.forget(&question.connection);
                        return None;
                    };
                    if frame.data_ref().is_some_and(|data| !data.is_empty()) {
                        let push = question.push(&channel);
                        return Some((push, Some((body, question, channel, connections))));
                    }
                }
                () = sleep(LOOK) => {}
            }
        }
    })
    .boxed()
}

#[cfg(test)]
mod tests {
    use protocol::{Target, Verb};
    use serde_json::{Value, json};

    use super::*;

    fn question(command: &Value) -> Question {
        let body = json!({ "uuid": "x", "connectionUuid": "c", "body": command });
        read(&Event {
            event_id: "x".to_owned(),
            ..Event::control(Target::Redis, Verb::RedisRequest, body.to_string().into())
        })
    }

    fn answer_of(plan: Plan) -> Value {
        let Plan::Answer(answer) = plan else {
            panic!("no answer: {plan:?}");
        };
        let answer: Value = serde_json::from_slice(&answer.payload).unwrap();
        assert_eq!(
            (&answer["uuid"], &answer["connectionUuid"]),
            (&json!("x"), &json!("c"))
        );
        answer["body"].clone()
    }

    #[test]
    fn missing_values_and_excess_requests_are_answered_at_once() {
        let get = || question(&json!({ "get": { "key": "k" } }));
        let subscribe = || question(&json!({ "subscribe": { "channel": "k" } }));
        let missing = json!({ "get": { "bytes": null, "cacheHit": false, "error": "" } });
        assert_eq!(answer_of(plan(get(), false, false, false)), missing);
        assert!(answer_of(plan(get(), true, true, true))["get"]["error"] != "");
        assert_eq!(plan(get(), false, true, false), Plan::Ask(get()));
        let reply = answer_of(plan(subscribe(), false, false, false));
        assert_eq!(reply, json!({ "subscribeResponse": { "error": "" } }));
        let ping = || question(&json!({ "ping": {} }));
        assert_eq!(
            answer_of(plan(ping(), true, true, true)),
            json!({ "pong": {} })
        );
        assert_eq!(plan(ping(), false, true, false), Plan::Silence);
        assert_eq!(
            plan(question(&json!([1])), true, true, false),
            Plan::Silence
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_times_out_ten_minutes_after_its_last_request() {
        let connections = Connections::default();
        let ping = question(&json!({ "ping": {} }));
        let get = question(&json!({ "get": { "key": "k" } }));
        let begun = Instant::now();
        assert!(!connections.note(&ping, begun), "of another session");
        assert!(!connections.note(&get, begun));
        let later = begun + Duration::from_mins(9);
        assert!(connections.note(&ping, later));
        assert!(connections.has("c", later + Duration::from_mins(9)));
        assert!(!connections.has("c", later + GONE));
        assert!(!connections.note(&ping, later + GONE));
        for number in 0..2 * MOST {
            let mut other = get.clone();
            other.connection = number.to_string();
            connections.note(&other, later);
        }
        assert_eq!(lock(&connections.0).len(), MOST);
    }

    #[test]
    fn a_cache_key_of_the_hub_maps_to_the_replica() {
        let welcome = Welcome {
            principal_namespace: "argocd".to_owned(),
            agent_name: Some("spoke1".to_owned()),
            ..Welcome::default()
        };
        for (hub, keeps, here) in [
            ("spoke1_guestbook", false, "guestbook"),
            ("other_guestbook", false, "guestbook"),
            ("spoke1_guestbook", true, "guestbook"),
            ("argocd_guestbook", true, "guestbook"),
            ("guestbook", true, "guestbook"),
            ("team_guestbook", true, "team_guestbook"),
        ] {
            let key = CacheKey::parse(format!("app|resources-tree|{hub}|1.8.3").as_bytes());
            let key = key_here(&key.unwrap(), &welcome, keeps);
            assert_eq!(
                key.to_string(),
                format!("app|resources-tree|{here}|1.8.3"),
                "{hub}"
            );
        }
    }
}
