mod openapi;

use http::{HeaderMap, Method, StatusCode};
use tokio::time::sleep;

use super::*;
use crate::ui_api::{
    guard::{APPLICATION_HEADER, TOKEN_HEADER},
    testing::{World, application, read},
    token::Token,
};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

async fn status(world: &World, stored: Stored, target: &str, headers: &HeaderMap) -> StatusCode {
    let mut request = http::Request::get(target);
    request.headers_mut().unwrap().extend(headers.clone());
    let (head, ()) = request.body(()).unwrap().into_parts();
    let stored = watch::channel(stored).1;
    read(answered(&world.answers, &stored, &head).await).await.0
}

fn found() -> Stored {
    Stored::Found {
        token: Token::read(SECRET.as_bytes()),
        labelled: true,
        version: "1".to_owned(),
    }
}

fn sent(token: &str, application: &str) -> HeaderMap {
    let pairs = [(TOKEN_HEADER, token), (APPLICATION_HEADER, application)];
    let pairs = pairs.map(|(name, value)| (name, value.parse().unwrap()));
    pairs.into_iter().collect()
}

#[tokio::test]
async fn requests_are_checked_before_anything_is_computed() {
    let world = World::new();
    world.hub.put(application("argocd", "shop", "paris"));
    let target = "/api/v1/applications/argocd/shop/path";
    for (stored, headers, expected) in [
        (found(), sent(SECRET, "argocd:shop"), StatusCode::OK),
        (found(), sent(SECRET, "argocd:other"), StatusCode::FORBIDDEN),
        (
            found(),
            sent("forged", "argocd:shop"),
            StatusCode::UNAUTHORIZED,
        ),
        (found(), HeaderMap::new(), StatusCode::UNAUTHORIZED),
        (
            Stored::Absent,
            sent(SECRET, "argocd:shop"),
            StatusCode::SERVICE_UNAVAILABLE,
        ),
        (
            Stored::Unknown,
            sent("", "argocd:shop"),
            StatusCode::SERVICE_UNAVAILABLE,
        ),
    ] {
        assert_eq!(status(&world, stored, target, &headers).await, expected);
    }
    // A user who may see one Application learns nothing about clusters.
    let headers = sent(SECRET, "argocd:shop");
    for target in [
        "/api/v1/fleet",
        "/api/v1/clusters/paris",
        "/api/v1/clusters/none",
    ] {
        let found = status(&world, found(), target, &headers).await;
        assert_eq!(found, StatusCode::FORBIDDEN, "{target}");
    }
    let guard = sent(SECRET, "argocd:argocd-agent-fleet");
    let found = status(&world, found(), "/api/v1/fleet", &guard).await;
    assert_eq!(found, StatusCode::OK);
}

#[tokio::test]
async fn served_over_a_socket_with_tag_and_compression() {
    let world = World::new();
    let (send, stored) = watch::channel(found());
    let answers = Arc::new(world.answers);
    let parts = runtime::parts::Parts::new(CancellationToken::new());
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = net::bind(address).await.unwrap();
    let address = listener.local_addr().unwrap();
    let answering = move |head: http::request::Parts| {
        let (answers, stored) = (Arc::clone(&answers), stored.clone());
        async move { answered(&answers, &stored, &head).await }
    };
    let limits = server::Limits::default();
    parts.spawn(
        "server",
        server::run(listener, limits, parts.spawner(), answering),
    );
    let client = hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new())
        .build_http::<http_body_util::Empty<bytes::Bytes>>();
    let ask = async |headers: HeaderMap| {
        let uri = format!("http://{address}/api/v1/fleet");
        let mut request = http::Request::builder().method(Method::GET).uri(uri);
        request.headers_mut().unwrap().extend(headers);
        let request = request.body(http_body_util::Empty::new()).unwrap();
        client.request(request).await.unwrap()
    };
    let mut headers = sent(SECRET, "argocd:argocd-agent-fleet");
    headers.insert("accept-encoding", "gzip".parse().unwrap());
    let first = ask(headers.clone()).await;
    assert_eq!(first.status(), StatusCode::OK);
    assert_eq!(first.headers()["content-encoding"], "gzip");
    headers.insert("if-none-match", first.headers()["etag"].clone());
    assert_eq!(
        ask(headers.clone()).await.status(),
        StatusCode::NOT_MODIFIED
    );
    assert_eq!(
        ask(HeaderMap::new()).await.status(),
        StatusCode::UNAUTHORIZED
    );
    // A new Secret counts at once.
    send.send_replace(Stored::Absent);
    assert_eq!(ask(headers).await.status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test(start_paused = true)]
async fn without_a_page_nothing_is_computed_between_minutes() {
    let world = World::new();
    let token = CancellationToken::new();
    #[expect(clippy::disallowed_methods, reason = "ends with the token of the test")]
    let ticking = tokio::spawn(end_minutes(Arc::new(world.answers), token.clone()));
    let asked = || world.hub.change(|state| state.asked);
    sleep(Duration::from_secs(59)).await;
    assert_eq!(asked(), 1);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(asked(), 2);
    token.cancel();
    ticking.await.unwrap();
}
