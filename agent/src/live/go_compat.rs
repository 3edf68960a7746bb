//! Live requests of a Go principal, which arrive on the session: resource proxy, redis proxy, logs and terminals.
//!
//! Our principal uses a [tunnel](crate::live::tunnel). The same [`ApiHandler`] answers both, with the same access rules.
//! A request that the agent cannot serve gets an error at once, since the principal waits for half a minute or longer.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, FuturesUnordered, SelectAll};
use futures::{FutureExt as _, StreamExt as _};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Collected, Full, Limited};
use live::request::{Object, Query, Request as Asked, Subject, Verb as AskedVerb};
use protocol::payload::{self, LogRequest, ResourceRequest, ResourceResponse, TerminalRequest};
use protocol::{Event, Target};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::redis::Connections;
use self::stream_opener::StreamOpener;
use self::terminal::{Place, Terminals};
use crate::live::tunnel::{ApiHandler, handler};
use crate::transport::Carrier;
use crate::transport::dial::Welcome;
use crate::transport::tokens::Tokens;

mod log;
mod pod;
mod redis;
mod stream_opener;
mod terminal;

/// The content type of a Go principal's patches.
const MERGE_PATCH: HeaderValue = HeaderValue::from_static("application/merge-patch+json");
/// Requests in flight at one time. The agent rejects more with "retry later".
const MOST: usize = 64;
/// Requests that run at one time: each may need the memory of one answer.
const CONCURRENT_WORK: usize = 16;
/// Concurrent subscriptions of redis, and concurrent logs.
const MOST_LASTING: usize = 64;
/// The largest answer: it is one message of the session, and delays others.
const LARGEST: usize = 16 << 20;
/// The most bytes of an API's error that are read.
const LONGEST_REASON: usize = 16 << 10;

/// The open requests of one session.
pub(crate) struct GoRequests {
    asking: FuturesUnordered<BoxFuture<'static, Answered>>,
    permits: Arc<Semaphore>,
    /// The subscriptions of redis.
    channels: SelectAll<BoxStream<'static, Event>>,
    connections: Connections,
    logs: Arc<Semaphore>,
    terminals: Terminals,
    opener: StreamOpener,
    /// Ends the logs and the terminals with the session.
    over: CancellationToken,
    _over: DropGuard,
}

/// The answer to a request, and the events that follow it.
struct Answered {
    answer: Event,
    then: Option<BoxStream<'static, Event>>,
}

impl From<Event> for Answered {
    fn from(answer: Event) -> Self {
        Self { answer, then: None }
    }
}

/// The handler, and the names of the hub.
#[derive(Clone, Copy)]
pub(crate) struct Answerer<'a> {
    pub(crate) api_handler: Option<&'a Arc<ApiHandler>>,
    pub(crate) welcome: &'a Welcome,
}

impl GoRequests {
    /// The requests of a session on this connection.
    pub(crate) fn new(channel: Carrier, tokens: Tokens) -> Self {
        let over = CancellationToken::new();
        Self {
            asking: FuturesUnordered::new(),
            permits: Arc::new(Semaphore::new(CONCURRENT_WORK)),
            channels: SelectAll::new(),
            connections: Connections::default(),
            logs: Arc::new(Semaphore::new(MOST_LASTING)),
            terminals: Terminals::default(),
            opener: StreamOpener::new(channel, tokens),
            _over: over.clone().drop_guard(),
            over,
        }
    }

    /// Takes a request; its answer is returned now, by [`Self::next`], or sent on a separate stream.
    pub(crate) fn take(&mut self, answerer: Answerer<'_>, event: &Event) -> Option<Event> {
        match event.target {
            Target::Redis => self.redis(answerer, event),
            Target::ContainerLog => {
                self.log(answerer.api_handler, event);
                None
            }
            Target::Terminal => {
                self.terminal(answerer.api_handler, event);
                None
            }
            Target::Resource
            | Target::Object(_)
            | Target::ApplicationSet
            | Target::Ack
            | Target::Resync
            | Target::ClusterInfo
            | Target::Heartbeat => self.resource(answerer.api_handler, event),
        }
    }

    fn resource(&mut self, api_handler: Option<&Arc<ApiHandler>>, event: &Event) -> Option<Event> {
        let uuid = event.event_id.clone();
        let reply = |status: StatusCode| Some(Event::resource_response(&answer(&uuid, status)));
        let Some(api_handler) = api_handler else {
            return reply(StatusCode::FORBIDDEN);
        };
        if self.asking.len() >= MOST {
            return reply(StatusCode::TOO_MANY_REQUESTS);
        }
        let Ok(asked) = payload::decode::<ResourceRequest>("resource request", &event.payload)
        else {
            return reply(StatusCode::BAD_REQUEST);
        };
        let (api_handler, permits) = (Arc::clone(api_handler), Arc::clone(&self.permits));
        let asking = async move {
            let _permit = permits.acquire().await;
            Event::resource_response(&ask(&api_handler, &uuid, asked).await).into()
        };
        self.asking.push(asking.boxed());
        None
    }

    fn redis(&mut self, answerer: Answerer<'_>, event: &Event) -> Option<Event> {
        let read = redis::read(event);
        let cache = answerer
            .api_handler
            .filter(|api_handler| api_handler.cache().is_some());
        let is_full = self.asking.len() >= MOST || self.channels.len() >= MOST_LASTING;
        let arrived = self.connections.note(&read, Instant::now());
        let (question, api_handler) = match redis::plan(read, arrived, cache.is_some(), is_full) {
            redis::Plan::Answer(answer) => return Some(answer),
            redis::Plan::Silence => return None,
            redis::Plan::Ask(question) => (question, cache?),
        };
        let (api_handler, permits) = (Arc::clone(api_handler), Arc::clone(&self.permits));
        let (welcome, connections) = (answerer.welcome.clone(), self.connections.clone());
        let asking = async move {
            let _permit = permits.acquire().await;
            redis::ask(&api_handler, &welcome, question, connections).await
        };
        self.asking.push(asking.boxed());
        None
    }

    /// Sends a log, or an error, on a separate stream, as Go's agent does.
    fn log(&self, api_handler: Option<&Arc<ApiHandler>>, event: &Event) {
        let Some(api_handler) = api_handler else {
            return;
        };
        let Ok(asked) = payload::decode::<LogRequest>("log request", &event.payload) else {
            return tracing::debug!("invalid log request");
        };
        let place = Arc::clone(&self.logs).try_acquire_owned().ok();
        let (opener, shared) = (self.opener.clone(), Arc::clone(api_handler));
        let sending = async move {
            let has_place = place.is_some();
            opener
                .open(|channel, token| log::send(&shared, channel, token, &asked, has_place))
                .await;
            drop(place);
        };
        self.spawn_for_session(api_handler, "log", sending);
    }

    /// Opens a terminal on a separate stream, or sends an error on it.
    fn terminal(&self, api_handler: Option<&Arc<ApiHandler>>, event: &Event) {
        let Some(api_handler) = api_handler else {
            return;
        };
        let asked = payload::decode::<TerminalRequest>("terminal request", &event.payload);
        // Without a UUID, the principal could not assign the stream.
        let Some(asked) = asked.ok().filter(|asked| !asked.uuid.is_empty()) else {
            return tracing::debug!("invalid terminal request");
        };
        let placed = match self.terminals.place(&asked.uuid) {
            Place::Free(placed) => Some(placed),
            Place::None => None,
            Place::Taken => return,
        };
        let carrying = terminal::open(Arc::clone(api_handler), self.opener.clone(), asked, placed);
        self.spawn_for_session(api_handler, "terminal", carrying);
    }

    /// Runs this work in the background until the session ends.
    fn spawn_for_session(
        &self,
        api_handler: &ApiHandler,
        name: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let over = self.over.clone();
        let work = async move {
            over.run_until_cancelled(work).await;
        };
        api_handler.spawner().spawn_short(name, work);
    }

    /// The next answer; none without open requests. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        tokio::select! {
            Some(reply) = self.asking.next() => {
                self.channels.extend(reply.then);
                Some(reply.answer)
            }
            Some(push) = self.channels.next() => Some(push),
            else => None,
        }
    }
}

/// Whether an event is a live request.
pub(crate) const fn is_one(event: &Event) -> bool {
    matches!(
        event.target,
        Target::Resource | Target::Redis | Target::ContainerLog | Target::Terminal
    )
}

/// The reason of a failed request: the API's message, or else `cannot` with the status.
async fn refused(answered: Response<handler::Body>, cannot: &str) -> String {
    let code = answered.status();
    let body = Limited::new(answered.into_body(), LONGEST_REASON)
        .collect()
        .await;
    let body = body.map(Collected::to_bytes).unwrap_or_default();
    reason(&body).unwrap_or_else(|| format!("{cannot}: {code}"))
}

/// The message in an API's error.
fn reason(body: &[u8]) -> Option<String> {
    let status: Value = serde_json::from_slice(body).ok()?;
    Some(status.get("message")?.as_str()?.to_owned())
}

fn answer(uuid: &str, status: StatusCode) -> ResourceResponse {
    ResourceResponse {
        uuid: uuid.to_owned(),
        status: status.as_u16(),
        resource: String::new(),
    }
}

async fn ask(api_handler: &ApiHandler, uuid: &str, mut asked: ResourceRequest) -> ResourceResponse {
    let body = Bytes::from(asked.body.take().unwrap_or_default());
    let (method, subject, target) = read(asked);
    let mut request = Request::builder()
        .method(method.as_str())
        .uri(target)
        .header(ACCEPT, HeaderValue::from_static("application/json"));
    if let Ok(id) = HeaderValue::from_str(uuid) {
        request = request.header("x-request-id", id);
    }
    if method == "PATCH" {
        // A Go principal does not send the type of a patch, and a Go agent assumes this one.
        request = request.header(CONTENT_TYPE, MERGE_PATCH);
    }
    let Ok(request) = request.body(Full::new(body)) else {
        return answer(uuid, StatusCode::BAD_REQUEST);
    };
    let answered = api_handler.answer(request).await;
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

/// The HTTP request for a Go principal's request. The handler parses it again.
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
        ..
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

/// Adds the core group, as a Go agent does; the API lists it elsewhere. None if the text is no list of groups.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn target(request: Value) -> String {
        read(serde_json::from_value(request).unwrap()).2
    }

    #[test]
    fn a_go_resource_request_maps_to_an_api_request() {
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
    fn the_list_of_groups_includes_the_core_group() {
        let list = with_core(r#"{"kind":"APIGroupList","groups":[{"name":"apps"}]}"#).unwrap();
        let list: Value = serde_json::from_str(&list).unwrap();
        assert_eq!(list["groups"][0]["preferredVersion"]["groupVersion"], "v1");
        assert_eq!(list["groups"][1]["name"], "apps");
        assert_eq!(with_core("[]"), None);
    }

    #[test]
    fn reason_of_a_failure_is_the_message_of_the_api() {
        let stated = reason(br#"{"message":"not there"}"#);
        assert_eq!(stated.as_deref(), Some("not there"));
        assert_eq!(reason(b"x"), None);
    }
}
