//! All objects of one kind in the cluster, kept up to date by a watch.

use std::{fmt::Debug, sync::Arc, time::Duration};

use futures::StreamExt;
use kube::{
    Api, Resource, ResourceExt,
    runtime::{
        WatchStreamExt,
        reflector::{ObjectRef, Store, store},
        utils::Backoff,
        watcher,
    },
};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::tasks::Tasks;

/// The objects of one kind, and a signal that one of them has changed.
///
/// The signal carries no data: its receiver reads the current objects, so signals may merge on the
/// way.
#[derive(Clone)]
pub(crate) struct Watched<K>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    store: Store<K>,
    changes: watch::Receiver<u64>,
}

impl<K> Watched<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    /// Starts to watch, until `tasks` stop.
    pub(crate) fn start(api: Api<K>, tasks: &Tasks) -> Self {
        let (reader, writer) = store();
        let (signal, changes) = watch::channel(0);
        tasks.spawn("watch", async move {
            let events = watcher(api, watcher::Config::default())
                .modify(|object| object.managed_fields_mut().clear())
                .backoff(WatchBackoff::default())
                .reflect(writer);
            let mut events = std::pin::pin!(events);
            while let Some(event) = events.next().await {
                match event {
                    // Between Init and InitDone the store still has the previous objects.
                    Ok(watcher::Event::Init | watcher::Event::InitApply(_)) => {}
                    Ok(
                        watcher::Event::InitDone
                        | watcher::Event::Apply(_)
                        | watcher::Event::Delete(_),
                    ) => {
                        signal.send_modify(|version| *version += 1);
                    }
                    Err(error) => {
                        tracing::debug!(kind = %K::kind(&()), %error, "watch interrupted");
                    }
                }
            }
        });
        Self {
            store: reader,
            changes,
        }
    }

    /// Waits until an object has changed since the last call, or the first list has arrived.
    ///
    /// Cancel safe. Never returns when the watch has ended: that is the kubelet's stop, which
    /// callers await elsewhere.
    pub(crate) async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Makes the next [`changed`](Self::changed) return at once, to retry after an error.
    pub(crate) fn look_again(&mut self) {
        self.changes.mark_changed();
    }

    /// Waits for the first list if it has not arrived when this is called, and for ever otherwise.
    /// Cancel safe.
    pub(crate) async fn ready_now(&mut self) {
        if self.is_ready() {
            std::future::pending::<()>().await;
        }
        self.changed().await;
    }

    /// Whether the first list has arrived.
    pub(crate) fn is_ready(&self) -> bool {
        *self.changes.borrow() > 0
    }

    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.store.get(&ObjectRef::new(name).within(namespace))
    }

    pub(crate) fn all(&self) -> Vec<Arc<K>> {
        self.store.state()
    }
}

/// The back-off of a watch: short, because tests stop API servers on purpose and measure how fast
/// the product recovers, not the lab.
#[derive(Debug, Default)]
struct WatchBackoff {
    failures: u32,
}

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = Duration::from_millis(100 << self.failures.min(4));
        self.failures = self.failures.saturating_add(1);
        Some(pause)
    }
}

impl Backoff for WatchBackoff {
    fn reset(&mut self) {
        self.failures = 0;
    }
}

/// `namespace/name`.
pub(crate) fn key<K: ResourceExt>(object: &K) -> String {
    format!(
        "{}/{}",
        object.namespace().unwrap_or_default(),
        object.name_any()
    )
}
