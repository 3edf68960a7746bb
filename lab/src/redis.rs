//! Redis, the real one, as a bare process; and a client that talks to it, or to what stands before it, as Argo CD does.

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

/// An answer that takes longer is not waited for.
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

/// A client that has shown its password.
#[derive(Debug)]
pub struct Client {
    io: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    /// Connects, and says hello as Argo CD's client does.
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

    /// The answer to a command.
    pub async fn ask(&mut self, words: &[impl AsRef<[u8]>]) -> Result<Value> {
        self.say(words).await?;
        self.reply().await
    }

    /// Gives a command and waits for nothing.
    pub async fn say(&mut self, words: &[impl AsRef<[u8]>]) -> Result<()> {
        let words: Vec<_> = words.iter().map(AsRef::as_ref).collect();
        let command = resp::command(&words);
        let emitting = self.io.write_all(&command);
        timeout(LATE, emitting).await.context("nobody reads")??;
        Ok(())
    }

    /// What comes next.
    pub async fn reply(&mut self) -> Result<Value> {
        let telling = async {
            loop {
                if let Some((value, used)) = resp::decode(&self.buffer, LIMITS)? {
                    self.buffer.drain(..used);
                    return Ok(value);
                }
                let read = self.io.read_buf(&mut self.buffer).await?;
                ensure!(read > 0, "redis hung up");
            }
        };
        timeout(LATE, telling).await.context("no answer")?
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
