//! Carries the streams of a command over a WebSocket. When one side ends, the other is ended.

use std::{io, time::Duration};

use anyhow::Context;
use futures::{
    SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::{Instant, interval, sleep_until},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};

use super::{
    channels::{self, ClientMessage, ERROR, STDERR, STDOUT},
    request::Exec,
};
use crate::{
    command::{self, Running, code},
    running::Inside,
    terminal::Terminal,
};

/// The largest message; clients send smaller ones.
const LARGEST: usize = 1 << 20;
/// The most output of a command in one message.
const PIECE: usize = 32 << 10;
/// How long remaining processes of a command may still print when it has ended.
const AFTERWARDS: Duration = Duration::from_secs(1);
/// The interval of pings, which detect a client that is gone without closing.
const PING: Duration = Duration::from_secs(10);
/// How long closing the connection may take.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);

type Socket = WebSocketStream<TokioIo<Upgraded>>;
type Sink = SplitSink<Socket, Message>;
type Input = Option<Box<dyn AsyncWrite + Send + Unpin>>;
type Output = Option<Box<dyn AsyncRead + Send + Unpin>>;

/// Runs a command for the client of the connection.
pub(super) async fn carry(connection: Upgraded, Inside { target, process }: Inside, asked: Exec) {
    let mut config = WebSocketConfig::default();
    config.max_message_size = Some(LARGEST);
    config.max_frame_size = Some(LARGEST);
    let io = TokioIo::new(connection);
    let socket = Socket::from_raw_socket(io, Role::Server, Some(config)).await;
    let (mut sink, stream) = socket.split();
    let Exec { argv, wanted } = asked;
    let mut process = process;
    process.argv = argv;
    if wanted.terminal {
        let env = &mut process.env;
        env.entry("TERM".to_owned())
            .or_insert_with(|| "xterm".to_owned());
    }
    let outcome = match command::begin(target, process, wanted).await {
        Ok(running) => attend(&mut sink, stream, running).await,
        Err(error) => Err(error),
    };
    let status = match outcome {
        Ok(code) => channels::ended(code),
        Err(error) => channels::failed(&format!("{error:#}")),
    };
    let teardown = async {
        let status = channels::write(ERROR, status.to_string().as_bytes());
        sink.send(Message::Binary(status)).await?;
        let close = CloseFrame {
            code: CloseCode::Normal,
            reason: "".into(),
        };
        sink.send(Message::Close(Some(close))).await
    };
    let _gone = tokio::time::timeout(CLOSE_LIMIT, teardown).await;
}

/// Carries until the command has ended, and returns its code.
async fn attend(
    sink: &mut Sink,
    stream: SplitStream<Socket>,
    running: Running,
) -> anyhow::Result<i32> {
    let Running {
        child,
        stdin,
        stdout,
        stderr,
        terminal,
    } = running;
    tokio::select! {
        () = listen(stream, stdin, terminal.as_ref()) => anyhow::bail!("the client is gone"),
        code = talk(sink, child, stdout, stderr) => code,
    }
}

/// Processes the client's messages until it is gone.
async fn listen(mut stream: SplitStream<Socket>, mut stdin: Input, terminal: Option<&Terminal>) {
    while let Some(Ok(message)) = stream.next().await {
        let stated = match message {
            Message::Binary(message) => channels::read(message),
            Message::Close(_) => return,
            Message::Text(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => continue,
        };
        match stated {
            // A command may end its input, and continue.
            ClientMessage::Input(text) => stdin = fed(stdin, &text).await,
            ClientMessage::InputEnds => stdin = None,
            ClientMessage::Size { columns, rows } => {
                let _none = terminal.map(|terminal| terminal.resize(columns, rows));
            }
            ClientMessage::Nothing => {}
        }
    }
}

/// Writes to the command's input; none when it accepts no more.
async fn fed(stdin: Input, text: &[u8]) -> Input {
    let mut pipe = stdin?;
    let written = async {
        pipe.write_all(text).await?;
        pipe.flush().await
    };
    let written: io::Result<()> = written.await;
    written.is_ok().then_some(pipe)
}

/// Sends the command's output until it has ended and all output is sent.
async fn talk(
    sink: &mut Sink,
    mut child: tokio::process::Child,
    mut stdout: Output,
    mut stderr: Output,
) -> anyhow::Result<i32> {
    let (mut printed, mut complained) = (vec![0; PIECE], vec![0; PIECE]);
    let mut pings = interval(PING);
    let mut ended = None;
    let mut deadline = Instant::now();
    while ended.is_none() || stdout.is_some() || stderr.is_some() {
        let message = tokio::select! {
            read = next(&mut stdout, &mut printed) => {
                piece(STDOUT, &printed, read, &mut stdout)
            }
            read = next(&mut stderr, &mut complained) => {
                piece(STDERR, &complained, read, &mut stderr)
            }
            status = child.wait(), if ended.is_none() => {
                ended = Some(code(status.context("wait for the command")?));
                deadline = Instant::now() + AFTERWARDS;
                None
            }
            () = sleep_until(deadline), if ended.is_some() => break,
            _ = pings.tick() => Some(Message::Ping(hyper::body::Bytes::new())),
        };
        if let Some(message) = message {
            sink.send(message).await.context("the client is gone")?;
        }
    }
    ended.context("the command has not ended")
}

/// The next output of a stream; pending forever when it has ended.
async fn next(output: &mut Output, buffer: &mut [u8]) -> io::Result<usize> {
    match output {
        Some(output) => output.read(buffer).await,
        None => std::future::pending().await,
    }
}

fn piece(
    channel: u8,
    buffer: &[u8],
    read: io::Result<usize>,
    output: &mut Output,
) -> Option<Message> {
    let read = read.unwrap_or_default();
    if read == 0 {
        *output = None;
    }
    let text = buffer.get(..read).filter(|text| !text.is_empty())?;
    Some(Message::Binary(channels::write(channel, text)))
}
