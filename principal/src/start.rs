//! Puts the parts together and starts them; no decisions.

use std::{fmt, net::SocketAddr, sync::Arc};

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
        revoked::{self, Revoked},
        tokens::JwtKey,
        trust::Roots,
        users::{self, Passwords, Users},
    },
    fleet::Fleet,
    live::{LiveContext, go_compat::GoRequests, tunnel::Tunnels},
    metrics::Metrics,
    report::Sessions as Reports,
    service::{self, Services},
    settings::Settings,
    state::Sources,
    store::{Kubernetes, Store},
    sync::{
        hub::{Hub, Objects, Serving},
        session::{self, PolicyInputs, Sessions, shed},
    },
    transport::listener::{Listener, Rules},
};

mod proxies;

pub use crate::live::redis_proxy::RedisFeeds;
pub use proxies::{REDIS_KEYS, redis_login};

/// The inputs of the principal; everything that can change arrives as a watched value.
pub struct Inputs {
    /// The hub's API.
    pub client: kube::Client,
    /// The enrolled clusters.
    pub fleet: watch::Receiver<Arc<Fleet>>,
    /// The serving certificate, its key, and as roots the CA of the agents.
    pub server_tls: watch::Receiver<Arc<Material>>,
    /// The serving certificate of the resource proxy, its key, and as roots the CA of its clients.
    pub visitors_tls: watch::Receiver<Arc<Material>>,
    /// The credentials for the hub's redis and for its clients. Without them the password is that in Argo CD's Secret,
    /// the certificate that of the resource proxy, and the hub's redis has no TLS.
    pub redis: Option<RedisFeeds>,
    /// Signs the agents' tokens.
    pub jwt_key: watch::Receiver<Arc<JwtKey>>,
    /// Whether this replica serves; while not, every session is refused.
    pub active: watch::Receiver<bool>,
    /// Enrols unknown clusters, if enabled.
    pub registrar: Option<Arc<dyn Registrar>>,
    /// Its metrics, which the caller registers.
    pub metrics: Metrics,
    /// Starts the tasks; cancelling its token ends them.
    pub spawner: Spawner,
}

impl fmt::Debug for Inputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inputs").finish_non_exhaustive()
    }
}

/// The inputs of the principal besides the hub itself. See [`Inputs`] for the fields.
#[expect(missing_docs, reason = "the same as in Inputs")]
#[derive(Debug)]
pub struct Feeds {
    pub fleet: watch::Receiver<Arc<Fleet>>,
    pub server_tls: watch::Receiver<Arc<Material>>,
    pub visitors_tls: watch::Receiver<Arc<Material>>,
    pub redis: RedisFeeds,
    pub jwt_key: watch::Receiver<Arc<JwtKey>>,
    pub active: watch::Receiver<bool>,
    pub revoked: watch::Receiver<Option<Arc<Revoked>>>,
    pub registrar: Option<Arc<dyn Registrar>>,
    pub metrics: Metrics,
    pub spawner: Spawner,
    pub clock: Clock,
}

/// The addresses, reports and readiness of a running principal.
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
pub async fn start(settings: Settings, inputs: Inputs) -> Result<Handle, StartError> {
    let Inputs {
        client,
        fleet,
        server_tls,
        visitors_tls,
        redis,
        jwt_key,
        active,
        registrar,
        metrics,
        spawner,
    } = inputs;
    let revoked = revoked::follow(client.clone(), &settings.argocd_namespace, &spawner);
    let redis = redis.unwrap_or_else(|| {
        let (client, serving) = (client.clone(), visitors_tls.clone());
        proxies::usual(&settings, client, serving, &spawner)
    });
    let store = Kubernetes::new(client, settings.argocd_namespace.clone());
    let clock = Clock::system();
    let feeds = Feeds {
        fleet,
        server_tls,
        visitors_tls,
        redis,
        jwt_key,
        active,
        revoked,
        registrar,
        metrics,
        spawner,
        clock,
    };
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
    let users = match &settings.identity {
        Method::UserPass(path) => Some(users::follow(path.clone(), &feeds.spawner).await),
        Method::Ocm { .. }
        | Method::Cn
        | Method::Subject(_)
        | Method::Uri(_)
        | Method::Header { .. } => None,
    };
    let assembled = assemble(store, &settings, &feeds, users);
    let refused = |source| StartError::Listen {
        address: settings.listen,
        source,
    };
    let listener = listen(&settings, &feeds, &assembled)
        .await
        .map_err(refused)?;
    let address = listener.address().map_err(refused)?;
    let resource_proxy = proxies::resource(&settings, &feeds, &assembled.live).await?;
    let redis_proxy = proxies::redis(&settings, &feeds, &assembled.live).await?;
    let spawner = feeds.spawner.clone();
    let mut handle = spawn_all(assembled, address, feeds);
    spawner.spawn("principal: listener", listener.run());
    // Sessions have priority over any amount of live traffic.
    let background = spawner.background();
    if let Some((proxy, address)) = resource_proxy {
        background.spawn("principal: resource proxy", proxy.run());
        handle.resource_proxy = Some(address);
    }
    if let Some((proxy, address)) = redis_proxy {
        background.spawn("principal: redis proxy", proxy.run());
        handle.redis_proxy = Some(address);
    }
    Ok(handle)
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
    let (hub, stop) = (Arc::clone(&sessions.hub), spawner.token().clone());
    let inputs = PolicyInputs {
        fleet,
        roots: Roots::new(server_tls),
        gate: to_gate,
    };
    spawner.spawn(
        "principal: fleet",
        session::enforce_policy(sessions, inputs),
    );
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
        proved: std::sync::Mutex::default(),
    }
}

async fn listen(
    settings: &Settings,
    feeds: &Feeds,
    assembled: &Assembled,
) -> std::io::Result<Listener> {
    let routes = service::routes(settings, &assembled.sessions, &assembled.live);
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
    let rules = Rules {
        tls,
        websockets: settings.websockets,
        header,
        proxies: settings.trusted_proxies.clone().into(),
        limits: settings.limits.clone(),
    };
    let metrics = feeds.metrics.clone();
    Listener::bind(settings.listen, rules, routes, metrics, &feeds.spawner).await
}
