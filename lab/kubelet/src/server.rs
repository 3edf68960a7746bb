//! Serves the requests of the API server, so that `kubectl logs` and `kubectl exec` work.
//!
//! Commands use `WebSockets` only, not SPDY: the node declares that it
//! [supports them](crate::node), and then the API server passes on the client's messages.

mod channels;
mod exec;
pub(crate) mod log;
mod request;

use std::{io, net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context;
use futures::TryStreamExt;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use jiff::Timestamp;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::aws_lc_rs::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::{Serving, running::Running, tasks::Tasks};
use request::{Asked, Exec, Log, Place, Refused};

/// The port of every kubelet.
pub(crate) const PORT: u16 = 10250;
/// The most connections at a time, of all kinds together.
const CONNECTIONS: usize = 256;
/// How long a client may take for its handshake, and for the head of a request.
const TIME_LIMIT: Duration = Duration::from_secs(10);

type Body = UnsyncBoxBody<Bytes, io::Error>;

/// Serves requests for the containers of the node.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) running: Running,
    pub(crate) logs: PathBuf,
    pub(crate) tasks: Tasks,
}

impl Server {
    /// Opens the port on `address`, and starts to answer clients with a certificate of `serving`'s
    /// authority.
    pub(crate) async fn start(self, address: IpAddr, serving: &Serving) -> anyhow::Result<()> {
        let tls = TlsAcceptor::from(Arc::new(tls(serving)?));
        let listener = TcpListener::bind((address, PORT)).await?;
        let tasks = self.tasks.clone();
        tasks.spawn("server", self.accept(listener, tls));
        Ok(())
    }

    async fn accept(self, listener: TcpListener, tls: TlsAcceptor) {
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let Ok(place) = Arc::clone(&room).acquire_owned().await else {
                return; // it is never closed
            };
            match listener.accept().await {
                Ok((stream, _peer)) => {
                    let talk = self.clone().talk(stream, tls.clone(), Arc::new(place));
                    self.tasks.spawn("node-connection", talk);
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept");
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn talk(self, stream: TcpStream, tls: TlsAcceptor, place: Arc<OwnedSemaphorePermit>) {
        let _best_effort = stream.set_nodelay(true);
        let stream = match timeout(TIME_LIMIT, tls.accept(stream)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return tracing::debug!(%error, "a client was turned away"),
            Err(_elapsed) => return,
        };
        let answer = service_fn(move |request| {
            let (server, place) = (self.clone(), Arc::clone(&place));
            async move { Ok::<_, std::convert::Infallible>(server.answer(request, place).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(TIME_LIMIT)
            .serve_connection(TokioIo::new(stream), answer)
            .with_upgrades();
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection of the API server ended");
        }
    }

    async fn answer(
        self,
        request: Request<Incoming>,
        place: Arc<OwnedSemaphorePermit>,
    ) -> Response<Body> {
        let uri = request.uri();
        let query = uri.query().unwrap_or_default();
        let asked = request::read(request.method(), uri.path(), query, Timestamp::now());
        let answered = match asked {
            Ok(Asked::Log(at, asked)) => self.log(at, asked).await,
            Ok(Asked::Exec(at, asked)) => self.exec(request, &at, asked, place),
            Err(refused) => Err(refused),
        };
        answered.unwrap_or_else(|refused| {
            tracing::debug!(%refused, "a request was refused");
            plain(refused.status, refused.why)
        })
    }

    async fn log(&self, at: Place, asked: Log) -> Result<Response<Body>, Refused> {
        let here = self.running.find(&at.pod);
        let run = log::run(&at, here.as_ref(), asked.previous)?;
        let uid = here.map(|here| here.uid).unwrap_or_default();
        let pieces = log::open(&self.logs, &self.running, (at, uid, run), asked).await?;
        let body = StreamBody::new(pieces.inspect_err(|error| {
            tracing::warn!(%error, "a log cannot be read on");
        }));
        Ok(text(StatusCode::OK, UnsyncBoxBody::new(body)))
    }

    fn exec(
        &self,
        mut request: Request<Incoming>,
        at: &Place,
        asked: Exec,
        place: Arc<OwnedSemaphorePermit>,
    ) -> Result<Response<Body>, Refused> {
        let here = self.running.find(&at.pod);
        let turn = here.and_then(|mut here| here.containers.remove(&at.container));
        let inside = turn.and_then(|turn| turn.inside).ok_or_else(|| {
            let why = format!("container not found ({:?})", at.container);
            Refused::new(StatusCode::NOT_FOUND, why)
        })?;
        let headers = upgrade(request.headers())?;
        let upgraded = hyper::upgrade::on(&mut request);
        self.tasks.spawn("exec", async move {
            let _as_long = place;
            match upgraded.await {
                Ok(connection) => exec::carry(connection, inside, asked).await,
                Err(error) => tracing::debug!(%error, "a command did not begin"),
            }
        });
        let mut response = plain(StatusCode::SWITCHING_PROTOCOLS, String::new());
        *response.headers_mut() = headers;
        Ok(response)
    }
}

/// The server's certificate, and the only authority whose clients are admitted.
fn tls(serving: &Serving) -> anyhow::Result<ServerConfig> {
    let provider = Arc::new(default_provider());
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(serving.authority.as_bytes());
    roots.add(authority.context("read the authority")?)?;
    let clients = WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&provider));
    let chain = CertificateDer::pem_slice_iter(serving.certificate.as_bytes());
    let chain = chain
        .collect::<Result<_, _>>()
        .context("read the certificate")?;
    let key = PrivateKeyDer::from_pem_slice(serving.key.as_bytes()).context("read the key")?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(clients.build()?)
        .with_single_cert(chain, key)?;
    // Only this version has upgrades.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// The head of the answer to a request for a WebSocket.
fn upgrade(asked: &HeaderMap) -> Result<HeaderMap, Refused> {
    let is = |name: HeaderName, word: &str| {
        let value = asked.get(name).and_then(|value| value.to_str().ok());
        value.is_some_and(|value| value.eq_ignore_ascii_case(word))
    };
    if !is(header::UPGRADE, "websocket") {
        let why = "the lab's kubelet carries commands over WebSockets only";
        return Err(Refused::new(StatusCode::NOT_IMPLEMENTED, why));
    }
    let bad = |why| Refused::new(StatusCode::BAD_REQUEST, why);
    let protocol = channels::protocol(asked)
        .ok_or_else(|| bad("only v4 and v5 of channel.k8s.io are supported"))?;
    let key = asked.get(header::SEC_WEBSOCKET_KEY);
    let key = key.ok_or_else(|| bad("no Sec-WebSocket-Key"))?;
    let accept = HeaderValue::try_from(derive_accept_key(key.as_bytes())).ok();
    let accept = accept.ok_or_else(|| bad("an invalid Sec-WebSocket-Key"))?;
    Ok(HeaderMap::from_iter([
        (header::CONNECTION, HeaderValue::from_static("Upgrade")),
        (header::UPGRADE, HeaderValue::from_static("websocket")),
        (header::SEC_WEBSOCKET_ACCEPT, accept),
        (
            header::SEC_WEBSOCKET_PROTOCOL,
            HeaderValue::from_static(protocol),
        ),
    ]))
}

fn plain(status: StatusCode, why: String) -> Response<Body> {
    let body = Full::new(Bytes::from(why)).map_err(|never| match never {});
    text(status, UnsyncBoxBody::new(body))
}

fn text(status: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
