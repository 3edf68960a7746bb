//! The tunnel: live requests of the hub's users to this cluster's API, through a scripted principal.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use agent::config::Ui;
use agent::live::tunnel::{AgentTunnel, ApiHandler};
use agent::session::LinkState;
use agent::transport::{Dialer, Network};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use live::ui_access::UiAccess;
use protocol::Mode;
use protocol::version::Capabilities;
use runtime::credentials::{ClientTls, Material};
use runtime::parts::Parts;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

use super::connected;
use super::principal::{Carrier, Manner, Principal};
use super::spoke::{Setup, hub};
use super::trust::Authority;
use super::wait::soon;

pub(super) const USER: &str = "system:serviceaccount:agents:ui";

/// The lines of a Pod's log.
pub(super) type Log = mpsc::Receiver<Result<Bytes, std::io::Error>>;

/// An API server that records requests with their users, and gives scripted answers.
#[derive(Clone, Default)]
pub(super) struct RecordingApi {
    asked: Arc<Mutex<Vec<String>>>,
    pub(super) log: Arc<Mutex<Option<Log>>>,
    /// The objects by path; without any, each answer is the same large body.
    pub(super) objects: Arc<Mutex<BTreeMap<String, Value>>>,
    /// The bodies of changing requests, with method, path and content type.
    pub(super) changes: Arc<Mutex<Vec<(String, Value)>>>,
}

impl RecordingApi {
    /// Echoes what it receives.
    #[expect(clippy::disallowed_methods, reason = "ends with the stream")]
    fn terminal(&self, mut request: Request) -> Response {
        let headers = request.headers();
        let asked = ["connection", "upgrade", "sec-websocket-protocol"];
        let asked = asked.map(|name| headers[name].to_str().unwrap().to_owned());
        let [_, upgrade, protocol] = asked.clone();
        let headers = json!(asked);
        self.changes
            .lock()
            .unwrap()
            .push(("exec".to_owned(), headers));
        let stream = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let (mut read, mut write) = tokio::io::split(TokioIo::new(stream.await.unwrap()));
            drop(tokio::io::copy(&mut read, &mut write).await);
        });
        Response::builder()
            .status(101)
            .header("connection", "Upgrade")
            .header("upgrade", upgrade)
            .header("sec-websocket-protocol", protocol)
            .header("sec-websocket-accept", "yes")
            .body(Body::empty())
            .unwrap()
    }

    async fn object(&self, request: Request) -> Response {
        let path = request.uri().path().to_owned();
        let kind = request.headers().get("content-type");
        let kind = kind.map_or("", |it| it.to_str().unwrap());
        let change = format!("{} {path} {kind}", request.method());
        let changes = request.method() != http::Method::GET;
        let body = request.into_body().collect().await.unwrap().to_bytes();
        if changes {
            let body = serde_json::from_slice(&body).unwrap_or_default();
            self.changes.lock().unwrap().push((change, body));
        }
        let found = self.objects.lock().unwrap().get(&path).cloned();
        let code = if found.is_some() { 200 } else { 404 };
        let body = found.unwrap_or_else(|| json!({ "kind": "Status", "code": 404 }));
        Response::builder()
            .status(code)
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()))
            .unwrap()
    }
}

async fn answer(State(api): State<RecordingApi>, request: Request) -> Response {
    let user = request.headers().get("impersonate-user");
    let user = user.and_then(|it| it.to_str().ok()).unwrap_or("no user");
    let target = request.uri().path_and_query().unwrap();
    let asked = format!("{user} {} {target}", request.method());
    api.asked.lock().unwrap().push(asked);
    if request.uri().path().ends_with("/log") {
        let chunks = api.log.lock().unwrap().take().unwrap();
        return Response::new(Body::from_stream(ReceiverStream::new(chunks)));
    }
    if request.uri().path().ends_with("/exec") {
        return api.terminal(request);
    }
    if !api.objects.lock().unwrap().is_empty() {
        return api.object(request).await;
    }
    let chunk = Bytes::from(vec![b'x'; 1 << 20]);
    let large = futures::stream::iter((0..30).map(move |_| Ok::<_, std::io::Error>(chunk.clone())));
    Response::new(Body::from_stream(large))
}

/// An agent's tunnel between a scripted principal and that API server.
pub(super) struct Window {
    pub(super) principal: Principal,
    authority: Authority,
    pub(super) api: RecordingApi,
    material: watch::Sender<Arc<Material>>,
    token: CancellationToken,
    _parts: Parts,
}

/// Opens the tunnel of an agent with this handler, until the token is cancelled.
pub(super) fn open(
    principal: &Principal,
    material: watch::Receiver<Arc<Material>>,
    api_handler: ApiHandler,
    parts: &Parts,
    token: &CancellationToken,
) {
    let tls = ClientTls::follow(material, &parts.spawner());
    let in_effect = tls.material();
    let hub = hub(principal.address.port());
    let dialer = Dialer {
        network: Arc::new(Network::new(hub.clone(), tls, parts.spawner())),
        hub,
        material: in_effect,
        argocd_namespace: "argocd".to_owned(),
        mode: Mode::Managed,
        capabilities: Capabilities::ours(),
    };
    let agent_tunnel = AgentTunnel {
        dialer,
        wanted: watch::channel(true).1,
        api_handler: Arc::new(api_handler),
        metrics: agent::metrics::Metrics::default(),
        spawner: parts.spawner(),
    };
    parts.spawn("tunnel", agent_tunnel.run(token.clone()));
}

impl Window {
    #[expect(clippy::disallowed_methods, reason = "ends with the token of the test")]
    pub(super) async fn with(access: UiAccess) -> Self {
        runtime::install_crypto_provider();
        let (authority, api) = (Authority::new(), RecordingApi::default());
        let principal = Principal::start(&authority, Manner::Ours).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(api.clone());
        let token = CancellationToken::new();
        let stop = token.clone();
        let served = axum::serve(listener, router).into_future();
        tokio::spawn(async move { stop.run_until_cancelled(served).await.map(Result::ok) });
        let client = kube::Config::new(url.parse().unwrap());
        let ui = Ui {
            access,
            user: Some(USER.to_owned()),
        };
        let material = authority.material("spoke1", &authority.pem());
        let material = watch::Sender::new(material);
        let parts = Parts::new(token.clone());
        let client = kube::Client::try_from(client).unwrap();
        let api_handler = ApiHandler::new(client, ui, Setup::default().scope, parts.spawner());
        open(
            &principal,
            material.subscribe(),
            api_handler,
            &parts,
            &token,
        );
        Self {
            principal,
            authority,
            api,
            material,
            token,
            _parts: parts,
        }
    }

    pub(super) fn asked(&self) -> Vec<String> {
        self.api.asked.lock().unwrap().clone()
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.token.cancel();
    }
}

async fn ask(
    carrier: &mut Carrier,
    method: &str,
    target: &str,
    header: Option<(&'static str, &str)>,
) -> http::Response<Incoming> {
    let mut request = http::Request::builder()
        .method(method)
        .uri(format!("http://spoke{target}"));
    if let Some((name, value)) = header {
        request = request.header(name, value);
    }
    let request = request.body(UnsyncBoxBody::new(Full::default())).unwrap();
    soon("an answer", carrier.send_request(request))
        .await
        .unwrap()
}

pub(super) async fn refused(carrier: &mut Carrier, method: &str, target: &str) -> String {
    let answer = ask(carrier, method, target, None).await;
    assert_eq!(answer.status(), 403, "{method} {target}");
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let status: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(status["kind"], "Status");
    status["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn allowed_read_is_impersonated_and_complete() {
    let mut window = Window::with(UiAccess::Read).await;
    let mut agent_tunnel = window.principal.agent_tunnel().await;
    let target = "/api/v1/namespaces/shop/pods?limit=5";
    let header = Some(("authorization", "Bearer mine"));
    let answer = ask(&mut agent_tunnel, "GET", target, header).await;
    assert_eq!(answer.status(), 200);
    let body = soon("the body", answer.into_body().collect())
        .await
        .unwrap();
    assert_eq!(body.to_bytes().len(), 30 << 20);
    assert_eq!(window.asked(), [format!("{USER} GET {target}")]);
}

#[tokio::test]
async fn agent_refuses_reads_beyond_ui_access() {
    let mut window = Window::with(UiAccess::Read).await;
    let mut agent_tunnel = window.principal.agent_tunnel().await;
    let secrets = refused(
        &mut agent_tunnel,
        "GET",
        "/api/v1/namespaces/shop/secrets/x",
    )
    .await;
    assert!(secrets.contains("Secrets"), "{secrets}");
    for (method, target) in [
        ("DELETE", "/api/v1/namespaces/shop/pods/x"),
        ("PATCH", "/apis/apps/v1/namespaces/shop/deployments/x"),
        ("POST", "/api/v1/namespaces/shop/pods/x/exec?command=sh"),
        ("GET", "/api/v1/nodes/x/proxy"),
        ("GET", "/api/v1/namespaces/shop/pods/%2e%2e/secrets"),
        ("GET", "/metrics"),
    ] {
        refused(&mut agent_tunnel, method, target).await;
    }
    let posing = Some(("impersonate-user", "system:admin"));
    let answer = ask(&mut agent_tunnel, "GET", "/api/v1/pods", posing).await;
    assert_eq!(answer.status(), 403);
    assert!(window.asked().is_empty(), "the API got no request");

    let mut closed = Window::with(UiAccess::None).await;
    let mut agent_tunnel = closed.principal.agent_tunnel().await;
    let message = refused(&mut agent_tunnel, "GET", "/version").await;
    assert!(
        message.contains("UI_ACCESS of this cluster is none"),
        "{message}"
    );
}

#[tokio::test]
async fn application_events_need_ui_access_read() {
    let target = "/api/v1/namespaces/argocd/events?fieldSelector=involvedObject.kind%3DApplication%2CinvolvedObject.name%3Dguestbook&limit=500";
    for level in [UiAccess::Read, UiAccess::Operate, UiAccess::Terminal] {
        let mut window = Window::with(level).await;
        let mut agent_tunnel = window.principal.agent_tunnel().await;
        let answer = ask(&mut agent_tunnel, "GET", target, None).await;
        assert_eq!(answer.status(), 200, "{level}");
        assert_eq!(window.asked(), [format!("{USER} GET {target}")]);
    }
    let mut closed = Window::with(UiAccess::None).await;
    let mut agent_tunnel = closed.principal.agent_tunnel().await;
    let message = refused(&mut agent_tunnel, "GET", target).await;
    assert!(message.contains("is none"), "{message}");
    assert!(closed.asked().is_empty(), "the API got no request");
}

#[tokio::test]
async fn a_log_is_streamed_and_ends_when_its_viewer_leaves() {
    let mut window = Window::with(UiAccess::Read).await;
    let mut agent_tunnel = window.principal.agent_tunnel().await;
    let (emits, log) = mpsc::channel(1);
    *window.api.log.lock().unwrap() = Some(log);
    let target = "/api/v1/namespaces/shop/pods/x/log?follow=true";
    let mut answer = ask(&mut agent_tunnel, "GET", target, None)
        .await
        .into_body();
    for line in ["one\n", "two\n"] {
        emits.send(Ok(Bytes::from(line))).await.unwrap();
        let frame = soon("a line", answer.frame()).await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), line);
    }
    drop(answer);
    soon("the end of the log", emits.closed()).await;
}

#[tokio::test]
async fn a_broken_tunnel_is_reopened_and_one_with_old_trust_replaced() {
    let mut window = Window::with(UiAccess::Read).await;
    let other = Authority::new();
    let both = format!("{}{}", window.authority.pem(), other.pem());
    let more = window.authority.material("spoke1", &both);
    window.material.send_replace(more);
    drop(window.principal.agent_tunnel().await);
    let mut older = window.principal.agent_tunnel().await;
    let fewer = window.authority.material("spoke1", &window.authority.pem());
    window.material.send_replace(fewer);
    let mut newer = window.principal.agent_tunnel().await;
    for agent_tunnel in [&mut older, &mut newer] {
        let answer = ask(agent_tunnel, "GET", "/api/v1/pods", None).await;
        assert_eq!(answer.status(), 200);
    }
}

#[tokio::test]
async fn a_tunnel_is_wanted_only_during_a_session_that_accepts_one() {
    let (mut scene, talk) = connected(Manner::Ours).await;
    assert!(*scene.spoke.takes_tunnels.borrow());
    drop(talk);
    scene.principal.stop();
    scene.spoke.is(LinkState::Down).await;
    let gone = scene.spoke.takes_tunnels.wait_for(|takes| !takes);
    drop(soon("no tunnel is wanted", gone).await.unwrap());

    let mut go = super::scene(Manner::Go).await;
    let _talk = go.principal.conversation().await;
    assert!(!*go.spoke.takes_tunnels.borrow());
}
