//! Checks the upgrade of an HTTP/1.1 request, and builds the HTTP/2 request that it stands for.

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header,
};
use http_body::Frame;
use http_body_util::StreamBody;
use protocol::websocket::SUBPROTOCOL;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tonic::{Status, body::Body};

pub(super) struct Refused {
    pub(super) status: StatusCode,
    pub(super) outcome: &'static str,
    pub(super) text: &'static str,
}

/// The accept key of the upgrade, or why it is refused.
pub(super) fn check<B>(enabled: bool, request: &Request<B>) -> Result<String, Refused> {
    let refused = |status, outcome, text| Refused {
        status,
        outcome,
        text,
    };
    let has = |name: HeaderName, word: &str| {
        let values = request.headers().get_all(name).into_iter();
        let mut words = values
            .filter_map(|value| value.to_str().ok())
            .flat_map(|v| v.split(','));
        words.any(|it| it.trim().eq_ignore_ascii_case(word))
    };
    if !has(header::SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL) {
        let text =
            "This port serves gRPC over HTTP/2, or over WebSockets with the subprotocol grpc-ws\n";
        return Err(refused(StatusCode::NOT_FOUND, "not_grpc", text));
    }
    if !enabled {
        let text = "WebSockets are switched off here (--enable-websocket=false); use HTTP/2\n";
        return Err(refused(StatusCode::NOT_FOUND, "switched_off", text));
    }
    let bad = |text| refused(StatusCode::BAD_REQUEST, "bad_upgrade", text);
    if !has(header::CONNECTION, "upgrade") || !has(header::UPGRADE, "websocket") {
        return Err(bad(
            "The headers Connection: Upgrade and Upgrade: websocket are missing; usually a proxy removed them\n",
        ));
    }
    if request.method() != Method::GET || request.version() != Version::HTTP_11 {
        return Err(bad("A WebSocket begins with GET over HTTP/1.1\n"));
    }
    if !has(header::SEC_WEBSOCKET_VERSION, "13") {
        let text = "Unsupported WebSocket version; use version 13\n";
        return Err(refused(StatusCode::UPGRADE_REQUIRED, "bad_upgrade", text));
    }
    let grpc = request.headers().get(header::CONTENT_TYPE);
    if !grpc.is_some_and(|value| value.as_bytes().starts_with(b"application/grpc")) {
        return Err(bad(
            "A call of gRPC has the content type application/grpc\n",
        ));
    }
    let key = request.headers().get(header::SEC_WEBSOCKET_KEY);
    let key = key.ok_or_else(|| bad("The header Sec-WebSocket-Key is missing\n"))?;
    Ok(derive_accept_key(key.as_bytes()))
}

pub(super) fn plain(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::new(http_body_util::Full::new(Bytes::from_static(
        text.as_bytes(),
    ))));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    // The next request of this connection would be no better.
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    if status == StatusCode::UPGRADE_REQUIRED {
        headers.insert(
            header::SEC_WEBSOCKET_VERSION,
            HeaderValue::from_static("13"),
        );
    }
    response
}

/// The request as it would have come over HTTP/2.
pub(super) fn request(
    head: &http::request::Parts,
    body: mpsc::Receiver<Result<Frame<Bytes>, Status>>,
) -> Request<Body> {
    let mut request = Request::new(Body::new(StreamBody::new(ReceiverStream::new(body))));
    *request.method_mut() = Method::POST;
    *request.version_mut() = Version::HTTP_2;
    let path = head.uri.path_and_query().cloned();
    *request.uri_mut() = path.map_or_else(Uri::default, Uri::from);
    let hop = |name: &HeaderName| {
        [
            header::CONNECTION,
            header::UPGRADE,
            header::CONTENT_LENGTH,
            header::HOST,
        ]
        .contains(name)
            || name.as_str().starts_with("sec-websocket-")
    };
    let kept = head.headers.iter().filter(|(name, _)| !hop(name));
    let kept: HeaderMap = kept
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    *request.headers_mut() = kept;
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(headers: &[(&str, &str)]) -> Request<()> {
        let request = Request::builder().uri("/versionapi.Version/Version");
        let request = headers.iter().fold(request, |request, (name, value)| {
            request.header(*name, *value)
        });
        request.body(()).unwrap()
    }

    const GOOD: [(&str, &str); 6] = [
        ("connection", "keep-alive, Upgrade"),
        ("upgrade", "WebSocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-protocol", "grpc-ws"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("content-type", "application/grpc"),
    ];

    #[test]
    fn valid_upgrade_is_accepted_with_its_accept_key() {
        let accept = check(true, &asked(&GOOD)).ok().unwrap();
        assert_eq!(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn invalid_upgrades_are_refused_with_an_outcome() {
        for (missing, outcome) in [
            ("connection", "bad_upgrade"),
            ("upgrade", "bad_upgrade"),
            ("sec-websocket-version", "bad_upgrade"),
            ("sec-websocket-protocol", "not_grpc"),
            ("sec-websocket-key", "bad_upgrade"),
            ("content-type", "bad_upgrade"),
        ] {
            let headers: Vec<_> = GOOD
                .into_iter()
                .filter(|(name, _)| *name != missing)
                .collect();
            let refused = check(true, &asked(&headers)).err().unwrap();
            assert_eq!(refused.outcome, outcome, "{missing}");
        }
        assert_eq!(
            check(false, &asked(&GOOD)).err().unwrap().outcome,
            "switched_off"
        );
    }

    #[test]
    fn websocket_headers_do_not_reach_the_call() {
        let (head, ()) = asked(
            &[
                GOOD.as_slice(),
                &[("authorization", "token"), ("te", "trailers")],
            ]
            .concat(),
        )
        .into_parts();
        let request = request(&head, mpsc::channel(1).1);
        let names: Vec<&str> = request.headers().keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["content-type", "authorization", "te"]);
        assert_eq!(request.uri().path(), "/versionapi.Version/Version");
        assert_eq!(
            (request.method(), request.version()),
            (&Method::POST, Version::HTTP_2)
        );
    }
}
