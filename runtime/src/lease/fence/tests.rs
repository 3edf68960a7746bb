use std::convert::Infallible;
use std::sync::Mutex;

use ::kube::Api;
use ::kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use tower::ServiceExt as _;

use super::*;

type Methods = Arc<Mutex<Vec<Method>>>;

/// A client of an API that answers every request, and the methods of the requests that it got.
fn api() -> (Client, Methods) {
    let methods = Methods::default();
    let got = Arc::clone(&methods);
    let service = service_fn(move |request: Request<Body>| {
        got.lock().unwrap().push(request.method().clone());
        let body = json!({ "metadata": { "name": "x" } }).to_string();
        std::future::ready(Ok::<_, Infallible>(Response::new(Body::from(
            body.into_bytes(),
        ))))
    });
    (Client::new(service, "ns"), methods)
}

fn is_refused<T>(result: Result<T, ::kube::Error>) -> bool {
    match result {
        Err(::kube::Error::Service(error)) => error.is::<Refused>(),
        Ok(_) | Err(_) => false,
    }
}

#[tokio::test(start_paused = true)]
async fn writes_end_with_the_lease_and_reads_do_not() {
    let (client, methods) = api();
    let fence = Fence::closed();
    let maps: Api<ConfigMap> = Api::default_namespaced(fence.client(&client));
    let (posting, patching) = (PostParams::default(), PatchParams::default());
    let patch = Patch::Merge(json!({}));
    let map = ConfigMap::default();
    assert!(is_refused(maps.create(&posting, &map).await));
    fence.extend(Instant::now() + Duration::from_secs(5));
    maps.create(&posting, &map).await.unwrap();
    tokio::time::advance(Duration::from_millis(4999)).await;
    maps.patch("x", &patching, &patch).await.unwrap();
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(is_refused(maps.create(&posting, &map).await));
    assert!(is_refused(maps.patch("x", &patching, &patch).await));
    assert!(is_refused(maps.replace("x", &posting, &map).await));
    assert!(is_refused(maps.delete("x", &DeleteParams::default()).await));
    maps.get("x").await.unwrap();
    let expected = [Method::POST, Method::PATCH, Method::GET];
    assert_eq!(*methods.lock().unwrap(), expected);
}

#[tokio::test]
async fn an_open_fence_refuses_nothing() {
    let (client, _) = api();
    let maps: Api<ConfigMap> = Api::default_namespaced(Fence::open().client(&client));
    let created = maps
        .create(&PostParams::default(), &ConfigMap::default())
        .await;
    assert!(created.is_ok());
}

/// A write may wait in the client's queue, as for its rate limit, while the process stalls.
#[tokio::test(start_paused = true)]
async fn a_write_that_waited_past_the_lease_does_not_leave() {
    let send = |fence: Option<Fence>| {
        let mut request = Request::new(());
        if let Some(fence) = fence {
            request.extensions_mut().insert(fence);
        }
        let sent = service_fn(|_: Request<()>| std::future::ready(Ok::<_, Infallible>(())));
        AtSend(sent).oneshot(request)
    };
    let fence = Fence::closed();
    fence.extend(Instant::now() + Duration::from_secs(1));
    assert!(send(Some(fence.clone())).await.is_ok());
    tokio::time::advance(Duration::from_secs(1)).await;
    let refused = send(Some(fence)).await.unwrap_err();
    assert!(refused.is::<Refused>(), "{refused}");
    assert!(send(None).await.is_ok(), "of a part without a fence");
}

#[tokio::test(start_paused = true)]
async fn a_closed_fence_settles_after_the_writes_that_left() {
    let silent =
        service_fn(|_: Request<Body>| std::future::pending::<Result<Response<Body>, Infallible>>());
    let fence = Fence::open();
    let maps: Api<ConfigMap> = Api::default_namespaced(fence.client(&Client::new(silent, "ns")));
    #[expect(clippy::disallowed_methods, reason = "aborted by the test")]
    let write = tokio::spawn(async move {
        maps.create(&PostParams::default(), &ConfigMap::default())
            .await
            .map(drop)
    });
    tokio::time::sleep(Duration::from_millis(1)).await;
    fence.close();
    let (begun, travel) = (Instant::now(), Duration::from_millis(400));
    let second = Duration::from_secs(1);
    let waited = tokio::time::timeout(second, fence.settled(travel)).await;
    assert!(waited.is_err(), "a write has no response");
    write.abort();
    // The API may carry out a write whose request is dropped.
    fence.settled(travel).await;
    assert_eq!(begun.elapsed(), second + travel);
}
