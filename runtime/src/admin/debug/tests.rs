use std::net::SocketAddr;

use axum::body::{Body, to_bytes};
use http::{Method, Request};
use tower::ServiceExt as _;

use super::*;

fn shown() -> DebugState {
    DebugState::new(|page| json!({"limit": page.limit(), "after": page.after}))
}

/// The response to a request whose connection is over loopback or not.
async fn answer(
    near: Option<bool>,
    method: Method,
    path: &str,
    host: Option<&str>,
) -> (u16, String) {
    let mut request = Request::builder().method(method).uri(path);
    if let Some(host) = host {
        request = request.header(header::HOST, host);
    }
    let mut request = request.body(Body::empty()).unwrap();
    if let Some(near) = near {
        request.extensions_mut().insert(ConnectInfo(Loopback(near)));
    }
    let response = router(shown()).oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn debug_endpoints_require_loopback() {
    let get = |near, path, host| answer(near, Method::GET, path, host);
    let (status, text) = get(Some(true), "/debug/state", Some("localhost:8003")).await;
    assert_eq!(
        (status, text.as_str()),
        (200, r#"{"after":null,"limit":100}"#)
    );
    for (near, host) in [
        (None, Some("localhost")),
        (Some(false), Some("localhost")),
        (Some(false), None),
        (Some(true), Some("evil.example.org:8003")),
        (Some(true), Some("localhost.evil.example.org")),
        (Some(true), Some("127.0.0.1.nip.io")),
    ] {
        for path in ["/debug/state", "/debug/log-level"] {
            let (status, text) = get(near, path, host).await;
            assert_eq!(status, 403, "{near:?} {host:?} {path}");
            assert!(text.contains("port-forward"), "{text}");
        }
    }
    let (status, _) = answer(Some(false), Method::PUT, "/debug/log-level", None).await;
    assert_eq!(status, 403);
}

#[tokio::test]
async fn page_size_is_bounded() {
    for (asked, limit) in [
        ("limit=1000000", 500),
        ("limit=0", 1),
        ("limit=7", 7),
        ("", 100),
    ] {
        let path = format!("/debug/state?after=b&{asked}");
        let (status, text) = answer(Some(true), Method::GET, &path, None).await;
        let shown: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (status, &shown["limit"], &shown["after"]),
            (200, &json!(limit), &json!("b"))
        );
    }
}

#[test]
fn near_are_those_on_the_loopback_at_both_ends() {
    let near = |theirs: &str, ours: &str| are_loopback(theirs.parse().unwrap(), ours.parse().ok());
    assert!(near("127.0.0.1", "127.0.0.1"));
    assert!(near("::1", "::1"));
    assert!(near("::ffff:127.0.0.1", "::ffff:127.0.0.1"));
    // Proxies of meshes: from the loopback to the Pod's address, or from an address of their own.
    assert!(!near("127.0.0.1", "10.0.0.7"));
    assert!(!near("127.0.0.6", "127.0.0.1"));
    assert!(!near("10.0.0.9", "10.0.0.7"));
    assert!(!near("10.0.0.9", "127.0.0.1"));
    assert!(!are_loopback("127.0.0.1".parse().unwrap(), None));
}

/// Over a real socket of the default address: the loopback address is accepted, also as the mapped one that such a socket
/// has for IPv4, and another address of the machine is not.
#[tokio::test]
async fn server_rejects_clients_that_are_not_on_loopback() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let all = SocketAddr::new(crate::net::ALL, 0);
    let listener = crate::net::bind(all).await.unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], listener.local_addr().unwrap().port()));
    let service = router(shown()).into_make_service_with_connect_info::<Loopback>();
    let ask = async {
        let mut text = Vec::new();
        for from in ["127.0.0.1:0", "127.0.0.6:0"] {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.bind(from.parse::<SocketAddr>().unwrap()).unwrap();
            let mut stream = socket.connect(address).await.unwrap();
            stream
                .write_all(b"GET /debug/state HTTP/1.0\r\n\r\n")
                .await
                .unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            text.push(answer.lines().next().unwrap_or_default().to_owned());
        }
        text
    };
    let serve = IntoFuture::into_future(axum::serve(listener, service));
    tokio::select! {
        served = serve => panic!("{served:?}"),
        lines = ask => assert_eq!(lines, ["HTTP/1.0 200 OK", "HTTP/1.0 403 Forbidden"]),
    }
}
