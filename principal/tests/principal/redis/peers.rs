//! The two ends of the redis proxy: a client, and a real redis.

use std::{
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
};

use bytes::BytesMut;
use live::resp::{self, Kind, Value};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use super::{LARGE, PASSWORD};
use crate::world::{World, bounded};

/// A client of redis.
pub(super) struct Client<S> {
    pub(super) io: S,
    pub(super) buffer: BytesMut,
}

impl Client<TcpStream> {
    pub(super) async fn stranger(world: &World) -> Self {
        let address = world.handle.redis_proxy.unwrap();
        Self::over(TcpStream::connect(address).await.unwrap())
    }

    /// An authenticated client, in version 2.
    pub(super) async fn of(world: &World) -> Self {
        let mut client = Self::stranger(world).await;
        assert_eq!(client.ask(&["AUTH", PASSWORD]).await, Value::ok());
        client
    }

    /// The same as Argo CD's client begins.
    pub(super) async fn three(world: &World) -> Self {
        let mut client = Self::stranger(world).await;
        client.hello_three().await;
        client
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(super) fn over(io: S) -> Self {
        let buffer = BytesMut::new();
        Self { io, buffer }
    }

    pub(super) async fn hello_three(&mut self) {
        let hello = self.ask(&["hello", "3", "auth", "default", PASSWORD]).await;
        assert!(matches!(hello, Value::Group(Kind::Map, _)), "{hello:?}");
        let setting = ["client", "setinfo", "LIB-NAME", "go-redis"];
        assert_eq!(self.ask(&setting).await, Value::ok());
        let unknown = self.ask(&["client", "maint_notifications", "on"]).await;
        assert!(unknown.as_error().is_some());
    }

    pub(super) async fn send(&mut self, words: &[&[u8]]) {
        self.io.write_all(&resp::command(words)).await.unwrap();
    }

    /// The next reply; none when the connection is closed.
    pub(super) async fn response(&mut self) -> Option<Value> {
        let reading = async {
            loop {
                if let Some((value, used)) = resp::decode(&self.buffer, LARGE).unwrap() {
                    drop(self.buffer.split_to(used));
                    return Some(value);
                }
                match self.io.read_buf(&mut self.buffer).await {
                    Ok(0) | Err(_) => return None,
                    Ok(_) => {}
                }
            }
        };
        bounded("an answer", reading).await
    }

    pub(super) async fn ask(&mut self, words: &[&str]) -> Value {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.send(&words).await;
        self.response().await.unwrap()
    }

    pub(super) async fn error(&mut self, words: &[&str]) -> String {
        let answer = self.ask(words).await;
        let error = answer.as_error().unwrap_or_else(|| panic!("{answer:?}"));
        String::from_utf8_lossy(error).into_owned()
    }
}

/// A real redis.
pub(super) struct Redis {
    child: Child,
    pub(super) address: SocketAddr,
}

impl Redis {
    pub(super) async fn start() -> Self {
        let address = free_address().await;
        let port = address.port().to_string();
        Self::with(address, &["--port", &port]).await
    }

    /// One that speaks nothing but TLS, with what is in this folder.
    pub(super) async fn with_tls(address: SocketAddr, material: &Path) -> Self {
        let port = address.port().to_string();
        let path = |name: &str| material.join(name).display().to_string();
        let (chain, key, ca) = (path("chain"), path("key"), path("ca"));
        let arguments = [
            "--port",
            "0",
            "--tls-port",
            &port,
            "--tls-cert-file",
            &chain,
            "--tls-key-file",
            &key,
            "--tls-ca-cert-file",
            &ca,
            "--tls-auth-clients",
            "no",
        ];
        Self::with(address, &arguments).await
    }

    async fn with(address: SocketAddr, arguments: &[&str]) -> Self {
        let common = [
            "--bind",
            "127.0.0.1",
            "--requirepass",
            PASSWORD,
            "--save",
            "",
        ];
        let mut command = Command::new("redis-server");
        command.args(common).args(arguments).stdout(Stdio::null());
        let child = command
            .spawn()
            .expect("redis-server on the PATH (`make tools` installs it)");
        let there = async {
            while TcpStream::connect(address).await.is_err() {
                tokio::task::yield_now().await;
            }
        };
        bounded("redis", there).await;
        Self { child, address }
    }
}

/// An address without a listener.
pub(super) async fn free_address() -> SocketAddr {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    free.local_addr().unwrap()
}

impl Drop for Redis {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
