//! One request of people at the hub: read, judged by `UI_ACCESS`, asked of this cluster's API, answered as it comes.
//!
//! The hub is not relied on: the request is read here as if it had not been read there, and written anew. It is asked
//! not with the agent's own rights but as a user who has those of the level and no more.

use std::fmt;
use std::time::Duration;

use argocd::request::{self, Request as Asked};
use argocd::ui_access::{self, Forbidden};
use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, LAST_MODIFIED, RETRY_AFTER, VARY, WARNING,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use kube::Client;
use kube::client::Body as KubeBody;
use runtime::error::Chain;
use tokio::time::Instant;

use super::cache::Cache;
use crate::config::Ui;

/// The body of an answer.
pub(crate) type Body = UnsyncBoxBody<Bytes, kube::Error>;

/// Ties the lines of both ends together.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const IMPERSONATE: HeaderName = HeaderName::from_static("impersonate-user");
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// What goes on to the API, and what comes back.
const ASKED: [HeaderName; 4] = [ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, IF_NONE_MATCH];
const ANSWERED: [HeaderName; 10] = [
    CACHE_CONTROL,
    CONTENT_ENCODING,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    ETAG,
    LAST_MODIFIED,
    RETRY_AFTER,
    VARY,
    WARNING,
    AUDIT_ID,
];
/// How long the API may take to begin an answer: less than the hub waits for us.
const PATIENCE: Duration = Duration::from_secs(25);
/// The target of lines about requests, by which they are found and kept apart.
const AUDIT: &str = "audit";

/// Answers requests.
pub struct Desk {
    client: Client,
    ui: Ui,
    user: Option<HeaderValue>,
    cache: Option<Cache>,
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk")
            .field("ui", &self.ui)
            .finish_non_exhaustive()
    }
}

/// Why we answer ourselves.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("the header {0} is not carried to a cluster")]
    Impersonation(HeaderName),
    #[error(transparent)]
    Unreadable(#[from] request::Unreadable),
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    #[error("the API of the cluster did not answer in {PATIENCE:?}")]
    Late,
    #[error("ask the API of the cluster")]
    Api(#[source] Box<kube::Error>),
    #[error("write the request")]
    Unwritable(#[from] http::Error),
}

impl Refused {
    const fn as_status(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Impersonation(_) | Self::Unreadable(_) | Self::Forbidden(_) => {
                (StatusCode::FORBIDDEN, "Forbidden")
            }
            Self::Late => (StatusCode::GATEWAY_TIMEOUT, "Timeout"),
            Self::Api(_) => (StatusCode::BAD_GATEWAY, ""),
            Self::Unwritable(_) => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
        }
    }
}

impl Desk {
    /// Asks this API, and allows what these settings allow.
    pub fn new(client: Client, ui: Ui) -> Self {
        let user = ui.user.as_deref();
        let user = user.and_then(|user| HeaderValue::from_str(user).ok());
        Self {
            client,
            ui,
            user,
            cache: None,
        }
    }

    /// And has what Argo CD keeps in redis.
    #[must_use]
    pub fn with_cache(self, cache: Cache) -> Self {
        let cache = Some(cache);
        Self { cache, ..self }
    }

    /// Who answers requests for what Argo CD keeps in redis.
    pub(super) const fn cache(&self) -> Option<&Cache> {
        self.cache.as_ref()
    }

    /// Answers one request.
    pub(crate) async fn answer<B: Send>(&self, request: Request<B>) -> Response<Body> {
        // What is allowed so far has nothing to say but what it asks.
        let (request, _body) = request.into_parts();
        let id = request.headers.get(&REQUEST_ID);
        let id = id.and_then(|it| it.to_str().ok()).unwrap_or_default();
        let mut line = Line::new(id.chars().take(64).collect());
        match self.ask(&request, &mut line).await {
            Ok(answered) => {
                let (parts, body) = answered.into_parts();
                line.code = parts.status.as_u16();
                let mut response = Response::new(counted(body, line));
                *response.status_mut() = parts.status;
                carry(&parts.headers, response.headers_mut(), &ANSWERED);
                response
            }
            Err(refused) => {
                let (code, reason) = refused.as_status();
                let told = Chain(&refused).to_string();
                line.code = code.as_u16();
                line.why.clone_from(&told);
                refusal(code, reason, &told)
            }
        }
    }

    async fn ask(&self, request: &Parts, line: &mut Line) -> Result<Response<KubeBody>, Refused> {
        no_impersonation(&request.headers)?;
        let target = request.uri.path_and_query().map_or("", |it| it.as_str());
        let asked = Asked::parse(request.method.as_str(), target)?;
        line.verb = asked.verb.as_str();
        line.subject = asked.subject.to_string();
        ui_access::judge(&asked, self.ui.access)?;
        let mut onward = Request::builder()
            .method(request.method.clone())
            .uri(asked.target())
            .body(KubeBody::empty())?;
        carry(&request.headers, onward.headers_mut(), &ASKED);
        if let Some(user) = &self.user {
            onward.headers_mut().insert(IMPERSONATE, user.clone());
        }
        tokio::time::timeout(PATIENCE, self.client.send(onward))
            .await
            .map_err(|_elapsed| Refused::Late)?
            .map_err(|error| Refused::Api(Box::new(error)))
    }
}

fn no_impersonation(headers: &HeaderMap) -> Result<(), Refused> {
    let mut names = headers.keys();
    match names.find(|it| request::is_impersonation(it.as_str())) {
        Some(name) => Err(Refused::Impersonation(name.clone())),
        None => Ok(()),
    }
}

fn carry(from: &HeaderMap, to: &mut HeaderMap, names: &[HeaderName]) {
    for name in names {
        for value in from.get_all(name) {
            to.append(name.clone(), value.clone());
        }
    }
}

fn counted(body: KubeBody, mut line: Line) -> Body {
    let body = body.map_frame(move |frame| {
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        line.bytes = line.bytes.saturating_add(bytes);
        frame
    });
    UnsyncBoxBody::new(body)
}

/// A `Status`, but for an API that is away: of that Go's client shows people the message only when it is plain text.
fn refusal(code: StatusCode, reason: &str, message: &str) -> Response<Body> {
    let (kind, text) = if code == StatusCode::BAD_GATEWAY {
        ("text/plain; charset=utf-8", message.to_owned())
    } else {
        let status = request::status(code.as_u16(), reason, message);
        ("application/json", status.to_string())
    };
    let body = Full::new(Bytes::from(text)).map_err(|never| match never {});
    let mut response = Response::new(UnsyncBoxBody::new(body));
    *response.status_mut() = code;
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// What is known of one request; written when its answer has been read to the end or dropped.
struct Line {
    id: String,
    verb: &'static str,
    subject: String,
    begun: Instant,
    code: u16,
    why: String,
    bytes: usize,
}

impl Line {
    fn new(id: String) -> Self {
        Self {
            id,
            verb: "unreadable",
            subject: String::new(),
            begun: Instant::now(),
            code: 0,
            why: String::new(),
            bytes: 0,
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let Self {
            id,
            verb,
            subject,
            begun,
            code,
            why,
            bytes,
        } = self;
        tracing::info!(
            target: AUDIT,
            request = %id,
            verb,
            object = %subject,
            code,
            why = %why,
            bytes,
            took = ?begun.elapsed(),
            "resource request"
        );
    }
}
