//! Starts the watches and reconciles the keys that they add to the queue.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt as _, stream, stream::BoxStream};
use kube::Client;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::info;

use self::workers::Workers;
use super::{
    Addon, Error, Hosts, Metrics, View, event::Events, metrics::Controller,
    object_cache::ObjectCache, permissions::Part, queue::PendingWork, registration,
    watches::Watches,
};
use crate::{api::addon::Version, name::ClusterName};

pub use self::workers::DRAIN;

/// The input of [`run`] beside the add-on.
pub struct Setup {
    /// A client of the hub.
    pub client: Client,
    /// The version of the add-on API, from [`discover`](fn@super::discover).
    pub version: Version,
    /// The view that [`run`] keeps current.
    pub view: View,
    /// Clusters to reconcile now, because an object that the SDK does not watch changed. The stream
    /// may end.
    pub wake: BoxStream<'static, ClusterName>,
    /// Stops [`run`].
    pub token: CancellationToken,
    /// Counters; `Metrics::default()` without a registry.
    pub metrics: Metrics,
    /// The number of concurrent reconciles.
    pub concurrency: usize,
}

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Setup")
            .field("version", &self.version)
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}

/// A key of the work queue.
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

/// The context of every reconcile.
pub(crate) struct Hub<A> {
    pub(crate) addon: Arc<A>,
    pub(crate) client: Client,
    pub(crate) version: Version,
    pub(crate) world: Arc<ObjectCache>,
    pub(crate) events: Events,
    pub(crate) metrics: Metrics,
}

/// Runs the add-on until the token is cancelled. Only one process may do so at a time: acquire a lease
/// first.
///
/// # Errors
/// A watch ended or panicked: the caller should end the process, since the cache would become stale.
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
        let mut state = world.lock();
        for kind in registration::supported(&addon.supported_configs()) {
            state.configs.entry(kind).or_default();
        }
        for signer in request_kinds(addon.as_ref()) {
            state.requests.entry(signer).or_default();
        }
        if !addon.hub_permissions().is_empty() {
            for part in Part::ALL {
                state.permissions.entry(part).or_default();
            }
        }
    }
    info!(addon = %addon.name(), version = version.as_str(), "add-on starts");
    let pending = Arc::new(PendingWork::default());
    let mut watches = watch_all(addon.as_ref(), &client, version, &world, &pending);
    let events = Events::new(client.clone(), addon.name(), metrics.clone());
    let hub = Arc::new(Hub {
        addon,
        client,
        version,
        world,
        events,
        metrics,
    });
    let mut workers = Workers::new(hub, Arc::clone(&pending));
    let mut wake = wake.chain(stream::pending());
    loop {
        let next_due = workers.dispatch(concurrency.max(1));
        let (listing, mut revision) = (workers.is_listing(), workers.revision.clone());
        let far = Instant::now() + Duration::from_hours(1);
        // Every arm is cancel-safe.
        tokio::select! {
            biased;
            () = token.cancelled() => break,
            Some(ended) = watches.join_next() => return Err(ended.unwrap_or(Error::Panicked)),
            Some((key, outcome)) = workers.join_next() => workers.finish(key, outcome),
            Some(cluster) = wake.next() => pending.add(Key::Cluster(cluster)),
            () = pending.changed.notified() => {}
            // The last list may be empty and add no key.
            Ok(()) = revision.changed(), if listing => {}
            () = sleep_until(next_due.unwrap_or(far)) => {}
        }
    }
    workers.drain().await;
    Ok(())
}

/// The watches of certificate requests: those with our label (`None`), and for each custom signer of ours those without it.
fn request_kinds(addon: &impl Addon) -> impl Iterator<Item = Option<String>> {
    std::iter::once(None).chain(addon.own_signers().into_iter().map(Some))
}

fn watch_all<A: Addon>(
    addon: &A,
    client: &Client,
    version: Version,
    world: &Arc<ObjectCache>,
    pending: &Arc<PendingWork<Key>>,
) -> JoinSet<Error> {
    let watches = Watches {
        client: client.clone(),
        addon: addon.name().clone(),
        version,
        world: Arc::clone(world),
        work: Arc::clone(pending),
        hosted: addon.hosts() != Hosts::None,
    };
    let mut tasks = JoinSet::new();
    tasks.spawn(watches.clone().clusters());
    tasks.spawn(watches.clone().addons());
    tasks.spawn(watches.clone().works());
    for signer in request_kinds(addon) {
        tasks.spawn(watches.clone().requests(signer));
    }
    tasks.spawn(watches.clone().offer());
    tasks.spawn(watches.clone().decisions());
    if !addon.hub_permissions().is_empty() {
        for part in Part::ALL {
            tasks.spawn(watches.clone().permissions(part));
        }
    }
    for kind in addon.supported_configs() {
        tasks.spawn(watches.clone().configs(kind.0));
    }
    tasks
}
mod workers;
