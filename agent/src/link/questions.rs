//! What a Go principal asks over the session, for people at the hub: its resource proxy and its redis proxy.
//!
//! Ours asks on a [lane](crate::lane). The same [`Desk`] answers both, so what may be seen does not depend on the way.
//! Whatever cannot be answered is answered so at once: the other end waits for half a minute and more. This agent shows
//! the hub nothing of its redis: every key is missing there, which Argo CD takes for a cache that is not filled yet.

use std::sync::Arc;

use argocd::request::{Object, Query, Request as Asked, Subject, Verb as AskedVerb};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use http::header::ACCEPT;
use http::{HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt as _, Empty, Limited};
use protocol::payload::{
    self, RedisAnswer, RedisPong, RedisRequest, RedisResponse, RedisSubscribed, RedisValue,
    ResourceRequest, ResourceResponse,
};
use protocol::{Event, Target};
use serde_json::{Value, json};

use crate::lane::Desk;

/// Questions at the same time; who asks more is told to come again.
const MOST: usize = 16;
/// The longest answer: it is one message of the session, which it holds up.
const LARGEST: usize = 16 << 20;

/// The questions that are not answered yet.
#[derive(Default)]
pub(super) struct Questions {
    asking: FuturesUnordered<BoxFuture<'static, Event>>,
}

impl Questions {
    /// Takes an event; if it is a question, it is answered now or by [`Self::next`].
    pub(super) fn take(&mut self, desk: Option<&Arc<Desk>>, event: &Event) -> Option<Event> {
        if event.target == Target::Redis {
            return Some(Event::redis_response(&redis(event)));
        }
        let uuid = event.event_id.clone();
        let told = |status: StatusCode| Some(Event::resource_response(&answer(&uuid, status)));
        let Some(desk) = desk else {
            return told(StatusCode::FORBIDDEN);
        };
        if self.asking.len() >= MOST {
            return told(StatusCode::TOO_MANY_REQUESTS);
        }
        let Ok(asked) = payload::decode::<ResourceRequest>("resource request", &event.payload)
        else {
            return told(StatusCode::BAD_REQUEST);
        };
        let desk = Arc::clone(desk);
        let asking = async move { Event::resource_response(&ask(&desk, &uuid, asked).await) };
        self.asking.push(asking.boxed());
        None
    }

    /// The next answer; none when nothing is asked. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Event> {
        self.asking.next().await
    }
}

/// Whether an event is a question of this kind.
pub(super) const fn is_one(event: &Event) -> bool {
    matches!(event.target, Target::Resource | Target::Redis)
}

fn answer(uuid: &str, status: StatusCode) -> ResourceResponse {
    ResourceResponse {
        uuid: uuid.to_owned(),
        status: status.as_u16(),
        resource: String::new(),
    }
}

async fn ask(desk: &Desk, uuid: &str, asked: ResourceRequest) -> ResourceResponse {
    let (method, subject, target) = read(asked);
    let mut request = Request::builder()
        .method(method.as_str())
        .uri(target)
        .header(ACCEPT, HeaderValue::from_static("application/json"));
    if let Ok(id) = HeaderValue::from_str(uuid) {
        request = request.header("x-request-id", id);
    }
    let Ok(request) = request.body(Empty::<Bytes>::new()) else {
        return answer(uuid, StatusCode::BAD_REQUEST);
    };
    let answered = desk.answer(request).await;
    let status = answered.status();
    if !status.is_success() {
        return answer(uuid, status);
    }
    let body = Limited::new(answered.into_body(), LARGEST).collect().await;
    let text = body
        .ok()
        .and_then(|body| String::from_utf8(Vec::from(body.to_bytes())).ok());
    let Some(text) = text else {
        return answer(uuid, StatusCode::BAD_GATEWAY);
    };
    ResourceResponse {
        resource: if matches!(subject, Subject::Groups { .. }) {
            with_core(&text).unwrap_or(text)
        } else {
            text
        },
        ..answer(uuid, StatusCode::OK)
    }
}

/// Which request of HTTP it stands for. It is read again before it is asked.
fn read(asked: ResourceRequest) -> (String, Subject, String) {
    let ResourceRequest {
        method,
        group,
        version,
        resource,
        namespace,
        name,
        subresource,
        params,
    } = asked;
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    let subject = if !resource.is_empty() {
        Subject::Object(Object {
            group,
            version,
            resource,
            namespace: some(namespace),
            name: some(name),
            subresource: some(subresource),
        })
    } else if version.is_empty() {
        Subject::Groups {
            core: false,
            group: some(group),
        }
    } else {
        Subject::Kinds { group, version }
    };
    let asked = Asked {
        verb: AskedVerb::Get,
        subject,
        query: params.into_iter().collect::<Query>(),
    };
    let target = asked.target();
    (method, asked.subject, target)
}

/// A Go agent's list of groups has the core, which the API tells elsewhere. None if it is no such list.
fn with_core(list: &str) -> Option<String> {
    let mut list: Value = serde_json::from_str(list).ok()?;
    let groups = list.get_mut("groups")?.as_array_mut()?;
    let v1 = json!({ "groupVersion": "v1", "version": "v1" });
    groups.insert(
        0,
        json!({ "name": "", "versions": [v1], "preferredVersion": v1 }),
    );
    Some(list.to_string())
}

fn redis(event: &Event) -> RedisResponse {
    let asked: RedisRequest = payload::decode("redis request", &event.payload).unwrap_or_default();
    let command = asked.body;
    RedisResponse {
        uuid: event.event_id.clone(),
        connection_uuid: asked.connection_uuid,
        body: RedisAnswer {
            get: command.get.map(|_key| RedisValue::default()),
            subscribe_response: command.subscribe.map(|_to| RedisSubscribed::default()),
            pong: command.ping.map(|_| RedisPong {}),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(request: Value) -> String {
        read(serde_json::from_value(request).unwrap()).2
    }

    #[test]
    fn a_question_of_a_go_principal_is_a_request_of_the_api() {
        for (request, wanted) in [
            (
                json!({ "method": "GET", "group": "apps", "version": "v1", "resource": "deployments",
                    "namespace": "shop", "name": "front", "subresource": "status", "params": null }),
                "/apis/apps/v1/namespaces/shop/deployments/front/status",
            ),
            (
                json!({ "version": "v1", "resource": "pods", "name": "../secrets/x",
                    "params": { "labelSelector": "a=b&c" } }),
                "/api/v1/pods/..%2Fsecrets%2Fx?labelSelector=a%3Db%26c",
            ),
            (json!({ "group": "apps", "version": "v1" }), "/apis/apps/v1"),
            (json!({ "version": "v1" }), "/api/v1"),
            (json!({}), "/apis"),
        ] {
            assert_eq!(target(request), wanted);
        }
    }

    #[test]
    fn the_list_of_groups_has_the_core() {
        let list = with_core(r#"{"kind":"APIGroupList","groups":[{"name":"apps"}]}"#).unwrap();
        let list: Value = serde_json::from_str(&list).unwrap();
        assert_eq!(list["groups"][0]["preferredVersion"]["groupVersion"], "v1");
        assert_eq!(list["groups"][1]["name"], "apps");
        assert_eq!(with_core("[]"), None);
    }

    #[test]
    fn every_key_of_redis_is_missing_and_nobody_waits_for_that() {
        let asked = |command: Value| {
            let body = json!({ "uuid": "x", "connectionUuid": "c", "body": command });
            let event = Event::control(
                Target::Redis,
                protocol::Verb::RedisRequest,
                body.to_string().into(),
            );
            let answer = serde_json::to_value(redis(&event)).unwrap();
            assert_eq!(answer["uuid"], event.event_id);
            assert_eq!(answer["connectionUuid"], "c");
            answer["body"].clone()
        };
        let missing = json!({ "get": { "cacheHit": false, "error": "" } });
        assert_eq!(asked(json!({ "get": { "key": "k" } })), missing);
        let subscribed = json!({ "subscribeResponse": { "error": "" } });
        assert_eq!(
            asked(json!({ "subscribe": { "channel": "c" } })),
            subscribed
        );
        assert_eq!(asked(json!({ "ping": {} })), json!({ "pong": {} }));
    }
}
