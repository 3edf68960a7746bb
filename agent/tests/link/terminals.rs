//! Terminals of a Go principal: a stream of frames on its side, Kubernetes' channels on the cluster's.

use std::sync::Arc;

use argocd::keys;
use axum::body::Body;
use axum::extract::{Path, Request as Asked, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response as Answer};
use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use hyper_util::rt::TokioIo;
use live::channels::{Channel, End, PROTOCOLS, Size};
use live::ui_access::UiAccess;
use protocol::wire::terminalstreamapi::TerminalStreamData;
use protocol::wire::terminalstreamapi::terminal_stream_service_server::TerminalStreamService;
use protocol::{Event, Target, Verb};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;
use tonic::{Request, Response, Status, Streaming};

use super::api::World;
use super::principal::{Conversation, Manner};
use super::spoke::Setup;
use super::wait::soon;
use super::{APPS, Scene, connected_with};

const ONE: &str = "11111111-1111-1111-1111-111111111111";

/// The principal's end of a terminal.
pub(super) struct Opened {
    incoming: Streaming<TerminalStreamData>,
    emits: mpsc::Sender<Result<TerminalStreamData, Status>>,
}

/// The principal's service.
pub(super) struct Service(pub(super) mpsc::Sender<Opened>);

#[tonic::async_trait]
impl TerminalStreamService for Service {
    type StreamTerminalStream = ReceiverStream<Result<TerminalStreamData, Status>>;

    async fn stream_terminal(
        &self,
        request: Request<Streaming<TerminalStreamData>>,
    ) -> Result<Response<Self::StreamTerminalStream>, Status> {
        let (emits, frames) = mpsc::channel(8);
        let incoming = request.into_inner();
        drop(self.0.send(Opened { incoming, emits }).await);
        Ok(Response::new(ReceiverStream::new(frames)))
    }
}

impl Opened {
    async fn next(&mut self) -> TerminalStreamData {
        let arrived = soon("a frame of a terminal", self.incoming.message()).await;
        arrived.unwrap().expect("the agent ended the stream")
    }

    /// Waits until the terminal shows this text.
    async fn shows(&mut self, text: &str) {
        let mut shown = String::new();
        while !shown.contains(text) {
            let frame = self.next().await;
            assert_eq!((frame.error.as_str(), frame.eof), ("", false), "{shown:?}");
            assert_eq!(frame.stream_type, "stdout");
            shown.push_str(std::str::from_utf8(&frame.data).unwrap());
        }
    }

    async fn types(&self, keys: &'static str) {
        let typed = TerminalStreamData {
            data: Bytes::from_static(keys.as_bytes()),
            stream_type: "stdin".to_owned(),
            ..TerminalStreamData::default()
        };
        self.emits.send(Ok(typed)).await.unwrap();
    }

    async fn handshake(&mut self, uuid: &str) {
        let first = self.next().await;
        let handshake = TerminalStreamData {
            request_uuid: uuid.to_owned(),
            ..TerminalStreamData::default()
        };
        assert_eq!(first, handshake);
    }
}

/// The API's side: echoes input, ends with `exit N`. The only shell is `sh`.
#[expect(clippy::disallowed_methods, reason = "ends with the stream")]
pub(super) async fn exec(
    State(world): State<Arc<World>>,
    Path((_, plural, _)): Path<(String, String, String)>,
    mut request: Asked,
) -> Answer {
    assert_eq!(plural, "pods");
    let query = request.uri().query().unwrap_or_default();
    if !query.contains("command=sh&") {
        let reply = json!({ "kind": "Status", "message": "no such shell" });
        return (StatusCode::INTERNAL_SERVER_ERROR, reply.to_string()).into_response();
    }
    assert!(
        query.ends_with("&container=c&stdin=true&stdout=true&tty=true"),
        "{query}"
    );
    let stream = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let stream = TokioIo::new(stream.await.unwrap());
        let socket = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
        world.terminals.send_modify(|open| *open += 1);
        echo(socket).await;
        world.terminals.send_modify(|open| *open -= 1);
    });
    Answer::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header("connection", "Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-protocol", PROTOCOLS[0])
        .header("sec-websocket-accept", "yes")
        .body(Body::empty())
        .unwrap()
}

async fn echo(mut socket: WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>) {
    while let Some(Ok(Message::Binary(arrived))) = socket.next().await {
        let output = match Channel::read(&arrived) {
            Some((Channel::Keys, b"exit 3\n")) => {
                let end = End::Failed("command terminated with exit code 3".to_owned());
                Channel::End.emits(&end.written())
            }
            Some((Channel::Keys, b"exit\n")) => Channel::End.emits(&End::Done.written()),
            Some((Channel::Keys, keys)) => Channel::Screen.emits(keys),
            Some((Channel::Size, size)) => {
                let Size { width, height } = Size::read(size).unwrap();
                Channel::Errors.emits(format!("{width}x{height}").as_bytes())
            }
            other => panic!("{other:?}"),
        };
        if socket.send(Message::binary(output)).await.is_err() {
            return;
        }
    }
}

/// A Pod of an Application, and one that only has its annotation.
async fn shop(access: UiAccess) -> (Scene, Conversation) {
    let setup = Setup {
        access,
        ..Setup::default()
    };
    let (scene, talk) = connected_with(Arc::default(), Manner::Go, setup).await;
    let pod = |name: &str| {
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": "shop",
            "uid": name, "annotations": { keys::TRACKING_ID: "web:what/ever:it/says" } } })
    };
    scene.api.world.make("pods", pod("front"));
    scene.api.world.make("pods", pod("local"));
    let listed = json!([{ "group": "", "kind": "Pod", "namespace": "shop", "name": "front" }]);
    let web = json!({ "metadata": { "name": "web", "namespace": "argocd",
        "annotations": { keys::SOURCE_UID: "hub-1" } }, "status": { "resources": listed } });
    scene.api.world.make(APPS, web);
    (scene, talk)
}

fn question(uuid: &str, pod: &str, shell: &str) -> Event {
    let asked: Value = json!({ "uuid": uuid, "namespace": "shop", "podName": pod, "containerName": "c",
        "command": [shell], "tty": true, "stdin": true, "stdout": true, "stderr": true });
    let asked = Bytes::from(asked.to_string());
    Event::live_request(Target::Terminal, Verb::TerminalRequest, uuid, asked)
}

#[tokio::test]
async fn go_principal_terminal_uses_its_own_stream() {
    let (mut scene, mut talk) = shop(UiAccess::Terminal).await;
    for (exit, last) in [
        ("exit\n", ""),
        ("exit 3\n", "command terminated with exit code 3"),
    ] {
        talk.deliver(question(ONE, "front", "sh")).await;
        let mut terminal = scene.principal.terminal().await;
        terminal.handshake(ONE).await;
        terminal.shows("80x24").await;
        // The principal may resend the request before it gets the acknowledgement.
        talk.deliver(question(ONE, "front", "sh")).await;
        terminal.types("ls\n").await;
        terminal.shows("ls\n").await;
        let resized = TerminalStreamData {
            resize: true,
            cols: 120,
            rows: 40,
            ..TerminalStreamData::default()
        };
        terminal.emits.send(Ok(resized)).await.unwrap();
        terminal.shows("120x40").await;
        terminal.types(exit).await;
        let end = terminal.next().await;
        assert_eq!((end.error.as_str(), end.eof), (last, last.is_empty()));
        // The principal ends the stream, since it may still have output to show.
        let Opened {
            mut incoming,
            emits,
        } = terminal;
        let more = incoming.message();
        tokio::pin!(more);
        assert!(futures::poll!(&mut more).is_pending());
        drop(emits);
        let more = soon("the end of the stream", more).await;
        assert_eq!(more.ok().flatten(), None);
    }
    assert!(
        scene.principal.terminals.is_empty(),
        "requested twice, and opened once"
    );
}

#[tokio::test]
async fn refused_terminal_ends_with_the_reason() {
    for (access, pod, shell, why) in [
        (UiAccess::Operate, "front", "sh", "UI_ACCESS"),
        (
            UiAccess::Terminal,
            "local",
            "sh",
            "belongs to no Application",
        ),
        (UiAccess::Terminal, "missing", "sh", "not found"),
        (UiAccess::Terminal, "front", "bash", "no such shell"),
    ] {
        let (mut scene, talk) = shop(access).await;
        talk.emit(question(ONE, pod, shell)).await;
        let mut terminal = scene.principal.terminal().await;
        terminal.handshake(ONE).await;
        let end = terminal.next().await;
        assert!(end.error.contains(why), "{pod}: {}", end.error);
    }
}

#[tokio::test]
async fn a_terminal_ends_when_its_viewer_leaves_or_the_session_ends() {
    let (mut scene, mut talk) = shop(UiAccess::Terminal).await;
    let mut open = scene.api.world.terminals.subscribe();
    talk.deliver(question(ONE, "front", "sh")).await;
    let mut terminal = scene.principal.terminal().await;
    terminal.handshake(ONE).await;
    terminal.shows("80x24").await;
    drop(terminal);
    let ended = open.wait_for(|open| *open == 0);
    drop(soon("the API's end", ended).await.unwrap());
    let other = "22222222-2222-2222-2222-222222222222";
    talk.deliver(question(other, "front", "sh")).await;
    let mut terminal = scene.principal.terminal().await;
    terminal.handshake(other).await;
    terminal.shows("80x24").await;
    talk.end(Status::unavailable("the hub restarts")).await;
    let arrived = soon("the end", terminal.incoming.message()).await;
    assert!(!matches!(arrived, Ok(Some(_))), "{arrived:?}");
    let ended = open.wait_for(|open| *open == 0);
    drop(soon("the API's end", ended).await.unwrap());
}
