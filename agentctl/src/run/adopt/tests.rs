use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use clap::Parser as _;
use diagnosis::testing::now;
use http::{Method, Request, Response};
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tower::service_fn;

use super::*;
use crate::{
    args::{Cli, Cluster, Command},
    hub::Hub,
    output::Format,
    progress::Progress,
    testing::place,
};

/// What was written: the object, and the body.
type Writes = Arc<Mutex<Vec<(String, Value)>>>;

/// Two clusters in push mode, one of which the caller may not change; both say that they are at these API servers.
fn answer(method: &Method, path: &str, declared: &Value) -> (u16, Value) {
    let secret = |name: &str| {
        json!({
            "metadata": {"name": format!("push-{name}"), "labels": {"argocd.argoproj.io/secret-type": "cluster"}},
            "data": {"name": STANDARD.encode(name), "server": STANDARD.encode("https://a.example.com")},
        })
    };
    let cluster = |name: &str| {
        json!({
            "metadata": {"name": name},
            "spec": {"hubAcceptsClient": true, "managedClusterClientConfigs": declared},
        })
    };
    let status = |code: u16| {
        (
            code,
            json!({"kind": "Status", "status": "Failure", "code": code}),
        )
    };
    let list = |items: Value| (200, json!({"metadata": {}, "items": items}));
    match (method, path.rsplit('/').next().unwrap_or_default()) {
        (&Method::GET, "secrets") => list(json!([secret("paris"), secret("rome")])),
        (&Method::GET, "managedclusters") => list(json!([cluster("paris"), cluster("rome")])),
        (&Method::GET, ADDON) => (
            200,
            json!({"spec": {"installStrategy": {"type": "Manual"}}}),
        ),
        (&Method::GET, "argocd-cmd-params-cm" | "argocd-agent-addon-manager") => status(404),
        (&Method::GET, _) => list(json!([])),
        (&Method::PATCH, "paris") => (200, json!({})),
        _ => status(403),
    }
}

fn hub(declared: Value) -> (Hub, Writes) {
    let writes = Writes::default();
    let log = Arc::clone(&writes);
    let service = service_fn(move |request: Request<Body>| {
        let log = Arc::clone(&log);
        let declared = declared.clone();
        async move {
            let (parts, body) = request.into_parts();
            let (code, chain) = answer(&parts.method, parts.uri.path(), &declared);
            if parts.method != Method::GET {
                let body = body.collect_bytes().await.unwrap();
                let body = serde_json::from_slice(&body).unwrap();
                log.lock()
                    .unwrap()
                    .push((parts.uri.path().to_owned(), body));
            }
            let response = Response::builder().status(code);
            let response = response.body(Body::from(chain.to_string().into_bytes()));
            Ok::<_, Infallible>(response.unwrap())
        }
    });
    (Hub::new(Client::new(service, "default")), writes)
}

async fn adopted(words: &[&str]) -> (Result<Answer, Error>, Vec<(String, Value)>) {
    adopted_at(json!([]), words).await
}

async fn adopted_at(
    declared: Value,
    words: &[&str],
) -> (Result<Answer, Error>, Vec<(String, Value)>) {
    let start = ["argocd-agentctl", "cluster", "adopt"];
    let Cli { global, command } = Cli::parse_from(start.iter().chain(words));
    let Command::Cluster(Cluster::Adopt(args)) = command else {
        panic!("another command");
    };
    let (hub, writes) = hub(declared);
    let context = Context {
        hub,
        global: &global,
        place: place(Format::Table, now()),
        progress: &Progress::new(false),
    };
    let answer = adopt(&context, &args).await;
    let writes = writes.lock().unwrap().clone();
    (answer, writes)
}

const LABELLED: &str = "/apis/cluster.open-cluster-management.io/v1/managedclusters";

#[tokio::test]
async fn a_dry_run_writes_nothing() {
    let (answer, writes) = adopted(&["--dry-run"]).await;
    let answer = answer.unwrap();
    assert!(
        answer.text.matches(" ready ").count() == 2 && !answer.bad,
        "{answer:?}"
    );
    assert_eq!(writes, []);
}

#[tokio::test]
async fn a_cluster_is_adopted_with_the_label_and_one_that_fails_keeps_no_other() {
    let (answer, writes) = adopted(&["--mode", "autonomous"]).await;
    let answer = answer.unwrap();
    let body = json!({"metadata": {"labels": {"argocd-agent.open-cluster-management.io/mode": "autonomous"}}});
    let expected = ["paris", "rome"].map(|name| (format!("{LABELLED}/{name}"), body.clone()));
    assert_eq!(writes, expected);
    assert!(answer.bad && answer.text.contains("opted in"), "{answer:?}");
    assert!(
        answer.text.contains("you may not patch managedclusters"),
        "{answer:?}"
    );
}

#[tokio::test]
async fn adopt_takes_named_clusters_and_reports_unknown_ones() {
    let (answer, writes) = adopted(&["paris"]).await;
    assert!(!answer.unwrap().bad);
    assert_eq!(writes.len(), 1);
    let (answer, writes) = adopted(&["paris", "nowhere"]).await;
    assert!(matches!(answer, Err(Error::NoSecret(names)) if names == "nowhere"));
    assert_eq!(writes, []);
    let (answer, writes) = adopted(&["paris", "--same-cluster", "nowhere"]).await;
    assert!(matches!(answer, Err(Error::NoSecret(names)) if names == "nowhere"));
    assert_eq!(writes, []);
}

#[tokio::test]
async fn same_cluster_flag_confirms_a_differing_server() {
    let elsewhere = || json!([{"url": "https://b.example.com"}]);
    let (answer, writes) = adopted_at(elsewhere(), &[]).await;
    let answer = answer.unwrap();
    assert!(answer.bad && answer.text.contains("--same-cluster paris"));
    assert_eq!(writes, []);
    // Naming it asks for it, and does not vouch for it.
    let (_, writes) = adopted_at(elsewhere(), &["paris"]).await;
    assert_eq!(writes, []);
    let (answer, writes) = adopted_at(elsewhere(), &["--same-cluster", "paris"]).await;
    assert!(answer.unwrap().text.contains("--same-cluster rome"));
    let written: Vec<_> = writes.into_iter().map(|(path, _)| path).collect();
    assert_eq!(written, [format!("{LABELLED}/paris")]);
}
