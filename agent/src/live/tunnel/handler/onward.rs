//! Builds the request to the API: it looks up the object first, and writes the body from scratch.

use argocd::Meta;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, IF_NONE_MATCH};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body as KubeBody;
use live::change::{self, Bad, PatchKind};
use live::request::{Object, Request as Asked, Verb};
use live::ui_access::{Allowed, UiAccess};
use serde_json::Value;

use super::super::answer::RequestBody;
use super::api::{self, Failed, RESPONSE_TIMEOUT};
use super::belongs::Search;
use super::{ApiHandler, Refused, carry};

/// The headers of a reading request that the handler passes on.
const ASKED: [HeaderName; 3] = [ACCEPT, ACCEPT_ENCODING, IF_NONE_MATCH];
/// The largest body that an API server accepts.
const LARGEST: usize = 3 << 20;
const JSON: HeaderValue = HeaderValue::from_static("application/json");

impl ApiHandler {
    /// The request to send, if the level allows it for its object.
    pub(super) async fn onward(
        &self,
        parts: &Parts,
        body: RequestBody,
        asked: &Asked,
        allowed: Allowed,
    ) -> Result<Request<KubeBody>, Refused> {
        let mut onward = Request::builder()
            .method(parts.method.clone())
            .uri(asked.target())
            .body(KubeBody::empty())?;
        carry(&parts.headers, onward.headers_mut(), ASKED);
        let object = match (allowed, asked.object()) {
            (Allowed::IfItBelongs | Allowed::IfItsOwnerBelongs, Some(object)) => object,
            (Allowed::EventsOfApplications, _) => {
                only_plain_json(onward.headers_mut());
                return Ok(onward);
            }
            (Allowed::AsItIs, _) | (_, None) => return Ok(onward),
        };
        if object.is_secret() || Self::answers_object(asked, allowed).is_some() {
            only_plain_json(onward.headers_mut());
        }
        if asked.verb.only_reads() {
            if Self::answers_object(asked, allowed).is_none() {
                self.judged(object).await?;
            }
            return Ok(onward);
        }
        let body = Limited::new(body, LARGEST).collect();
        let Ok(Ok(body)) = tokio::time::timeout(RESPONSE_TIMEOUT, body).await else {
            return Err(Refused::Body);
        };
        let (body, kind) = self.body(parts, asked, object, &body.to_bytes()).await?;
        *onward.body_mut() = KubeBody::from(body);
        onward.headers_mut().insert(CONTENT_TYPE, kind);
        Ok(onward)
    }

    async fn body(
        &self,
        parts: &Parts,
        asked: &Asked,
        object: &Object,
        body: &[u8],
    ) -> Result<(Vec<u8>, HeaderValue), Refused> {
        if asked.verb == Verb::Create {
            let made = change::creation(body, object)?;
            self.owned(&made, object).await?;
            return Ok((made.to_string().into_bytes(), JSON));
        }
        if asked.verb == Verb::Delete {
            let judged = self.judged(object).await?;
            let options = change::deletion(body, &asked.query, Meta::of(&judged).uid())?;
            return Ok((options, JSON));
        }
        let kind = parts.headers.get(CONTENT_TYPE);
        let kind = PatchKind::of(kind.and_then(|it| it.to_str().ok()).unwrap_or_default())?;
        let judged = self.judged(object).await?;
        let is_dry = asked.query.get("dryRun") == Some("All");
        let patch = kind.tied(body, Meta::of(&judged).uid(), object, is_dry)?;
        Ok((patch, HeaderValue::from_static(kind.as_str())))
    }

    /// The live object, if it belongs to an Application.
    pub(super) async fn judged(&self, object: &Object) -> Result<Value, Refused> {
        let whole = Object {
            subresource: None,
            ..object.clone()
        };
        let what = whole.to_string();
        let Some(found) = self.api.object(whole).await? else {
            return Err(Refused::NotFound(what));
        };
        self.belonging(found, what).await
    }

    /// The answer with an object, if that object belongs to an Application: another one may have its name a moment later.
    pub(super) async fn shown(
        &self,
        answered: Response<KubeBody>,
        object: &Object,
    ) -> Result<Response<KubeBody>, Refused> {
        let what = object.to_string();
        let status = answered.status();
        if status == StatusCode::NOT_FOUND {
            return Err(Refused::NotFound(what));
        }
        if !status.is_success() {
            let failed = Failed::NotShown { what, code: status };
            return Err(failed.into());
        }
        let found = api::read(answered, what.clone()).await?;
        let found = self.belonging(found, what).await?;
        Ok(api::json(status, &found))
    }

    /// The object that is the answer to this request, which the handler judges instead of one that it read before.
    pub(super) fn answers_object(asked: &Asked, allowed: Allowed) -> Option<&Object> {
        let is_whole = |it: &&Object| matches!(it.subresource.as_deref(), None | Some("status"));
        let is_get = allowed == Allowed::IfItBelongs && asked.verb == Verb::Get;
        asked.object().filter(is_whole).filter(|_| is_get)
    }

    async fn belonging(&self, found: Value, what: String) -> Result<Value, Refused> {
        if Search::new(&self.api, &self.scope).belongs(&found).await? {
            Ok(found)
        } else if self.ui.access == UiAccess::Applications {
            Err(Refused::Hidden(what))
        } else {
            Err(Refused::Foreign(what))
        }
    }

    /// Whether the object to create has an owner, in the namespace of the request, that belongs to an Application.
    async fn owned(&self, made: &Value, object: &Object) -> Result<(), Refused> {
        let mut placed = made.clone();
        if let Some(metadata) = placed.get_mut("metadata").and_then(Value::as_object_mut) {
            let namespace = object.namespace.clone().unwrap_or_default();
            metadata.insert("namespace".to_owned(), namespace.into());
        }
        let mut search = Search::new(&self.api, &self.scope);
        let is_owned = search.has_owner(&placed).await?;
        is_owned.then_some(()).ok_or(Refused::Bad(Bad::Unowned))
    }
}

/// Requests an answer that the handler can parse: to judge the object, or to remove the values of a Secret or the Events of
/// other objects.
fn only_plain_json(headers: &mut HeaderMap) {
    for name in [ACCEPT_ENCODING, IF_NONE_MATCH] {
        headers.remove(name);
    }
    headers.insert(ACCEPT, JSON);
}
