//! Handles live requests: parses each, checks it against `UI_ACCESS`, sends it to this cluster's API and streams the answer.
//!
//! The handler does not trust the hub: it parses the request again and builds a new one. It sends it not with the agent's
//! own rights but as a user with those of the level only. Before a change, and with the level `applications` before it
//! shows an object, it checks that the object belongs to an Application. It shows the very object that it checked.

use std::io;

use argocd::masked;
use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, LAST_MODIFIED,
    RETRY_AFTER, VARY, WARNING,
};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body::Body as HttpBody;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use kube::Client;
use kube::client::Body as KubeBody;
use live::change::Bad;
use live::request::{self, Request as Asked};
use live::ui_access::{self, Allowed, Forbidden};
use live::upgrade::{self, Unfit};
use runtime::error::Chain;
use runtime::parts::Spawner;
use tokio::time::Instant;

use self::api::{Api, Failed};
use self::belongs::Search;
use super::answer::{AUDIT, Body, RequestBody, request_id};
use super::redis_values::Cache;
use crate::config::{Scope, Ui};

mod api;
mod belongs;
mod events;
mod onward;
mod terminal;

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// The headers of the API's answer that the handler passes on.
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

/// The handler of live requests.
#[derive(derive_more::Debug)]
#[debug("ApiHandler({ui:?})")]
pub struct ApiHandler {
    api: Api,
    ui: Ui,
    scope: Scope,
    spawner: Spawner,
    cache: Option<Cache>,
}

/// Why the handler rejects a request.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("the header {0} is not forwarded to clusters")]
    Impersonation(HeaderName),
    #[error(transparent)]
    Unreadable(#[from] request::Unreadable),
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    #[error(transparent)]
    Bad(#[from] Bad),
    #[error(transparent)]
    Terminal(#[from] Unfit),
    #[error("{0} belongs to no Application of this cluster; refusing to modify it")]
    Foreign(String),
    #[error(
        "{0} belongs to no Application of this cluster, whose UI_ACCESS is applications; set it to \
         read to show other objects"
    )]
    Hidden(String),
    #[error("{0} not found")]
    NotFound(String),
    #[error("the body of the request is missing, timed out or too large")]
    Body,
    #[error(transparent)]
    Api(#[from] Failed),
    #[error("write the request")]
    Unwritable(#[from] http::Error),
}

impl Refused {
    const fn as_status(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Impersonation(_)
            | Self::Unreadable(_)
            | Self::Forbidden(_)
            | Self::Bad(_)
            | Self::Terminal(Unfit::Protocol(_))
            | Self::Foreign(_)
            | Self::Hidden(_)
            | Self::Api(Failed::NotShown { .. }) => (StatusCode::FORBIDDEN, "Forbidden"),
            Self::NotFound(_) => (StatusCode::NOT_FOUND, "NotFound"),
            Self::Body | Self::Terminal(Unfit::NoUpgrade) => {
                (StatusCode::BAD_REQUEST, "BadRequest")
            }
            Self::Api(Failed::Late) => (StatusCode::GATEWAY_TIMEOUT, "Timeout"),
            Self::Api(Failed::Ask(_) | Failed::Unreadable(_)) => (StatusCode::BAD_GATEWAY, ""),
            Self::Api(Failed::Unwritable(_)) | Self::Unwritable(_) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "InternalError")
            }
        }
    }
}

impl ApiHandler {
    /// A handler for this API with these settings and scope; the spawner runs terminals.
    pub fn new(client: Client, ui: Ui, scope: Scope, spawner: Spawner) -> Self {
        let api = Api::new(client, ui.user.as_deref());
        Self {
            api,
            ui,
            scope,
            spawner,
            cache: None,
        }
    }

    /// Adds the handler of requests for Argo CD's redis.
    #[must_use]
    pub fn with_cache(self, cache: Cache) -> Self {
        let cache = Some(cache);
        Self { cache, ..self }
    }

    /// The handler of requests for Argo CD's redis.
    pub(crate) const fn cache(&self) -> Option<&Cache> {
        self.cache.as_ref()
    }

    /// Whether Applications of the hub keep their namespaces on this cluster.
    pub(crate) const fn keeps_namespaces(&self) -> bool {
        self.scope.keep_namespaces
    }

    /// The spawner of tasks that last as long as a client reads.
    pub(crate) const fn spawner(&self) -> &Spawner {
        &self.spawner
    }

    /// Answers one request.
    pub(crate) async fn answer<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let mut line = Line::new(request_id(request.headers()));
        let request = request.map(|body| RequestBody::new(body.map_err(io::Error::other)));
        match self.ask(request, &mut line).await {
            Ok(answered) => {
                let (parts, body) = answered.into_parts();
                line.code = parts.status.as_u16();
                let mut response = Response::new(counted(body, line));
                *response.status_mut() = parts.status;
                let begun = [upgrade::HEADER].into_iter().chain(upgrade::ANSWERED);
                let names = begun.map(HeaderName::from_static).chain(ANSWERED);
                carry(&parts.headers, response.headers_mut(), names);
                response
            }
            Err(refused) => {
                let (code, reason) = refused.as_status();
                line.code = code.as_u16();
                line.why = Chain(&refused).to_string();
                refusal(code, reason, &line.why)
            }
        }
    }

    async fn ask(
        &self,
        request: Request<RequestBody>,
        line: &mut Line,
    ) -> Result<Response<Body>, Refused> {
        let (parts, body) = request.into_parts();
        no_impersonation(&parts.headers)?;
        let target = parts.uri.path_and_query().map_or("", |it| it.as_str());
        let asked = Asked::parse(parts.method.as_str(), target)?;
        line.verb = asked.verb.as_str();
        line.subject = asked.subject.to_string();
        let allowed = ui_access::judge(&asked, self.ui.access)?;
        if asked.is_exec() {
            return self.terminal(&parts, body, &asked).await;
        }
        let onward = self.onward(&parts, body, &asked, allowed).await?;
        let mut answered = self.api.send(onward).await?;
        if let Some(object) = Self::answers_object(&asked, allowed) {
            answered = self.shown(answered, object).await?;
        }
        if asked.object().is_some_and(request::Object::is_secret) {
            answered = without_values(answered, &asked).await?;
        } else if allowed == Allowed::EventsOfApplications {
            let search = Search::new(&self.api, &self.scope);
            answered = events::of_applications(search, answered, &asked).await?;
        }
        Ok(answered.map(UnsyncBoxBody::new))
    }
}

/// The answer about a Secret, with its values removed.
async fn without_values(
    answered: Response<KubeBody>,
    asked: &Asked,
) -> Result<Response<KubeBody>, Refused> {
    let what = asked.subject.to_string();
    let status = answered.status();
    let mut secret = api::read(answered, what.clone()).await?;
    if !masked::hide_values(&mut secret) {
        return Err(Failed::Unreadable(what).into());
    }
    Ok(api::json(status, &secret))
}

fn no_impersonation(headers: &HeaderMap) -> Result<(), Refused> {
    let mut names = headers.keys();
    let found = names.find(|it| request::is_impersonation(it.as_str()));
    found.map_or(Ok(()), |name| Err(Refused::Impersonation(name.clone())))
}

fn carry(from: &HeaderMap, to: &mut HeaderMap, names: impl IntoIterator<Item = HeaderName>) {
    for name in names {
        for value in from.get_all(&name) {
            to.append(name.clone(), value.clone());
        }
    }
}

fn counted(body: Body, mut line: Line) -> Body {
    let body = body.map_frame(move |frame| {
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        line.bytes = line.bytes.saturating_add(bytes);
        frame
    });
    UnsyncBoxBody::new(body)
}

/// A `Status`, or plain text for an unavailable API: Go's client shows such a message only as plain text.
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

/// The audit line of one request; logged when the client has read or dropped the answer.
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
        tracing::info!(
            target: AUDIT,
            request = %self.id,
            verb = self.verb,
            object = %self.subject,
            code = self.code,
            why = %self.why,
            bytes = self.bytes,
            took = ?self.begun.elapsed(),
            "resource request"
        );
    }
}
