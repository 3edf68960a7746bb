//! The body of answers to live requests, and what their audit lines share.

use bytes::Bytes;
use http::{HeaderMap, HeaderName};
use http_body_util::combinators::UnsyncBoxBody;

/// The body of an answer.
pub(crate) type Body = UnsyncBoxBody<Bytes, kube::Error>;

/// The log target of audit lines.
pub(super) const AUDIT: &str = "audit";
/// Correlates the log lines of both ends.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The beginning of the request's id, for the log.
pub(super) fn request_id(headers: &HeaderMap) -> String {
    let id = headers.get(&REQUEST_ID).and_then(|it| it.to_str().ok());
    id.unwrap_or_default().chars().take(64).collect()
}
