//! Opens the connection that carries calls to the principal.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt as _, TryFutureExt as _};
use http::Uri;
use runtime::credentials::ClientTls;
use runtime::net::authority;
use runtime::parts::Spawner;
use tokio::time::Instant;
use tonic::Status;
use tonic::body::Body;
use tonic::transport::Endpoint;
use tower::ServiceExt as _;
use tower::util::BoxCloneSyncService;

use super::connector::{self, BOTH, Connector, Reached};
use super::error::{CONNECT_TIMEOUT, Error};
use super::transport_choice::{Outcome, Transport, TransportChoice};
use super::websocket::Calls;
use crate::config::Hub;
use crate::lock::lock;

/// Timeout of one call before the session.
const CALL_TIMEOUT: Duration = Duration::from_secs(15);
/// Answers before the session are small.
pub(super) const CALL_MESSAGE: usize = 1 << 20;
/// Windows of HTTP/2, which bound the memory that a peer can occupy.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 2 << 20;

/// Carries calls to the principal: one connection of HTTP/2, or a WebSocket for each call.
pub type Carrier = BoxCloneSyncService<http::Request<Body>, http::Response<Body>, Status>;

/// Opens connections to the principal: over the network, or in a simulation of it.
pub trait Connect: fmt::Debug + Send + Sync + 'static {
    /// Whether the prerequisites of a connection exist, such as certificates.
    fn is_ready(&self) -> bool;

    /// Opens a new connection.
    fn connect(&self) -> BoxFuture<'_, Result<Carrier, Error>>;

    /// Opens another connection beside that of the session, over the same transport.
    fn connect_beside(&self) -> BoxFuture<'_, Result<Carrier, Error>> {
        self.connect()
    }

    /// Records the outcome of the last connection, for the choice of the transport.
    fn record(&self, _outcome: Outcome) {}

    /// Whether to try another transport although this connection works.
    fn is_probing(&self) -> bool {
        false
    }

    /// The name of the last connection's transport.
    fn transport(&self) -> &'static str {
        Transport::Http2.as_str()
    }
}

/// Connects over the network: HTTP/2, or `WebSocket`s where a proxy blocks HTTP/2.
#[derive(Debug)]
pub struct Network {
    hub: Hub,
    tls: ClientTls,
    spawner: Spawner,
    // Locked for a lookup, never over an await.
    choice: Mutex<(TransportChoice, Transport)>,
}

impl Network {
    /// Connections to this hub with the current certificates.
    pub fn new(hub: Hub, tls: ClientTls, spawner: Spawner) -> Self {
        let choice = TransportChoice::new(hub.only_websockets);
        Self {
            hub,
            tls,
            spawner,
            choice: Mutex::new((choice, Transport::Http2)),
        }
    }

    /// Opens a connection over the preferred transport.
    async fn open(&self) -> Result<Carrier, Error> {
        let transport = lock(&self.choice).0.next(Instant::now());
        lock(&self.choice).1 = transport;
        let (carrier, taken) = self.open_by(transport).await?;
        if taken != transport {
            tracing::info!("the peer does not negotiate HTTP/2; using WebSockets");
            lock(&self.choice).1 = taken;
        }
        Ok(carrier)
    }

    /// Opens a connection over this transport; falls back to `WebSocket`s at once if the peer does not negotiate HTTP/2.
    async fn open_by(&self, transport: Transport) -> Result<(Carrier, Transport), Error> {
        let hub = &self.hub;
        let tls = if hub.plaintext {
            None
        } else {
            Some(self.tls.current().ok_or(Error::NoTls)?)
        };
        let address = authority(&hub.host, hub.port);
        let Some(connector) = Connector::new(hub, tls) else {
            return Err(Error::Address { address });
        };
        if transport == Transport::Http2 {
            let reached = tokio::time::timeout(CONNECT_TIMEOUT, connector.connect(&BOTH))
                .await
                .map_err(|_elapsed| Error::ConnectTimeout { address })??;
            if reached.http2 != Some(false) {
                return Ok((http2(hub, &connector, reached).await?, transport));
            }
        }
        let calls = Calls {
            connector: Arc::new(connector),
            largest: hub.max_message,
            spawner: self.spawner.clone(),
        };
        let service = tower::service_fn(move |request| calls.clone().call(request));
        let service = service.map_err(|error| Status::from_error(Box::new(error)));
        Ok((BoxCloneSyncService::new(service), Transport::WebSocket))
    }
}

impl Connect for Network {
    fn is_ready(&self) -> bool {
        // With plaintext, the mesh has the certificates.
        self.hub.plaintext || self.tls.current().is_some()
    }

    fn connect(&self) -> BoxFuture<'_, Result<Carrier, Error>> {
        self.open().boxed()
    }

    fn connect_beside(&self) -> BoxFuture<'_, Result<Carrier, Error>> {
        let last = lock(&self.choice).1;
        self.open_by(last).map_ok(|(carrier, _)| carrier).boxed()
    }

    fn record(&self, outcome: Outcome) {
        let mut guard = lock(&self.choice);
        let (choice, transport) = &mut *guard;
        choice.note(*transport, outcome, Instant::now());
    }

    fn is_probing(&self) -> bool {
        lock(&self.choice).0.is_probing()
    }

    fn transport(&self) -> &'static str {
        lock(&self.choice).1.as_str()
    }
}

async fn http2(hub: &Hub, connector: &Connector, reached: Reached) -> Result<Carrier, Error> {
    let address = connector.authority();
    let uri = |scheme| {
        let uri = format!("{scheme}://{address}").parse::<Uri>();
        uri.map_err(|_invalid| Error::Address {
            address: address.clone(),
        })
    };
    let failed = |source| Error::Connect {
        address: address.clone(),
        source,
    };
    // tonic refuses https when it does not do TLS itself; `origin` is what goes on the wire.
    let mut endpoint = Endpoint::from(uri("http")?)
        .origin(uri("https")?)
        .user_agent(concat!("argocd-agent/", env!("CARGO_PKG_VERSION")))
        .map_err(failed)?
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    if let Some(interval) = hub.keep_alive {
        endpoint = endpoint
            .http2_keep_alive_interval(interval)
            .keep_alive_while_idle(false);
    }
    // A session has one connection: when that is lost, the session ends.
    let connector = connector::once(reached.io);
    let connecting = endpoint.connect_with_connector(connector);
    let channel = match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
        Ok(connected) => connected.map_err(failed)?,
        Err(_elapsed) => return Err(Error::ConnectTimeout { address }),
    };
    Ok(BoxCloneSyncService::new(
        channel.map_err(|error| Status::from_error(Box::new(error))),
    ))
}

/// One unary call with a timeout.
pub(super) async fn call<T>(
    call: impl Future<Output = Result<tonic::Response<T>, Status>>,
) -> Result<T, Status> {
    tokio::time::timeout(CALL_TIMEOUT, call)
        .await
        .unwrap_or_else(|_elapsed| Err(Status::deadline_exceeded("timed out")))
        .map(tonic::Response::into_inner)
}
