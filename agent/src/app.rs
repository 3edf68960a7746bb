//! Builds every part, starts it, and waits; no decisions.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use live::redis_service::ON_CLUSTER;
use live::ui_access::UiAccess;
use protocol::version::Capabilities;
use runtime::admin::{self, Admin, AdminState, DebugState};
use runtime::args::KubeArgs;
use runtime::clock::Clock;
use runtime::credentials::{self, ClientTls, Material, files, secrets};
use runtime::metrics::Registry;
use runtime::parts::{Parts, Spawner, Stopped};
use runtime::ready::Readiness;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::argocd_probe;
use crate::args::{Args, TlsArgs};
use crate::config::{self, Config, Scope, Ui};
use crate::live::cluster_stats;
use crate::live::redis::Redis;
use crate::live::tunnel::{ApiHandler, Cache};
use crate::metrics::{self, Metrics};
use crate::session::{Link, LinkState};
use crate::state::State;
use crate::sync::cache::Store;
use crate::sync::kube::Kubernetes;
use crate::sync::replica::{CacheStatus, Replica};
use crate::sync::report::Reports;
use crate::transport::{Dialer, Network};

/// How long parts may take to end; a pod has 30 s.
const DRAIN: Duration = Duration::from_secs(10);
const USER_AGENT: &str = concat!("argocd-agent/", env!("CARGO_PKG_VERSION"));

/// Why the process ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is invalid.
    #[error("read the settings")]
    Config(#[from] config::Error),
    /// The client of the spoke's API cannot be built.
    #[error("set up the client of the cluster's API")]
    Kube(#[from] runtime::kube::Error),
    /// An address is in use.
    #[error(transparent)]
    Admin(#[from] admin::Error),
    /// The exporter of traces does not start.
    #[error(transparent)]
    Traces(#[from] runtime::trace::Error),
    /// The system starts no more threads.
    #[error("start threads")]
    Threads(#[source] std::io::Error),
    /// A part ended early.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Runs the agent until `token` is cancelled or a part fails.
pub async fn run(args: Args, token: CancellationToken) -> Result<(), Error> {
    let config = Config::try_from(&args)?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), ?config, "agent starts");
    let service = format!("agent-{}", config.scope.mode);
    let traces = runtime::trace::start(config.otlp.as_ref(), service)?;
    let ended = run_with(config, &args, token).await;
    traces.end().await;
    ended
}

async fn run_with(config: Config, args: &Args, token: CancellationToken) -> Result<(), Error> {
    let client = runtime::kube::client(&args.kube, USER_AGENT).await?;
    let parts = Parts::with_background(token.clone()).map_err(Error::Threads)?;
    let spawner = parts.spawner();
    let (registry, readiness) = (Registry::new(), Readiness::new());
    let metrics = metrics::register(&registry);
    let store = Arc::new(Store::default());
    let reports = Arc::new(Reports::new(Arc::clone(&store)));
    let Config { hub, scope, ui, .. } = config;
    let (argocd_namespace, mode) = (scope.argocd_namespace.clone(), scope.mode);
    let redis = redis((config.redis, ui.access), &client, &scope, &spawner).await;
    let reader = ui.reader().map(str::to_owned);
    let census = cluster_stats::watch(Arc::clone(&redis), ui.access, config.recount, &spawner);
    let api_handler = api_handler(&args.kube, ui, &scope, redis, &spawner.background()).await?;
    let material = material(config.tls, &client, &argocd_namespace, &spawner).await;
    let selector = scope.label_selector.clone();
    let replica = Arc::new(Replica::new(
        Arc::new(Kubernetes::new(client.clone(), selector)),
        scope,
        config.policy,
        store,
        Arc::clone(&reports),
        metrics.clone(),
    ));
    replica.start(&spawner);
    let probe = config.reports_argocd.then_some(client);
    argocd_probe::watch(probe, reader.as_deref(), &replica, &spawner);
    watch_expiry(material.clone(), metrics.clone(), &spawner);
    report_readiness(replica.sync_status(), &readiness, &spawner);
    let tls = ClientTls::follow(material, &spawner);
    let material = tls.material();
    let network = Network::new(hub.clone(), tls, spawner);
    let dialer = Dialer {
        hub,
        network: Arc::new(network),
        material,
        argocd_namespace,
        mode,
        capabilities: Capabilities::ours(),
    };
    let link = Link {
        dialer,
        replica,
        reports,
        api_handler: Some(Arc::clone(&api_handler)),
        census,
        metrics,
        state: watch::Sender::new(LinkState::Down),
        agent_tunnel: watch::Sender::new(false),
    };
    let admin = admin_state(readiness, registry, State::of(&link));
    serve_admin(args, admin, &parts).await?;
    spawn_all(link, api_handler, &parts, &token);
    Ok(parts.run_until_stopped(DRAIN).await?)
}

/// Starts the tasks that keep the session and the tunnel up.
fn spawn_all(link: Link, api_handler: Arc<ApiHandler>, parts: &Parts, token: &CancellationToken) {
    let background = parts.spawner().background();
    let agent_tunnel = link.tunnel(api_handler, background.clone());
    background.spawn("tunnel", agent_tunnel.run(token.clone()));
    parts.spawn("link", link.run(token.clone()));
}

/// The client of Argo CD's redis. Without access of users nothing reads redis, so nothing follows its Service and Secret.
async fn redis(
    (settings, access): (redis_discovery::Settings, UiAccess),
    client: &Client,
    scope: &Scope,
    spawner: &Spawner,
) -> Arc<Redis> {
    let namespace = &scope.argocd_namespace;
    let redis = if access == UiAccess::None {
        redis_discovery::unused(namespace)
    } else {
        redis_discovery::follow(settings, client, namespace, &ON_CLUSTER, spawner).await
    };
    Arc::new(Redis::new(redis))
}

/// The handler of live requests; it has its own client, so that a list for a user delays no request of the agent.
async fn api_handler(
    kube: &KubeArgs,
    ui: Ui,
    scope: &Scope,
    redis: Arc<Redis>,
    spawner: &Spawner,
) -> Result<Arc<ApiHandler>, runtime::kube::Error> {
    let client = runtime::kube::client_of(kube, USER_AGENT, spawner).await?;
    let cache = Cache::new(redis, scope.argocd_namespace.clone(), ui.access);
    let api_handler = ApiHandler::new(client, ui, scope.clone(), spawner.clone());
    Ok(Arc::new(api_handler.with_cache(cache)))
}

fn admin_state(readiness: Readiness, registry: Registry, state: State) -> AdminState {
    let link_state = state.link.clone();
    AdminState {
        readiness,
        registry,
        // As in Go: healthy means connected.
        healthz: Arc::new(move || *link_state.borrow() == LinkState::Up),
        debug_state: DebugState::new(move |_page| state.to_json()),
    }
}

/// Serves health and metrics, on one port or two.
async fn serve_admin(args: &Args, state: AdminState, parts: &Parts) -> Result<(), Error> {
    let token = parts.spawner().token().clone();
    for address in std::iter::once(args.admin.health()).chain(args.admin.metrics()) {
        let admin = Admin::bind(address, state.clone()).await?;
        parts.spawn("admin", admin.serve(token.clone()));
    }
    Ok(())
}

/// Follows the certificates, in files or Secrets.
async fn material(
    tls: TlsArgs,
    client: &Client,
    namespace: &str,
    spawner: &Spawner,
) -> watch::Receiver<Arc<Material>> {
    let clock = Clock::system();
    let secret = |name: &str, take| {
        let (client, clock) = (client.clone(), clock.clone());
        secrets::watch(client, namespace, name, take, clock, spawner)
    };
    let identity = || secret(&tls.tls_secret_name, secrets::Take::Identity);
    let roots = || secret(&tls.root_ca_secret_name, secrets::Take::AllRoots);
    let in_files = (tls.tls_client_cert.is_some(), tls.root_ca_path.is_some());
    let paths = files::Paths {
        chain: tls.tls_client_cert,
        key: tls.tls_client_key,
        roots: tls.root_ca_path,
    };
    let files = files::watch(paths, clock.clone(), spawner);
    let (identity, roots) = match in_files {
        // One reader sees a renewal of all three at once.
        (true, true) => return files.await,
        (true, false) => (files.await, roots()),
        (false, true) => (identity(), files.await),
        (false, false) => (identity(), roots()),
    };
    credentials::combine(identity, roots, spawner)
}

fn watch_expiry(mut material: watch::Receiver<Arc<Material>>, metrics: Metrics, spawner: &Spawner) {
    let token = spawner.token().clone();
    spawner.spawn("certificate expiry", async move {
        let following = async {
            loop {
                let not_after = material.borrow_and_update().not_after();
                let seconds = not_after.map_or(0, jiff::Timestamp::as_second);
                metrics.certificate_expiry.set(seconds);
                if material.changed().await.is_err() {
                    return;
                }
            }
        };
        token.run_until_cancelled(following).await;
        token.cancelled().await;
    });
}

/// Reports readiness when the caches are complete; a lost hub does not make the pod unready.
fn report_readiness(
    mut sync_status: watch::Receiver<CacheStatus>,
    readiness: &Readiness,
    spawner: &Spawner,
) {
    let (caches, token) = (readiness.register("caches"), spawner.token().clone());
    spawner.spawn("readiness", async move {
        let complete = sync_status.wait_for(CacheStatus::is_complete);
        if let Some(Ok(_)) = token.run_until_cancelled(complete).await {
            caches.set(true);
        }
        token.cancelled().await;
    });
}
