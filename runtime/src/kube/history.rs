//! An API that was put back to an earlier state, as by a restored etcd.
//!
//! The numbers of its versions go back, too. A watch that goes on from the last version it was told is then a watch of
//! the future: the API server takes it and says nothing until its own numbers have come that far, and of what it did
//! on the way it never tells. `etcdutl snapshot restore --bump-revision` is against that; who forgets it has to restart
//! every program that watches.
//!
//! Ours find out. Before a watch goes on, the same selection is asked for which version it has now, in one small list.
//! One that is older than where the watch would go on from is of another history, and the watch is answered as one that
//! comes too late, which makes whoever watches list anew.

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

/// What a watch of another history is told; [`watch`](super::watch) knows it by this.
pub(super) const REWOUND: &str =
    "the API was restored to a state before the resource version of this watch";

/// The metadata only: objects may be large.
const METADATA: HeaderValue = HeaderValue::from_static(
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
);
/// What says how to watch, and not what.
const OF_WATCHES: [&str; 7] = [
    "watch",
    "resourceVersion",
    "resourceVersionMatch",
    "timeoutSeconds",
    "allowWatchBookmarks",
    "sendInitialEvents",
    "limit",
];

/// The same client, whose watches find out when the API is back at an earlier state.
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

/// Asks first. When that is not answered, neither is the watch: it is tried again, and asked for again.
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

/// What is asked before a watch goes on.
#[derive(Debug, PartialEq, Eq)]
struct Question {
    /// One object of the same selection, as it is now.
    uri: Uri,
    /// Where the watch would go on from.
    from: u64,
}

impl Question {
    /// None where nothing is to be asked: no watch, or one that begins with all there is.
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

/// The version that a list is of; none where it is no number, which cannot be compared.
fn version(list: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct List {
        metadata: ListMeta,
    }
    let list: List = serde_json::from_slice(list).ok()?;
    list.metadata.resource_version?.parse().ok()
}

/// As an API server says that what a watch would go on from is not kept any more.
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
