//! People at the hub open terminals: a connection to the resource proxy becomes a stream to the agent and back.

use std::{io, sync::Arc};

use bytes::Bytes;
use futures::StreamExt as _;
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, Empty, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use principal::{Revoked, admission::identity::PeerCertificate};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::mpsc,
};
use tokio_stream::wrappers::ReceiverStream;

use crate::{
    resource_proxy::{AgentTunnel, Asked, PODS, ProxyClient, credential, get, read, stream, world},
    world::bounded,
};

fn exec(upgrade: &str, protocol: &str) -> Request<Empty<Bytes>> {
    let mut request = get(&format!("{PODS}/x/exec?command=sh&stdin=true&stdout=true"));
    for (name, value) in [
        ("connection", "Upgrade"),
        ("upgrade", upgrade),
        ("sec-websocket-protocol", protocol),
        ("cookie", "x"),
    ] {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    request
}

/// The agent's ends of a stream that it has opened: what it says, and what it hears.
type Ends = (mpsc::Sender<Result<Frame<Bytes>, io::Error>>, Incoming);

fn open(asked: Asked) -> Ends {
    let (sender, message) = mpsc::channel(1);
    let answer = Response::builder()
        .header("x-stream-upgrade", "websocket")
        .header("sec-websocket-protocol", "v5.channel.k8s.io")
        .header("sec-websocket-accept", "yes")
        .header("set-cookie", "no")
        .body(UnsyncBoxBody::new(StreamBody::new(ReceiverStream::new(
            message,
        ))))
        .unwrap();
    asked.answer.send(answer).unwrap();
    (sender, asked.request.into_body())
}

async fn receive(ends: &mut Ends) -> Option<Bytes> {
    let frame = bounded("a frame", ends.1.frame()).await?.ok()?;
    frame.into_data().ok()
}

#[tokio::test]
async fn terminal_streams_to_the_agent_and_back() {
    let world = world(&["a"]).await;
    let mut tunnel = AgentTunnel::of(&world, "a").await;
    let mut proxy_client = ProxyClient::of(&world, "a").await;
    let opening = async {
        let asked = tunnel.next().await;
        let headers = asked.request.headers();
        assert_eq!(headers["x-stream-upgrade"], "websocket");
        assert_eq!(headers["sec-websocket-protocol"], "v5.channel.k8s.io");
        assert!(!headers.contains_key("cookie"));
        open(asked)
    };
    let asking = proxy_client.ask(exec("websocket", "v5.channel.k8s.io"));
    let (answer, mut agent) = tokio::join!(asking, opening);
    assert_eq!(answer.status(), StatusCode::SWITCHING_PROTOCOLS);
    assert_eq!(answer.headers()["upgrade"], "websocket");
    assert_eq!(answer.headers()["sec-websocket-accept"], "yes");
    assert!(!answer.headers().contains_key("set-cookie"));
    let stream = bounded("the stream", hyper::upgrade::on(answer))
        .await
        .unwrap();
    let mut client = TokioIo::new(stream);
    client.write_all(b"ls\n").await.unwrap();
    assert_eq!(receive(&mut agent).await.unwrap(), "ls\n");
    agent
        .0
        .send(Ok(Frame::data(Bytes::from("a b\n"))))
        .await
        .unwrap();
    let mut received = [0; 4];
    bounded("an answer", client.read_exact(&mut received))
        .await
        .unwrap();
    assert_eq!(&received, b"a b\n");
    // The client disconnects, and the agent is notified.
    drop(client);
    assert_eq!(receive(&mut agent).await, None);
    world.counted("argocd_principal_lanes 1").await;
}

#[tokio::test]
async fn terminal_ended_by_agent_delivers_its_last_output() {
    let world = world(&["a"]).await;
    let mut tunnel = AgentTunnel::of(&world, "a").await;
    let mut proxy_client = ProxyClient::of(&world, "a").await;
    let asking = proxy_client.ask(exec("websocket", "v5.channel.k8s.io"));
    let (answer, agent) = tokio::join!(asking, async { open(tunnel.next().await) });
    let stream = bounded("the stream", hyper::upgrade::on(answer))
        .await
        .unwrap();
    agent
        .0
        .send(Ok(Frame::data(Bytes::from("exit 3\n"))))
        .await
        .unwrap();
    drop(agent.0);
    let mut last = vec![];
    let reading = TokioIo::new(stream);
    tokio::pin!(reading);
    bounded("the end", reading.read_to_end(&mut last))
        .await
        .unwrap();
    assert_eq!(last, b"exit 3\n");
}

#[tokio::test]
async fn invalid_terminal_request_is_refused_without_the_agent() {
    let world = world(&["a"]).await;
    let mut tunnel = AgentTunnel::of(&world, "a").await;
    let bearer = "base64url.bearer.authorization.k8s.io.YWRtaW4";
    for (upgrade, protocol, code) in [
        ("websocket", bearer, StatusCode::FORBIDDEN),
        ("h2c", "v5.channel.k8s.io", StatusCode::BAD_REQUEST),
    ] {
        let mut proxy_client = ProxyClient::of(&world, "a").await;
        let answer = proxy_client.ask(exec(upgrade, protocol)).await;
        assert_eq!(answer.status(), code, "{upgrade} {protocol}");
    }
    // The first thing that the agent hears of is this.
    let mut proxy_client = ProxyClient::of(&world, "a").await;
    let asking = proxy_client.ask(get(PODS));
    let answering = async {
        let asked = tunnel.next().await;
        assert_eq!(asked.request.uri().path(), PODS);
        drop(asked);
    };
    let (answer, ()) = tokio::join!(asking, answering);
    assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
}

#[tokio::test]
async fn concurrent_terminals_of_a_cluster_are_bounded() {
    let world = world(&["a"]).await;
    let mut tunnel = AgentTunnel::of(&world, "a").await;
    let mut open_ones = vec![];
    for _ in 0..16 {
        let mut proxy_client = ProxyClient::of(&world, "a").await;
        let asking = proxy_client.ask(exec("websocket", "v5.channel.k8s.io"));
        let (answer, agent) = tokio::join!(asking, async { open(tunnel.next().await) });
        assert_eq!(answer.status(), StatusCode::SWITCHING_PROTOCOLS);
        let stream = bounded("the stream", hyper::upgrade::on(answer))
            .await
            .unwrap();
        open_ones.push((stream, agent));
    }
    let mut one_more = ProxyClient::of(&world, "a").await;
    let answer = one_more.ask(exec("websocket", "v5.channel.k8s.io")).await;
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn revocation_ends_open_terminals_and_logs_at_once() {
    let world = world(&["a"]).await;
    let mut tunnel = AgentTunnel::of(&world, "a").await;
    let leaf = credential(&world, "a");
    let mut proxy_client = ProxyClient::with(&world, &leaf).await;
    let asking = proxy_client.ask(exec("websocket", "v5.channel.k8s.io"));
    let (answer, mut agent) = tokio::join!(asking, async { open(tunnel.next().await) });
    let terminal = bounded("the stream", hyper::upgrade::on(answer))
        .await
        .unwrap();
    let mut reader = ProxyClient::with(&world, &leaf).await;
    let following = async {
        let never = futures::stream::pending().boxed();
        tunnel.next().await.answer(stream(never));
    };
    let log = format!("{PODS}/x/log?follow=true");
    let (log, ()) = tokio::join!(reader.get(&log), following);

    let certificate = PeerCertificate::from_pem(&leaf.chain).unwrap();
    let fingerprint = format!("{:?}", certificate.thumbprint);
    let list = Revoked::read([fingerprint.as_str()]);
    world.revoked.send_replace(Some(Arc::new(list)));
    assert!(read(log).await.is_err(), "it has not come to its end");
    assert_eq!(receive(&mut agent).await, None);
    let mut shown = vec![];
    let mut terminal = TokioIo::new(terminal);
    let _broken = bounded("the end", terminal.read_to_end(&mut shown)).await;
    assert!(shown.is_empty());
}
