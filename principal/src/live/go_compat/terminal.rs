//! Terminals in Pods of Go agents: requested by an event, and carried on a stream that the agent opens for each.
//!
//! The client has a `WebSocket` with Kubernetes' channels, which ends here; its messages become frames to the agent.

use std::{io, time::Duration};

use bytes::Bytes;
use futures::{
    SinkExt as _, StreamExt as _, TryStreamExt as _,
    stream::{BoxStream, SplitSink, SplitStream},
};
use http::{
    HeaderMap, HeaderValue, Request, Response, StatusCode,
    header::{SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL},
};
use http_body_util::BodyExt as _;
use live::{
    channels::{self, Channel, End, Size},
    request::{Object, Request as Asked},
    ui_access::{self, UiAccess},
    upgrade::{self, Upgrade},
};
use protocol::{
    Event, Target, Verb,
    event::Method,
    payload::{self, TerminalRequest},
    wire::terminalstreamapi::TerminalStreamData,
};
use runtime::tunnel::{self, Tunnel};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        handshake::derive_accept_key,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use uuid::Uuid;

use super::{
    resource,
    session::{Frames, GoSession, TerminalStream},
};
use crate::{
    fleet::Mode,
    live::{
        tunnel::{Body, NotAnswered, streamed},
        whole,
    },
};

/// The largest message of the client.
const LARGEST: usize = 1 << 20;
/// What is typed is cut into pieces of this: of one that is larger than its buffer, a Go agent forgets the rest.
const MAX_INPUT: usize = 16 << 10;
/// How long either side may take to receive the end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

type Socket = WebSocketStream<Tunnel>;

/// Why a request for a terminal is refused without the agent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    #[error(transparent)]
    Forbidden(#[from] ui_access::Forbidden),
    #[error("an agent of argocd-agent opens terminals in mode managed only")]
    Mode,
    #[error("a terminal of an agent of argocd-agent needs a WebSocket with the subprotocol {} or {}",
        channels::PROTOCOLS[0], channels::PROTOCOLS[1])]
    Protocol,
}

/// The request to the agent, and the headers of the upgrade.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Translated {
    pub(super) request: TerminalRequest,
    pub(super) accept: HeaderValue,
    pub(super) protocol: &'static str,
}

/// Translates a request for a terminal.
pub(super) fn translate_exec(
    mode: Mode,
    asked: &Asked,
    headers: &HeaderMap,
) -> Result<Translated, Refused> {
    ui_access::judge(asked, UiAccess::Terminal)?;
    // As upstream.
    if mode != Mode::Managed {
        return Err(Refused::Mode);
    }
    let is_socket = headers
        .get(upgrade::HEADER)
        .is_some_and(|it| it == Upgrade::WebSocket.as_str());
    let offered = headers.get_all(SEC_WEBSOCKET_PROTOCOL);
    let protocol = channels::chosen(offered.iter().filter_map(|it| it.to_str().ok()));
    let protocol = protocol.filter(|_| is_socket).ok_or(Refused::Protocol)?;
    let key = headers.get(SEC_WEBSOCKET_KEY).ok_or(Refused::Protocol)?;
    let accept = HeaderValue::try_from(derive_accept_key(key.as_bytes()));
    let pod = asked.object().cloned().unwrap_or_default();
    let query = &asked.query;
    let command = query.pairs().filter(|(name, _)| *name == "command");
    let request = TerminalRequest {
        uuid: Uuid::new_v4().to_string(),
        namespace: pod.namespace.unwrap_or_default(),
        pod_name: pod.name.unwrap_or_default(),
        container_name: query.get("container").unwrap_or_default().to_owned(),
        command: command.map(|(_, word)| word.to_owned()).collect(),
        tty: query.is_on("tty"),
        stdin: query.is_on("stdin"),
        stdout: query.is_on("stdout"),
        stderr: query.is_on("stderr"),
    };
    Ok(Translated {
        request,
        accept: accept.map_err(|_invalid| Refused::Protocol)?,
        protocol,
    })
}

impl Refused {
    fn answer(&self) -> Response<Body> {
        let code = match self {
            Self::Forbidden(_) => StatusCode::FORBIDDEN,
            Self::Mode | Self::Protocol => StatusCode::BAD_REQUEST,
        };
        whole::refusal(code, &self.to_string())
    }
}

/// Requests a terminal, and returns when the agent has opened its stream.
pub(super) async fn ask(
    session: &GoSession,
    asked: &Asked,
    request: Request<Body>,
    response_timeout: Duration,
) -> Result<Response<Body>, NotAnswered> {
    let until = Instant::now() + response_timeout;
    let (parts, input) = request.into_parts();
    let translated = translate_exec(session.mode, asked, &parts.headers);
    // A client whose WebSocket is refused retries with SPDY, and shows people the second error.
    let is_about_the_pod = matches!(translated, Ok(_) | Err(Refused::Protocol));
    if is_about_the_pod && let Some(refused) = refuse_hidden_pod(session, asked, until).await? {
        return Ok(refused);
    }
    let plan = match translated {
        Ok(plan) => plan,
        Err(refused) => return Ok(refused.answer()),
    };
    let uuid = plan.request.uuid.clone();
    let (open, opened) = oneshot::channel();
    let guard = session.terminals.add(&uuid, open)?;
    let body = payload::encode(&plan.request);
    let event = Event::live_request(Target::Terminal, Verb::TerminalRequest, &uuid, body);
    let response_timeout = until.saturating_duration_since(Instant::now());
    let opened = session.send(event, opened, response_timeout).await?;
    drop(guard);
    let (send, outgoing) = tunnel::chunks();
    let incoming = input.into_data_stream().map_err(io::Error::other);
    let viewer = (Tunnel::new(incoming, send.clone()), send);
    let relaying = relay(viewer, opened, uuid, session.session_ended.clone());
    session.spawner.spawn_short("terminal", relaying);
    let mut begun = Response::new(streamed(outgoing));
    let headers = begun.headers_mut();
    let socket = HeaderValue::from_static(Upgrade::WebSocket.as_str());
    headers.insert(upgrade::HEADER, socket);
    headers.insert(SEC_WEBSOCKET_ACCEPT, plan.accept);
    let protocol = HeaderValue::from_static(plan.protocol);
    headers.insert(SEC_WEBSOCKET_PROTOCOL, protocol);
    Ok(begun)
}

/// A Go agent opens terminals in every Pod, but it returns only Pods of Applications: so this gets the Pod first.
/// The refusal if the agent does not return it.
async fn refuse_hidden_pod(
    session: &GoSession,
    asked: &Asked,
    until: Instant,
) -> Result<Option<Response<Body>>, NotAnswered> {
    let pod = Object {
        subresource: None,
        ..asked.object().cloned().unwrap_or_default()
    };
    let object = resource::get_request(&pod);
    let response_timeout = until.saturating_duration_since(Instant::now());
    let (answer, _raw) =
        resource::request_resource(session, Method::Get, object, response_timeout).await?;
    let code = match answer.status {
        200 => return Ok(None),
        status => StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY),
    };
    let name = pod.name.unwrap_or_default();
    Ok(Some(match code {
        StatusCode::FORBIDDEN => {
            let why = format!(
                "the agent of this cluster refuses the Pod {name:?}: it belongs to no Application, so a terminal is not allowed"
            );
            whole::refusal(code, &why)
        }
        _ => resource::answered(asked, answer),
    }))
}

/// Relays a terminal between client and agent, until either stops or the session ends.
async fn relay(
    (viewer, gone): (Tunnel, mpsc::Sender<Bytes>),
    opened: TerminalStream,
    uuid: String,
    session_ended: CancellationToken,
) {
    let mut config = WebSocketConfig::default();
    config.max_message_size = Some(LARGEST);
    config.max_frame_size = Some(LARGEST);
    let socket = Socket::from_raw_socket(viewer, Role::Server, Some(config)).await;
    let (mut screen, keys) = socket.split();
    let TerminalStream {
        from_agent,
        to_agent,
    } = opened;
    let ended = tokio::select! {
        biased;
        () = session_ended.cancelled() => Some(failed("the session of this cluster's agent has ended")),
        // Noticed even while the agent reads no input.
        () = gone.closed() => None,
        () = forward_input(keys, &uuid, &to_agent) => None,
        end = forward_output(from_agent, &mut screen) => end,
    };
    let closing = async {
        if let Some(end) = ended {
            return send_end(screen, &end).await;
        }
        // A plain end of the stream would close stdin and leave the command running.
        let gone = TerminalStreamData {
            error: "client disconnected".to_owned(),
            ..frame(&uuid)
        };
        drop(to_agent.send(Ok(gone)).await);
    };
    let _late = timeout(CLOSE_TIMEOUT, closing).await;
}

fn failed(why: &str) -> End {
    End::Failed(why.to_owned())
}

fn frame(uuid: &str) -> TerminalStreamData {
    TerminalStreamData {
        request_uuid: uuid.to_owned(),
        ..TerminalStreamData::default()
    }
}

/// Forwards input and window sizes, until the client is gone.
async fn forward_input(mut keys: SplitStream<Socket>, uuid: &str, to_agent: &Frames) {
    loop {
        let message = match keys.next().await {
            Some(Ok(message @ (Message::Binary(_) | Message::Text(_)))) => message.into_data(),
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => continue,
            Some(Ok(Message::Close(_)) | Err(_)) | None => return,
        };
        for frame in encode_input(&message, uuid) {
            if to_agent.send(Ok(frame)).await.is_err() {
                // The agent is gone; `forward_output` reports why.
                return std::future::pending().await;
            }
        }
    }
}

/// Translates a message of the client.
pub(super) fn encode_input(message: &Bytes, uuid: &str) -> Vec<TerminalStreamData> {
    match Channel::read(message) {
        Some((Channel::Keys, typed)) => {
            let pieces = typed.chunks(MAX_INPUT).map(|piece| TerminalStreamData {
                data: message.slice_ref(piece),
                stream_type: "stdin".to_owned(),
                ..frame(uuid)
            });
            pieces.collect()
        }
        Some((Channel::Size, size)) => {
            let size = Size::read(size).map(|Size { width, height }| TerminalStreamData {
                resize: true,
                cols: width.into(),
                rows: height.into(),
                ..frame(uuid)
            });
            size.into_iter().collect()
        }
        Some((Channel::Closed, _)) => vec![TerminalStreamData {
            eof: true,
            ..frame(uuid)
        }],
        Some((Channel::Screen | Channel::Errors | Channel::End, _)) | None => Vec::new(),
    }
}

/// A translated frame of the agent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Output {
    Message(Vec<u8>),
    End(End),
    /// The first one has only the id.
    Nothing,
}

pub(super) fn decode_frame(frame: &TerminalStreamData) -> Output {
    if !frame.error.is_empty() {
        return Output::End(End::Failed(frame.error.chars().take(1024).collect()));
    }
    if frame.eof {
        return Output::End(End::Done);
    }
    if frame.data.is_empty() {
        return Output::Nothing;
    }
    let channel = match frame.stream_type.as_str() {
        "stderr" | "error" => Channel::Errors,
        _ => Channel::Screen,
    };
    Output::Message(channel.emits(&frame.data))
}

/// Forwards output at the pace of the client, until it ends; none: the client is gone.
async fn forward_output(
    mut from_agent: BoxStream<'static, Result<TerminalStreamData, Status>>,
    screen: &mut SplitSink<Socket, Message>,
) -> Option<End> {
    loop {
        let Some(Ok(frame)) = from_agent.next().await else {
            let why = "the connection to the agent of this cluster was lost";
            return Some(failed(why));
        };
        match decode_frame(&frame) {
            Output::Message(message) => screen.send(Message::binary(message)).await.ok()?,
            Output::End(end) => return Some(end),
            Output::Nothing => {}
        }
    }
}

/// Sends the end of the command to the client.
async fn send_end(mut screen: SplitSink<Socket, Message>, end: &End) {
    let status = Message::binary(Channel::End.emits(&end.written()));
    let close = Message::Close(Some(CloseFrame {
        code: CloseCode::Normal,
        reason: "".into(),
    }));
    for message in [status, close] {
        if screen.send(message).await.is_err() {
            return;
        }
    }
}
