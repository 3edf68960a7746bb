//! The network between agents and principal: it delays, loses, repeats, cuts and breaks.
//!
//! It carries gRPC messages between the agent's client and the principal's services, in place of HTTP/2 over TLS over
//! TCP. Within one direction of one stream the order is kept, as a byte stream keeps it; streams and connections
//! overtake each other. Losing or repeating single messages is more than any network below gRPC does: a resend must
//! not be needed for safety, nor a repeat hurt.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent::transport::{Carrier, Connect, DialError};
use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
use principal::Services;
use runtime::notifier::ChangeNotifier;
use rustls_pki_types::CertificateDer;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::body::Body;
use tower::util::BoxCloneSyncService;

use crate::dice::{Dice, Trace};
use crate::fault::{Fault, Tampering};
use crate::witness::Witness;

mod lost;
mod pipe;

use lost::Lost;

/// After this long without a sign of the other end, both ends of a connection give it up.
const KEEP_ALIVE: Duration = Duration::from_secs(50);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// How the network treats one cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Conditions {
    /// Nothing passes; messages under way wait.
    pub(crate) cut: bool,
    /// How often a message is lost, of one.
    pub(crate) loss: f64,
    /// How often a message comes twice, of one.
    pub(crate) twice: f64,
    /// How long a message takes, in milliseconds.
    pub(crate) delay: (u64, u64),
}

impl Conditions {
    pub(crate) const FINE: Self = Self {
        cut: false,
        loss: 0.0,
        twice: 0.0,
        delay: (0, 20),
    };
}

/// The network; clones share it.
#[derive(Clone)]
pub(crate) struct Network {
    fault: Fault,
    dice: Dice,
    trace: Trace,
    witness: Witness,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    services: Option<Services>,
    regions: BTreeMap<String, Region>,
    tampering: Tampering,
}

struct Region {
    conditions: Arc<SharedConditions>,
    cut_since: Option<Instant>,
    /// Connections; cancelled, they are broken.
    lines: Vec<CancellationToken>,
    /// Bodies that one end dropped while the other could not notice.
    graves: Vec<Body>,
}

/// The current conditions, and a notifier of changes.
struct SharedConditions {
    conditions: Mutex<Conditions>,
    changes: ChangeNotifier,
}

impl SharedConditions {
    fn now(&self) -> Conditions {
        *self
            .conditions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, conditions: Conditions) {
        *self
            .conditions
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = conditions;
        self.changes.notify();
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").finish_non_exhaustive()
    }
}

impl Network {
    pub(crate) fn new(dice: &Dice, trace: &Trace, clusters: &[String], fault: Fault) -> Self {
        let region = || Region {
            conditions: Arc::new(SharedConditions {
                conditions: Mutex::new(Conditions::FINE),
                changes: ChangeNotifier::default(),
            }),
            cut_since: None,
            lines: vec![],
            graves: vec![],
        };
        let regions = clusters.iter().map(|name| (name.clone(), region()));
        let state = State {
            services: None,
            regions: regions.collect(),
            tampering: Tampering::default(),
        };
        Self {
            fault,
            dice: dice.clone(),
            trace: trace.clone(),
            witness: Witness::default(),
            state: Arc::new(Mutex::new(state)),
        }
    }

    pub(crate) fn is_honest(&self) -> bool {
        self.fault == Fault::None
    }

    /// Reads all messages to agents.
    pub(crate) const fn witness(&self) -> &Witness {
        &self.witness
    }

    /// The messages that take the place of this one.
    fn tampered(&self, cluster: &str, to_agent: bool, message: Bytes) -> Vec<Bytes> {
        let mut state = self.lock();
        state.tampering.of(self.fault, (cluster, to_agent), message)
    }

    /// Sets the services that answer from now on; all connections to the previous ones break.
    pub(crate) fn set_services(&self, services: Option<Services>) {
        let mut state = self.lock();
        state.services = services;
        for region in state.regions.values_mut() {
            region.break_lines();
        }
    }

    pub(crate) fn set_conditions(&self, cluster: &str, conditions: Conditions) {
        if let Some(region) = self.lock().regions.get_mut(cluster) {
            region.cut_since = conditions
                .cut
                .then(|| region.cut_since.unwrap_or_else(Instant::now));
            region.conditions.set(conditions);
        }
    }

    /// Breaks every connection of a cluster.
    pub(crate) fn break_lines(&self, cluster: &str) {
        if let Some(region) = self.lock().regions.get_mut(cluster) {
            region.break_lines();
        }
    }

    /// The connector of an agent.
    pub(crate) fn connector(
        &self,
        cluster: &str,
        chain: Vec<CertificateDer<'static>>,
    ) -> Connector {
        Connector {
            network: self.clone(),
            cluster: cluster.to_owned(),
            chain: chain.into(),
        }
    }

    /// Closes dead connections so that the other end notices, until cancelled.
    pub(crate) async fn keep(self, token: CancellationToken) {
        let beat = Duration::from_secs(1);
        while token
            .run_until_cancelled(tokio::time::sleep(beat))
            .await
            .is_some()
        {
            let mut buried = vec![];
            for region in self.lock().regions.values_mut() {
                let dead = region
                    .cut_since
                    .is_some_and(|since| since.elapsed() > KEEP_ALIVE);
                if dead {
                    region.break_lines();
                }
                if dead || region.cut_since.is_none() {
                    buried.append(&mut region.graves);
                }
                region.lines.retain(|line| !line.is_cancelled());
            }
            // Outside the lock: a drop here may call back into the network.
            drop(buried);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Region {
    fn break_lines(&mut self) {
        for line in self.lines.drain(..) {
            line.cancel();
        }
    }
}

/// Connects one agent to the principal.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    network: Network,
    cluster: String,
    chain: Arc<[CertificateDer<'static>]>,
}

impl Connect for Connector {
    fn is_ready(&self) -> bool {
        true
    }

    fn connect(&self) -> BoxFuture<'_, Result<Carrier, DialError>> {
        async {
            let Network { dice, trace, .. } = &self.network;
            let refused = || DialError::ConnectTimeout {
                address: "principal".to_owned(),
            };
            let (services, line) = {
                let mut state = self.network.lock();
                let services = state.services.clone();
                let region = state.regions.get_mut(&self.cluster).ok_or_else(refused)?;
                let line = Line {
                    conditions: Arc::clone(&region.conditions),
                    broken: CancellationToken::new(),
                    network: self.network.clone(),
                    cluster: self.cluster.clone(),
                };
                region.lines.push(line.broken.clone());
                (services, line)
            };
            let passed = tokio::time::timeout(CONNECT_TIMEOUT, line.pass(dice)).await;
            passed
                .map_err(|_late| refused())?
                .map_err(|_broken| refused())?;
            let services = services.ok_or_else(refused)?;
            trace.emit(format_args!("{}: connected", self.cluster));
            let (chain, dice) = (Arc::clone(&self.chain), dice.clone());
            Ok(BoxCloneSyncService::new(tower::service_fn(
                move |request| {
                    answer(
                        services.clone(),
                        line.clone(),
                        Arc::clone(&chain),
                        dice.clone(),
                        request,
                    )
                    .boxed()
                },
            )))
        }
        .boxed()
    }
}

/// One connection.
#[derive(Clone)]
struct Line {
    conditions: Arc<SharedConditions>,
    broken: CancellationToken,
    network: Network,
    cluster: String,
}

impl Line {
    fn now(&self) -> Conditions {
        self.conditions.now()
    }

    fn lost() -> Status {
        Status::unavailable("the connection is broken")
    }

    /// Waits while nothing passes.
    async fn open(&self) {
        loop {
            let seen = self.conditions.changes.count();
            if !self.now().cut {
                return;
            }
            self.conditions.changes.since(seen).await;
        }
    }

    /// One message's way.
    async fn pass(&self, dice: &Dice) -> Result<(), Status> {
        let way = async {
            tokio::time::sleep(dice.millis(self.now().delay)).await;
            self.open().await;
        };
        let passed = self.broken.run_until_cancelled(way).await;
        passed.ok_or_else(Self::lost)
    }

    /// Delays the end of this body: the other end notices it when the network lets it.
    fn bury(&self, body: Body) {
        if let Some(region) = self.network.lock().regions.get_mut(&self.cluster)
            && region.cut_since.is_some()
        {
            region.graves.push(body);
        }
    }
}

async fn answer(
    services: Services,
    line: Line,
    chain: Arc<[CertificateDer<'static>]>,
    dice: Dice,
    request: Request<Body>,
) -> Result<Response<Body>, Status> {
    line.pass(&dice).await?;
    let is_stream = request.uri().path().ends_with("/Subscribe");
    let lost = Lost::drawn(&line, &dice, is_stream);
    if lost == Lost::Request {
        return Err(lost::silence(&line).await);
    }
    let there = request.map(|body| pipe::pipe(body, line.clone(), dice.clone(), is_stream, false));
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    let answered = services.answer(&chain, address, there);
    let answered = line.broken.run_until_cancelled(answered).await;
    let response = answered.flatten().ok_or_else(Line::lost)?;
    if lost == Lost::Answer {
        drop(response);
        return Err(lost::silence(&line).await);
    }
    line.pass(&dice).await?;
    Ok(response.map(|body| pipe::pipe(body, line, dice, is_stream, true)))
}
