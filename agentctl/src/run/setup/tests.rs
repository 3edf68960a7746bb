use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use argocd::keys::addon::HUB_SETUP;
use clap::Parser as _;
use diagnosis::testing::now;
use http::{Method, Request, Response};
use kube::{Client, client::Body};
use serde_json::json;
use tower::service_fn;

use super::*;
use crate::{
    args::{Cli, Command},
    check::spoke::REDIS,
    hub::chain,
    output::Format,
    progress::Progress,
    setup::HubCommand,
    testing::place,
};

/// What was written: the method, and the last part of the path.
type Writes = Arc<Mutex<Vec<String>>>;

/// A hub with Argo CD and the redis proxy; what is called `refused` may not be written.
fn answer(method: &Method, path: &str, refused: &str) -> (u16, Value) {
    let status = |code: u16| {
        let body = json!({"kind": "Status", "status": "Failure", "code": code});
        (code, body)
    };
    let list = |items: Value| (200, json!({"metadata": {}, "items": items}));
    let deployment = |name: &str, argocd: &str| {
        let argocd = format!("--namespace={argocd}");
        let pages = path.contains("/namespaces/pages/");
        let port = if pages {
            "--ui-api-port=8081"
        } else {
            "--redis-proxy-port=6379"
        };
        let args = json!([argocd, port]);
        json!({
            "metadata": {"namespace": "argocd", "name": name, "creationTimestamp": "2026-11-20T08:00:00Z"},
            "spec": {"template": {"spec": {"containers": [{"args": args}]}}},
        })
    };
    let mut parameters = json!({"metadata": {"namespace": "argocd", "name": PARAMETERS}});
    if path.contains("/namespaces/renamed/") {
        let fields = json!({"data.redis.server": {"before": null, "after": "ours"}});
        let record = json!({ "fields": fields }).to_string();
        parameters["metadata"]["annotations"] = json!({ HUB_SETUP: record });
        parameters["data"] = json!({"redis.server": "ours"});
    }
    match (method, path.rsplit('/').next().unwrap_or_default()) {
        (&Method::GET, MANAGER) if path.contains("/namespaces/wrong/") => status(404),
        (&Method::GET, MANAGER) if path.contains("/namespaces/left/") => {
            (200, deployment(MANAGER, "removed"))
        }
        (&Method::GET, MANAGER) if path.contains("/namespaces/renamed/") => {
            (200, deployment(MANAGER, "renamed"))
        }
        (&Method::GET, MANAGER) => (200, deployment(MANAGER, "argocd")),
        (&Method::GET, PARAMETERS) => (200, parameters),
        (&Method::GET, "argocd-cm" | "argocd-rbac-cm") => {
            let name = path.rsplit('/').next();
            (
                200,
                json!({"metadata": {"namespace": "argocd", "name": name}}),
            )
        }
        (&Method::GET, ROLE) => status(404),
        (&Method::GET, "deployments") if path.contains("/namespaces/argocd/") => {
            list(json!([deployment("argocd-server", "argocd")]))
        }
        (&Method::GET, "deployments") if path.contains("/namespaces/renamed/") => {
            list(json!([deployment("renamed-server", "argocd")]))
        }
        (&Method::GET, "secrets") => {
            let created = "2026-11-20T08:00:00Z";
            list(json!([{"metadata": {"name": REDIS, "creationTimestamp": created}}]))
        }
        (&Method::GET, _) => list(json!([])),
        (_, name) if name == refused => status(403),
        (&Method::POST, "subjectaccessreviews") => (201, json!({"status": {"allowed": false}})),
        _ => (200, json!({})),
    }
}

fn hub(refused: &'static str) -> (Hub, Writes) {
    let writes = Writes::default();
    let log = Arc::clone(&writes);
    let service = service_fn(move |request: Request<Body>| {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let name = path.rsplit('/').next().unwrap_or_default();
        if method != Method::GET && name != "subjectaccessreviews" {
            let query = request.uri().query().unwrap_or_default();
            assert!(query.contains("fieldManager=argocd-agentctl"), "{query}");
            let kind = request.headers().get("content-type");
            let is_by_entries =
                kind.is_some_and(|it| it == "application/strategic-merge-patch+json");
            let how = if is_by_entries { " by entries" } else { "" };
            log.lock().unwrap().push(format!("{method} {name}{how}"));
        }
        let (code, body) = answer(&method, &path, refused);
        async move {
            let response = Response::builder().status(code);
            let response = response.body(Body::from(body.to_string().into_bytes()));
            Ok::<_, Infallible>(response.unwrap())
        }
    });
    (Hub::new(Client::new(service, "default")), writes)
}

async fn run(words: &[&str], refused: &'static str) -> (Result<Answer, Error>, Vec<String>) {
    let start = ["argocd-agentctl", "hub", "setup"];
    let Cli { global, command } = Cli::parse_from(start.iter().chain(words));
    let Command::Hub(HubCommand::Setup(args)) = command else {
        panic!("another command");
    };
    let (hub, writes) = hub(refused);
    let context = Context {
        hub,
        global: &global,
        place: place(Format::Table, now()),
        progress: &Progress::new(false),
    };
    let answer = setup(&context, args).await;
    let writes = writes.lock().unwrap().clone();
    (answer, writes)
}

#[tokio::test]
async fn dry_run_of_setup_lists_changes_without_a_write() {
    let (answer, writes) = run(&["--dry-run"], "").await;
    let answer = answer.unwrap();
    assert!(
        answer.text.contains("restart") && answer.text.contains("Nothing was written"),
        "{answer:?}"
    );
    assert!(!answer.bad);
    assert_eq!(writes, Vec::<String>::new());
}

#[tokio::test]
async fn setup_grants_rights_before_settings_and_restarts_last() {
    let (answer, writes) = run(&[], "").await;
    let answer = answer.unwrap();
    assert!(
        answer.text.contains("Written. ") && !answer.bad,
        "{answer:?}"
    );
    let expected = [
        "POST clusterroles",
        "POST clusterrolebindings",
        "PATCH argocd-cmd-params-cm",
        "PATCH argocd-server",
    ];
    assert_eq!(writes, expected);
}

#[tokio::test]
async fn setup_of_the_pages_changes_entries_of_argocd_server() {
    let (answer, writes) = run(&["--own-namespace=pages"], "").await;
    let answer = answer.unwrap();
    assert!(answer.text.contains("Written. "), "{answer:?}");
    let expected = [
        "PATCH argocd-cmd-params-cm",
        "PATCH argocd-cm",
        "PATCH argocd-rbac-cm",
        "PATCH argocd-server by entries",
    ];
    assert_eq!(writes, expected);
}

#[tokio::test]
async fn a_refused_change_ends_setup_and_names_the_right() {
    let (answer, writes) = run(&[], PARAMETERS).await;
    let text = chain(answer.unwrap_err());
    for part in [
        "ConfigMap argocd/argocd-cmd-params-cm was not changed (2 other changes were written before)",
        "you may not patch configmaps in namespace argocd",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(writes.last().unwrap(), "PATCH argocd-cmd-params-cm");
    assert_eq!(writes.len(), 3);
}

#[tokio::test]
async fn a_namespace_without_argocd_server_is_named_with_the_flag() {
    let (answer, writes) = run(&["--argocd-namespace", "elsewhere"], "").await;
    let text = answer.unwrap_err().to_string();
    assert!(
        text.contains("namespace elsewhere") && text.contains("--argocd-namespace"),
        "{text}"
    );
    assert_eq!(writes, Vec::<String>::new());
}

#[tokio::test]
async fn undo_without_setup_changes_nothing() {
    let (answer, writes) = run(&["--undo"], "").await;
    let answer = answer.unwrap();
    assert!(
        answer.text.starts_with("Nothing to undo") && !answer.bad,
        "{answer:?}"
    );
    assert_eq!(writes, Vec::<String>::new());
}

#[tokio::test]
async fn undo_needs_no_argo_cd_where_the_hub_program_names_its_namespace() {
    let left = "--own-namespace=left";
    let (answer, writes) = run(&["--undo", left], "").await;
    let answer = answer.unwrap();
    assert!(
        answer.text.starts_with("Nothing to undo") && !answer.bad,
        "{answer:?}"
    );
    assert_eq!(writes, Vec::<String>::new());
    for words in [
        [left, "--dry-run"],
        ["--undo", "--argocd-namespace=removed"],
    ] {
        let (answer, _) = run(&words, "").await;
        let text = answer.unwrap_err().to_string();
        assert!(text.contains("namespace removed"), "{text}");
    }
}

/// The Job before `helm uninstall` has the permission for the name at the last upgrade.
#[tokio::test]
async fn undo_goes_on_where_it_may_not_restart_argocd_server() {
    let (answer, writes) = run(&["--undo", "--own-namespace=renamed"], "renamed-server").await;
    let answer = answer.unwrap();
    for part in [
        "you may not patch deployments.apps in namespace argocd",
        "kubectl -n argocd rollout restart deployment/renamed-server",
        "Written, except for the list above",
    ] {
        assert!(answer.text.contains(part), "{part}: {answer:?}");
    }
    assert!(answer.bad);
    let expected = [
        "PATCH argocd-cmd-params-cm",
        "PATCH renamed-server",
        "PATCH argocd-cmd-params-cm",
    ];
    assert_eq!(writes, expected);
}

#[tokio::test]
async fn setup_does_not_assume_the_namespace_of_argo_cd() {
    let cause = format!("wrong/{MANAGER} not found");
    for flag in [None, Some("--undo")] {
        let words = ["--own-namespace", "wrong"].into_iter().chain(flag);
        let words: Vec<_> = words.collect();
        let (answer, writes) = run(&words, "").await;
        let text = answer.unwrap_err().to_string();
        for part in [cause.as_str(), "--own-namespace", "--argocd-namespace"] {
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(writes, Vec::<String>::new());
    }
    let named = [
        "--undo",
        "--own-namespace=wrong",
        "--argocd-namespace=argocd",
    ];
    let (answer, _) = run(&named, "").await;
    let text = answer.unwrap().text;
    assert!(text.starts_with("Nothing to undo"), "{text}");
}
