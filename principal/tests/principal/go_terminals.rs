//! People at the hub open terminals in Pods of Go agents: a `WebSocket` on their side, a stream of frames on the agent's.

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http::{Request, Response, StatusCode};
use http_body_util::Empty;
use hyper::{body::Incoming, upgrade::Upgraded};
use hyper_util::rt::TokioIo;
use live::channels::{Channel, End, PROTOCOLS, Size};
use protocol::{
    Event, Target, Verb,
    event::Method,
    payload::{self, ResourceResponse, TerminalRequest},
    wire::terminalstreamapi::{
        TerminalStreamData, terminal_stream_service_client::TerminalStreamServiceClient,
    },
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, protocol::Role},
};
use tonic::{Code, Status, Streaming, transport::Channel as Connection};

use crate::{
    agent::Agent,
    resource_proxy::{PODS, ProxyClient, get, read, world},
    world::{World, bounded},
};

const SHELL: &str = "exec?command=sh&container=c&stdin=true&stdout=true&tty=true";

fn exec(upgrade: &str, protocols: &str) -> Request<Empty<Bytes>> {
    let mut request = get(&format!("{PODS}/x/{SHELL}"));
    for (name, value) in [
        ("connection", "Upgrade"),
        ("upgrade", upgrade),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("sec-websocket-version", "13"),
        ("sec-websocket-protocol", protocols),
    ] {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    request
}

/// What an agent says to the question whether it shows the Pod.
async fn shows(agent: &mut Agent, status: u16) {
    let question = agent.event(Target::Resource, Verb::Http(Method::Get)).await;
    let asked: payload::ResourceRequest = payload::decode("get", &question.payload).unwrap();
    let asked = (
        asked.resource,
        asked.namespace,
        asked.name,
        asked.subresource,
    );
    assert_eq!(asked, ["pods", "shop", "x", ""].map(str::to_owned).into());
    agent
        .send(Event::resource_response(&ResourceResponse {
            uuid: question.event_id.clone(),
            status,
            resource: "{}".to_owned(),
        }))
        .await;
}

fn frame(uuid: &str) -> TerminalStreamData {
    TerminalStreamData {
        request_uuid: uuid.to_owned(),
        ..TerminalStreamData::default()
    }
}

/// The agent's end of a terminal.
struct Shell {
    uuid: String,
    sender: mpsc::Sender<TerminalStreamData>,
    incoming: Streaming<TerminalStreamData>,
}

impl Shell {
    async fn open(connection: &Connection, token: &str, uuid: &str) -> Result<Self, Status> {
        let (sender, outgoing) = mpsc::channel(8);
        sender.send(frame(uuid)).await.unwrap();
        let mut request = tonic::Request::new(ReceiverStream::new(outgoing));
        let token = token.parse().unwrap();
        request.metadata_mut().insert("authorization", token);
        let mut client = TerminalStreamServiceClient::new(connection.clone());
        let opening = client.stream_terminal(request);
        let incoming = bounded("a terminal", opening).await?.into_inner();
        Ok(Self {
            uuid: uuid.to_owned(),
            sender,
            incoming,
        })
    }

    async fn send(&self, frame: TerminalStreamData) {
        self.sender.send(frame).await.unwrap();
    }

    async fn shows(&self, text: &'static str) {
        let shown = TerminalStreamData {
            data: Bytes::from_static(text.as_bytes()),
            stream_type: "stdout".to_owned(),
            ..frame(&self.uuid)
        };
        self.send(shown).await;
    }

    async fn receive(&mut self) -> Option<TerminalStreamData> {
        bounded("a frame", self.incoming.message()).await.unwrap()
    }
}

/// The client of the terminal.
struct Window(WebSocketStream<TokioIo<Upgraded>>);

impl Window {
    async fn of(answer: Response<Incoming>) -> Self {
        assert_eq!(answer.status(), StatusCode::SWITCHING_PROTOCOLS);
        let headers = answer.headers();
        assert_eq!(headers["sec-websocket-protocol"], PROTOCOLS[0]);
        // The answer to the key, as RFC 6455 has it.
        assert_eq!(
            headers["sec-websocket-accept"],
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
        let upgraded = bounded("the stream", hyper::upgrade::on(answer)).await;
        let stream = TokioIo::new(upgraded.unwrap());
        Self(WebSocketStream::from_raw_socket(stream, Role::Client, None).await)
    }

    async fn send(&mut self, channel: Channel, context: &[u8]) {
        let message = Message::binary(channel.emits(context));
        self.0.send(message).await.unwrap();
    }

    async fn reads(&mut self) -> Message {
        let message = bounded("what is shown", self.0.next()).await;
        message.unwrap().unwrap()
    }

    async fn expect_end(&mut self, end: &End) {
        let message = self.reads().await.into_data();
        let (channel, message) = Channel::read(&message).unwrap();
        assert_eq!((channel, End::read(message)), (Channel::End, end.clone()));
        assert!(self.reads().await.is_close());
    }
}

/// An agent with a terminal that is open: also what it was asked for.
async fn open(world: &World) -> (Agent, Window, Shell, TerminalRequest) {
    let (mut agent, connection, token) = Agent::go(world, "a").await;
    let (_other, others, others_token) = Agent::go(world, "b").await;
    let mut proxy_client = ProxyClient::of(world, "a").await;
    let protocols = PROTOCOLS.join(",");
    let asking = proxy_client.ask(exec("websocket", &protocols));
    let opening = async {
        shows(&mut agent, 200).await;
        let question = agent.event(Target::Terminal, Verb::TerminalRequest).await;
        let asked: TerminalRequest = payload::decode("terminal", &question.payload).unwrap();
        assert_eq!(asked.uuid, question.event_id);
        let forged = Shell::open(&others, &others_token, &asked.uuid).await;
        assert_eq!(forged.err().unwrap().code(), Code::NotFound);
        let shell = Shell::open(&connection, &token, &asked.uuid).await;
        (shell.unwrap(), asked)
    };
    let (answer, (shell, asked)) = tokio::join!(asking, opening);
    let again = Shell::open(&connection, &token, &asked.uuid).await;
    assert_eq!(again.err().unwrap().code(), Code::NotFound, "once");
    (agent, Window::of(answer).await, shell, asked)
}

#[tokio::test]
async fn terminal_of_go_agent_is_translated_both_ways() {
    let world = world(&["a", "b"]).await;
    let (_agent, mut window, mut shell, asked) = Box::pin(open(&world)).await;
    let TerminalRequest { command, tty, .. } = asked;
    assert_eq!((command, tty), (vec!["sh".to_owned()], true));
    window.send(Channel::Keys, b"ls\n").await;
    let typed = shell.receive().await.unwrap();
    assert_eq!(
        (&typed.data[..], typed.stream_type.as_str()),
        (&b"ls\n"[..], "stdin")
    );
    let size = Size {
        width: 120,
        height: 40,
    };
    window.send(Channel::Size, &size.written()).await;
    let resized = shell.receive().await.unwrap();
    assert_eq!(
        (resized.resize, resized.cols, resized.rows),
        (true, 120, 40)
    );
    shell.shows("a b\n").await;
    let shown = window.reads().await.into_data();
    assert_eq!(
        Channel::read(&shown),
        Some((Channel::Screen, &b"a b\n"[..]))
    );
    let why = "command terminated with exit code 3".to_owned();
    shell
        .send(TerminalStreamData {
            error: why.clone(),
            ..frame(&shell.uuid)
        })
        .await;
    window.expect_end(&End::Failed(why)).await;
    assert_eq!(shell.receive().await, None);
}

#[tokio::test]
async fn terminal_ends_for_both_sides_when_either_disconnects() {
    let world = world(&["a", "b"]).await;
    let (agent, mut window, shell, _) = Box::pin(open(&world)).await;
    drop(agent);
    let message = window.reads().await.into_data();
    let (channel, message) = Channel::read(&message).unwrap();
    assert_eq!(channel, Channel::End);
    let End::Failed(why) = End::read(message) else {
        panic!("it looks as if the shell had ended");
    };
    assert!(why.contains("session"), "{why}");
    drop((window, shell));

    let (_agent, window, mut shell, _) = Box::pin(open(&world)).await;
    drop(window);
    let response = shell.receive().await.unwrap();
    assert_eq!(
        response.error, "client disconnected",
        "so that the command is ended"
    );
    assert_eq!(shell.receive().await, None);

    let (_agent, mut window, shell, _) = Box::pin(open(&world)).await;
    shell
        .send(TerminalStreamData {
            eof: true,
            ..frame(&shell.uuid)
        })
        .await;
    window.expect_end(&End::Done).await;
}

#[tokio::test]
async fn no_terminal_in_a_pod_that_a_go_agent_hides() {
    let world = world(&["a", "b"]).await;
    let (mut agent, ..) = Agent::go(&world, "a").await;
    for (status, code) in [
        (403, StatusCode::FORBIDDEN),
        (404, StatusCode::NOT_FOUND),
        (500, StatusCode::INTERNAL_SERVER_ERROR),
    ] {
        let mut proxy_client = ProxyClient::of(&world, "a").await;
        let asking = proxy_client.ask(exec("websocket", PROTOCOLS[0]));
        let (answer, ()) = tokio::join!(asking, shows(&mut agent, status));
        assert_eq!(answer.status(), code);
        assert!(!read(answer).await.unwrap().is_empty(), "a reason");
    }
    // For what it cannot speak it is not asked.
    for (upgrade, protocol) in [
        ("SPDY/3.1", "v4.channel.k8s.io"),
        ("websocket", "channel.k8s.io"),
    ] {
        let mut proxy_client = ProxyClient::of(&world, "a").await;
        let asking = proxy_client.ask(exec(upgrade, protocol));
        let (answer, ()) = tokio::join!(asking, shows(&mut agent, 200));
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{upgrade}");
        let response = read(answer).await.unwrap();
        let response = std::str::from_utf8(&response).unwrap();
        assert!(response.contains("WebSocket"), "{response}");
    }
    // The next thing that it hears of is this.
    let mut proxy_client = ProxyClient::of(&world, "a").await;
    let pod = format!("{PODS}/x");
    let (answer, ()) = tokio::join!(proxy_client.get(&pod), shows(&mut agent, 200));
    assert_eq!(answer.status(), StatusCode::OK);
}
