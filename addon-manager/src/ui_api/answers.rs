//! Computes the answers, and remembers them for a moment.
//!
//! Nothing is computed while no page asks, except the end of each minute for the history. The records of Applications
//! follow the principal's changes, so an answer costs no decoder for the Applications that did not change.

use std::sync::{self, Arc};

use argocd::{Meta, routing::RoutingSettings};
use http::StatusCode;
use jiff::Timestamp;
use ocm::name::{AddonName, ClusterName};
use principal::{Cursor, Fleet, Sessions};
use runtime::clock::Clock;
use tokio::{
    sync::{Mutex, watch},
    task::yield_now,
};

use super::{
    answer::{self, Answer},
    cluster::{self, Certificate, ClusterAnswer, TROUBLES},
    facts::{self, Clusterwise},
    fleet::FleetAnswer,
    guard::Route,
    history::{History, Observed},
    hub::Hub,
    managed::ManagedFields,
    pages::{FORGET, Pages},
    path::{self, PathFacts},
    snapshot::{self, Snapshot},
    standings::Standings,
};
use crate::lock::lock;

/// So many changes are decoded before other tasks have a turn.
const PAGE: usize = 50;
/// So many Applications of one name are compared.
const NAMESAKES: usize = 50;

/// What the answers are computed from.
#[derive(Debug)]
pub struct Sources<H> {
    /// The facts about the hub.
    pub hub: H,
    /// Whether this replica serves agents.
    pub serving: watch::Receiver<bool>,
    /// The enrolled clusters.
    pub fleet: watch::Receiver<Arc<Fleet>>,
    /// The sessions.
    pub sessions: watch::Receiver<Sessions>,
    /// Our add-on.
    pub addon: AddonName,
    /// The rules of routing.
    pub routing: RoutingSettings,
    /// Who wrote Applications; none in tests.
    pub managed: Option<ManagedFields>,
    /// The name of this Pod.
    pub replica: String,
    /// The version of this program.
    pub version: String,
    /// The time.
    pub clock: Clock,
}

/// Why there is no answer now.
#[derive(Debug)]
enum Missing {
    /// This replica does not serve.
    Standby,
    /// The hub's objects are being read.
    Reading,
    /// No such cluster in the fleet.
    Cluster,
    /// No such Application.
    Application,
    /// It could not be written.
    Broken(snapshot::Error),
}

impl Missing {
    fn answer(&self) -> Answer {
        let unavailable = StatusCode::SERVICE_UNAVAILABLE;
        let (status, error, next) = match self {
            Self::Standby => (
                unavailable,
                "this replica of the hub program does not serve agents",
                "wait some seconds: the Service finds the replica that does; if this stays, run argocd-agentctl check",
            ),
            Self::Reading => (
                unavailable,
                "the hub program is still reading the hub's objects",
                "wait some seconds; if this stays, look at the log of the hub program",
            ),
            Self::Cluster => (
                StatusCode::NOT_FOUND,
                "no cluster of this name has the add-on",
                "opt it in with the label argocd-agent.open-cluster-management.io/mode=managed on its ManagedCluster",
            ),
            Self::Application => (
                StatusCode::NOT_FOUND,
                "the hub program does not know this Application",
                "wait some seconds if it is new; if this stays, check that Argo CD and the hub program use the same hub",
            ),
            Self::Broken(error) => return answer::broken(error),
        };
        answer::error(status, error, next)
    }
}

/// What is remembered about all clusters.
#[derive(Debug)]
struct Remembered {
    cursor: Cursor,
    standings: Standings,
    history: History,
    fleet: Option<Arc<Snapshot>>,
}

/// Answers requests.
#[derive(Debug)]
pub struct Answers<H> {
    sources: Sources<H>,
    /// Held while an answer about clusters is computed, so that requests at the same time share it.
    remembered: Mutex<Remembered>,
    /// Locked for a lookup, never over an await: an answer about an Application waits for none about clusters.
    pages: sync::Mutex<Pages>,
}

impl<H: Hub> Answers<H> {
    /// With nothing computed yet.
    pub fn new(sources: Sources<H>) -> Self {
        let remembered = Mutex::new(Remembered {
            cursor: Cursor::default(),
            standings: Standings::new(sources.routing.clone()),
            history: History::default(),
            fleet: None,
        });
        Self {
            sources,
            remembered,
            pages: sync::Mutex::default(),
        }
    }

    /// The namespace of Argo CD.
    pub fn argocd_namespace(&self) -> &str {
        &self.sources.routing.argocd_namespace
    }

    /// Answers a request that may be answered.
    pub async fn answer(&self, route: &Route, headers: &http::HeaderMap) -> Answer {
        let found = match route {
            Route::Fleet => self.fleet().await,
            Route::Cluster(name) => self.cluster(name).await,
            Route::Path { namespace, name } => self.path(namespace, name).await,
        };
        match found {
            Ok(page) => answer::snapshot(&page, headers),
            Err(missing) => missing.answer(),
        }
    }

    /// Ends a minute: notes the state of each cluster in the history, and forgets old answers.
    pub async fn end_minute(&self) {
        lock(&self.pages).forget();
        let mut remembered = self.remembered.lock().await;
        remembered.fleet.take_if(|page| page.age() >= FORGET);
        if self.catch_up(&mut remembered).await.is_err() {
            return remembered.history.clear();
        }
        let sessions = self.sessions();
        let clusterwise = self.clusterwise(&sessions);
        let (names, traffic) = (clusterwise.names(), self.sources.hub.traffic());
        let Remembered {
            standings, history, ..
        } = &mut *remembered;
        let observed = names.iter().map(|name| {
            let (name, tally) = (name.as_str(), standings.tally(name.as_str()));
            let traffic = traffic.get(name);
            let observed = Observed {
                behind: tally.behind(),
                behind_since: tally.behind_since(),
                reports: traffic.map_or(0, |it| it.reports),
                sessions: traffic.map_or(0, |it| it.sessions),
                connected: sessions.get(name).is_some_and(|it| it.connected),
            };
            (name, observed)
        });
        history.observe(observed, self.now());
    }

    async fn fleet(&self) -> Result<Arc<Snapshot>, Missing> {
        let mut remembered = self.remembered.lock().await;
        if let Some(page) = remembered.fleet.as_ref().filter(|page| page.is_fresh()) {
            return Ok(Arc::clone(page));
        }
        self.catch_up(&mut remembered).await?;
        let (sessions, now) = (self.sessions(), self.now());
        let clusterwise = self.clusterwise(&sessions);
        let names = clusterwise.names();
        let standings = &remembered.standings;
        let row = |name| clusterwise.row(name, standings.tally(name.as_str()), now);
        let content = FleetAnswer {
            replica: &self.sources.replica,
            version: &self.sources.version,
            rows: names.iter().filter_map(row),
        };
        let page = Arc::new(Snapshot::new(&content, now).map_err(Missing::Broken)?);
        remembered.fleet = Some(Arc::clone(&page));
        Ok(page)
    }

    async fn cluster(&self, name: &ClusterName) -> Result<Arc<Snapshot>, Missing> {
        let mut remembered = self.remembered.lock().await;
        let key = format!("clusters/{name}");
        if let Some(page) = self.page(&key) {
            return Ok(page);
        }
        self.catch_up(&mut remembered).await?;
        let (sessions, now) = (self.sessions(), self.now());
        let clusterwise = self.clusterwise(&sessions);
        let standings = &remembered.standings;
        let tally = standings.tally(name.as_str());
        let row = clusterwise.row(name, tally, now).ok_or(Missing::Cluster)?;
        let addon = clusterwise.addon(name);
        let mut needing = standings.troubled(name.as_str(), now);
        let shown = needing.by_ref().filter_map(|(namespace, name, it)| {
            let object = self.sources.hub.application(namespace, name)?;
            cluster::shown_trouble(&object, it, now)
        });
        let troubles = shown.take(TROUBLES).collect();
        let troubles_cut = needing.next().is_some();
        let content = ClusterAnswer {
            cluster: row,
            conditions: addon.as_ref().map(cluster::conditions).unwrap_or_default(),
            certificate: addon.as_ref().and_then(Certificate::of),
            troubles,
            troubles_cut,
            history: remembered.history.of(name.as_str()),
        };
        let page = Arc::new(Snapshot::new(&content, now).map_err(Missing::Broken)?);
        lock(&self.pages).keep(key, &page);
        Ok(page)
    }

    async fn path(&self, namespace: &str, name: &str) -> Result<Arc<Snapshot>, Missing> {
        let key = format!("applications/{namespace}/{name}");
        if let Some(page) = self.page(&key) {
            return Ok(page);
        }
        self.ready()?;
        let hub = &self.sources.hub;
        // Asks for nothing: without the hub's objects there is not even that.
        hub.changes(Cursor::default(), 0).ok_or(Missing::Reading)?;
        let application = hub.application(namespace, name);
        let mut application = application.ok_or(Missing::Application)?;
        let doubt = match &self.sources.managed {
            Some(managed) => managed.add(&mut application).await,
            None => None,
        };
        let project = argocd::Application::of(&application).project().to_owned();
        let namesakes = hub.namesakes(Meta::of(&application).name(), NAMESAKES);
        let (sessions, fleet) = (self.sessions(), Arc::clone(&self.sources.fleet.borrow()));
        let clusterwise = self.clusterwise(&sessions);
        let all = namesakes.iter().chain([&application]);
        let related = path::related(all, &facts::routes(&fleet));
        let addons = related.iter().filter_map(|name| {
            let name = ClusterName::new(name.as_str()).ok()?;
            clusterwise.addon(&name)
        });
        let facts = PathFacts {
            addons: addons.collect(),
            servers: facts::servers(&fleet, &related),
            project: hub.project(&project),
            routing: self.sources.routing.clone(),
            application,
            namesakes,
            doubt,
        };
        let content = path::path(facts, hub.deliveries(namespace, name));
        let page = Arc::new(Snapshot::new(&content, self.now()).map_err(Missing::Broken)?);
        lock(&self.pages).keep(key, &page);
        Ok(page)
    }

    fn page(&self, key: &str) -> Option<Arc<Snapshot>> {
        lock(&self.pages).fresh(key)
    }

    /// Whether this replica serves and knows all clusters.
    fn ready(&self) -> Result<(), Missing> {
        if !*self.sources.serving.borrow() {
            return Err(Missing::Standby);
        }
        let synced = self.sources.hub.is_synced();
        synced.then_some(()).ok_or(Missing::Reading)
    }

    /// Takes in what changed since the last time. It may be dropped at any await: it continues the next time.
    async fn catch_up(&self, remembered: &mut Remembered) -> Result<(), Missing> {
        self.ready()?;
        let hub = &self.sources.hub;
        let routes = facts::routes(&self.sources.fleet.borrow());
        remembered.standings.route(routes);
        loop {
            let changes = hub
                .changes(remembered.cursor, PAGE)
                .ok_or(Missing::Reading)?;
            let written = |namespace: &str, name: &str| {
                let mut deliveries = hub.deliveries(namespace, name).into_iter();
                let last = deliveries.find(|it| !it.is_operation)?;
                Some(last.written)
            };
            remembered.standings.apply(&changes, written, self.now());
            remembered.cursor = changes.cursor;
            if !changes.more {
                return Ok(());
            }
            yield_now().await;
        }
    }

    fn clusterwise<'a>(&'a self, sessions: &'a Sessions) -> Clusterwise<'a, H> {
        Clusterwise {
            hub: &self.sources.hub,
            addon: &self.sources.addon,
            sessions,
        }
    }

    fn sessions(&self) -> Sessions {
        Arc::clone(&self.sources.sessions.borrow())
    }

    fn now(&self) -> Timestamp {
        self.sources.clock.now()
    }
}

#[cfg(test)]
mod tests;
