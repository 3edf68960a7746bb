//! The tunnel with the level `operate`: changes that users of the hub may make, and others.

use argocd::{Meta, keys};
use bytes::Bytes;
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use live::ui_access::UiAccess;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;

use super::agent_tunnel::{USER, Window};
use super::principal::Carrier;
use super::wait::soon;

pub(super) const FRONT: &str = "/apis/apps/v1/namespaces/shop/deployments/front";
pub(super) const POD: &str = "/api/v1/namespaces/shop/pods/front-1-a";
pub(super) const LOCAL: &str = "/apis/apps/v1/namespaces/shop/deployments/local";
pub(super) const SECRET: &str = "/api/v1/namespaces/shop/secrets/key";
const CRON: &str = "/apis/batch/v1/namespaces/shop/cronjobs/nightly";
const JOBS: &str = "/apis/batch/v1/namespaces/shop/jobs";
pub(super) const WEB: &str = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications/web";
const MERGE: &str = "application/merge-patch+json";

pub(super) fn object(version: &str, kind: &str, name: &str, uid: &str) -> Value {
    json!({ "apiVersion": version, "kind": kind, "metadata": {
        "name": name, "namespace": "shop", "uid": uid,
    } })
}

pub(super) fn tracked(mut object: Value) -> Value {
    object["metadata"]["annotations"] = json!({ keys::TRACKING_ID: "web:what/ever:it/says" });
    object
}

fn owned(mut object: Value, by: &Value) -> Value {
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": by["apiVersion"],
        "kind": by["kind"],
        "name": by["metadata"]["name"],
        "uid": by["metadata"]["uid"],
    }]);
    object
}

pub(super) fn kinds(of: &[(&str, &str)]) -> Value {
    let resources = of
        .iter()
        .map(|(kind, name)| json!({ "kind": kind, "name": name, "namespaced": true }));
    json!({ "kind": "APIResourceList", "resources": resources.collect::<Vec<_>>() })
}

/// A shop with one Application `web` of the hub, which has a Deployment, a Secret and a `CronJob`.
pub(super) async fn shop(access: UiAccess) -> (Window, Carrier) {
    let mut window = Window::with(access).await;
    let front = tracked(object("apps/v1", "Deployment", "front", "u1"));
    let replicas = owned(object("apps/v1", "ReplicaSet", "front-1", "u2"), &front);
    let pod = owned(object("v1", "Pod", "front-1-a", "u3"), &replicas);
    let mut secret = tracked(object("v1", "Secret", "key", "u4"));
    secret["data"] = json!({ "password": "aHVudGVyMg==" });
    let listed = [
        ("apps", "Deployment", "front"),
        ("", "Secret", "key"),
        ("batch", "CronJob", "nightly"),
    ]
    .map(|(group, kind, name)| json!({ "group": group, "kind": kind, "namespace": "shop", "name": name }));
    let web = json!({
        "metadata": { "name": "web", "annotations": { keys::SOURCE_UID: "hub-1" } },
        "status": { "resources": listed },
    });
    let objects = [
        (FRONT, front),
        (
            "/apis/apps/v1/namespaces/shop/replicasets/front-1",
            replicas,
        ),
        (POD, pod),
        (SECRET, secret),
        // Its annotation names the Application, but the Application does not list it.
        (
            LOCAL,
            tracked(object("apps/v1", "Deployment", "local", "u5")),
        ),
        (
            CRON,
            tracked(object("batch/v1", "CronJob", "nightly", "u6")),
        ),
        (WEB, web),
        (
            "/apis/apps/v1",
            kinds(&[("Deployment", "deployments"), ("ReplicaSet", "replicasets")]),
        ),
        ("/apis/batch/v1", kinds(&[("CronJob", "cronjobs")])),
        (JOBS, object("batch/v1", "Job", "nightly-1", "u7")),
    ];
    let objects = objects.map(|(path, object)| (path.to_owned(), object));
    window.api.objects.lock().unwrap().extend(objects);
    let agent_tunnel = window.principal.agent_tunnel().await;
    (window, agent_tunnel)
}

pub(super) async fn send(
    agent_tunnel: &mut Carrier,
    method: &str,
    target: &str,
    kind: &str,
    body: &Value,
) -> (u16, Value) {
    let body = if body.is_null() {
        Bytes::new()
    } else {
        Bytes::from(body.to_string())
    };
    let request = http::Request::builder()
        .method(method)
        .uri(format!("http://spoke{target}"))
        .header("content-type", kind)
        .body(UnsyncBoxBody::new(Full::new(body)))
        .unwrap();
    let answer = soon("an answer", agent_tunnel.send_request(request))
        .await
        .unwrap();
    let code = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&body).unwrap_or_default())
}

fn changes(window: &Window) -> Vec<(String, Value)> {
    window.api.changes.lock().unwrap().clone()
}

#[tokio::test]
async fn patch_is_bound_to_the_authorized_object() {
    let (window, mut agent_tunnel) = shop(UiAccess::Operate).await;
    let more = json!({ "spec": { "replicas": 2 } });
    let (code, _) = send(&mut agent_tunnel, "PATCH", FRONT, MERGE, &more).await;
    assert_eq!(code, 200);
    let (code, _) = send(
        &mut agent_tunnel,
        "DELETE",
        POD,
        "application/json",
        &Value::Null,
    )
    .await;
    assert_eq!(code, 200, "an object of the Application owns it");
    let changes = changes(&window);
    let [(patch, patched), (delete, options)] = changes.as_slice() else {
        panic!("{changes:?}");
    };
    assert_eq!(*patch, format!("PATCH {FRONT} {MERGE}"));
    assert_eq!(patched["metadata"]["uid"], "u1");
    assert_eq!(patched["spec"]["replicas"], 2);
    assert_eq!(*delete, format!("DELETE {POD} application/json"));
    assert_eq!(options["preconditions"]["uid"], "u3");
    let as_user = |asked: &String| asked.starts_with(USER);
    assert!(window.asked().iter().all(as_user), "{:?}", window.asked());
}

#[tokio::test]
async fn dry_run_of_a_deletion_stays_a_dry_run() {
    let (window, mut agent_tunnel) = shop(UiAccess::Operate).await;
    let target = format!("{POD}?dryRun=All&propagationPolicy=Orphan");
    let (code, _) = send(&mut agent_tunnel, "DELETE", &target, "", &Value::Null).await;
    assert_eq!(code, 200);
    let changes = changes(&window);
    let [(_, options)] = changes.as_slice() else {
        panic!("{changes:?}");
    };
    // An API server ignores parameters if the request has a body.
    assert_eq!(options["dryRun"], json!(["All"]));
    assert_eq!(options["propagationPolicy"], "Orphan");
}

#[tokio::test]
async fn objects_outside_applications_are_not_modified() {
    let (window, mut agent_tunnel) = shop(UiAccess::Operate).await;
    let patch = json!({ "spec": {} });
    let (code, reply) = send(&mut agent_tunnel, "PATCH", LOCAL, MERGE, &patch).await;
    assert_eq!(code, 403);
    let reply = reply["message"].as_str().unwrap();
    assert!(reply.contains("belongs to no Application"), "{reply}");
    let (code, _) = send(&mut agent_tunnel, "DELETE", LOCAL, "", &Value::Null).await;
    assert_eq!(code, 403);
    let gone = "/apis/apps/v1/namespaces/shop/deployments/gone";
    let (code, reply) = send(&mut agent_tunnel, "PATCH", gone, MERGE, &patch).await;
    assert_eq!((code, reply["reason"].as_str()), (404, Some("NotFound")));
    // A user of the cluster created the Application, not the hub.
    let mut objects = window.api.objects.lock().unwrap().clone();
    let web = objects.get_mut(WEB).unwrap();
    assert!(Meta::of(web).source_uid().is_some());
    web["metadata"]["annotations"] = json!({});
    *window.api.objects.lock().unwrap() = objects;
    let (code, _) = send(&mut agent_tunnel, "PATCH", FRONT, MERGE, &patch).await;
    assert_eq!(code, 403);
    assert_eq!(changes(&window), []);
}

#[tokio::test]
async fn a_replaced_owner_authorizes_no_change() {
    let (window, mut agent_tunnel) = shop(UiAccess::Operate).await;
    let mut newer = tracked(object("apps/v1", "Deployment", "front", "u9"));
    newer["spec"] = json!({});
    window
        .api
        .objects
        .lock()
        .unwrap()
        .insert(FRONT.to_owned(), newer);
    let (code, _) = send(&mut agent_tunnel, "DELETE", POD, "", &Value::Null).await;
    assert_eq!(code, 403);
    assert_eq!(changes(&window), []);
}

#[tokio::test]
async fn job_creation_requires_an_owner_of_an_application() {
    let (window, mut agent_tunnel) = shop(UiAccess::Operate).await;
    let job =
        json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "nightly-1" } });
    for (owner, code) in [
        (object("batch/v1", "CronJob", "nightly", "u6"), 200),
        (object("batch/v1", "CronJob", "nightly", "other"), 403),
        (object("apps/v1", "Deployment", "local", "u5"), 403),
    ] {
        let made = owned(job.clone(), &owner);
        let answer = send(&mut agent_tunnel, "POST", JOBS, "application/json", &made).await;
        assert_eq!(answer.0, code, "{owner} {answer:?}");
    }
    let answer = send(&mut agent_tunnel, "POST", JOBS, "application/json", &job).await;
    assert_eq!(answer.0, 403);
    assert_eq!(changes(&window).len(), 1);
}

#[tokio::test]
async fn secret_values_are_masked_for_hub_users() {
    let (window, mut agent_tunnel) = shop(UiAccess::Operate).await;
    let patch = json!({ "data": { "password": "eA==" } });
    for (method, body) in [
        ("GET", Value::Null),
        ("PATCH", patch),
        ("DELETE", Value::Null),
    ] {
        let (code, shown) = send(&mut agent_tunnel, method, SECRET, MERGE, &body).await;
        assert_eq!(code, 200, "{method}");
        assert_eq!(shown["data"], json!({ "password": "++++++++" }), "{method}");
    }
    let copy = json!([{ "op": "copy", "from": "/data/password", "path": "/metadata/labels/a" }]);
    let kind = "application/json-patch+json";
    let (code, _) = send(&mut agent_tunnel, "PATCH", SECRET, kind, &copy).await;
    assert_eq!(code, 403);
    assert_eq!(changes(&window).len(), 2);
    // A Secret of no Application, and the list of all Secrets.
    let foreign = tracked(object("v1", "Secret", "other", "u8"));
    let at = "/api/v1/namespaces/shop/secrets/other";
    window
        .api
        .objects
        .lock()
        .unwrap()
        .insert(at.to_owned(), foreign);
    for target in [at, "/api/v1/namespaces/shop/secrets"] {
        let (code, _) = send(&mut agent_tunnel, "GET", target, "", &Value::Null).await;
        assert_eq!(code, 403, "{target}");
    }
}

#[tokio::test]
async fn ui_access_read_allows_no_change_of_application_objects() {
    let (window, mut agent_tunnel) = shop(UiAccess::Read).await;
    let (code, _) = send(&mut agent_tunnel, "PATCH", FRONT, MERGE, &json!({})).await;
    assert_eq!(code, 403);
    let (code, _) = send(&mut agent_tunnel, "GET", SECRET, "", &Value::Null).await;
    assert_eq!(code, 403);
    assert!(window.asked().is_empty());
}

const EXEC: &str = "/api/v1/namespaces/shop/pods/front-1-a/exec?command=sh&stdin=true&stdout=true";

/// The request for a terminal, and the sender of its input.
fn terminal(
    target: &str,
    upgrade: &str,
    protocol: &str,
) -> (
    mpsc::Sender<Bytes>,
    http::Request<UnsyncBoxBody<Bytes, std::convert::Infallible>>,
) {
    let (emits, input) = mpsc::channel(1);
    let input = ReceiverStream::new(input).map(|chunk| Ok(Frame::data(chunk)));
    let request = http::Request::get(format!("http://spoke{target}"))
        .header("x-stream-upgrade", upgrade)
        .header("sec-websocket-key", "a2V5")
        .header("sec-websocket-protocol", protocol)
        .body(UnsyncBoxBody::new(StreamBody::new(input)))
        .unwrap();
    (emits, request)
}

#[tokio::test]
async fn terminal_is_carried_until_the_viewer_leaves() {
    let (window, mut agent_tunnel) = shop(UiAccess::Terminal).await;
    for upgrade in ["websocket", "SPDY/3.1"] {
        let (emits, request) = terminal(EXEC, upgrade, "v5.channel.k8s.io");
        let answer = soon("a terminal", agent_tunnel.send_request(request))
            .await
            .unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["x-stream-upgrade"], upgrade);
        assert_eq!(
            answer.headers()["sec-websocket-protocol"],
            "v5.channel.k8s.io"
        );
        assert_eq!(answer.headers()["sec-websocket-accept"], "yes");
        let mut arrived = answer.into_body();
        for line in ["ls\n", "exit\n"] {
            emits.send(Bytes::from(line)).await.unwrap();
            let frame = soon("an echo", arrived.frame()).await.unwrap().unwrap();
            assert_eq!(frame.into_data().unwrap(), line);
        }
        drop(emits);
        let rest = soon("the end", arrived.collect()).await.unwrap();
        assert!(rest.to_bytes().is_empty());
        let asked = changes(&window).pop().unwrap();
        assert_eq!(asked.1, json!(["upgrade", upgrade, "v5.channel.k8s.io"]));
    }
    assert!(window.asked().iter().all(|asked| asked.starts_with(USER)));
}

#[tokio::test]
async fn terminals_of_foreign_pods_or_other_protocols_are_refused() {
    let (window, mut agent_tunnel) = shop(UiAccess::Terminal).await;
    let stray = object("v1", "Pod", "stray", "u8");
    let at = "/api/v1/namespaces/shop/pods/stray";
    window
        .api
        .objects
        .lock()
        .unwrap()
        .insert(at.to_owned(), stray);
    let bearer = "v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.YWRtaW4";
    for (target, upgrade, protocol, code) in [
        (
            &*format!("{at}/exec?command=sh"),
            "websocket",
            "v5.channel.k8s.io",
            403,
        ),
        (EXEC, "websocket", bearer, 403),
        (EXEC, "h2c", "v5.channel.k8s.io", 400),
    ] {
        let (_input, request) = terminal(target, upgrade, protocol);
        let answer = soon("an answer", agent_tunnel.send_request(request))
            .await
            .unwrap();
        assert_eq!(answer.status(), code, "{target} {upgrade} {protocol}");
    }
    assert_eq!(changes(&window), []);

    let (window, mut agent_tunnel) = shop(UiAccess::Operate).await;
    let (_input, request) = terminal(EXEC, "websocket", "v5.channel.k8s.io");
    let answer = soon("an answer", agent_tunnel.send_request(request))
        .await
        .unwrap();
    assert_eq!(answer.status(), 403);
    assert!(window.asked().is_empty());
}
