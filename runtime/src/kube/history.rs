//! Detects an API that was restored to an earlier state, as from a backup of etcd.
//!
//! Its resource versions go back, too. A watch that resumes from its last version then starts in the future: the API
//! server accepts it, sends nothing until its own versions have reached that number, and never sends the changes in
//! between. `etcdutl snapshot restore --bump-revision` prevents this; without it an administrator has to restart every
//! program that watches.
//!
//! Our clients detect it. Before a watch resumes, the client reads the current version of the same selection with one
//! small list. If that version is older than the one to resume from, the history is a different one, and the client
//! answers the watch as expired, so that the watcher lists again.

use ::kube::Client;
use ::kube::client::Body;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use serde::Deserialize;
use serde_json::json;
use tower::service_fn;

/// The message for a watch of another history, by which [`watch`](super::watch) recognizes it.
pub(super) const REWOUND: &str =
    "the API was restored to a state before the resource version of this watch";

/// The metadata only: objects may be large.
const METADATA: HeaderValue = HeaderValue::from_static(
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
);
/// Parameters of watches that do not belong to the selection.
const OF_WATCHES: [&str; 7] = [
    "watch",
    "resourceVersion",
    "resourceVersionMatch",
    "timeoutSeconds",
    "allowWatchBookmarks",
    "sendInitialEvents",
    "limit",
];

/// Wraps a client, so that its watches detect when the API was restored to an earlier state.
pub fn with_history(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let valid_until = *client.valid_until();
    let service = service_fn(move |request: Request<Body>| send(client.clone(), request));
    Client::new(service, namespace).with_valid_until(valid_until)
}

fn send(
    client: Client,
    request: Request<Body>,
) -> BoxFuture<'static, Result<Response<Body>, ::kube::Error>> {
    match Question::about(request.method(), request.uri()) {
        None => async move { client.send(request).await }.boxed(),
        Some(question) => ask(client, question, request).boxed(),
    }
}

/// Sends the question first. If that fails, the watch fails as well, and the watcher retries both.
async fn ask(
    client: Client,
    question: Question,
    request: Request<Body>,
) -> Result<Response<Body>, ::kube::Error> {
    let mut asked = Request::new(Body::empty());
    *asked.uri_mut() = question.uri;
    asked.headers_mut().insert(ACCEPT, METADATA);
    let answer = client.send(asked).await?;
    if answer.status() != StatusCode::OK {
        return Ok(answer);
    }
    let now = version(&answer.into_body().collect_bytes().await?);
    if now.is_some_and(|now| now < question.from) {
        return Ok(too_late());
    }
    client.send(request).await
}

/// The request before a watch resumes.
#[derive(Debug, PartialEq, Eq)]
struct Question {
    /// Lists one object of the same selection.
    uri: Uri,
    /// The version from which the watch would resume.
    from: u64,
}

impl Question {
    /// None for other requests than watches, and for a watch that starts with a list.
    fn about(method: &Method, uri: &Uri) -> Option<Self> {
        let query = uri.query().filter(|_| method == Method::GET)?;
        let pairs: Vec<_> = form_urlencoded::parse(query.as_bytes()).collect();
        let value = |name| {
            let mut named = pairs.iter().filter(|(key, _)| key == name);
            named.next().map(|(_, value)| value.as_ref())
        };
        if !matches!(value("watch"), Some("true" | "1")) || value("sendInitialEvents").is_some() {
            return None;
        }
        let from = value("resourceVersion")?.parse().ok();
        let from = from.filter(|from| *from > 0)?;
        let kept = pairs
            .iter()
            .filter(|(key, _)| !OF_WATCHES.contains(&key.as_ref()));
        let query = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(kept)
            .append_pair("limit", "1")
            .finish();
        let uri = format!("{}?{query}", uri.path()).parse().ok()?;
        Some(Self { uri, from })
    }
}

/// The version of a list; none if it is not a number, which cannot be compared.
fn version(list: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct List {
        metadata: ListMeta,
    }
    let list: List = serde_json::from_slice(list).ok()?;
    list.metadata.resource_version?.parse().ok()
}

/// The response of an API server to a watch whose version has expired.
fn too_late() -> Response<Body> {
    let status = json!({
        "type": "ERROR",
        "object": {
            "kind": "Status", "apiVersion": "v1", "metadata": {},
            "status": "Failure", "message": REWOUND, "reason": "Expired", "code": 410,
        },
    });
    let mut response = Response::new(Body::from(format!("{status}\n").into_bytes()));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

#[cfg(test)]
mod tests;
