//! What a Go principal asks of a Pod, on a stream that we open for it: as a request of the API, and the stream.

use live::request::{Object, Query, Request as Asked, Subject, Verb as AskedVerb};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Request;

use crate::transport::tokens::Shown;

/// Which Pod, and what of it.
#[derive(Debug)]
pub(super) struct Pod<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) subresource: &'static str,
}

/// A word of a query, if it is said at all.
pub(super) type Word = Option<(String, String)>;

impl Pod<'_> {
    /// Which request of HTTP it stands for. It is read again before it is asked.
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

/// A word that is said if it is so.
pub(super) fn on(name: &str, on: bool) -> Word {
    on.then(|| (name.to_owned(), "true".to_owned()))
}

/// A word that is said if there is a text.
pub(super) fn text(name: &str, text: &str) -> Word {
    (!text.is_empty()).then(|| (name.to_owned(), text.to_owned()))
}

/// What opens a stream with this token, and where to say what is said on it: so much at a time.
pub(super) fn stream<T>(
    unsent: usize,
    token: Shown,
) -> (mpsc::Sender<T>, Request<ReceiverStream<T>>) {
    let (emit, stated) = mpsc::channel(unsent);
    let mut request = Request::new(ReceiverStream::new(stated));
    request.metadata_mut().insert("authorization", token);
    (emit, request)
}
