//! Requests of a Go principal about a Pod: the HTTP request to the API, and the stream for the answer.

use http::Response;
use http_body_util::{BodyExt as _, Collected, Limited};
use live::request::{Object, Query, Request as Asked, Subject, Verb as AskedVerb};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Request;

use crate::live::tunnel::Body;
use crate::transport::tokens::Shown;

/// The most bytes of an API's error that are read.
const LONGEST_REASON: usize = 16 << 10;

/// A subresource of a Pod.
#[derive(Debug)]
pub(super) struct Pod<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) subresource: &'static str,
}

/// A parameter of a query, if it is set.
pub(super) type Word = Option<(String, String)>;

impl Pod<'_> {
    /// The target of the HTTP request. The handler parses it again.
    pub(super) fn target(&self, query: impl IntoIterator<Item = Word>) -> String {
        let subject = Subject::Object(Object {
            group: String::new(),
            version: "v1".to_owned(),
            resource: "pods".to_owned(),
            namespace: Some(self.namespace.to_owned()),
            name: Some(self.name.to_owned()),
            subresource: Some(self.subresource.to_owned()),
        });
        let asked = Asked {
            verb: AskedVerb::Get,
            subject,
            query: query.into_iter().flatten().collect::<Query>(),
        };
        asked.target()
    }
}

/// A parameter that is set if `on`.
pub(super) fn on(name: &str, on: bool) -> Word {
    on.then(|| (name.to_owned(), "true".to_owned()))
}

/// A parameter that is set if the text is not empty.
pub(super) fn text(name: &str, text: &str) -> Word {
    (!text.is_empty()).then(|| (name.to_owned(), text.to_owned()))
}

/// The request that opens a stream with this token, and the sender of its messages, with a buffer for `unsent` of them.
pub(super) fn stream<T>(
    unsent: usize,
    token: Shown,
) -> (mpsc::Sender<T>, Request<ReceiverStream<T>>) {
    let (emit, messages) = mpsc::channel(unsent);
    let mut request = Request::new(ReceiverStream::new(messages));
    request.metadata_mut().insert("authorization", token);
    (emit, request)
}

/// The reason of a failed request: the API's message, or else `cannot` with the status.
pub(super) async fn refused(answered: Response<Body>, cannot: &str) -> String {
    let code = answered.status();
    let body = Limited::new(answered.into_body(), LONGEST_REASON);
    let body = body.collect().await;
    let body = body.map(Collected::to_bytes).unwrap_or_default();
    reason(&body).unwrap_or_else(|| format!("{cannot}: {code}"))
}

/// The message in an API's error.
fn reason(body: &[u8]) -> Option<String> {
    let status: Value = serde_json::from_slice(body).ok()?;
    Some(status.get("message")?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_of_a_failure_is_the_message_of_the_api() {
        let stated = reason(br#"{"message":"not there"}"#);
        assert_eq!(stated.as_deref(), Some("not there"));
        assert_eq!(reason(b"x"), None);
    }
}
