//! gRPC over `WebSocket`s, and what else comes over HTTP/1.1: answered clearly, with bounds.

use bytes::Bytes;
use futures::SinkExt as _;
use prost::Message as _;
use protocol::{
    Event, Target, Verb,
    payload::{ResourceResponse, SyncedResourceList},
    websocket::metadata,
    wire::{authapi::AuthResponse, eventstreamapi::Event as Envelope, versionapi::VersionResponse},
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_tungstenite::tungstenite::{Message, protocol::frame::coding::CloseCode};

use crate::{
    agent::{Agent, request},
    go_agents::noise,
    resource_proxy::{self, PODS, ProxyClient},
    websocket_client::{AUTHENTICATE, Call, SUBSCRIBE, VERSION, envelope_of, gzip, http1},
    world::{World, application, bounded},
};

fn sockets(outcome: &str, count: u32) -> String {
    format!("argocd_principal_websockets_total{{outcome=\"{outcome}\"}} {count}")
}

#[tokio::test]
async fn calls_and_sessions_work_over_websockets() {
    let world = World::with(&["a"]).await;
    let leaf = world.certificate("a");

    let mut call = Call::open(&world, &leaf, VERSION, &[]).await;
    call.send_message(&protocol::wire::versionapi::VersionRequest {})
        .await;
    call.end().await;
    assert_eq!(call.headers().await["content-type"], "application/grpc");
    let version: VersionResponse = call.message().await;
    assert!(version.version.starts_with("argocd-agent-"));
    assert!(version.nonce.is_empty(), "no proxy is known here");
    assert_eq!(call.headers().await["grpc-status"], "0");
    assert_eq!(call.code().await, Some(CloseCode::Normal));

    let mut call = Call::open(&world, &leaf, AUTHENTICATE, &[]).await;
    call.send_message(&request()).await;
    call.end().await;
    call.headers().await;
    let tokens: AuthResponse = call.message().await;
    assert_eq!(call.headers().await["grpc-status"], "0");

    let authorization = [("authorization", tokens.access_token.as_str())];
    let mut session = Call::open(&world, &leaf, SUBSCRIBE, &authorization).await;
    session.headers().await;
    let asked: Envelope = session.message().await;
    let asked = Event::try_from(asked.event.unwrap()).unwrap();
    assert_eq!(
        (asked.target, asked.verb),
        (Target::Resync, Verb::RequestResourceResync)
    );
    let list = SyncedResourceList {
        checksum: argocd::digest::list_checksum([]),
        ..SyncedResourceList::default()
    };
    for event in [asked.ack(), Event::request_synced_resource_list(&list)] {
        session.send_message(&envelope_of(event)).await;
    }
    world.create(application("a", "app"));
    loop {
        let envelope: Envelope = session.message().await;
        let event = Event::try_from(envelope.event.unwrap()).unwrap();
        if event.verb == Verb::Create && event.object().is_some_and(|key| key.name == "app") {
            break;
        }
    }
    world
        .reported("connected", |reports| reports["a"].connected)
        .await;
    session.send(Message::Close(None)).await;
    world
        .reported("gone", |reports| !reports["a"].connected)
        .await;
}

#[tokio::test]
async fn websocket_refusal_is_one_header_frame_with_the_status() {
    let world = World::with(&["a"]).await;
    let mut call = Call::open(&world, &world.certificate("b"), AUTHENTICATE, &[]).await;
    call.send_message(&request()).await;
    call.end().await;
    let headers = call.headers().await;
    assert_eq!(headers["grpc-status"], "16");
    assert_eq!(headers["grpc-message"], "cluster%20is%20not%20enrolled");
    assert_eq!(call.code().await, Some(CloseCode::Normal));
}

#[tokio::test]
async fn websocket_violations_have_a_close_code_and_are_counted() {
    let world = World::with(&["a", "b"]).await;
    let mut other = Agent::empty(&world, "b").await;
    let leaf = world.certificate("a");
    let headers = metadata(
        &[(http::header::TE, "trailers".parse().unwrap())]
            .into_iter()
            .collect(),
    );
    let large = vec![0_u8; 100 << 10];
    for (message, outcome, code) in [
        (
            Message::Text("hello".into()),
            "text",
            CloseCode::Unsupported,
        ),
        (
            Message::Binary(Bytes::from_static(b"abc")),
            "malformed",
            CloseCode::Protocol,
        ),
        (
            Message::Binary(Bytes::from_static(b"\0\0\0\0\x05abc")),
            "malformed",
            CloseCode::Protocol,
        ),
        (Message::Binary(headers), "malformed", CloseCode::Protocol),
        (Message::Binary(large.into()), "oversized", CloseCode::Size),
    ] {
        let mut call = Call::open(&world, &leaf, AUTHENTICATE, &[]).await;
        call.send(message).await;
        assert_eq!(call.code().await, Some(code), "{outcome}");
    }
    for (outcome, count) in [("text", 1), ("malformed", 3), ("oversized", 1)] {
        world.counted(&sockets(outcome, count)).await;
    }
    world.create(application("b", "app"));
    other.about("app").await;
}

#[tokio::test]
async fn fragmented_websocket_message_is_joined_and_bounded() {
    use tokio_tungstenite::tungstenite::protocol::frame::{
        Frame as Fragment,
        coding::{Data, OpCode},
    };
    let world = World::with(&["a"]).await;
    let leaf = world.certificate("a");
    let body = request().encode_to_vec();
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    let framed = [&[0], &length[..], &body].concat();
    let fragment = |bytes: Vec<u8>, first: bool, last: bool| {
        let code = OpCode::Data(if first { Data::Binary } else { Data::Continue });
        Message::Frame(Fragment::message(bytes, code, last))
    };
    let mut call = Call::open(&world, &leaf, AUTHENTICATE, &[]).await;
    let pieces: Vec<&[u8]> = framed.chunks(7).collect();
    for (at, piece) in pieces.iter().enumerate() {
        call.send(fragment(piece.to_vec(), at == 0, at + 1 == pieces.len()))
            .await;
    }
    call.end().await;
    call.headers().await;
    let tokens: AuthResponse = call.message().await;
    assert!(!tokens.access_token.is_empty());

    let mut endless = Call::open(&world, &leaf, AUTHENTICATE, &[]).await;
    for at in 0..20 {
        // The other end may have closed already; that is what it should do.
        drop(
            endless
                .0
                .send(fragment(vec![0; 4 << 10], at == 0, false))
                .await,
        );
    }
    assert!(matches!(endless.code().await, Some(CloseCode::Size) | None));
    world.counted(&sockets("oversized", 1)).await;
}

#[tokio::test]
async fn oversized_websocket_response_fails_and_session_continues() {
    let world = resource_proxy::world(&["a"]).await;
    let mut session = Call::session(&world, "a").await;
    let mut proxy_client = ProxyClient::of(&world, "a").await;
    let pod = format!("{PODS}/x");
    let answer = |question: &Event, resource: String| {
        let uuid = question.event_id.clone();
        let response = ResourceResponse {
            uuid,
            status: 200,
            resource,
        };
        envelope_of(Event::resource_response(&response)).encode_to_vec()
    };
    let (flat, noisy) = ("x".repeat(100 << 10), noise(200 << 10));
    for (count, (flag, large)) in [(0, &flat), (1, &flat), (1, &noisy), (0, &noisy)]
        .into_iter()
        .enumerate()
    {
        let answering = async {
            let question = session.event(Target::Resource).await;
            let message = answer(&question, large.clone());
            let message = if flag == 1 { gzip(&message) } else { message };
            session.send_flagged(flag, &message).await;
        };
        let (response, ()) = tokio::join!(proxy_client.fetch(resource_proxy::get(&pod)), answering);
        assert_eq!(response.0, 502);
        assert!(
            response.1.contains("exceeds the message size limit"),
            "{}",
            response.1
        );
        let counted = "argocd_principal_events_refused_total{reason=\"too_large\"}";
        world.counted(&format!("{counted} {}", count + 1)).await;
    }
    let answering = async {
        let question = session.event(Target::Resource).await;
        let message = answer(&question, "{}".to_owned());
        session.send_flagged(0, &message).await;
    };
    let (answered, ()) = tokio::join!(proxy_client.get(&pod), answering);
    assert_eq!(answered.status(), http::StatusCode::OK);
    assert!(world.handle.sessions.borrow()["a"].connected);
}

#[tokio::test]
async fn unknown_grpc_encoding_is_refused_as_unimplemented() {
    let world = World::with(&["a"]).await;
    let leaf = world.certificate("a");
    let packed = gzip(&request().encode_to_vec());
    for (encoding, message, status) in [
        (Some("gzip"), &packed[..], "0"),
        (Some("zstd"), &packed, "12"),
        (None, &packed, "13"),
        (Some("gzip"), b"no gzip", "13"),
    ] {
        let headers = encoding.map(|it| ("grpc-encoding", it));
        let mut call = Call::open(&world, &leaf, AUTHENTICATE, headers.as_slice()).await;
        // An unknown encoding is refused by its name; the other messages are refused before the end arrives.
        if status != "12" {
            call.send_flagged(1, message).await;
        }
        if status == "0" {
            call.end().await;
        }
        let mut trailers = call.headers().await;
        if status == "0" {
            let tokens: AuthResponse = call.message().await;
            assert!(!tokens.access_token.is_empty());
            trailers = call.headers().await;
        }
        assert_eq!(trailers["grpc-status"], status, "{encoding:?}");
        if status == "12" {
            assert_eq!(trailers["grpc-accept-encoding"], "gzip,identity");
        }
    }
    Agent::of(&world, "a").await;
}

/// Says something after the handshake and reads all that comes.
async fn answer(world: &World, text: &str) -> String {
    let mut stream = http1(world, &world.certificate("a")).await;
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    drop(bounded("closed", stream.read_to_end(&mut answer)).await);
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn plain_http_1_1_requests_get_a_hint() {
    let world = World::with(&["a"]).await;
    let plain = answer(&world, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(
        plain.starts_with("HTTP/1.1 404") && plain.contains("gRPC"),
        "{plain}"
    );
    world.counted(&sockets("not_grpc", 1)).await;
    let stripped = "GET /versionapi.Version/Version HTTP/1.1\r\nHost: x\r\nSec-WebSocket-Protocol: grpc-ws\r\n\r\n";
    let stripped = answer(&world, stripped).await;
    assert!(
        stripped.starts_with("HTTP/1.1 400") && stripped.contains("proxy"),
        "{stripped}"
    );
    world.counted(&sockets("bad_upgrade", 1)).await;
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(1000));
    assert!(answer(&world, &many).await.starts_with("HTTP/1.1 431"));
    let long = format!("GET / HTTP/1.1\r\na: {}\r\n\r\n", "b".repeat(100 << 10));
    assert!(answer(&world, &long).await.starts_with("HTTP/1.1 431"));
    Agent::of(&world, "a").await;
}

#[tokio::test]
async fn http_without_tls_gets_a_hint_to_use_tls() {
    let world = World::with(&["a"]).await;
    for request in [
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut socket = world.tcp().await;
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        drop(bounded("closed", socket.read_to_end(&mut answer)).await);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(
            answer.starts_with("HTTP/1.1 400") && answer.ends_with("plaintext\n"),
            "{answer}"
        );
    }
    world
        .counted("argocd_principal_handshakes_total{outcome=\"plain_http\"} 2")
        .await;
}

#[tokio::test]
async fn endless_http_headers_time_out() {
    let world = World::set(principal::store::Memory::new(), &["a"], |settings| {
        settings.limits.handshake_time = std::time::Duration::from_millis(300);
    })
    .await;
    let mut slow = http1(&world, &world.certificate("a")).await;
    slow.write_all(b"GET / HTTP/1.1\r\nHost: ").await.unwrap();
    let mut rest = Vec::new();
    drop(bounded("closed", slow.read_to_end(&mut rest)).await);
    world.counted("argocd_principal_connections 0").await;
}

#[tokio::test]
async fn disabled_websockets_are_refused_and_http_2_works() {
    let world = World::set(principal::store::Memory::new(), &["a"], |settings| {
        settings.websockets = false;
    })
    .await;
    let asked = "GET /versionapi.Version/Version HTTP/1.1\r\nHost: x\r\nSec-WebSocket-Protocol: grpc-ws\r\n\r\n";
    let refused = answer(&world, asked).await;
    assert!(
        refused.starts_with("HTTP/1.1 404") && refused.contains("--enable-websocket"),
        "{refused}"
    );
    world.counted(&sockets("switched_off", 1)).await;
    Agent::of(&world, "a").await;
}
