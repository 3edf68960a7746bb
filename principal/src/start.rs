//! Puts the parts together and starts them; no decisions.

use std::{net::SocketAddr, sync::Arc};

use futures::future::OptionFuture;
use runtime::{
    clock::Clock,
    credentials::{ClientAuth, Material, ServerTls},
    parts::Spawner,
};
use tokio::sync::watch;

use crate::{
    admission::{
        admit::{Admission, Budget, Nonces, RefusalBudget, Registrar},
        identity::Method,
        registry::Registry,
        revoked::Revoked,
        tokens::JwtKey,
        users::{self, Passwords, Users},
    },
    fleet::Fleet,
    inventory::Inventory,
    live::{
        LiveContext,
        go_compat::GoRequests,
        redis_proxy::{self, RedisFeeds},
        resource_proxy,
        tunnel::Tunnels,
    },
    metrics::Metrics,
    report::Sessions as Reports,
    service::{self, Services},
    settings::Settings,
    state::Sources,
    store::{Store, kube::Kubernetes},
    sync::{
        hub::{Hub, Objects, Serving, Views},
        session::{self, Intake, Sessions, shed},
    },
    transport::listener::{self, Rules, accept::Port},
};

/// The inputs of the principal besides the hub's objects; everything that can change arrives as a watched value.
#[derive(Debug)]
pub struct Feeds {
    /// The enrolled clusters.
    pub fleet: watch::Receiver<Arc<Fleet>>,
    /// The serving certificate, its key, and as roots the CA of the agents.
    pub server_tls: watch::Receiver<Arc<Material>>,
    /// The serving certificate of the resource proxy, its key, and as roots the CA of its clients.
    pub visitors_tls: watch::Receiver<Arc<Material>>,
    /// The credentials for the hub's redis and for its clients.
    pub redis: RedisFeeds,
    /// Signs the agents' tokens.
    pub jwt_key: watch::Receiver<Arc<JwtKey>>,
    /// Whether this replica serves; while not, every session is refused.
    pub active: watch::Receiver<bool>,
    /// The rejected certificates and clusters; until they are known, every peer is rejected.
    pub revoked: watch::Receiver<Option<Arc<Revoked>>>,
    /// Enrols unknown clusters, if enabled.
    pub registrar: Option<Arc<dyn Registrar>>,
    /// Its metrics, which the caller registers.
    pub metrics: Metrics,
    /// Starts the tasks; cancelling its token ends them.
    pub spawner: Spawner,
    /// The time.
    pub clock: Clock,
}

/// The addresses, reports, readiness and contents of a running principal.
#[derive(Clone, Debug)]
pub struct Handle {
    /// The address of the gRPC server.
    pub address: SocketAddr,
    /// The address of the resource proxy, if there is one.
    pub resource_proxy: Option<SocketAddr>,
    /// The address of the redis proxy, if there is one.
    pub redis_proxy: Option<SocketAddr>,
    /// The sessions, as input of the conditions.
    pub sessions: watch::Receiver<Reports>,
    /// Whether the hub's objects are read, so that agents can be served.
    pub ready: watch::Receiver<bool>,
    /// The objects, deliveries and sessions, for pages.
    pub inventory: Inventory,
}

/// The principal could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address is not available.
    #[error("listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: std::io::Error,
    },
}

/// Starts the principal's parts on a Kubernetes API and returns as soon as it listens.
///
/// Agents are refused with `Unavailable` until the hub's objects are read ([`Handle::ready`]), and by TLS until
/// there is a serving certificate.
pub async fn start(
    client: kube::Client,
    settings: Settings,
    feeds: Feeds,
) -> Result<Handle, StartError> {
    let store = Kubernetes::new(client, settings.argocd_namespace.clone());
    start_on(Arc::new(store), settings, feeds).await
}

/// Like [`start`], on any hub.
///
/// See [`start_unbound`] for one without a port.
pub async fn start_on(
    store: Arc<dyn Store>,
    settings: Settings,
    feeds: Feeds,
) -> Result<Handle, StartError> {
    let port = bind(settings.listen).await?;
    let resource_port = OptionFuture::from(settings.resource_proxy.map(bind));
    let resource_port = resource_port.await.transpose()?;
    let redis_port = settings.redis_proxy.as_ref().map(|it| bind(it.listen));
    let redis_port = OptionFuture::from(redis_port).await.transpose()?;
    let users = if let Method::UserPass(path) = &settings.identity {
        Some(users::follow(path.clone(), &feeds.spawner).await)
    } else {
        None
    };
    let assembled = assemble(store, &settings, &feeds, users);
    let routes = service::routes(&settings, &assembled.sessions, &assembled.live);
    let (rules, metrics) = (listener_rules(&settings, &feeds), feeds.metrics.clone());
    let (live, visitors_tls) = (Arc::clone(&assembled.live), feeds.visitors_tls.clone());
    let (spawner, redis) = (feeds.spawner.clone(), feeds.redis.clone());
    let mut handle = spawn_all(assembled, port.address, feeds);
    handle.resource_proxy = resource_port.as_ref().map(|it| it.address);
    handle.redis_proxy = redis_port.as_ref().map(|it| it.address);
    let listener = listener::run(port, rules, routes, metrics, spawner.clone());
    spawner.spawn("principal: listener", listener);
    // Sessions have priority over any amount of live traffic.
    let background = spawner.background();
    if let Some(port) = resource_port {
        let proxy = resource_proxy::run(port, visitors_tls, settings.visitors, Arc::clone(&live));
        background.spawn("principal: resource proxy", proxy);
    }
    if let (Some(port), Some(settings)) = (redis_port, settings.redis_proxy) {
        background.spawn(
            "principal: redis proxy",
            redis_proxy::run(port, settings, redis, live),
        );
    }
    Ok(handle)
}

async fn bind(address: SocketAddr) -> Result<Port, StartError> {
    let refused = |source| StartError::Listen { address, source };
    Port::bind(address).await.map_err(refused)
}

/// Like [`start_on`], without a port: the caller passes requests to the services, as a simulation does.
pub fn start_unbound(
    store: Arc<dyn Store>,
    settings: &Settings,
    feeds: Feeds,
) -> (Handle, Services) {
    let assembled = assemble(store, settings, &feeds, None);
    let services = Services::new(service::routes(
        settings,
        &assembled.sessions,
        &assembled.live,
    ));
    (spawn_all(assembled, settings.listen, feeds), services)
}

/// Starts everything but the listener.
fn spawn_all(assembled: Assembled, address: SocketAddr, feeds: Feeds) -> Handle {
    let Assembled {
        sessions,
        live: _,
        reports,
        uid,
        to_gate,
    } = assembled;
    let (is_ready, ready) = watch::channel(false);
    if let Some(limit) = sessions.limits.memory {
        let registry = sessions.gate.registry.clone();
        let watching = shed::keep_within(registry, limit, feeds.spawner.token().clone());
        feeds.spawner.spawn("principal: memory", watching);
    }
    let Feeds {
        fleet,
        server_tls,
        active,
        spawner,
        ..
    } = feeds;
    let views = Views::new(Arc::clone(&sessions.hub.objects));
    let inventory = Inventory::new(views, sessions.gate.registry.clone());
    let (hub, stop) = (Arc::clone(&sessions.hub), spawner.token().clone());
    let enforcing = session::enforce_policy(sessions, fleet, server_tls, to_gate);
    spawner.spawn("principal: fleet", enforcing);
    let followed = Arc::clone(&hub).follow(uid, is_ready, stop.clone());
    spawner.spawn("principal: hub", followed);
    let serving = Serving {
        active,
        ready: ready.clone(),
    };
    let mirrors = {
        let (hub, serving, stop) = (Arc::clone(&hub), serving.clone(), stop.clone());
        async move { hub.mirrors.keep(serving, stop).await }
    };
    spawner.spawn("principal: mirrors", mirrors);
    let conditions = async move { hub.conditions.keep(serving, stop).await };
    spawner.spawn("principal: conditions", conditions);
    Handle {
        address,
        resource_proxy: None,
        redis_proxy: None,
        sessions: reports,
        ready,
        inventory,
    }
}

/// The parts before anything runs.
struct Assembled {
    sessions: Arc<Sessions>,
    live: Arc<LiveContext>,
    reports: watch::Receiver<Reports>,
    /// Publishes our identity, once it is known.
    uid: watch::Sender<Option<Arc<str>>>,
    /// Passes the enrolled clusters to admission.
    to_gate: watch::Sender<Arc<Fleet>>,
}

fn assemble(
    store: Arc<dyn Store>,
    settings: &Settings,
    feeds: &Feeds,
    users: Option<watch::Receiver<Users>>,
) -> Assembled {
    let metrics = feeds.metrics.clone();
    let clock = feeds.clock.clone();
    let (registry, reports) = Registry::new(clock.clone());
    let tunnels = Tunnels::default();
    metrics.state().follow(Sources {
        registry: registry.clone(),
        reports: reports.clone(),
        fleet: feeds.fleet.clone(),
        active: feeds.active.clone(),
        tunnels: tunnels.clone(),
    });
    let hub = Hub::new(settings, Arc::clone(&store), clock.clone(), metrics.clone());
    let enrolled = Arc::clone(&feeds.fleet.borrow());
    hub.set_fleet(&enrolled);
    let (to_gate, fleet) = watch::channel(enrolled);
    let (uid, principal_uid) = watch::channel(None);
    let gate = admission(settings, feeds, fleet, principal_uid, registry, users);
    let (gate, hub) = (Arc::new(gate), Arc::new(hub));
    let live = LiveContext {
        admission: Arc::clone(&gate),
        applications: Arc::<Objects>::clone(&hub.objects),
        store,
        tunnels,
        go_requests: GoRequests::default(),
        limits: settings.limits.clone(),
        metrics: metrics.clone(),
        clock: clock.clone(),
        spawner: feeds.spawner.clone(),
    };
    let sessions = Sessions {
        gate,
        hub,
        intake: Intake::default(),
        tunnels: live.tunnels.clone(),
        go_requests: live.go_requests.clone(),
        limits: settings.limits.clone(),
        metrics,
        clock,
        spawner: feeds.spawner.clone(),
    };
    Assembled {
        sessions: Arc::new(sessions),
        live: Arc::new(live),
        reports,
        uid,
        to_gate,
    }
}

fn admission(
    settings: &Settings,
    feeds: &Feeds,
    fleet: watch::Receiver<Arc<Fleet>>,
    principal_uid: watch::Receiver<Option<Arc<str>>>,
    registry: Registry,
    users: Option<watch::Receiver<Users>>,
) -> Admission {
    Admission {
        identity: settings.identity.clone(),
        capabilities: settings.capabilities.clone(),
        argocd_namespace: settings.argocd_namespace.clone(),
        fleet,
        jwt_key: feeds.jwt_key.clone(),
        active: feeds.active.clone(),
        principal_uid,
        registry,
        metrics: feeds.metrics.clone(),
        clock: feeds.clock.clone(),
        budget: Budget::default(),
        refusal_budget: RefusalBudget::default(),
        proxies: settings.trusted_proxies.clone().into(),
        nonces: Nonces::new(),
        material: feeds.server_tls.clone(),
        revoked: feeds.revoked.clone(),
        passwords: users.map(Passwords::new),
        registrar: feeds.registrar.clone(),
        proved: parking_lot::Mutex::default(),
    }
}

fn listener_rules(settings: &Settings, feeds: &Feeds) -> Rules {
    let (header, asks) = match &settings.identity {
        Method::Header { name, .. } => (Some(name.clone()), ClientAuth::None),
        Method::UserPass(_) if !settings.require_certificates => (None, ClientAuth::Optional),
        Method::UserPass(_)
        | Method::Ocm { .. }
        | Method::Cn
        | Method::Subject(_)
        | Method::Uri(_) => (None, ClientAuth::Required),
    };
    let tls = (!settings.plaintext)
        .then(|| ServerTls::follow(feeds.server_tls.clone(), asks, &feeds.spawner));
    Rules {
        tls,
        websockets: settings.websockets,
        header,
        proxies: settings.trusted_proxies.clone().into(),
        limits: settings.limits.clone(),
    }
}
