use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use http::{Method, Request, Response};
use kube::{client::Body, runtime::events::Reporter};

use super::*;

/// A writer that writes to the hub of this client.
pub(super) fn writer(client: Client) -> Writer {
    let reporter = Reporter {
        controller: "test".to_owned(),
        instance: None,
    };
    Writer {
        events: Recorder::new(client.clone(), reporter),
        client,
        version: Version::V1Beta1,
        own: Own::default(),
        resource_proxy: String::new(),
    }
}

/// Restores an annotation on a hub where the `ManagedClusterAddOn` has this version, and returns the methods of the writes.
async fn restored_at(current: &'static str) -> (Done, Vec<Method>) {
    let methods = Arc::new(Mutex::new(Vec::new()));
    let got = Arc::clone(&methods);
    let service = tower::service_fn(move |request: Request<Body>| {
        got.lock().unwrap().push(request.method().clone());
        async move {
            let body = request.into_body().collect_bytes().await.unwrap();
            let body: Value = serde_json::from_slice(&body).unwrap();
            let asked = body.pointer("/metadata/resourceVersion");
            let (code, answer) = if asked.is_some_and(|it| it != current) {
                let conflict = json!({ "kind": "Status", "code": 409, "reason": "Conflict" });
                (409, conflict)
            } else {
                (
                    200,
                    json!({ "metadata": { "name": "x", "resourceVersion": "9" } }),
                )
            };
            let body = Body::from(answer.to_string().into_bytes());
            let response = Response::builder().status(code).body(body).unwrap();
            Ok::<_, Infallible>(response)
        }
    });
    let writer = writer(Client::new(service, "default"));
    let step = Step {
        cluster: "c".to_owned(),
        uid: "uid".to_owned(),
        action: Action::Restore {
            annotations: [(keys::REVOKED, "stolen".to_owned())].into(),
            version: "7".to_owned(),
        },
    };
    let done = writer.apply(&step).await.unwrap();
    let methods = methods.lock().unwrap().clone();
    (done, methods)
}

/// Else an agent that an administrator restores could be revoked again, by a manager that has not seen that yet.
#[tokio::test]
async fn annotations_are_restored_on_the_version_that_was_read_only() {
    let restored = (
        Done::Wrote("9".to_owned()),
        vec![Method::PATCH, Method::POST],
    );
    assert_eq!(restored_at("7").await, restored);
    assert_eq!(restored_at("8").await, (Done::Later, vec![Method::PATCH]));
}
