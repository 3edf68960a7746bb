//! Carries a terminal for a Go principal on a separate stream.
//!
//! The [`ApiHandler`] checks and opens it as on a tunnel, as a `WebSocket` with Kubernetes' channels. This module is the
//! client of the `WebSocket` and converts its messages to frames for the principal.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt as _, StreamExt as _, TryStreamExt as _};
use http::Request;
use http::header::{SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use live::channels::{self, Channel, End, Size};
use live::upgrade::{self, Upgrade};
use protocol::payload::TerminalRequest;
use protocol::wire::terminalstreamapi::TerminalStreamData;
use protocol::wire::terminalstreamapi::terminal_stream_service_client::TerminalStreamServiceClient;
use runtime::tunnel::{self, Tunnel};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::pod::{self, Pod, on, refused, text};
use super::stream_opener::StreamOpener;
use crate::live::tunnel::ApiHandler;
use crate::lock::lock;
use crate::transport::Carrier;

/// Concurrent terminals, as with our own principal.
const MOST: usize = 16;
/// The longest life of a terminal.
const LIFE: Duration = Duration::from_hours(4);
/// The size of pieces of output.
const PIECE: usize = 64 << 10;
/// Pieces that the principal has not received yet.
const UNSENT: usize = 4;
/// The largest message of an API, and of a user who pastes into a terminal.
const LARGEST: usize = 1 << 20;
/// How long the principal may take to end a terminal after its last frame.
const LAST_MESSAGE: Duration = Duration::from_secs(10);

type Socket = WebSocketStream<Tunnel>;

/// The terminals of a session; clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Terminals(Arc<Mutex<BTreeSet<String>>>);

/// The place for a new terminal.
#[derive(Debug)]
pub(super) enum Place {
    Free(Placed),
    /// The terminal is open already: the principal resent the request.
    Taken,
    None,
}

/// The place of an open terminal; its drop frees it.
#[derive(Debug)]
pub(super) struct Placed {
    all: Terminals,
    uuid: String,
}

impl Terminals {
    pub(super) fn place(&self, uuid: &str) -> Place {
        let mut open = lock(&self.0);
        if open.contains(uuid) {
            return Place::Taken;
        }
        if open.len() >= MOST {
            return Place::None;
        }
        open.insert(uuid.to_owned());
        Place::Free(Placed {
            all: self.clone(),
            uuid: uuid.to_owned(),
        })
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        lock(&self.all.0).remove(&self.uuid);
    }
}

/// Opens a terminal and carries it until either side ends it. Without a place there are too many terminals already.
pub(super) async fn open(
    api_handler: Arc<ApiHandler>,
    opener: StreamOpener,
    asked: TerminalRequest,
    placed: Option<Placed>,
) {
    let uuid = asked.uuid.clone();
    let (channel, token) = opener.fresh().await;
    let (emit, request) = pod::stream(UNSENT, token);
    // The first frame only identifies the terminal.
    let Ok(()) = emit.try_send(frame(&uuid)) else {
        return;
    };
    let client = TerminalStreamServiceClient::new(channel).max_decoding_message_size(2 * LARGEST);
    let (ready, socket) = oneshot::channel();
    let typing = types(client, request, socket);
    tokio::pin!(typing);
    let showing = async {
        if placed.is_none() {
            return End::Failed("too many terminals of this cluster are open".to_owned());
        }
        shows(&api_handler, asked, ready, &emit).await
    };
    let end = tokio::select! {
        biased;
        // The principal ended the terminal, or is gone.
        () = emit.closed() => return,
        () = &mut typing => return,
        () = sleep(LIFE) => End::Failed(format!("a terminal ends after {LIFE:?}")),
        end = showing => end,
    };
    let mut last = frame(&uuid);
    match end {
        End::Done => last.eof = true,
        End::Failed(error) => last.error = error,
    }
    // Go's principal drops pending output when we end the stream, so it has to end it.
    let teardown_input = async {
        if emit.send(last).await.is_ok() {
            typing.await;
        }
    };
    let _ended = timeout(LAST_MESSAGE, teardown_input).await;
}

fn frame(uuid: &str) -> TerminalStreamData {
    TerminalStreamData {
        request_uuid: uuid.to_owned(),
        ..TerminalStreamData::default()
    }
}

/// Forwards keys and window sizes until the principal ends the stream.
async fn types(
    mut client: TerminalStreamServiceClient<Carrier>,
    request: tonic::Request<ReceiverStream<TerminalStreamData>>,
    socket: oneshot::Receiver<(SplitSink<Socket, Message>, &'static str)>,
) {
    // The principal may answer only when a user types.
    let (stream, opened) = tokio::join!(client.stream_terminal(request), socket);
    let mut stream = match stream {
        Ok(answered) => answered.into_inner(),
        Err(status) => {
            return tracing::debug!(code = ?status.code(), "the viewer of a terminal left");
        }
    };
    let mut sink = opened.ok();
    while let Ok(Some(frame)) = stream.message().await
        && frame.error.is_empty()
    {
        // Frames after the end are dropped.
        let Some((keys, protocol)) = &mut sink else {
            continue;
        };
        if let Some(message) = message(&frame, protocol) {
            let sent = keys.send(Message::binary(message)).await;
            sink = sink.filter(|_| sent.is_ok());
        }
    }
}

/// Converts a frame of the principal to a message of the API.
fn message(frame: &TerminalStreamData, protocol: &str) -> Option<Vec<u8>> {
    if frame.eof {
        return Channel::no_more_keys(protocol);
    }
    if frame.resize {
        let size = Size {
            width: u16::try_from(frame.cols).unwrap_or(u16::MAX),
            height: u16::try_from(frame.rows).unwrap_or(u16::MAX),
        };
        return Some(Channel::Size.emits(&size.written()));
    }
    let is_typed = frame.stream_type == "stdin" && !frame.data.is_empty();
    is_typed.then(|| Channel::Keys.emits(&frame.data))
}

/// Opens the terminal on the cluster and forwards its output; the caller sends the end.
async fn shows(
    api_handler: &ApiHandler,
    asked: TerminalRequest,
    opened: oneshot::Sender<(SplitSink<Socket, Message>, &'static str)>,
    emit: &mpsc::Sender<TerminalStreamData>,
) -> End {
    let (socket, protocol) = match begin(api_handler, &asked).await {
        Ok(begun) => begun,
        Err(why) => return End::Failed(why),
    };
    let (mut keys, screen) = socket.split();
    // The default of Go's agent, until the viewer sends the size of its window.
    let size = Channel::Size.emits(&Size::USUAL.written());
    if asked.tty && keys.send(Message::binary(size)).await.is_err() {
        return lost();
    }
    let _gone = opened.send((keys, protocol));
    show(screen, &asked.uuid, emit).await
}

fn lost() -> End {
    End::Failed("the connection to the container was lost".to_owned())
}

async fn show(
    mut screen: SplitStream<Socket>,
    uuid: &str,
    emit: &mpsc::Sender<TerminalStreamData>,
) -> End {
    loop {
        let message = match screen.next().await {
            Some(Ok(message @ (Message::Binary(_) | Message::Text(_)))) => message.into_data(),
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => continue,
            Some(Ok(Message::Close(_)) | Err(_)) | None => return lost(),
        };
        let mut shown = match Channel::read(&message) {
            Some((Channel::Screen | Channel::Errors, output)) => message.slice_ref(output),
            Some((Channel::End, status)) => return End::read(status),
            Some((Channel::Keys | Channel::Size | Channel::Closed, _)) | None => continue,
        };
        while !shown.is_empty() {
            let piece = TerminalStreamData {
                data: shown.split_to(shown.len().min(PIECE)),
                stream_type: "stdout".to_owned(),
                ..frame(uuid)
            };
            if emit.send(piece).await.is_err() {
                return lost();
            }
        }
    }
}

/// Opens the terminal as on a tunnel; the error is the reason for the user.
async fn begin(
    api_handler: &ApiHandler,
    asked: &TerminalRequest,
) -> Result<(Socket, &'static str), String> {
    let (send, chunks) = tunnel::chunks();
    let chunks = ReceiverStream::new(chunks).map(|chunk| Ok::<_, Infallible>(Frame::data(chunk)));
    let request = Request::get(target(asked))
        .header("x-request-id", asked.uuid.as_str())
        .header(upgrade::HEADER, Upgrade::WebSocket.as_str())
        .header(SEC_WEBSOCKET_KEY, generate_key())
        .header(SEC_WEBSOCKET_VERSION, "13")
        .header(SEC_WEBSOCKET_PROTOCOL, channels::PROTOCOLS.join(", "))
        .body(StreamBody::new(chunks))
        .map_err(|error| error.to_string())?;
    let answered = api_handler.answer(request).await;
    if !answered.headers().contains_key(upgrade::HEADER) {
        return Err(refused(answered, "the terminal cannot be opened").await);
    }
    let spoken = answered.headers().get_all(SEC_WEBSOCKET_PROTOCOL);
    let spoken = channels::chosen(spoken.iter().filter_map(|it| it.to_str().ok()));
    let protocol = spoken.ok_or("the API of this cluster does not support terminals")?;
    let incoming = answered.into_body().into_data_stream();
    let api = Tunnel::new(incoming.map_err(io::Error::other), send);
    let mut config = WebSocketConfig::default();
    config.max_message_size = Some(LARGEST);
    config.max_frame_size = Some(LARGEST);
    let socket = Socket::from_raw_socket(api, Role::Client, Some(config)).await;
    Ok((socket, protocol))
}

/// The target of the HTTP request.
fn target(asked: &TerminalRequest) -> String {
    let pod = Pod {
        namespace: &asked.namespace,
        name: &asked.pod_name,
        subresource: "exec",
    };
    let command = asked.command.iter().cloned();
    let command = command.map(|word| Some(("command".to_owned(), word)));
    pod.target(command.chain([
        text("container", &asked.container_name),
        on("stdin", asked.stdin),
        on("stdout", asked.stdout),
        // A terminal has one stream for output and errors.
        on("stderr", asked.stderr && !asked.tty),
        on("tty", asked.tty),
    ]))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn a_terminal_request_maps_to_an_api_request() {
        let asked = TerminalRequest {
            namespace: "shop".to_owned(),
            pod_name: "front/../x".to_owned(),
            container_name: "main".to_owned(),
            command: vec!["sh".to_owned(), "-c".to_owned(), "a&b".to_owned()],
            tty: true,
            stdin: true,
            stdout: true,
            stderr: true,
            ..TerminalRequest::default()
        };
        assert_eq!(
            target(&asked),
            "/api/v1/namespaces/shop/pods/front%2F..%2Fx/exec?command=sh&command=-c&command=a%26b\
             &container=main&stdin=true&stdout=true&tty=true"
        );
        let asked = TerminalRequest {
            stderr: true,
            ..TerminalRequest::default()
        };
        assert!(target(&asked).ends_with("?stderr=true"));
    }

    #[test]
    fn frames_of_a_viewer_map_to_channels_of_the_api() {
        let [better, other] = channels::PROTOCOLS;
        let typed = |stream: &str| TerminalStreamData {
            data: Bytes::from_static(b"ls\n"),
            stream_type: stream.to_owned(),
            ..frame("x")
        };
        assert_eq!(message(&typed("stdin"), better).unwrap(), b"\0ls\n");
        assert_eq!(message(&typed("stdout"), better), None);
        assert_eq!(message(&frame("x"), better), None, "the handshake");
        let eof = TerminalStreamData {
            eof: true,
            ..frame("x")
        };
        assert_eq!(message(&eof, better).unwrap(), [255, 0]);
        assert_eq!(message(&eof, other), None);
        let resized = TerminalStreamData {
            resize: true,
            cols: 120,
            rows: 1 << 20,
            ..frame("x")
        };
        let resize = message(&resized, better).unwrap();
        let (channel, size) = Channel::read(&resize).unwrap();
        let wanted = Size {
            width: 120,
            height: u16::MAX,
        };
        assert_eq!((channel, Size::read(size)), (Channel::Size, Some(wanted)));
    }

    #[test]
    fn terminals_of_a_session_are_bounded_and_unique() {
        let all = Terminals::default();
        let mut open: Vec<_> = (0..MOST)
            .map(|number| all.place(&number.to_string()))
            .collect();
        assert!(open.iter().all(|place| matches!(place, Place::Free(_))));
        assert!(matches!(all.place("0"), Place::Taken));
        assert!(matches!(all.place("x"), Place::None));
        open.pop();
        assert!(matches!(all.place("x"), Place::Free(_)));
    }
}
