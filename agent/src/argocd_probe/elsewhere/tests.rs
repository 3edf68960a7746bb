use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::Response;
use kube::client::Body;
use serde_json::json;

use super::*;

const READER: &str = "system:serviceaccount:agents:reader";
const DEPLOYMENTS: &str = "/apis/apps/v1/deployments";
const SETS: &str = "/apis/apps/v1/statefulsets";

/// The path with the query, and the impersonated user, of each request.
type Requests = Arc<Mutex<Vec<(String, Option<String>)>>>;

fn status(code: u16) -> (u16, Value) {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "reason": "x", "code": code, "message": "x",
    });
    (code, body)
}

fn list(objects: &[(&str, &str)]) -> (u16, Value) {
    let object = |(namespace, name): &(&str, &str)| json!({ "metadata": { "namespace": namespace, "name": name } });
    let items: Vec<Value> = objects.iter().map(object).collect();
    (200, json!({ "items": items }))
}

/// An API that has these paths only.
fn api(answers: &[(&str, (u16, Value))]) -> (Client, Requests) {
    let answers = answers.iter().cloned();
    let answers: BTreeMap<String, (u16, Value)> = answers
        .map(|(path, answer)| (path.to_owned(), answer))
        .collect();
    let requests = Requests::default();
    let record = Arc::clone(&requests);
    let service = tower::service_fn(move |request: Request<Body>| {
        let answer = answers.get(request.uri().path()).cloned();
        let (code, answer) = answer.unwrap_or_else(|| status(404));
        let target = request.uri().to_string();
        let user = request.headers().get(IMPERSONATE);
        let user = user.map(|user| user.to_str().unwrap().to_owned());
        record.lock().unwrap().push((target, user));
        async move {
            let answer = Body::from(serde_json::to_vec(&answer).unwrap());
            Ok::<_, Infallible>(Response::builder().status(code).body(answer).unwrap())
        }
    });
    (Client::new(service, "default"), requests)
}

/// Whether there is another Argo CD, where the CRDs are not ours and where they are.
async fn seen(answers: &[(&str, (u16, Value))], reader: Option<&str>) -> [bool; 2] {
    let mut found = [false; 2];
    for (kinds_installed, found) in [false, true].into_iter().zip(&mut found) {
        let (client, _) = api(answers);
        let mut elsewhere = Elsewhere::new("argocd", reader);
        *found = elsewhere
            .has_argocd(&client, kinds_installed)
            .await
            .unwrap();
    }
    found
}

#[tokio::test]
async fn programs_in_another_namespace_are_an_argo_cd() {
    let none = || list(&[]);
    let server = || list(&[("openshift-gitops", "openshift-gitops-server")]);
    for (deployments, sets, expected) in [
        (none(), none(), false),
        (server(), none(), true),
        (none(), server(), true),
        ((200, json!({ "items": null })), none(), false),
        // The API server's cache may be older than the watch of the own namespace.
        (list(&[("argocd", "argocd-server")]), none(), false),
    ] {
        let answers = [(DEPLOYMENTS, deployments), (SETS, sets)];
        assert_eq!(seen(&answers, Some(READER)).await, [expected; 2]);
    }
}

#[tokio::test]
async fn operator_is_an_argo_cd_without_any_rights() {
    let kinds = |name: &str| {
        (
            200,
            json!({ "resources": [{ "name": "applications" }, { "name": name }] }),
        )
    };
    let empty = [(DEPLOYMENTS, list(&[])), (SETS, list(&[]))];
    for version in OPERATOR {
        let with = |name: &str| [&empty[..], &[(version, kinds(name))]].concat();
        assert_eq!(seen(&with("argocds"), None).await, [true; 2]);
        assert_eq!(seen(&with("argocds"), Some(READER)).await, [true; 2]);
        assert_eq!(seen(&with("appprojects"), Some(READER)).await, [false; 2]);
    }
}

#[tokio::test]
async fn operator_without_instances_is_no_argo_cd() {
    let kinds = || (200, json!({ "resources": [{ "name": OPERATORS_KIND }] }));
    for version in OPERATOR {
        let instances = format!("{version}/{OPERATORS_KIND}");
        for (answer, expected) in [
            (list(&[]), false),
            (list(&[("gitops", "argocd")]), true),
            (list(&[("argocd", "argocd")]), true),
            (status(403), true),
        ] {
            let answers = [
                (DEPLOYMENTS, list(&[])),
                (SETS, list(&[])),
                (version, kinds()),
                (instances.as_str(), answer),
            ];
            assert_eq!(seen(&answers, Some(READER)).await, [expected; 2]);
            // Without a user the cluster does not show them.
            assert_eq!(seen(&answers, None).await, [true; 2]);
        }
    }
}

#[tokio::test]
async fn crds_decide_where_the_cluster_denies_the_lists() {
    let decided_by_crds = [true, false];
    assert_eq!(seen(&[], None).await, decided_by_crds);
    for denied in [401, 403, 404] {
        let answers = [(DEPLOYMENTS, status(denied)), (SETS, list(&[]))];
        assert_eq!(seen(&answers, Some(READER)).await, decided_by_crds);
        let answers = [(DEPLOYMENTS, list(&[])), (SETS, status(denied))];
        assert_eq!(seen(&answers, Some(READER)).await, decided_by_crds);
    }
}

#[tokio::test]
async fn an_error_is_no_answer() {
    for path in [OPERATOR[0], DEPLOYMENTS, SETS] {
        let answers = [
            (DEPLOYMENTS, list(&[])),
            (SETS, list(&[])),
            (path, status(500)),
        ];
        let (client, _) = api(&answers);
        let mut elsewhere = Elsewhere::new("argocd", Some(READER));
        assert!(elsewhere.has_argocd(&client, false).await.is_err());
        assert_eq!(elsewhere.recheck_after(), None, "{path}");
    }
}

#[tokio::test]
async fn only_lists_impersonate_the_reader() {
    let instances = format!("{}/{OPERATORS_KIND}", OPERATOR[0]);
    let kinds = json!({ "resources": [{ "name": OPERATORS_KIND }] });
    let (client, requests) = api(&[
        (OPERATOR[0], (200, kinds)),
        (instances.as_str(), list(&[])),
        (DEPLOYMENTS, list(&[])),
        (SETS, list(&[])),
    ]);
    let mut elsewhere = Elsewhere::new("argocd", Some(READER));
    elsewhere.has_argocd(&client, false).await.unwrap();
    let requests = requests.lock().unwrap().clone();
    let selected = "labelSelector=app.kubernetes.io%2Fpart-of%3Dargocd&resourceVersion=0";
    let user = Some(READER.to_owned());
    let expected = [
        (OPERATOR[0].to_owned(), None),
        (format!("{instances}?resourceVersion=0"), user.clone()),
        (OPERATOR[1].to_owned(), None),
        (format!("{DEPLOYMENTS}?{selected}"), user.clone()),
        (format!("{SETS}?{selected}"), user),
    ];
    assert_eq!(requests, expected);
}

#[tokio::test(start_paused = true)]
async fn answer_is_kept_for_a_while_and_a_denial_for_less() {
    for (answer, kept) in [(list(&[]), RECHECK), (status(403), DENIED_RECHECK)] {
        let (client, requests) = api(&[(DEPLOYMENTS, answer.clone()), (SETS, answer)]);
        let count = || requests.lock().unwrap().len();
        let mut elsewhere = Elsewhere::new("argocd", Some(READER));
        assert_eq!(elsewhere.recheck_after(), None);
        elsewhere.has_argocd(&client, false).await.unwrap();
        let once = count();
        assert_eq!(elsewhere.recheck_after(), Some(kept));
        tokio::time::advance(kept.saturating_sub(Duration::from_secs(1))).await;
        elsewhere.has_argocd(&client, false).await.unwrap();
        assert_eq!(count(), once);
        tokio::time::advance(Duration::from_secs(1)).await;
        elsewhere.has_argocd(&client, false).await.unwrap();
        assert_eq!(count(), once * 2);
        elsewhere.forget();
        assert_eq!(elsewhere.recheck_after(), None);
    }
    // Without a user the answer stays the same.
    let (client, _) = api(&[]);
    let mut elsewhere = Elsewhere::new("argocd", None);
    elsewhere.has_argocd(&client, false).await.unwrap();
    assert_eq!(elsewhere.recheck_after(), Some(RECHECK));
}
