//! Translates requests for a cluster's API to Go's resource proxy events, and the responses back. All but [`ask`] is pure.

use std::time::Duration;

use argocd::masked;
use bytes::Bytes;
use http::{Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt as _, Collected};
use live::{
    request::{Object, Request as Asked, Subject, Verb as AskedVerb},
    ui_access::{self, UiAccess},
};
use protocol::{
    Event, Target, Verb,
    event::Method,
    payload::{self, LogRequest, ResourceRequest, ResourceResponse},
};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use super::{answer_budget::hold_budget, log, session::GoSession};
use crate::live::{
    tunnel::{Body, NotAnswered},
    whole,
};

/// The only patch type of a Go agent: it ignores the requested one.
const MERGE_PATCH: &str = "application/merge-patch+json";

/// A translated request.
#[derive(Debug, PartialEq)]
pub(super) enum Translation {
    /// An event to the agent.
    Request(Method, Box<ResourceRequest>),
    /// A log of the agent.
    Log(Box<LogRequest>),
    /// The principal answers by itself, as Go's does.
    Known(Value),
    /// A Go agent does not support it, or would do something else.
    Unsupported(StatusCode, &'static str),
}

/// Sends a request for the API.
pub(super) async fn ask(
    session: &GoSession,
    asked: &Asked,
    request: Request<Body>,
    response_timeout: Duration,
) -> Result<Response<Body>, NotAnswered> {
    let until = Instant::now() + response_timeout;
    let (parts, body) = request.into_parts();
    let reading = async {
        if asked.verb.only_reads() {
            return Ok(Bytes::new());
        }
        body.collect().await.map(Collected::to_bytes)
    };
    let Ok(Ok(body)) = timeout(response_timeout, reading).await else {
        let why = "the body of the request is missing, timed out or too large";
        return Ok(whole::refusal(StatusCode::BAD_REQUEST, why));
    };
    let kind = parts.headers.get(CONTENT_TYPE);
    let kind = kind.and_then(|it| it.to_str().ok());
    let left = until.saturating_duration_since(Instant::now());
    match translate(asked, kind, &body) {
        Translation::Known(value) => Ok(whole::json(StatusCode::OK, value.to_string())),
        Translation::Unsupported(code, why) => Ok(whole::refusal(code, why)),
        Translation::Log(request) => log::ask(session, *request, left).await,
        Translation::Request(method, request) => {
            let (answer, raw) = request_resource(session, method, *request, left).await?;
            Ok(hold_budget(answered(asked, answer), raw))
        }
    }
}

/// Sends a request to the agent: the response, decoded and as received.
pub(super) async fn request_resource(
    session: &GoSession,
    method: Method,
    request: ResourceRequest,
    response_timeout: Duration,
) -> Result<(ResourceResponse, Bytes), NotAnswered> {
    let uuid = Uuid::new_v4().to_string();
    let request = ResourceRequest {
        uuid: uuid.clone(),
        ..request
    };
    let body = payload::encode(&request);
    let event = Event::live_request(Target::Resource, Verb::Http(method), &uuid, body);
    session
        .request(event, "resource response", response_timeout)
        .await
}

/// Translates a request.
pub(super) fn translate(asked: &Asked, kind: Option<&str>, body: &[u8]) -> Translation {
    if ui_access::judge(asked, UiAccess::Operate).is_err() {
        let why = "a Go agent has no UI_ACCESS; requests are limited to `operate`";
        return Translation::Unsupported(StatusCode::FORBIDDEN, why);
    }
    match &asked.subject {
        Subject::Version => Translation::Known(version()),
        Subject::Groups { core: true, .. } => {
            Translation::Known(json!({ "kind": "APIVersions", "versions": ["v1"] }))
        }
        Subject::Groups { group: Some(_), .. } | Subject::Schema { .. } => {
            let why = "an agent of argocd-agent does not support this request";
            Translation::Unsupported(StatusCode::NOT_FOUND, why)
        }
        Subject::Groups { .. } => object_request(asked, Method::Get, &Object::default(), &[]),
        Subject::Kinds { group, version } => {
            let kinds = Object {
                group: group.clone(),
                version: version.clone(),
                ..Object::default()
            };
            object_request(asked, Method::Get, &kinds, &[])
        }
        Subject::Object(object) => translate_object(asked, object, kind, body),
    }
}

fn translate_object(
    asked: &Asked,
    object: &Object,
    kind: Option<&str>,
    body: &[u8],
) -> Translation {
    let part = object.subresource.as_deref();
    match asked.verb {
        AskedVerb::Get if object.is("", "pods") && part == Some("log") => {
            Translation::Log(Box::new(log_request(asked, object)))
        }
        AskedVerb::Get | AskedVerb::List => object_request(asked, Method::Get, object, &[]),
        AskedVerb::Create => object_request(asked, Method::Post, object, body),
        AskedVerb::Patch if kind.is_none_or(is_merge_patch) => {
            object_request(asked, Method::Patch, object, body)
        }
        AskedVerb::Patch => {
            let why = "an agent of argocd-agent treats every patch as a merge patch, so other patches are refused";
            Translation::Unsupported(StatusCode::UNSUPPORTED_MEDIA_TYPE, why)
        }
        // A Go agent always decodes delete options.
        AskedVerb::Delete if body.is_empty() => {
            object_request(asked, Method::Delete, object, b"{}")
        }
        AskedVerb::Delete => object_request(asked, Method::Delete, object, body),
        AskedVerb::Watch | AskedVerb::Update | AskedVerb::DeleteCollection => {
            let why = "an agent of argocd-agent does not support this";
            Translation::Unsupported(StatusCode::FORBIDDEN, why)
        }
    }
}

fn is_merge_patch(kind: &str) -> bool {
    let kind = kind.split(';').next().unwrap_or_default();
    kind.trim().eq_ignore_ascii_case(MERGE_PATCH)
}

fn object_request(asked: &Asked, method: Method, object: &Object, body: &[u8]) -> Translation {
    let params = asked.query.pairs();
    let request = ResourceRequest {
        method: Verb::Http(method).to_string(),
        params: params
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        body: (!body.is_empty()).then(|| body.to_vec()),
        ..get_request(object)
    };
    Translation::Request(method, Box::new(request))
}

/// A GET of an object.
pub(super) fn get_request(object: &Object) -> ResourceRequest {
    ResourceRequest {
        method: Verb::Http(Method::Get).to_string(),
        group: object.group.clone(),
        version: object.version.clone(),
        resource: object.resource.clone(),
        namespace: object.namespace.clone().unwrap_or_default(),
        name: object.name.clone().unwrap_or_default(),
        subresource: object.subresource.clone().unwrap_or_default(),
        ..ResourceRequest::default()
    }
}

fn log_request(asked: &Asked, pod: &Object) -> LogRequest {
    let query = &asked.query;
    let text = |name| query.get(name).unwrap_or_default().to_owned();
    let number = |name| query.get(name).and_then(|it| it.parse().ok());
    LogRequest {
        uuid: String::new(),
        namespace: pod.namespace.clone().unwrap_or_default(),
        pod_name: pod.name.clone().unwrap_or_default(),
        container: text("container"),
        follow: query.is_on("follow"),
        tail_lines: number("tailLines"),
        since_seconds: number("sinceSeconds"),
        since_time: text("sinceTime"),
        timestamps: query.is_on("timestamps"),
        previous: query.is_on("previous"),
        limit_bytes: number("limitBytes"),
    }
}

/// The fixed answer of Go's principal, which does not know the clusters' versions.
fn version() -> Value {
    json!({ "major": "1", "minor": "28", "gitVersion": "1.28.5+argocd-agent", "gitTreeState": "clean",
        "buildDate": "n/a", "goVersion": "unknown", "compiler": "unknown", "platform": "unknown" })
}

/// The agent's response in the form of the API server.
pub(super) fn answered(asked: &Asked, answer: ResourceResponse) -> Response<Body> {
    let ResourceResponse {
        status, resource, ..
    } = answer;
    if status != 200 {
        let code = StatusCode::from_u16(status).ok();
        let code = code.filter(|it| it.is_client_error() || it.is_server_error());
        let code = code.unwrap_or(StatusCode::BAD_GATEWAY);
        let why = format!("the agent of this cluster returned {status}");
        return whole::refusal(code, &why);
    }
    if resource.is_empty() {
        let done =
            json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success" });
        return whole::json(StatusCode::OK, done.to_string());
    }
    let shown = match &asked.subject {
        Subject::Groups { .. } => Some(without_core(&resource).unwrap_or(resource)),
        Subject::Object(object) if object.is_secret() => without_values(&resource),
        Subject::Version | Subject::Kinds { .. } | Subject::Schema { .. } | Subject::Object(_) => {
            Some(resource)
        }
    };
    match shown {
        Some(shown) => whole::json(StatusCode::OK, shown),
        None => whole::refusal(StatusCode::BAD_GATEWAY, "unexpected answer"),
    }
}

/// Removes the core group, which has a request of its own. None if this is no list of groups.
fn without_core(list: &str) -> Option<String> {
    let mut list: Value = serde_json::from_str(list).ok()?;
    let groups = list.get_mut("groups")?.as_array_mut()?;
    groups.retain(|group| group.get("name").and_then(Value::as_str) != Some(""));
    Some(list.to_string())
}

/// A Go agent sends the values of Secrets; this hub hides them.
fn without_values(secret: &str) -> Option<String> {
    let mut secret: Value = serde_json::from_str(secret).ok()?;
    masked::hide_values(&mut secret).then(|| secret.to_string())
}
