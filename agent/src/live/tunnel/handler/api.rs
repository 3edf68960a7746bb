//! A client of the cluster's API that impersonates a user with the rights of the access level only.

use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use kube::Client;
use kube::client::Body as KubeBody;
use live::request::{Object, Query, Request as Asked, Subject, Verb};
use serde_json::Value;

use crate::live::IMPERSONATE;

/// Timeout of the start of an answer: less than the hub's.
pub(super) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(25);
/// Larger than any object can be in the store of an API server.
const LARGEST: usize = 8 << 20;
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Why a request to the API failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failed {
    #[error("timed out: the API of the cluster did not answer within {RESPONSE_TIMEOUT:?}")]
    Late,
    #[error("send the request to the cluster's API")]
    Ask(#[source] Box<kube::Error>),
    #[error("write the request")]
    Unwritable(#[from] http::Error),
    #[error("the API of the cluster denied access to {what} for users of the hub: {code}")]
    NotShown { what: String, code: StatusCode },
    #[error("the API of the cluster does not know {0}")]
    Unreadable(String),
}

/// The client, and the user that it impersonates.
pub(super) struct Api {
    client: Client,
    user: Option<HeaderValue>,
}

impl Api {
    /// A client that impersonates this user; without one it uses the agent's own identity.
    pub(super) fn new(client: Client, user: Option<&str>) -> Self {
        let user = user.and_then(|user| HeaderValue::from_str(user).ok());
        Self { client, user }
    }

    /// Sends a request and returns the streaming answer.
    pub(super) async fn send(
        &self,
        mut request: Request<KubeBody>,
    ) -> Result<Response<KubeBody>, Failed> {
        if let Some(user) = &self.user {
            request.headers_mut().insert(IMPERSONATE, user.clone());
        }
        tokio::time::timeout(RESPONSE_TIMEOUT, self.client.send(request))
            .await
            .map_err(|_elapsed| Failed::Late)?
            .map_err(|error| Failed::Ask(Box::new(error)))
    }

    /// One object; none if it does not exist.
    pub(super) async fn object(&self, object: Object) -> Result<Option<Value>, Failed> {
        self.look(Subject::Object(object)).await
    }

    /// The JSON at this target; none if it does not exist.
    pub(super) async fn look(&self, subject: Subject) -> Result<Option<Value>, Failed> {
        let what = subject.to_string();
        let asked = Asked {
            verb: Verb::Get,
            subject,
            query: Query::default(),
        };
        let request = Request::get(asked.target())
            .header(ACCEPT, JSON)
            .body(KubeBody::empty())?;
        let answered = self.send(request).await?;
        match answered.status() {
            StatusCode::NOT_FOUND => Ok(None),
            code if code.is_success() => read(answered, what).await.map(Some),
            code => Err(Failed::NotShown { what, code }),
        }
    }
}

/// Reads a whole JSON answer.
pub(super) async fn read(answered: Response<KubeBody>, what: String) -> Result<Value, Failed> {
    let body = Limited::new(answered.into_body(), LARGEST).collect();
    let Ok(Ok(body)) = tokio::time::timeout(RESPONSE_TIMEOUT, body).await else {
        return Err(Failed::Unreadable(what));
    };
    serde_json::from_slice(&body.to_bytes()).map_err(|_not_json| Failed::Unreadable(what))
}

/// An answer of this value.
pub(super) fn json(status: StatusCode, value: &Value) -> Response<KubeBody> {
    let mut shown = Response::new(KubeBody::from(value.to_string().into_bytes()));
    *shown.status_mut() = status;
    shown.headers_mut().insert(CONTENT_TYPE, JSON);
    shown
}
