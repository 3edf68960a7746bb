//! Starts the watches and reconciles the keys that they add to the queue.

use std::{iter, sync::Arc, time::Duration};

use futures::{StreamExt as _, stream, stream::BoxStream};
use kube::Client;
use tokio::{
    sync::Mutex,
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::info;

use self::workers::Workers;
use super::{
    Addon, Error, Metrics, View, event::Events, hub::Hub, key::Key, permissions::Part,
    queue::PendingWork,
};
use crate::{api::addon::Version, name::ClusterName};

pub use self::workers::DRAIN;

/// The input of [`run`] beside the add-on.
#[derive(derive_more::Debug)]
pub struct Setup {
    /// A client of the hub.
    #[debug(skip)]
    pub client: Client,
    /// The version of the add-on API, from [`discover`](fn@super::discover).
    pub version: Version,
    /// The view that [`run`] keeps current.
    #[debug(skip)]
    pub view: View,
    /// Clusters to reconcile now, because an object that the SDK does not watch changed. The stream
    /// may end.
    #[debug(skip)]
    pub wake: BoxStream<'static, ClusterName>,
    /// Stops [`run`].
    pub token: CancellationToken,
    /// Counters; `Metrics::default()` without a registry.
    pub metrics: Metrics,
    /// The number of concurrent reconciles.
    pub concurrency: usize,
}

/// Runs the add-on until the token is cancelled. Only one process may do so at a time: acquire a lease
/// first.
///
/// # Errors
/// A watch ended or panicked: the caller should end the process, since the cache would become stale.
pub async fn run<A: Addon>(addon: Arc<A>, setup: Setup) -> Result<(), Error> {
    let version = setup.version;
    info!(addon = %addon.name(), version = version.as_str(), "add-on starts");
    let hub = Arc::new(Hub {
        events: Events::new(setup.client.clone(), addon.name(), setup.metrics.clone()),
        addon,
        client: setup.client,
        version,
        world: Arc::clone(setup.view.world()),
        metrics: setup.metrics,
        pending: PendingWork::default(),
        lists: Mutex::default(),
    });
    let mut watches = watch_all(&hub);
    let mut workers = Workers::new(Arc::clone(&hub));
    let mut wake = setup.wake.chain(stream::pending());
    loop {
        let next_due = workers.dispatch(setup.concurrency.max(1));
        let (listing, mut revision) = (workers.is_listing(), workers.revision.clone());
        let far = Instant::now() + Duration::from_hours(1);
        // Every arm is cancel-safe.
        tokio::select! {
            biased;
            () = setup.token.cancelled() => break,
            Some(ended) = watches.join_next() => return Err(ended.unwrap_or(Error::Panicked)),
            Some((key, outcome)) = workers.join_next() => workers.finish(key, outcome),
            Some(cluster) = wake.next() => hub.pending.add(Key::Cluster(cluster)),
            () = hub.pending.changed.notified() => {}
            // The last list may be empty and add no key.
            Ok(()) = revision.changed(), if listing => {}
            () = sleep_until(next_due.unwrap_or(far)) => {}
        }
    }
    workers.drain().await;
    Ok(())
}

fn watch_all<A: Addon>(hub: &Arc<Hub<A>>) -> JoinSet<Error> {
    let signers = hub.addon.own_signers().into_iter().map(Some);
    let signers: Vec<_> = iter::once(None).chain(signers).collect();
    let is_permitting = !hub.addon.hub_permissions().is_empty();
    let parts = Part::ALL.into_iter().filter(|_| is_permitting);
    let kinds = hub.addon.supported_configs();
    {
        // A kind that is not listed yet must count as not synced, so all are known before the first watch starts.
        let mut world = hub.world.lock();
        for signer in &signers {
            world.requests.entry(signer.clone()).or_default();
        }
        for part in parts.clone() {
            world.permissions.entry(part).or_default();
        }
        for kind in &kinds {
            world.configs.entry(kind.group_resource()).or_default();
        }
    }
    let watching = || Arc::clone(hub);
    let mut tasks = JoinSet::new();
    tasks.spawn(watching().clusters());
    tasks.spawn(watching().addons());
    tasks.spawn(watching().works());
    tasks.spawn(watching().offer());
    tasks.spawn(watching().decisions());
    for signer in signers {
        tasks.spawn(watching().requests(signer));
    }
    for part in parts {
        tasks.spawn(watching().permissions(part));
    }
    for kind in kinds {
        tasks.spawn(watching().configs(kind));
    }
    tasks
}

mod workers;
