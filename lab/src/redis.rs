//! A real redis as a bare process; and a client that speaks to it, or to a proxy before it, like Argo CD does.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use live::resp::{self, Limits, Value};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, ToSocketAddrs},
    time::timeout,
};

use crate::{
    Tools,
    process::{Process, Program},
    wait,
};

/// The time limit of a response.
const LATE: Duration = Duration::from_mins(1);
const LIMITS: Limits = Limits {
    depth: 8,
    elements: 1 << 10,
    line: 8 << 10,
    bytes: 64 << 20,
};

/// Starts a redis on a port of the loopback and waits until it listens.
pub async fn server(tools: &Tools, directory: &Path, port: u16, password: &str) -> Result<Process> {
    let name = format!("redis-{port}");
    let program = Program::new(name, &tools.redis_server, directory);
    let port_text = port.to_string();
    let arguments = [
        "--bind",
        "127.0.0.1",
        "--port",
        &port_text,
        "--requirepass",
        password,
        "--save",
        "",
        "--appendonly",
        "no",
    ];
    let started = arguments.into_iter().fold(program, Program::arg).start()?;
    let look = async || {
        let tried = TcpStream::connect(("127.0.0.1", port)).await;
        Ok(tried.map(drop).map_err(|why| why.to_string()))
    };
    let what = format!("redis listens on {port}");
    wait::until(&what, look, Result::is_ok).await.map(drop)?;
    Ok(started)
}

/// An authenticated client.
#[derive(Debug)]
pub struct Client {
    io: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    /// Connects, and authenticates like Argo CD's client.
    pub async fn at(address: impl ToSocketAddrs, password: &str) -> Result<Self> {
        let io = TcpStream::connect(address).await.context("connect")?;
        let mut client = Self { io, buffer: vec![] };
        let hello = ["HELLO", "3", "AUTH", "default", password];
        let hello = client.ask(&hello).await?;
        match hello.as_error() {
            None => Ok(client),
            Some(error) => bail!("{}", String::from_utf8_lossy(error)),
        }
    }

    /// The response to a command.
    pub async fn ask(&mut self, words: &[impl AsRef<[u8]>]) -> Result<Value> {
        self.send(words).await?;
        self.reply().await
    }

    /// Sends a command without waiting for the response.
    pub async fn send(&mut self, words: &[impl AsRef<[u8]>]) -> Result<()> {
        let words: Vec<_> = words.iter().map(AsRef::as_ref).collect();
        let command = resp::command(&words);
        let sending = self.io.write_all(&command);
        timeout(LATE, sending)
            .await
            .context("the server does not read")??;
        Ok(())
    }

    /// The next response.
    pub async fn reply(&mut self) -> Result<Value> {
        let receiving = async {
            loop {
                if let Some((value, used)) = resp::decode(&self.buffer, LIMITS)? {
                    self.buffer.drain(..used);
                    return Ok(value);
                }
                let read = self.io.read_buf(&mut self.buffer).await?;
                ensure!(read > 0, "redis closed the connection");
            }
        };
        timeout(LATE, receiving)
            .await
            .context("no response in time")?
    }

    /// The value of a key, if there is one.
    pub async fn value(&mut self, key: &str) -> Result<Option<Vec<u8>>> {
        let value = self.ask(&["GET", key]).await?;
        if let Some(error) = value.as_error() {
            bail!("{}", String::from_utf8_lossy(error));
        }
        Ok(value.as_bytes().map(<[u8]>::to_vec))
    }
}
