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
use http::{HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use live::request::{Object, Query, Request as Asked, Subject, Verb as AskedVerb};
use protocol::payload::{self, LogRequest, ResourceRequest, ResourceResponse, TerminalRequest};
use protocol::{Event, Target};
use runtime::parts::Spawner;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::redis::{Answered, Connections, LARGEST};
use self::stream_opener::StreamOpener;
use self::terminal::{Place, Terminals};
use crate::live::tunnel::ApiHandler;
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

/// The open requests of one session.
pub(crate) struct GoRequests {
    api_handler: Option<Arc<ApiHandler>>,
    welcome: Arc<Welcome>,
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

impl GoRequests {
    /// The requests of a session on this connection; without a handler the agent answers none.
    pub(crate) fn new(
        api_handler: Option<Arc<ApiHandler>>,
        welcome: Welcome,
        channel: Carrier,
        tokens: Tokens,
    ) -> Self {
        let over = CancellationToken::new();
        Self {
            api_handler,
            welcome: Arc::new(welcome),
            asking: FuturesUnordered::new(),
            permits: Arc::new(Semaphore::new(CONCURRENT_WORK)),
            channels: SelectAll::new(),
            connections: Connections::default(),
            logs: Arc::new(Semaphore::new(MOST_LASTING)),
            terminals: Terminals::default(),
            opener: StreamOpener { channel, tokens },
            _over: over.clone().drop_guard(),
            over,
        }
    }

    /// Takes a request; its answer is returned now, by [`Self::next`], or sent on a separate stream.
    pub(crate) fn take(&mut self, event: &Event) -> Option<Event> {
        let api_handler = self.api_handler.clone();
        match (event.target, api_handler) {
            (Target::Redis, handler) => self.redis(handler, event),
            (Target::ContainerLog, Some(handler)) => {
                self.log(handler, event);
                None
            }
            (Target::Terminal, Some(handler)) => {
                self.terminal(handler, event);
                None
            }
            (Target::ContainerLog | Target::Terminal, None) => None,
            (_, handler) => self.resource(handler, event),
        }
    }

    fn resource(&mut self, api_handler: Option<Arc<ApiHandler>>, event: &Event) -> Option<Event> {
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
        let permits = Arc::clone(&self.permits);
        let asking = async move {
            let _permit = permits.acquire().await;
            let answer = ask(&api_handler, &uuid, asked).await;
            (Event::resource_response(&answer), None)
        };
        self.asking.push(asking.boxed());
        None
    }

    fn redis(&mut self, api_handler: Option<Arc<ApiHandler>>, event: &Event) -> Option<Event> {
        let read = redis::read(event);
        let api_handler = api_handler.filter(|api_handler| api_handler.cache().is_some());
        let is_full = self.asking.len() >= MOST || self.channels.len() >= MOST_LASTING;
        let arrived = self.connections.note(&read, Instant::now());
        let question = match redis::plan(read, arrived, api_handler.is_some(), is_full) {
            redis::Plan::Answer(answer) => return Some(answer),
            redis::Plan::Silence => return None,
            redis::Plan::Ask(question) => question,
        };
        let (api_handler, permits) = (api_handler?, Arc::clone(&self.permits));
        let (welcome, connections) = (Arc::clone(&self.welcome), self.connections.clone());
        let asking = async move {
            let _permit = permits.acquire().await;
            redis::ask(&api_handler, &welcome, question, connections).await
        };
        self.asking.push(asking.boxed());
        None
    }

    /// Sends a log, or an error, on a separate stream, as Go's agent does.
    fn log(&self, api_handler: Arc<ApiHandler>, event: &Event) {
        let Ok(asked) = payload::decode::<LogRequest>("log request", &event.payload) else {
            return tracing::debug!("invalid log request");
        };
        let place = Arc::clone(&self.logs).try_acquire_owned().ok();
        let (opener, spawner) = (self.opener.clone(), api_handler.spawner().clone());
        let sending = async move {
            let has_place = place.is_some();
            opener
                .open(|channel, token| log::send(&api_handler, channel, token, &asked, has_place))
                .await;
            drop(place);
        };
        self.spawn_for_session(&spawner, "log", sending);
    }

    /// Opens a terminal on a separate stream, or sends an error on it.
    fn terminal(&self, api_handler: Arc<ApiHandler>, event: &Event) {
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
        let spawner = api_handler.spawner().clone();
        let carrying = terminal::open(api_handler, self.opener.clone(), asked, placed);
        self.spawn_for_session(&spawner, "terminal", carrying);
    }

    /// Runs this work in the background until the session ends.
    fn spawn_for_session(
        &self,
        spawner: &Spawner,
        name: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let over = self.over.clone();
        let work = async move {
            over.run_until_cancelled(work).await;
        };
        spawner.spawn_short(name, work);
    }

    /// The next answer; none without open requests. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        tokio::select! {
            Some((answer, then)) = self.asking.next() => {
                self.channels.extend(then);
                Some(answer)
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
    let text = body.map(|body| String::from_utf8(Vec::from(body.to_bytes())));
    let Ok(Ok(mut resource)) = text else {
        return answer(uuid, StatusCode::BAD_GATEWAY);
    };
    if matches!(subject, Subject::Groups { .. }) {
        resource = with_core(&resource).unwrap_or(resource);
    }
    ResourceResponse {
        resource,
        ..answer(uuid, StatusCode::OK)
    }
}

/// The HTTP request for a Go principal's request. The handler parses it again.
fn read(asked: ResourceRequest) -> (String, Subject, String) {
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    let subject = if !asked.resource.is_empty() {
        Subject::Object(Object {
            group: asked.group,
            version: asked.version,
            resource: asked.resource,
            namespace: some(asked.namespace),
            name: some(asked.name),
            subresource: some(asked.subresource),
        })
    } else if asked.version.is_empty() {
        Subject::Groups {
            core: false,
            group: some(asked.group),
        }
    } else {
        Subject::Kinds {
            group: asked.group,
            version: asked.version,
        }
    };
    let request = Asked {
        verb: AskedVerb::Get,
        subject,
        query: asked.params.into_iter().collect::<Query>(),
    };
    let target = request.target();
    (asked.method, request.subject, target)
}

/// Adds the core group, as a Go agent does; the API lists it elsewhere. None if the text is no list of groups.
fn with_core(list: &str) -> Option<String> {
    let mut list: Value = serde_json::from_str(list).ok()?;
    let groups = list.get_mut("groups")?.as_array_mut()?;
    let v1 = json!({ "groupVersion": "v1", "version": "v1" });
    let core = json!({ "name": "", "versions": [v1], "preferredVersion": v1 });
    groups.insert(0, core);
    Some(list.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(request: &Value) -> String {
        let body = request.to_string().into();
        read(payload::decode("a request", &body).unwrap()).2
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
            assert_eq!(target(&request), wanted);
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
}
