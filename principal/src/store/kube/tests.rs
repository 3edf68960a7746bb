use super::*;
use http::{Method, Request, Response};
use kube::client::Body;
use std::sync::{Arc, Mutex};

type Seen = Arc<Mutex<Vec<(Method, String, Value)>>>;

/// An API server that answers from a script.
fn hub(script: Vec<(u16, Value)>) -> (Kubernetes, Seen) {
    let seen = Seen::default();
    let script = Arc::new(Mutex::new(script.into_iter()));
    let record = Arc::clone(&seen);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (record, script) = (Arc::clone(&record), Arc::clone(&script));
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap();
            let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
            record
                .lock()
                .unwrap()
                .push((parts.method, parts.uri.path().to_owned(), body));
            let (code, answer) = script
                .lock()
                .unwrap()
                .next()
                .expect("the script covers all calls");
            let answer = Body::from(serde_json::to_vec(&answer).unwrap());
            Ok::<_, std::convert::Infallible>(
                Response::builder().status(code).body(answer).unwrap(),
            )
        }
    });
    (
        Kubernetes::new(Client::new(service, "default"), "argocd".to_owned()),
        seen,
    )
}

fn status(code: u16, reason: &str) -> (u16, Value) {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "reason": reason, "code": code, "message": reason,
    });
    (code, body)
}

fn application() -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {
            "name": "app", "namespace": "spoke1", "resourceVersion": "8",
            "managedFields": [{ "manager": "x" }],
        },
        "spec": { "project": "default" },
        "status": { "unknown": { "future": [1, null] } },
    })
}

fn key() -> Key {
    Key {
        namespace: "spoke1".to_owned(),
        name: "app".to_owned(),
    }
}

fn patch() -> Change {
    Change::Merge(
        json!({ "status": { "sync": null }, "metadata": { "annotations": { "a": null } } }),
    )
}

#[tokio::test]
async fn a_patch_is_made_against_the_version_that_it_was_computed_from() {
    let (hub, seen) = hub(vec![(200, application())]);
    let after = hub
        .patch(Watched::Application, &key(), "7", patch())
        .await
        .unwrap();
    assert_eq!(
        after.whole()["status"]["unknown"],
        json!({ "future": [1, null] })
    );
    assert!(after.head().pointer("/metadata/managedFields").is_none());
    let seen = seen.lock().unwrap();
    let (method, path, body) = &seen[0];
    assert_eq!(*method, Method::PATCH);
    assert_eq!(
        path,
        "/apis/argoproj.io/v1alpha1/namespaces/spoke1/applications/app"
    );
    let expected = json!({
        "status": { "sync": null },
        "metadata": { "annotations": { "a": null }, "resourceVersion": "7" },
    });
    assert_eq!(*body, expected);
}

#[tokio::test]
async fn operations_are_guarded_too() {
    let (hub, seen) = hub(vec![(200, application())]);
    let patch = Change::Json(json!([{ "op": "add", "path": "/status", "value": {} }]));
    hub.patch(Watched::Application, &key(), "7", patch)
        .await
        .unwrap();
    let expected = json!([
        { "op": "replace", "path": "/metadata/resourceVersion", "value": "7" },
        { "op": "add", "path": "/status", "value": {} },
    ]);
    assert_eq!(seen.lock().unwrap()[0].2, expected);
}

#[tokio::test]
async fn write_errors_are_sorted_by_cause() {
    for (answer, reason) in [
        (status(409, "Conflict"), "conflict"),
        (status(404, "NotFound"), "not_found"),
        (status(422, "Invalid"), "refused"),
        (status(413, "RequestEntityTooLarge"), "refused"),
        (status(403, "Forbidden"), "unavailable"),
        (status(503, "ServiceUnavailable"), "unavailable"),
    ] {
        let (hub, _) = hub(vec![answer]);
        let error = hub
            .patch(Watched::Application, &key(), "7", patch())
            .await
            .unwrap_err();
        assert_eq!(error.reason(), reason);
    }
}

#[tokio::test]
async fn operations_that_do_not_fit_may_be_meant_for_an_older_version() {
    let (hub, _) = hub(vec![status(422, "Invalid"), status(400, "BadRequest")]);
    let patch = Change::Json(json!([{ "op": "remove", "path": "/status" }]));
    let error = hub
        .patch(Watched::Application, &key(), "7", patch.clone())
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "unfit");
    let error = hub
        .patch(Watched::Application, &key(), "7", patch)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), "refused");
}

#[tokio::test]
async fn the_identity_is_made_once_and_kept() {
    let identity = |uid: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": IDENTITY, "namespace": "argocd" },
            "data": { IDENTITY_KEY: uid },
        })
    };
    let (known, _) = hub(vec![(200, identity("one"))]);
    assert_eq!(known.principal_uid().await.unwrap(), "one");
    let (missing, seen) = hub(vec![status(404, "NotFound"), (201, identity("two"))]);
    assert_eq!(missing.principal_uid().await.unwrap(), "two");
    assert_eq!(seen.lock().unwrap()[1].0, Method::POST);
    let script = vec![
        status(404, "NotFound"),
        status(409, "AlreadyExists"),
        (200, identity("three")),
    ];
    let (raced, _) = hub(script);
    assert_eq!(raced.principal_uid().await.unwrap(), "three");
    let (empty, _) = hub(vec![(200, identity(""))]);
    assert!(empty.principal_uid().await.is_err());
}

/// The list of Argo CD's settings is slow, all other lists are empty, and no watch reports anything.
#[tokio::test]
async fn projects_are_read_after_the_global_projects() {
    let service = tower::service_fn(|request: Request<Body>| async move {
        let uri = request.uri().to_string();
        if uri.contains("watch=") {
            std::future::pending::<()>().await;
        }
        let mut items = json!([]);
        if uri.contains(keys::SETTINGS) {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            items = json!([{
                "metadata": { "name": "argocd-cm", "namespace": "argocd", "uid": "cm", "resourceVersion": "1" },
                "data": { "globalProjects": "- projectName: guard" },
            }]);
        }
        let list = json!({ "metadata": { "resourceVersion": "1" }, "items": items });
        let body = Body::from(serde_json::to_vec(&list).unwrap());
        Ok::<_, std::convert::Infallible>(Response::new(body))
    });
    let hub = Kubernetes::new(Client::new(service, "default"), "argocd".to_owned());
    let (token, reports) = (
        CancellationToken::new(),
        Arc::<Mutex<Vec<Report>>>::default(),
    );
    let (stop, record) = (token.clone(), Arc::clone(&reports));
    let reporter: Reporter = Arc::new(move |report| {
        if matches!(report, Report::Synced(Watched::AppProject)) {
            stop.cancel();
        }
        record.lock().unwrap().push(report);
    });
    hub.watch(reporter, token).await;
    let reports = reports.lock().unwrap();
    let at = |is: fn(&Report) -> bool| reports.iter().position(is);
    let globals = at(|it| matches!(it, Report::GlobalProjects(globals) if globals.has("guard")));
    let projects = at(|it| matches!(it, Report::Synced(Watched::AppProject)));
    assert!(globals.is_some() && globals < projects, "{reports:?}");
}
