//! Starts the watches and works off the queue.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::{StreamExt as _, stream, stream::BoxStream};
use jiff::Timestamp;
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
};
use tokio::{
    sync::{Notify, watch},
    task::{Id, JoinSet},
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, debug, error, info, info_span, warn};

use super::{
    Addon, Error, Metrics, View,
    event::Events,
    hash,
    metrics::{Controller, Written},
    queue::{Outcome, Queue},
    reconcile, registration, request,
    watches::Watches,
    world::World,
};
use crate::{api::addon::Version, name::ClusterName};

/// What [`run`] needs beside the add-on.
pub struct Setup {
    /// A client of the hub.
    pub client: Client,
    /// The version of the add-on API, from [`discover`].
    pub version: Version,
    /// Filled while running.
    pub view: View,
    /// Clusters whose reconcile shall run now, because something outside the SDK's sight changed.
    /// Its end is not an error.
    pub wake: BoxStream<'static, ClusterName>,
    /// Ends [`run`].
    pub token: CancellationToken,
    /// Counters; `Metrics::default()` for none that anybody reads.
    pub metrics: Metrics,
    /// Reconciles at a time.
    pub concurrency: usize,
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            version,
            concurrency,
            ..
        } = self;
        let mut debug = f.debug_struct("Setup");
        debug
            .field("version", version)
            .field("concurrency", concurrency)
            .finish_non_exhaustive()
    }
}

/// What has to be looked at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// One cluster.
    Cluster(ClusterName),
    /// One certificate request.
    Request(String),
    /// The hashes of configurations in the `ClusterManagementAddOn`.
    Configs,
}

impl Key {
    const fn controller(&self) -> Controller {
        match self {
            Self::Cluster(_) => Controller::Cluster,
            Self::Request(_) => Controller::Request,
            Self::Configs => Controller::Configs,
        }
    }

    fn object(&self) -> &str {
        match self {
            Self::Cluster(cluster) => cluster.as_str(),
            Self::Request(name) => name,
            Self::Configs => "ClusterManagementAddOn",
        }
    }
}

/// What every reconcile needs.
pub(crate) struct Hub<A> {
    pub(crate) addon: Arc<A>,
    pub(crate) client: Client,
    pub(crate) version: Version,
    pub(crate) world: Arc<World>,
    pub(crate) events: Events,
    pub(crate) metrics: Metrics,
}

/// How long reconciles may go on after the token is cancelled.
const DRAIN: Duration = Duration::from_secs(5);

/// Finds out which version of the add-on API the hub serves.
///
/// A version counts only if both kinds are in it: configurations are served as v1beta1 by hubs
/// whose add-ons are not.
pub async fn discover(client: &Client) -> Result<Version, Error> {
    for version in [Version::V1Beta1, Version::V1Alpha1] {
        let served = match client
            .list_api_group_resources(&version.api_version())
            .await
        {
            Ok(served) => served.resources,
            Err(kube::Error::Api(status)) if status.is_not_found() => continue,
            Err(source) => return Err(Error::Discover(Box::new(source))),
        };
        let has = |plural: &str| served.iter().any(|resource| resource.name == plural);
        if has("managedclusteraddons") && has("clustermanagementaddons") {
            return Ok(version);
        }
    }
    Err(Error::NoAddonApi)
}

/// Runs the add-on until the token is cancelled. Only one process may do so at a time (hold a lease).
///
/// # Errors
/// A watch that ended or panicked: the caller should end the process, since the copies of the hub
/// grow old without it.
pub async fn run<A: Addon>(addon: Arc<A>, setup: Setup) -> Result<(), Error> {
    let Setup {
        client,
        version,
        view,
        wake,
        token,
        metrics,
        concurrency,
    } = setup;
    let world = Arc::clone(view.world());
    {
        // A kind that is not listed yet must count as not synced.
        let mut state = world.look();
        for kind in registration::supported(&addon.supported_configs()) {
            state.configs.entry(kind).or_default();
        }
    }
    info!(addon = %addon.name(), version = version.as_str(), "add-on starts");
    let agenda = Arc::new(Agenda::default());
    let mut watches = watch_all(addon.as_ref(), &client, version, &world, &agenda);
    let events = Events::default();
    let hub = Arc::new(Hub {
        addon,
        client,
        version,
        world,
        events,
        metrics,
    });
    let revision = hub.world.revision();
    let mut crew = Crew {
        hub,
        agenda,
        revision,
        tasks: JoinSet::new(),
        keys: HashMap::new(),
    };
    let mut wake = wake.chain(stream::pending());
    loop {
        let next_due = crew.dispatch(concurrency.max(1));
        match next(&token, &mut watches, &mut crew, &mut wake, next_due).await {
            Next::Stop => break,
            Next::WatchEnded(error) => return Err(error),
            Next::Finished(key, outcome) => crew.finish(key, outcome),
            Next::Woken(cluster) => crew.agenda.add(Key::Cluster(cluster)),
            Next::Due => {}
        }
    }
    crew.drain().await;
    Ok(())
}

/// What the main loop waits for.
enum Next {
    Stop,
    WatchEnded(Error),
    Finished(Key, Outcome),
    Woken(ClusterName),
    Due,
}

/// Waits for whatever comes first. Every arm may lose the race without losing anything.
async fn next<A: Addon>(
    token: &CancellationToken,
    watches: &mut JoinSet<Error>,
    crew: &mut Crew<A>,
    wake: &mut (impl futures::Stream<Item = ClusterName> + Unpin),
    next_due: Option<Instant>,
) -> Next {
    let agenda = Arc::clone(&crew.agenda);
    let mut revision = crew.revision.clone();
    let listing = !crew.hub.world.look().is_synced();
    let far = Instant::now() + Duration::from_hours(1);
    tokio::select! {
        biased;
        () = token.cancelled() => Next::Stop,
        Some(ended) = watches.join_next() => Next::WatchEnded(ended.unwrap_or(Error::Panicked)),
        Some((key, outcome)) = crew.join_next() => Next::Finished(key, outcome),
        Some(cluster) = wake.next() => Next::Woken(cluster),
        () = agenda.changed.notified() => Next::Due,
        // The last list may be empty and wake nobody.
        Ok(()) = revision.changed(), if listing => Next::Due,
        () = sleep_until(next_due.unwrap_or(far)) => Next::Due,
    }
}

fn watch_all<A: Addon>(
    addon: &A,
    client: &Client,
    version: Version,
    world: &Arc<World>,
    agenda: &Arc<Agenda>,
) -> JoinSet<Error> {
    let watches = Watches {
        client: client.clone(),
        addon: addon.name().clone(),
        version,
        world: Arc::clone(world),
    };
    let wake = || {
        let agenda = Arc::clone(agenda);
        move |key| agenda.add(key)
    };
    let mut tasks = JoinSet::new();
    tasks.spawn(watches.clone().clusters(wake()));
    tasks.spawn(watches.clone().addons(wake()));
    tasks.spawn(watches.clone().works(wake()));
    tasks.spawn(watches.clone().requests(wake()));
    tasks.spawn(watches.clone().offer(wake()));
    for kind in addon.supported_configs() {
        tasks.spawn(watches.clone().configs(kind.0, wake()));
    }
    tasks
}

/// The queue, shared with the watches. The lock guards it and is never held over an await.
#[derive(Debug)]
struct Agenda {
    queue: Mutex<Queue<Key>>,
    changed: Notify,
}

impl Default for Agenda {
    fn default() -> Self {
        Self {
            queue: Mutex::new(Queue::new()),
            changed: Notify::new(),
        }
    }
}

impl Agenda {
    fn add(&self, key: Key) {
        self.with(|queue| queue.add(key, Instant::now()));
        self.changed.notify_one();
    }

    fn with<T>(&self, act: impl FnOnce(&mut Queue<Key>) -> T) -> T {
        act(&mut self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The reconciles that run.
struct Crew<A> {
    hub: Arc<Hub<A>>,
    agenda: Arc<Agenda>,
    /// Marked as seen before each look, so that a change during the look is noticed.
    revision: watch::Receiver<u64>,
    tasks: JoinSet<Outcome>,
    keys: HashMap<Id, Key>,
}

impl<A: Addon> Crew<A> {
    /// Starts what is due, and says when to look again.
    fn dispatch(&mut self, concurrency: usize) -> Option<Instant> {
        self.revision.mark_unchanged();
        if !self.hub.world.look().is_synced() {
            // Before everything is listed an absent object means nothing.
            return None;
        }
        let now = Instant::now();
        self.hub
            .metrics
            .waiting(self.agenda.with(|queue| queue.waiting(now)));
        while self.tasks.len() < concurrency {
            let Some(key) = self.agenda.with(|queue| queue.take(now)) else {
                return self.agenda.with(|queue| queue.next_due());
            };
            let task = self
                .tasks
                .spawn(look_at(Arc::clone(&self.hub), key.clone()));
            self.keys.insert(task.id(), key);
        }
        None
    }

    /// The next reconcile that ends; one that panicked has failed.
    async fn join_next(&mut self) -> Option<(Key, Outcome)> {
        let (id, outcome) = match self.tasks.join_next_with_id().await? {
            Ok((id, outcome)) => (id, outcome),
            Err(panic) => {
                error!(%panic, "reconcile panicked");
                (panic.id(), Outcome::Failed)
            }
        };
        Some((self.keys.remove(&id)?, outcome))
    }

    fn finish(&self, key: Key, outcome: Outcome) {
        let jitter = rand::random();
        self.agenda
            .with(|queue| queue.finish(key, outcome, Instant::now(), jitter));
    }

    async fn drain(&mut self) {
        let rest = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(DRAIN, rest).await.is_err() {
            warn!("reconciles cut off at the end");
        }
    }
}

async fn look_at<A: Addon>(hub: Arc<Hub<A>>, key: Key) -> Outcome {
    let controller = key.controller();
    let span = info_span!("reconcile", ?controller, object = key.object());
    let begin = Instant::now();
    let outcome = async {
        match reconcile_key(&hub, &key).await {
            Ok(outcome) => outcome,
            Err(error) if error.is_conflict() => {
                debug!(error = %error.chain(), "somebody else was quicker");
                Outcome::Soon
            }
            Err(error) => {
                warn!(reason = error.reason(), error = %error.chain(), "reconcile failed");
                Outcome::Failed
            }
        }
    };
    let outcome = outcome.instrument(span).await;
    hub.metrics
        .reconciled(controller, outcome, begin.elapsed().as_secs_f64());
    outcome
}

async fn reconcile_key<A: Addon>(hub: &Hub<A>, key: &Key) -> Result<Outcome, Error> {
    let now = Timestamp::now();
    match key {
        Key::Cluster(cluster) if hub.world.is_behind(cluster, Instant::now()) => Ok(Outcome::Soon),
        Key::Cluster(cluster) => reconcile::reconcile(hub, cluster, now).await,
        Key::Request(name) => request::reconcile(hub, name, now).await,
        Key::Configs => hash_configs(hub).await,
    }
}

/// Writes missing and old hashes into the `ClusterManagementAddOn`; OCM rolls them out from there.
async fn hash_configs<A: Addon>(hub: &Hub<A>) -> Result<Outcome, Error> {
    let patch = {
        let state = hub.world.look();
        let offer = state.offer.live().get(&());
        let supported = registration::supported(&hub.addon.supported_configs());
        let live = |named: &_| state.config(named).map(|config| config.live.clone());
        offer.and_then(|offer| hash::offer_patch(hub.version, &offer.raw, &supported, live))
    };
    let Some(patch) = patch else {
        return Ok(Outcome::Settled(None));
    };
    let name = hub.addon.name().as_str();
    let resource = hub.version.cluster_management_addons();
    let api = Api::<DynamicObject>::all_with(hub.client.clone(), &resource);
    let manager = Some(format!("{name}-configs"));
    let params = PatchParams {
        field_manager: manager,
        ..PatchParams::default()
    };
    let result = api.patch_status(name, &params, &Patch::Merge(&patch)).await;
    result.map_err(|source| Error::Write {
        action: "patch the configuration hashes of",
        object: format!("ClusterManagementAddOn {name}"),
        source: Box::new(source),
    })?;
    info!("configuration hashes written");
    hub.metrics.wrote(Written::Hashes);
    Ok(Outcome::Settled(None))
}
