//! The cluster's API, asked as the user who has the rights of people at the hub and no more.

use std::time::Duration;

use http::header::{ACCEPT, HeaderValue};
use http::{HeaderName, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use kube::Client;
use kube::client::Body as KubeBody;
use live::request::{Object, Query, Request as Asked, Subject, Verb};
use serde_json::Value;

/// How long the API may take to begin an answer: less than the hub waits for us.
pub(super) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(25);
/// Larger than any object can be in the store of an API server.
const LARGEST: usize = 8 << 20;
const IMPERSONATE: HeaderName = HeaderName::from_static("impersonate-user");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Why the API did not say what was asked.
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

/// Who is asked, and as whom.
pub(super) struct Api {
    client: Client,
    user: Option<HeaderValue>,
}

impl Api {
    /// As this user; without one as the agent itself.
    pub(super) fn new(client: Client, user: Option<&str>) -> Self {
        let user = user.and_then(|user| HeaderValue::from_str(user).ok());
        Self { client, user }
    }

    /// The answer as it comes.
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

    /// One object; none where there is none.
    pub(super) async fn object(&self, object: Object) -> Result<Option<Value>, Failed> {
        self.look(Subject::Object(object)).await
    }

    /// What there is; none where there is none.
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

/// A whole answer, which is JSON.
pub(super) async fn read(answered: Response<KubeBody>, what: String) -> Result<Value, Failed> {
    let body = Limited::new(answered.into_body(), LARGEST).collect();
    let Ok(Ok(body)) = tokio::time::timeout(RESPONSE_TIMEOUT, body).await else {
        return Err(Failed::Unreadable(what));
    };
    serde_json::from_slice(&body.to_bytes()).map_err(|_not_json| Failed::Unreadable(what))
}
