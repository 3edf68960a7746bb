//! Answers the hub's requests for values of this cluster's Argo CD, which it streams from redis.

use std::sync::Arc;

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http::header::CONTENT_LENGTH;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, StreamBody};
use live::cache_key::{self, CacheKey};
use live::ui_access::UiAccess;
use runtime::error::Chain;
use tokio::time::Instant;

use super::answer::{AUDIT, Body, request_id};
use crate::live::redis::{self, Redis};

/// Answers requests for values of redis.
#[derive(Debug)]
pub struct Cache {
    redis: Arc<Redis>,
    argocd_namespace: String,
    access: UiAccess,
}

/// Why a request has no value.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("invalid request")]
    Unreadable,
    #[error("UI_ACCESS of this cluster is none")]
    Forbidden,
    #[error("value not found")]
    Missing,
    #[error(transparent)]
    Redis(#[from] redis::Error),
}

impl Refused {
    const fn status(&self) -> StatusCode {
        match self {
            Self::Unreadable | Self::Forbidden => StatusCode::FORBIDDEN,
            Self::Missing => StatusCode::NOT_FOUND,
            Self::Redis(_) => StatusCode::BAD_GATEWAY,
        }
    }
}

impl Cache {
    /// Reads this redis of the Argo CD in this namespace, if the access level allows it.
    pub const fn new(redis: Arc<Redis>, argocd_namespace: String, access: UiAccess) -> Self {
        Self {
            redis,
            argocd_namespace,
            access,
        }
    }

    /// Whether a request is for a value of redis.
    pub(super) fn is_asked<B>(request: &Request<B>) -> bool {
        request.uri().path().starts_with(cache_key::PATH)
    }

    /// Answers one request.
    pub(crate) async fn answer<B: Send>(&self, request: Request<B>) -> Response<Body> {
        let (request, _body) = request.into_parts();
        let id = request_id(&request.headers);
        let target = request.uri.path_and_query().map_or("", |it| it.as_str());
        let asked = CacheKey::from_target(target).filter(|_| request.method == Method::GET);
        let asked = asked.map(|(key, watch)| (self.as_here(&key), watch));
        let object = asked.as_ref().map(|(key, _)| key.to_string());
        let begun = Instant::now();
        let answered = self.ask(asked).await;
        let why = answered.as_ref().err().map(|why| Chain(why).to_string());
        let response = answered.unwrap_or_else(|why| nothing(why.status()));
        tracing::info!(
            target: AUDIT,
            request = %id,
            verb = "get",
            object = object.unwrap_or_default(),
            code = response.status().as_u16(),
            why = why.unwrap_or_default(),
            took = ?begun.elapsed(),
            "redis request"
        );
        response
    }

    /// The key on this cluster: Argo CD omits its own namespace.
    fn as_here(&self, key: &CacheKey) -> CacheKey {
        let namespace = key.namespace.clone();
        let namespace = namespace.filter(|it| *it != self.argocd_namespace);
        key.of(namespace, key.name.clone())
    }

    async fn ask(&self, asked: Option<(CacheKey, bool)>) -> Result<Response<Body>, Refused> {
        let (key, watch) = asked.ok_or(Refused::Unreadable)?;
        if self.access == UiAccess::None {
            return Err(Refused::Forbidden);
        }
        if watch {
            let messages = self.redis.subscribe(&key.to_string()).await?;
            return Ok(Response::new(body(messages.into_bytes())));
        }
        let found = self.redis.get(&key.to_string()).await?;
        let found = found.ok_or(Refused::Missing)?;
        let length = HeaderValue::from(found.length);
        let mut response = Response::new(body(found.into_bytes()));
        response.headers_mut().insert(CONTENT_LENGTH, length);
        Ok(response)
    }
}

fn body(bytes: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static) -> Body {
    let frames = bytes.map(|bytes| {
        let broken = |error: std::io::Error| kube::Error::Service(error.into());
        bytes.map(Frame::data).map_err(broken)
    });
    UnsyncBoxBody::new(StreamBody::new(frames))
}

fn nothing(status: StatusCode) -> Response<Body> {
    let body = Empty::new().map_err(|never| match never {});
    let mut response = Response::new(UnsyncBoxBody::new(body));
    *response.status_mut() = status;
    response
}
