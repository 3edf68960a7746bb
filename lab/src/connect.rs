//! A stand-in for a company's forward proxy: it handles CONNECT, optionally requires a password, and leads every name to
//! one address. It implements only the parts of a proxy that an agent uses.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Context as _, Result};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_util::task::AbortOnDropHandle;

/// A request of a client is shorter than this.
const HEAD: usize = 8 << 10;

/// A running proxy. Dropping it ends it and every connection through it.
#[derive(Debug)]
pub struct ConnectProxy {
    address: SocketAddr,
    asked: Asked,
    _task: AbortOnDropHandle<()>,
}

/// The requests so far: `host:port`, and whether the proxy accepted it.
type Asked = Arc<Mutex<Vec<(String, bool)>>>;

impl ConnectProxy {
    /// Listens on a free port of every address here, and leads clients with the credentials (`user:password`; none admits
    /// every client) to the target.
    pub async fn start(target: SocketAddr, credentials: Option<&str>) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))
            .await
            .context("listen for the proxy")?;
        let address = listener.local_addr().context("the proxy's own address")?;
        let asked = Asked::default();
        let wanted = credentials.map(|credentials| {
            use base64::Engine as _;
            let encoded = base64::engine::general_purpose::STANDARD.encode(credentials);
            format!(
                "proxy-authorization: basic {}",
                encoded.to_ascii_lowercase()
            )
        });
        let log = Arc::clone(&asked);
        let serve = async move {
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => if let Ok((client, _peer)) = accepted {
                        let (wanted, log) = (wanted.clone(), Arc::clone(&log));
                        connections.spawn(async move {
                            // The client notices a connection that fails.
                            drop(carry(client, target, wanted, &log).await);
                        });
                    },
                    Some(_ended) = connections.join_next() => {}
                }
            }
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "ends with the proxy, which owns it"
        )]
        let task = AbortOnDropHandle::new(tokio::spawn(serve));
        Ok(Self {
            address,
            asked,
            _task: task,
        })
    }

    /// Its port.
    pub const fn port(&self) -> u16 {
        self.address.port()
    }

    /// The requests so far, and whether the proxy accepted each.
    pub fn asked(&self) -> Vec<(String, bool)> {
        self.asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Serves one client. As at a real proxy, it may send credentials only after a refusal, on the same connection.
async fn carry(
    mut client: TcpStream,
    target: SocketAddr,
    wanted: Option<String>,
    asked: &Asked,
) -> Result<()> {
    loop {
        let head = head(&mut client).await?;
        let mut words = head.split_whitespace();
        let (method, to) = (
            words.next().unwrap_or_default(),
            words.next().unwrap_or_default(),
        );
        // Base64 differs by case, but no test sends a wrong case on purpose.
        let granted = wanted.as_ref().is_none_or(|wanted| {
            head.lines()
                .any(|line| line.to_ascii_lowercase() == *wanted)
        });
        asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((to.to_owned(), granted));
        if method != "CONNECT" {
            client
                .write_all(b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n")
                .await?;
            return Ok(());
        }
        if granted {
            break;
        }
        let refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n";
        client.write_all(refusal).await?;
    }
    let mut server = TcpStream::connect(target).await?;
    client
        .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
        .await?;
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

/// The head of a request, or its first bytes if it is too long.
async fn head(client: &mut TcpStream) -> Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < HEAD {
        head.push(client.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}
