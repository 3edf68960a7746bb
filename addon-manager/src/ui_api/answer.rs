//! Responses: JSON with tags and encodings, and errors with a next step.

use std::error::Error;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use runtime::error::Chain;
use serde_json::json;

use super::{
    guard::Refusal,
    snapshot::{Snapshot, reads_gzip},
};

/// A response with its whole body.
pub type Answer = Response<Full<Bytes>>;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Each user asks Argo CD again, which may have withdrawn the right; the tag makes that cheap.
const CACHE: HeaderValue = HeaderValue::from_static("private, no-cache");
const NO_SNIFF: HeaderValue = HeaderValue::from_static("nosniff");
const GZIP: HeaderValue = HeaderValue::from_static("gzip");
const VARY: HeaderValue = HeaderValue::from_static("Accept-Encoding");

/// Answers with a snapshot, as the client's headers want it.
pub fn snapshot(snapshot: &Snapshot, headers: &HeaderMap) -> Answer {
    let known = snapshot.is_known(headers);
    let packed = !known && reads_gzip(headers);
    let mut response = match (known, packed) {
        (true, _) => with(StatusCode::NOT_MODIFIED, Bytes::new()),
        (false, true) => with(StatusCode::OK, snapshot.gzip().clone()),
        (false, false) => match snapshot.json() {
            Ok(json) => with(StatusCode::OK, json),
            Err(error) => return broken(&error),
        },
    };
    let headers = response.headers_mut();
    headers.insert(header::ETAG, snapshot.tag().clone());
    headers.insert(header::VARY, VARY);
    if packed {
        headers.insert(header::CONTENT_ENCODING, GZIP);
    }
    response
}

/// Answers that there is nothing, with the cause and the next step.
pub fn error(status: StatusCode, error: &str, next: &str) -> Answer {
    let body = json!({ "error": error, "next": next }).to_string();
    with(status, body.into())
}

/// Answers that an answer cannot be written, and logs why.
pub fn broken(error: &(dyn Error + 'static)) -> Answer {
    tracing::error!(error = %Chain(error), "cannot write an answer for the UI");
    self::error(
        StatusCode::INTERNAL_SERVER_ERROR,
        "internal error",
        "look at the log of the hub program, and report this",
    )
}

/// Answers a request that is refused.
pub fn refusal(refusal: Refusal) -> Answer {
    let (status, cause, next) = refusal.answer();
    let mut response = error(status, cause, next);
    if status == StatusCode::METHOD_NOT_ALLOWED {
        let allow = HeaderValue::from_static("GET");
        response.headers_mut().insert(header::ALLOW, allow);
    }
    response
}

fn with(status: StatusCode, body: Bytes) -> Answer {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, JSON);
    headers.insert(header::CACHE_CONTROL, CACHE);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, NO_SNIFF);
    response
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use jiff::Timestamp;
    use serde_json::Value;

    use super::*;

    async fn body(answer: Answer) -> Bytes {
        answer.into_body().collect().await.unwrap().to_bytes()
    }

    fn sent(headers: &[(&'static str, &str)]) -> HeaderMap {
        let headers = headers.iter().map(|(name, value)| {
            let name = header::HeaderName::from_static(name);
            (name, HeaderValue::from_str(value).unwrap())
        });
        headers.collect()
    }

    #[tokio::test]
    async fn known_content_is_not_sent_again() {
        let content = Snapshot::new(&json!({"a": 1}), Timestamp::UNIX_EPOCH).unwrap();
        let first = snapshot(&content, &HeaderMap::new());
        assert_eq!(first.status(), StatusCode::OK);
        let tag = first.headers()[header::ETAG].to_str().unwrap().to_owned();
        let again = snapshot(
            &content,
            &sent(&[("if-none-match", &tag), ("accept-encoding", "gzip")]),
        );
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
        assert_eq!(again.headers()[header::ETAG], first.headers()[header::ETAG]);
        assert!(!again.headers().contains_key(header::CONTENT_ENCODING));
        assert!(body(again).await.is_empty());
        assert_eq!(body(first).await, content.json().unwrap());
    }

    #[tokio::test]
    async fn answers_are_private_and_never_sniffed() {
        let content = Snapshot::new(&json!({"a": 1}), Timestamp::UNIX_EPOCH).unwrap();
        let packed = snapshot(&content, &sent(&[("accept-encoding", "gzip")]));
        assert_eq!(packed.headers()[header::CONTENT_ENCODING], "gzip");
        for answer in [packed, refusal(Refusal::Token), refusal(Refusal::Method)] {
            let headers = answer.headers();
            assert_eq!(headers[header::CONTENT_TYPE], "application/json");
            assert_eq!(headers[header::CACHE_CONTROL], "private, no-cache");
            assert_eq!(headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
        }
    }

    #[tokio::test]
    async fn every_refusal_has_a_cause_and_a_next_step() {
        for reason in [
            Refusal::Method,
            Refusal::Duplicate,
            Refusal::NoToken,
            Refusal::Token,
            Refusal::Parameters,
            Refusal::Unknown,
            Refusal::Application,
        ] {
            let answer = refusal(reason);
            assert_eq!(answer.status(), reason.answer().0);
            let allows = answer.headers().contains_key(header::ALLOW);
            assert_eq!(allows, reason == Refusal::Method);
            let found: Value = serde_json::from_slice(&body(answer).await).unwrap();
            for field in ["error", "next"] {
                assert!(found[field].as_str().unwrap().len() > 5, "{found}");
            }
        }
    }
}
