//! What a Go principal asks over the session, for people at the hub: its resource proxy, its redis proxy, logs, and
//! terminals.
//!
//! Ours asks on a [lane](crate::live::tunnel). The same [`Desk`] answers both, so what may be seen does not depend on the way.
//! Whatever cannot be answered is answered so at once: the other end waits for half a minute and more.

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
use self::terminal::{Place, Terminals};
use self::way::Way;
use crate::live::tunnel::{ApiHandler, handler};
use crate::transport::Carrier;
use crate::transport::dial::Welcome;
use crate::transport::tokens::Tokens;

mod log;
mod pod;
mod redis;
mod terminal;
mod way;

/// What a change of a Go principal's is.
const MERGE_PATCH: HeaderValue = HeaderValue::from_static("application/merge-patch+json");
/// Requests in flight at one time. The agent rejects more with "retry later".
const MOST: usize = 64;
/// Of these, those that are being answered: each may have as much as one answer.
const HANDS: usize = 16;
/// Channels of redis that are listened to, and logs that are sent.
const MOST_LASTING: usize = 64;
/// The longest answer: it is one message of the session, which it holds up.
const LARGEST: usize = 16 << 20;
/// What an API says when it does not do what it was asked for.
const LONGEST_REASON: usize = 16 << 10;

/// The questions of one session that are not answered yet.
pub(crate) struct GoRequests {
    asking: FuturesUnordered<BoxFuture<'static, Answered>>,
    hands: Arc<Semaphore>,
    /// What is listened to in redis.
    channels: SelectAll<BoxStream<'static, Event>>,
    connections: Connections,
    logs: Arc<Semaphore>,
    terminals: Terminals,
    way: Way,
    /// Ends the logs and the terminals with the session.
    over: CancellationToken,
    _over: DropGuard,
}

/// What came of a question: its answer, and what follows it.
struct Answered {
    answer: Event,
    then: Option<BoxStream<'static, Event>>,
}

impl From<Event> for Answered {
    fn from(answer: Event) -> Self {
        Self { answer, then: None }
    }
}

/// Who answers, and how the hub calls things.
#[derive(Clone, Copy)]
pub(crate) struct Answerer<'a> {
    pub(crate) api_handler: Option<&'a Arc<ApiHandler>>,
    pub(crate) welcome: &'a Welcome,
}

impl GoRequests {
    /// Of a session on this connection.
    pub(crate) fn new(channel: Carrier, tokens: Tokens) -> Self {
        let over = CancellationToken::new();
        Self {
            asking: FuturesUnordered::new(),
            hands: Arc::new(Semaphore::new(HANDS)),
            channels: SelectAll::new(),
            connections: Connections::default(),
            logs: Arc::new(Semaphore::new(MOST_LASTING)),
            terminals: Terminals::default(),
            way: Way::new(channel, tokens),
            _over: over.clone().drop_guard(),
            over,
        }
    }

    /// Takes an event; if it is a question, it is answered now, by [`Self::next`], or on a stream of its own.
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
        let (api_handler, hands) = (Arc::clone(api_handler), Arc::clone(&self.hands));
        let asking = async move {
            let _hand = hands.acquire().await;
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
        let arrived = self.connections.takes_in(&read, Instant::now());
        let (question, api_handler) = match redis::plan(read, arrived, cache.is_some(), is_full) {
            redis::Plan::Say(answer) => return Some(answer),
            redis::Plan::Silence => return None,
            redis::Plan::Ask(question) => (question, cache?),
        };
        let (api_handler, hands) = (Arc::clone(api_handler), Arc::clone(&self.hands));
        let (welcome, connections) = (answerer.welcome.clone(), self.connections.clone());
        let asking = async move {
            let _hand = hands.acquire().await;
            redis::ask(&api_handler, &welcome, question, connections).await
        };
        self.asking.push(asking.boxed());
        None
    }

    /// Sends a log on a stream of its own. What cannot be sent is told there as well, as Go's agent does.
    fn log(&self, api_handler: Option<&Arc<ApiHandler>>, event: &Event) {
        let Some(api_handler) = api_handler else {
            return;
        };
        let Ok(asked) = payload::decode::<LogRequest>("log request", &event.payload) else {
            return tracing::debug!("invalid log request");
        };
        let place = Arc::clone(&self.logs).try_acquire_owned().ok();
        let (way, shared) = (self.way.clone(), Arc::clone(api_handler));
        let sending = async move {
            let has_place = place.is_some();
            way.open(|channel, token| log::send(&shared, channel, token, &asked, has_place))
                .await;
            drop(place);
        };
        self.until_the_end(api_handler, "log", sending);
    }

    /// Opens a terminal on a stream of its own. Why it is not opened is told there as well.
    fn terminal(&self, api_handler: Option<&Arc<ApiHandler>>, event: &Event) {
        let Some(api_handler) = api_handler else {
            return;
        };
        let asked = payload::decode::<TerminalRequest>("terminal request", &event.payload);
        // Nobody could be told on a stream that has no name.
        let Some(asked) = asked.ok().filter(|asked| !asked.uuid.is_empty()) else {
            return tracing::debug!("invalid terminal request");
        };
        let placed = match self.terminals.place(&asked.uuid) {
            Place::Free(placed) => Some(placed),
            Place::None => None,
            Place::Taken => return,
        };
        let carrying = terminal::open(Arc::clone(api_handler), self.way.clone(), asked, placed);
        self.until_the_end(api_handler, "terminal", carrying);
    }

    /// Has this done beside the session, for as long as that lasts.
    fn until_the_end(
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

    /// The next answer; none when nothing is asked. Cancel-safe.
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

/// Whether an event is a question of this kind.
pub(crate) const fn is_one(event: &Event) -> bool {
    matches!(
        event.target,
        Target::Resource | Target::Redis | Target::ContainerLog | Target::Terminal
    )
}

/// Why a request was not answered: in the API's words, or else that it `cannot` be.
async fn refused(answered: Response<handler::Body>, cannot: &str) -> String {
    let code = answered.status();
    let body = Limited::new(answered.into_body(), LONGEST_REASON)
        .collect()
        .await;
    let body = body.map(Collected::to_bytes).unwrap_or_default();
    reason(&body).unwrap_or_else(|| format!("{cannot}: {code}"))
}

/// What an API says of a failure.
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
        // A Go principal does not say which kind it is, and a Go agent takes every one for this.
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
    fn why_an_api_does_not_answer_is_in_its_own_words() {
        let stated = reason(br#"{"message":"not there"}"#);
        assert_eq!(stated.as_deref(), Some("not there"));
        assert_eq!(reason(b"x"), None);
    }
}
