//! Requests of a Go principal about a Pod: the HTTP request to the API, and the stream for the answer.

use live::request::{Object, Query, Request as Asked, Subject, Verb as AskedVerb};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Request;

use crate::transport::tokens::Shown;

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
