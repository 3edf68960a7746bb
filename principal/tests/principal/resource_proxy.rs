//! The resource proxy over real TLS, with agents that answer on tunnels by hand.

use std::{convert::Infallible, io, sync::Arc};

use bytes::Bytes;
use futures::{StreamExt as _, stream::BoxStream};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Frame, Incoming},
    client::conn::http1::{self, SendRequest},
    server::conn::http2,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use principal::{admission::identity::visitor, store::Memory};
use protocol::wire::{
    authapi::AuthRequest,
    tunnel::{Chunk, lane_client::LaneClient},
};
use runtime::{
    credentials::client_config,
    tunnel::{self, Tunnel},
};
use serde_json::Value;
use tokio::{net::TcpStream, sync::mpsc, task::JoinHandle};
use tokio_rustls::TlsConnector;
use tokio_stream::wrappers::ReceiverStream;

use crate::{
    agent::{Caller, request},
    authority::Leaf,
    world::{World, bounded, enrolled},
};

pub(crate) const PODS: &str = "/api/v1/namespaces/shop/pods";

pub(crate) async fn world(clusters: &[&str]) -> World {
    World::set(Memory::new(), clusters, |settings| {
        settings.resource_proxy = Some(([127, 0, 0, 1], 0).into());
    })
    .await
}

/// What Argo CD has in the cluster Secret.
pub(crate) fn credential(world: &World, cluster: &str) -> Leaf {
    world.authority.client(&visitor::name_for(cluster))
}

/// A connection to the resource proxy.
pub(crate) struct ProxyClient(SendRequest<Empty<Bytes>>);

impl ProxyClient {
    pub(crate) async fn with(world: &World, leaf: &Leaf) -> Self {
        let config = client_config(&leaf.material(&world.authority)).unwrap();
        let mut config = Arc::unwrap_or_clone(config);
        config.alpn_protocols.clear();
        let address = world.handle.resource_proxy.unwrap();
        let tcp = TcpStream::connect(address).await.unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        let name = "localhost".try_into().unwrap();
        let tls = bounded("handshake", connector.connect(name, tcp))
            .await
            .unwrap();
        let (send, connection) = http1::handshake(TokioIo::new(tls)).await.unwrap();
        spawn(async move { drop(connection.with_upgrades().await) });
        Self(send)
    }

    pub(crate) async fn of(world: &World, cluster: &str) -> Self {
        Self::with(world, &credential(world, cluster)).await
    }

    pub(crate) async fn ask(&mut self, request: Request<Empty<Bytes>>) -> Response<Incoming> {
        bounded("answer", self.0.send_request(request))
            .await
            .unwrap()
    }

    pub(crate) async fn get(&mut self, target: &str) -> Response<Incoming> {
        self.ask(get(target)).await
    }

    /// The status and the message of an answer that is not what was asked for.
    pub(crate) async fn fetch(&mut self, request: Request<Empty<Bytes>>) -> (u16, String) {
        let answer = self.ask(request).await;
        let code = answer.status().as_u16();
        let text = read(answer).await.unwrap();
        if code == 502 {
            return (code, String::from_utf8(text.to_vec()).unwrap());
        }
        let body: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(body["code"], code);
        (code, body["message"].as_str().unwrap().to_owned())
    }
}

pub(crate) fn get(target: &str) -> Request<Empty<Bytes>> {
    Request::get(target)
        .header("host", "proxy")
        .body(Empty::new())
        .unwrap()
}

pub(crate) async fn read(answer: Response<Incoming>) -> Result<Bytes, hyper::Error> {
    bounded("body", answer.into_body().collect())
        .await
        .map(http_body_util::Collected::to_bytes)
}

#[expect(
    clippy::disallowed_methods,
    reason = "ends with the runtime of the test"
)]
pub(crate) fn spawn<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    tokio::spawn(work)
}

pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// One request that an agent got, and where its answer goes.
pub(crate) struct Asked {
    pub(crate) request: Request<Incoming>,
    pub(crate) answer: tokio::sync::oneshot::Sender<Response<Body>>,
}

impl Asked {
    pub(crate) fn answer(self, body: Body) {
        let _unheard = self.answer.send(Response::new(body));
    }
}

/// The agent's end of a tunnel.
pub(crate) struct AgentTunnel {
    asked: mpsc::Receiver<Asked>,
    /// Requests for Events, which the principal asks by itself.
    pub(crate) events: mpsc::Receiver<Asked>,
    pub(crate) living: JoinHandle<()>,
}

impl AgentTunnel {
    /// The only one of its cluster.
    pub(crate) async fn of(world: &World, cluster: &str) -> Self {
        let tunnel = Self::open(world, cluster, request()).await;
        world.counted("argocd_principal_lanes 1").await;
        tunnel
    }

    pub(crate) async fn open(world: &World, cluster: &str, request: AuthRequest) -> Self {
        let caller = Caller::new(world, &world.certificate(cluster)).await;
        let tokens = caller.authenticate(request).await.unwrap();
        let (send, outgoing) = tunnel::chunks();
        let chunks = ReceiverStream::new(outgoing).map(|data| Chunk { data });
        let mut request = tonic::Request::new(chunks);
        let token = tokens.access_token.parse().unwrap();
        request.metadata_mut().insert("authorization", token);
        let mut client = LaneClient::new(caller.channel());
        let incoming = bounded("tunnel", client.open(request)).await.unwrap();
        let incoming = incoming.into_inner();
        let incoming = incoming.map(|it| it.map(|it| it.data).map_err(io::Error::other));
        let tunnel = Tunnel::new(incoming, send);
        let (asking, asked) = mpsc::channel(1024);
        let (looking, events) = mpsc::channel(1024);
        let service = service_fn(move |request: Request<Incoming>| {
            let is_look = request.uri().path().ends_with("/events");
            let asking = if is_look { &looking } else { &asking }.clone();
            async move {
                let (answer, answered) = tokio::sync::oneshot::channel();
                asking.send(Asked { request, answer }).await.unwrap();
                Ok::<_, Infallible>(answered.await.unwrap_or_else(|_dropped| {
                    Response::builder().status(500).body(whole(b"")).unwrap()
                }))
            }
        });
        let serving = http2::Builder::new(TokioExecutor::new())
            .max_concurrent_streams(1000)
            .serve_connection(TokioIo::new(tunnel), service);
        let living = spawn(async move { drop(serving.await) });
        Self {
            asked,
            events,
            living,
        }
    }

    pub(crate) async fn next(&mut self) -> Asked {
        bounded("a request", self.asked.recv()).await.unwrap()
    }
}

pub(crate) fn whole(body: &'static [u8]) -> Body {
    stream(futures::stream::iter([Ok(Bytes::from_static(body))]).boxed())
}

pub(crate) fn stream(chunks: BoxStream<'static, io::Result<Bytes>>) -> Body {
    UnsyncBoxBody::new(StreamBody::new(chunks.map(|it| it.map(Frame::data))))
}

#[tokio::test]
async fn live_request_reaches_the_agent_and_returns_a_large_body() {
    let world = world(&["a"]).await;
    let mut tunnel = AgentTunnel::of(&world, "a").await;
    let mut proxy_client = ProxyClient::of(&world, "a").await;
    let mut request = get("/api/v1/namespaces/shop/p%6Fds?labelSelector=a%3Db&limit=500");
    for (name, value) in [
        ("accept", "application/json"),
        ("cookie", "x"),
        ("x-forwarded-for", "y"),
    ] {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    let answering = async {
        let asked = tunnel.next().await;
        let target = asked.request.uri().path_and_query().unwrap().as_str();
        assert_eq!(target, format!("{PODS}?labelSelector=a%3Db&limit=500"));
        let names: Vec<_> = asked
            .request
            .headers()
            .keys()
            .map(http::HeaderName::as_str)
            .collect();
        assert_eq!(names, ["accept", "x-request-id"]);
        let chunk = Bytes::from(vec![7; 1 << 20]);
        asked.answer(stream(
            futures::stream::iter((0..30).map(move |_| Ok(chunk.clone()))).boxed(),
        ));
    };
    let (answer, ()) = tokio::join!(proxy_client.ask(request), answering);
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(read(answer).await.unwrap().len(), 30 << 20);
}

#[tokio::test]
async fn each_credential_opens_its_own_cluster_only() {
    let world = world(&["a", "b"]).await;
    let _tunnel = AgentTunnel::of(&world, "a").await;
    let mut other = ProxyClient::of(&world, "b").await;
    let (code, message) = other.fetch(get(PODS)).await;
    assert_eq!(code, 502, "{message}");
    let named = get(&format!("{PODS}?agentName=a"));
    assert_eq!(other.fetch(named).await.0, 403);
    let mut agent = ProxyClient::with(&world, &world.certificate("a")).await;
    assert_eq!(agent.fetch(get(PODS)).await.0, 401);
    let mut stranger = ProxyClient::of(&world, "c").await;
    assert_eq!(stranger.fetch(get(PODS)).await.0, 401);
    let mut known = ProxyClient::of(&world, "a").await;
    world.fleet.send_replace(enrolled(&["b"]));
    assert_eq!(known.fetch(get(PODS)).await.0, 401, "it left the fleet");
}

#[tokio::test]
async fn invalid_requests_are_refused_without_the_agent() {
    let world = world(&["a"]).await;
    let mut tunnel = AgentTunnel::of(&world, "a").await;
    let mut proxy_client = ProxyClient::of(&world, "a").await;
    for target in [
        "/metrics",
        "/api/v1/namespaces/shop/pods/%2e%2e/secrets",
        "/api/v1/namespaces/shop/pods/%252e%252e",
        "/api/v1/watch/pods",
        "/api/v1/pods?x=1",
    ] {
        assert_eq!(proxy_client.fetch(get(target)).await.0, 403, "{target}");
    }
    let mut posing = get(PODS);
    posing
        .headers_mut()
        .insert("impersonate-user", "system:admin".parse().unwrap());
    let (code, message) = proxy_client.fetch(posing).await;
    assert!(
        code == 403 && message.contains("impersonate-user"),
        "{message}"
    );
    assert!(
        tunnel.asked.try_recv().is_err(),
        "nothing reached the agent"
    );
}

#[tokio::test]
async fn disconnected_agent_fails_live_requests_with_a_reason() {
    let world = world(&["a"]).await;
    let mut proxy_client = ProxyClient::of(&world, "a").await;
    let (code, message) = proxy_client.fetch(get(PODS)).await;
    assert!(
        code == 502 && message.contains("not connected"),
        "{message}"
    );

    let mut tunnel = AgentTunnel::of(&world, "a").await;
    let begun = async {
        let never = futures::stream::pending().boxed();
        let first = futures::stream::iter([Ok(Bytes::from_static(b"half"))]);
        tunnel
            .next()
            .await
            .answer(stream(first.chain(never).boxed()));
    };
    let (answer, ()) = tokio::join!(proxy_client.get(PODS), begun);
    assert_eq!(answer.status(), StatusCode::OK);
    let mut waiting = ProxyClient::of(&world, "a").await;
    let unanswered = async {
        let asked = tunnel.next().await;
        tunnel.living.abort();
        asked
    };
    let ((code, _), _asked) = tokio::join!(waiting.fetch(get(PODS)), unanswered);
    assert_eq!(code, 502);
    assert!(
        read(answer).await.is_err(),
        "a broken answer is no shorter answer"
    );
    world.counted("argocd_principal_lanes 0").await;
    let mut later = ProxyClient::of(&world, "a").await;
    assert_eq!(later.fetch(get(PODS)).await.0, 502);

    let _again = AgentTunnel::of(&world, "a").await;
}

#[tokio::test]
async fn slow_reader_does_not_slow_other_requests() {
    let world = world(&["a"]).await;
    let mut tunnel = AgentTunnel::of(&world, "a").await;
    let mut slow = vec![];
    for _ in 0..16 {
        let mut proxy_client = ProxyClient::of(&world, "a").await;
        let endless = async {
            let chunk = Bytes::from(vec![7; 64 << 10]);
            let chunks = futures::stream::repeat_with(move || Ok(chunk.clone()));
            tunnel.next().await.answer(stream(chunks.boxed()));
        };
        let (answer, ()) = tokio::join!(proxy_client.get(PODS), endless);
        slow.push((proxy_client, answer));
    }
    let mut quick = ProxyClient::of(&world, "a").await;
    for _ in 0..20 {
        let answering = async { tunnel.next().await.answer(whole(b"{}")) };
        let (answer, ()) = tokio::join!(quick.get(PODS), answering);
        assert_eq!(read(answer).await.unwrap(), "{}");
    }
    drop(slow);
}

#[tokio::test]
async fn followed_logs_leave_room_for_other_requests() {
    let world = world(&["a"]).await;
    let mut tunnel = AgentTunnel::of(&world, "a").await;
    let log = format!("{PODS}/x/log?follow=true");
    let mut following = vec![];
    for _ in 0..64 {
        let mut proxy_client = ProxyClient::of(&world, "a").await;
        let never = async {
            tunnel
                .next()
                .await
                .answer(stream(futures::stream::pending().boxed()));
        };
        let (answer, ()) = tokio::join!(proxy_client.get(&log), never);
        following.push((proxy_client, answer));
    }
    let mut one_more = ProxyClient::of(&world, "a").await;
    let answer = one_more.get(&log).await;
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(answer.headers().contains_key("retry-after"));
    drop(answer);
    let mut other = ProxyClient::of(&world, "a").await;
    let answering = async { tunnel.next().await.answer(whole(b"{}")) };
    let (answer, ()) = tokio::join!(other.get(PODS), answering);
    assert_eq!(answer.status(), StatusCode::OK);
    // One viewer goes, and another one may come.
    drop(following.pop());
    let again = async {
        loop {
            let mut proxy_client = ProxyClient::of(&world, "a").await;
            let asking = proxy_client.get(&log);
            let answer = tokio::select! {
                answer = asking => answer,
                asked = tunnel.next() => { drop(asked); return; }
            };
            assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
        }
    };
    bounded("the place of a viewer who went", again).await;
}

#[tokio::test]
async fn tunnel_ends_with_its_credentials_and_a_newer_one_takes_over() {
    let world = world(&["a", "b"]).await;
    let mut older = AgentTunnel::of(&world, "a").await;
    let mut proxy_client = ProxyClient::of(&world, "a").await;
    let begun = async {
        let (send, chunks) = mpsc::channel(1);
        older
            .next()
            .await
            .answer(stream(ReceiverStream::new(chunks).boxed()));
        send
    };
    let (answer, rest) = tokio::join!(proxy_client.get(PODS), begun);

    let mut newer = AgentTunnel::open(&world, "a", request()).await;
    world.counted("argocd_principal_lanes 2").await;
    let mut next = ProxyClient::of(&world, "a").await;
    let answering = async { newer.next().await.answer(whole(b"newer")) };
    let (newest, ()) = tokio::join!(next.get(PODS), answering);
    assert_eq!(read(newest).await.unwrap(), "newer");
    // What was begun on the older one goes on there to its end.
    rest.send(Ok(Bytes::from_static(b"older"))).await.unwrap();
    drop(rest);
    assert_eq!(read(answer).await.unwrap(), "older");
    bounded("the end of the older tunnel", older.living)
        .await
        .unwrap();

    world.fleet.send_replace(enrolled(&["b"]));
    bounded("the end of the tunnel", newer.living)
        .await
        .unwrap();
    world.counted("argocd_principal_lanes 0").await;
}
