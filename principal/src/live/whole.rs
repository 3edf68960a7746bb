//! Responses with a whole body.

use std::error::Error;

use bytes::Bytes;
use http::{
    HeaderValue, Response, StatusCode,
    header::{CONTENT_LENGTH, CONTENT_TYPE},
};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use live::request;

use super::tunnel::Body;

/// A `Status`, but for a cluster that does not answer: of that Go's client shows people the message only when it is
/// plain text.
pub(super) fn refusal(code: StatusCode, message: &str) -> Response<Body> {
    if code == StatusCode::BAD_GATEWAY {
        return with_body(code, "text/plain; charset=utf-8", message.to_owned().into());
    }
    let status = request::status(code.as_u16(), reason(code), message);
    json(code, status.to_string())
}

pub(super) fn json(code: StatusCode, text: String) -> Response<Body> {
    with_body(code, "application/json", text.into())
}

/// A whole answer.
pub(super) fn with_body(code: StatusCode, kind: &'static str, body: Bytes) -> Response<Body> {
    let length = HeaderValue::from(body.len());
    let whole = Full::new(body).map_err(|never| -> Box<dyn Error + Send + Sync> { match never {} });
    let mut response = Response::new(UnsyncBoxBody::new(whole));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CONTENT_LENGTH, length);
    response
}

/// The `reason` of an API server for a status code; clients derive their errors from it.
const fn reason(code: StatusCode) -> &'static str {
    match code.as_u16() {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        409 => "Conflict",
        410 => "Gone",
        415 => "UnsupportedMediaType",
        422 => "Invalid",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    }
}
