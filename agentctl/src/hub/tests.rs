use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use http::{Request, Response};
use kube::client::Body;
use serde_json::json;
use tower::service_fn;

use super::*;

/// A hub that answers by its queries, and what it was asked.
fn hub(
    answer: impl Fn(&str) -> (u16, Value) + Clone + Send + 'static,
) -> (Hub, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    let service = service_fn(move |request: Request<Body>| {
        let uri = request.uri().to_string();
        let (code, body) = answer(&uri);
        log.lock().unwrap().push(uri);
        async move {
            let response = Response::builder().status(code);
            let response = response.body(Body::from(body.to_string().into_bytes()));
            Ok::<_, Infallible>(response.unwrap())
        }
    });
    (Hub::new(Client::new(service, "default")), asked)
}

#[tokio::test]
async fn a_fleet_comes_in_pages_and_with_no_request_for_each_cluster() {
    let (hub, asked) = hub(|uri| {
        let body = if uri.contains("continue=second") {
            json!({"metadata": {}, "items": [{"n": 3}]})
        } else {
            json!({"metadata": {"continue": "second"}, "items": [{"n": 1}, {"n": 2}]})
        };
        (200, body)
    });
    let all = hub.collect(ADDONS, None, named("a"), Some).await.unwrap();
    assert_eq!(all, [json!({"n": 1}), json!({"n": 2}), json!({"n": 3})]);
    let asked = asked.lock().unwrap();
    assert_eq!(asked.len(), 2);
    for uri in asked.iter() {
        assert!(uri.contains("limit=500") && uri.contains("fieldSelector=metadata.name%3Da"));
    }
}

fn status(code: u16, reason: &str) -> (u16, Value) {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                      "reason": reason, "message": "words of the API"});
    (code, body)
}

#[tokio::test]
async fn a_missing_right_is_named_with_the_next_step() {
    let (hub, _) = hub(|_| status(403, "Forbidden"));
    let error = hub.collect(SECRETS, Some("argocd"), all(), Some).await;
    let error = error.unwrap_err();
    assert!(matches!(error, Error::Forbidden(_)));
    assert_eq!(
        error.to_string(),
        "permission denied: you may not list secrets in namespace argocd; ask an administrator for the role in docs/agentctl.md"
    );
}

#[tokio::test]
async fn missing_object_is_none_and_missing_kind_is_an_error() {
    let (hub, _) = hub(|_| status(404, "NotFound"));
    assert_eq!(hub.get(SECRETS, Some("a"), "b").await.unwrap(), None);
    assert!(
        !hub.merge(SECRETS, Some("a"), "b", &json!({}))
            .await
            .unwrap()
    );
    let error = hub.collect(ADDONS, None, all(), Some).await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("check that it is the hub (--context)"),
        "{error}"
    );
}

#[tokio::test]
async fn other_api_errors_keep_the_api_message() {
    let (hub, _) = hub(|_| status(409, "Conflict"));
    let error = hub.get(SECRETS, Some("a"), "b").await.unwrap_err();
    assert_eq!(error.to_string(), "get secrets: words of the API");
}

#[tokio::test]
async fn unreachable_hub_error_names_the_cause() {
    let service = service_fn(|_: Request<Body>| async {
        Err::<Response<Body>, _>(std::io::Error::other("connection refused"))
    });
    let hub = Hub::new(Client::new(service, "default"));
    let error = hub.collect(ADDONS, None, all(), Some).await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("the hub did not answer") && text.contains("connection refused"),
        "{text}"
    );
    assert!(!text.contains("proxy"), "{text}");
}
