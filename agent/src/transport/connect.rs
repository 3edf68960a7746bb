//! Opens what calls to the principal go over.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt as _, TryFutureExt as _};
use http::Uri;
use hyper_util::rt::TokioIo;
use runtime::credentials::ClientTls;
use runtime::parts::Spawner;
use tokio::time::Instant;
use tonic::Status;
use tonic::body::Body;
use tonic::transport::Endpoint;
use tower::ServiceExt as _;
use tower::util::BoxCloneSyncService;

use super::connector::{self, BOTH, Connector, Reached};
use super::dial::Error;
use super::transport_choice::{Outcome, TransportChoice, Way};
use super::websocket::Calls;
use crate::config::Hub;

/// Name resolution, TCP and TLS together; a slower network would not carry the session either.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Windows of HTTP/2, so that what a peer can make us hold is known.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 2 << 20;

/// Carries calls to the principal: one connection of HTTP/2, or what stands for it.
pub type Carrier = BoxCloneSyncService<http::Request<Body>, http::Response<Body>, Status>;

/// Makes connections to the principal: over the network, or in a simulation of it.
pub trait Connect: fmt::Debug + Send + Sync + 'static {
    /// Whether there is what it takes to try, such as certificates.
    fn is_ready(&self) -> bool;

    /// One connection, new each time.
    fn connect(&self) -> BoxFuture<'_, Result<Carrier, Error>>;

    /// One more beside that of the session, along the way that it goes; says nothing about ways.
    fn connect_beside(&self) -> BoxFuture<'_, Result<Carrier, Error>> {
        self.connect()
    }

    /// Hears what the last connection came to, for whoever can choose another way.
    fn take_in(&self, _outcome: Outcome) {}

    /// Whether another connection is worth a try although this one is good.
    fn is_probing(&self) -> bool {
        false
    }

    /// What the last connection goes over, as a word.
    fn transport(&self) -> &'static str {
        Way::Http2.as_str()
    }
}

/// Connects over the network: HTTP/2, or `WebSocket`s where that does not get through.
#[derive(Debug)]
pub struct Network {
    hub: Hub,
    tls: ClientTls,
    spawner: Spawner,
    // Held for a lookup, never over an await.
    ways: Mutex<(TransportChoice, Way)>,
}

impl Network {
    /// To this hub, with certificates as they are at any time.
    pub fn new(hub: Hub, tls: ClientTls, spawner: Spawner) -> Self {
        let ways = TransportChoice::new(hub.only_websockets);
        Self {
            hub,
            tls,
            spawner,
            ways: Mutex::new((ways, Way::Http2)),
        }
    }

    fn ways(&self) -> MutexGuard<'_, (TransportChoice, Way)> {
        self.ways.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn goes_over(&self, way: Way) {
        self.ways().1 = way;
    }

    /// The way that seems best now.
    async fn open(&self) -> Result<Carrier, Error> {
        let way = self.ways().0.next(Instant::now());
        self.goes_over(way);
        let (carrier, taken) = self.open_by(way).await?;
        if taken != way {
            tracing::info!("the peer does not negotiate HTTP/2; using WebSockets");
            self.goes_over(taken);
        }
        Ok(carrier)
    }

    /// Where HTTP/2 is wanted and the other end does not choose it, `WebSocket`s are used at once.
    async fn open_by(&self, way: Way) -> Result<(Carrier, Way), Error> {
        let hub = &self.hub;
        let tls = if hub.plaintext {
            None
        } else {
            Some(self.tls.current().ok_or(Error::NoTls)?)
        };
        let address = connector::authority(&hub.host, hub.port);
        let route_to_hub = Connector::new(hub, tls).ok_or_else(|| Error::Address {
            address: address.clone(),
        })?;
        if way == Way::Http2 {
            let reached = tokio::time::timeout(CONNECT_TIMEOUT, route_to_hub.connect(&BOTH))
                .await
                .map_err(|_elapsed| Error::ConnectTimeout { address })??;
            if reached.http2 != Some(false) {
                return Ok((http2(hub, &route_to_hub, reached).await?, way));
            }
        }
        let calls = Calls {
            route_to_hub: Arc::new(route_to_hub),
            largest: hub.max_message,
            spawner: self.spawner.clone(),
        };
        let service = tower::service_fn(move |request| calls.clone().call(request));
        let service = service.map_err(|error| Status::from_error(Box::new(error)));
        Ok((BoxCloneSyncService::new(service), Way::WebSocket))
    }
}

impl Connect for Network {
    fn is_ready(&self) -> bool {
        // A mesh has the certificates where it does TLS.
        self.hub.plaintext || self.tls.current().is_some()
    }

    fn connect(&self) -> BoxFuture<'_, Result<Carrier, Error>> {
        self.open().boxed()
    }

    fn connect_beside(&self) -> BoxFuture<'_, Result<Carrier, Error>> {
        let way = self.ways().1;
        self.open_by(way).map_ok(|(carrier, _way)| carrier).boxed()
    }

    fn take_in(&self, outcome: Outcome) {
        let mut retained = self.ways();
        let (ways, way) = &mut *retained;
        ways.note(*way, outcome, Instant::now());
    }

    fn is_probing(&self) -> bool {
        self.ways().0.is_probing()
    }

    fn transport(&self) -> &'static str {
        self.ways().1.as_str()
    }
}

async fn http2(hub: &Hub, route_to_hub: &Connector, reached: Reached) -> Result<Carrier, Error> {
    let address = route_to_hub.authority();
    let bad_address = || Error::Address {
        address: address.clone(),
    };
    let uri = |scheme| format!("{scheme}://{address}").parse::<Uri>();
    let origin = uri("https").map_err(|_error| bad_address())?;
    // tonic refuses https when it does not do TLS itself; `origin` is what goes on the wire.
    let mut endpoint = Endpoint::from(uri("http").map_err(|_error| bad_address())?)
        .origin(origin)
        .user_agent(concat!("argocd-agent/", env!("CARGO_PKG_VERSION")))
        .map_err(|source| Error::Connect {
            address: address.clone(),
            source,
        })?
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    if let Some(interval) = hub.keep_alive {
        endpoint = endpoint
            .http2_keep_alive_interval(interval)
            .keep_alive_while_idle(false);
    }
    // A session has one connection: when that is lost, all begins anew.
    let mut once = Some(TokioIo::new(reached.io));
    let connector = tower::service_fn(move |_: Uri| {
        let io = once
            .take()
            .ok_or_else(|| io::Error::from(io::ErrorKind::ConnectionReset));
        async move { io }
    });
    let channel = tokio::time::timeout(CONNECT_TIMEOUT, endpoint.connect_with_connector(connector))
        .await
        .map_err(|_elapsed| Error::ConnectTimeout {
            address: address.clone(),
        })?
        .map_err(|source| Error::Connect { address, source })?;
    Ok(BoxCloneSyncService::new(
        channel.map_err(|error| Status::from_error(Box::new(error))),
    ))
}
