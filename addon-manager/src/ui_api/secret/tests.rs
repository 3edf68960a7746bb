use std::sync::{Arc, Mutex};

use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::Value;
use tokio::time::timeout;

use super::*;

const GOOD: &str = "0123456789abcdef0123456789abcdef";

fn stored(token: &str, labelled: bool) -> Stored {
    let mut secret = secret("argocd", &Token::read(GOOD.as_bytes()).unwrap());
    secret.metadata.resource_version = Some("7".to_owned());
    let data = secret.data.as_mut().unwrap();
    data.insert(
        keys::UI_TOKEN.to_owned(),
        ByteString(token.as_bytes().to_vec()),
    );
    if !labelled {
        secret.metadata.labels = None;
    }
    Stored::of(&secret)
}

fn repair(needs_token: bool) -> Decision {
    Decision::Repair {
        version: "7".to_owned(),
        needs_token,
    }
}

#[test]
fn usable_secret_is_left_and_others_are_made_usable() {
    for (stored, decision) in [
        (Stored::Unknown, Decision::Leave),
        (Stored::Absent, Decision::Create),
        (stored(GOOD, true), Decision::Leave),
        (stored(GOOD, false), repair(false)),
        (stored("", true), repair(true)),
        (stored("short", false), repair(true)),
        (
            Stored::of(&Secret::default()),
            Decision::Repair {
                version: String::new(),
                needs_token: true,
            },
        ),
    ] {
        assert_eq!(decide(&stored, Some(true)), decision, "{stored:?}");
    }
}

#[test]
fn deleted_secret_does_not_come_back_during_an_uninstallation() {
    for offered in [Some(false), None] {
        assert_eq!(decide(&Stored::Absent, offered), Decision::Wait);
        assert_eq!(decide(&stored(GOOD, true), offered), Decision::Leave);
    }
}

#[test]
fn new_secret_is_one_that_argo_cd_reads() {
    let token = Token::generate().unwrap();
    let secret = secret("cd", &token);
    assert_eq!(secret.metadata.namespace.as_deref(), Some("cd"));
    let found = Stored::of(&secret);
    assert_eq!(decide(&found, Some(true)), Decision::Leave);
    assert!(found.token().unwrap().is(token.expose().as_bytes()));
}

type Requests = Arc<Mutex<Vec<(Method, Value)>>>;

/// A client whose API answers with this status, and the requests that it got.
fn client(status: u16) -> (Client, Requests) {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let got = Arc::clone(&requests);
    let service = tower::service_fn(move |request: Request<Body>| {
        let got = Arc::clone(&got);
        async move {
            let method = request.method().clone();
            let body = request.into_body().collect_bytes().await.unwrap();
            got.lock()
                .unwrap()
                .push((method, serde_json::from_slice(&body).unwrap()));
            let kind = if status == 200 { "Secret" } else { "Status" };
            let body = json!({ "metadata": {}, "kind": kind, "code": status, "message": "no" });
            Response::builder()
                .status(status)
                .body(Body::from(body.to_string().into_bytes()))
        }
    });
    (Client::new(service, "ours"), requests)
}

#[tokio::test]
async fn unusable_token_is_replaced_in_the_version_that_was_read() {
    let (client, requests) = client(200);
    let secrets = Api::namespaced(client, "argocd");
    carry_out(&secrets, "argocd", &repair(true)).await.unwrap();
    carry_out(&secrets, "argocd", &repair(false)).await.unwrap();
    let requests = requests.lock().unwrap();
    for (method, body) in requests.iter() {
        assert_eq!(method, Method::PATCH);
        assert_eq!(body["metadata"]["resourceVersion"], "7");
        assert_eq!(body["metadata"]["labels"][PART_OF.0], PART_OF.1);
    }
    let token = requests[0].1["data"][keys::UI_TOKEN].as_str().unwrap();
    assert!(Token::read(&STANDARD.decode(token).unwrap()).is_some());
    assert_eq!(requests[1].1["data"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn failed_write_is_retried_and_a_usable_secret_is_not_written() {
    let (client, requests) = client(403);
    let (send, receive) = watch::channel(stored("", true));
    let keeping = keep(client, "argocd".to_owned(), receive, watch::channel(None).1);
    let mut keeping = std::pin::pin!(keeping);
    let (some, many) = (RETRY * 3 + RETRY / 2, RETRY * 100);
    assert!(timeout(some, keeping.as_mut()).await.is_err());
    assert_eq!(requests.lock().unwrap().len(), 4);
    send.send_replace(stored(GOOD, true));
    assert!(timeout(many, keeping.as_mut()).await.is_err());
    assert_eq!(requests.lock().unwrap().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn without_a_view_nothing_is_created() {
    let (client, requests) = client(200);
    let (_send, receive) = watch::channel(Stored::Absent);
    let keeping = keep(client, "argocd".to_owned(), receive, watch::channel(None).1);
    assert!(timeout(RETRY * 10, keeping).await.is_err());
    assert!(requests.lock().unwrap().is_empty());
}
