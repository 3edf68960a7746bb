//! A watch that survives restarts of the API server, lost connections and unreadable objects.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::marker::PhantomData;
use std::time::Duration;

use ::kube::core::DeserializeGuard;
use ::kube::runtime::watcher::{self, watcher};
use ::kube::{Api, Resource};
use futures::StreamExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::error::Chain;

/// Objects per page of a list; bounds memory at start-up with many large objects.
const PAGE: u32 = 100;
/// An API server restarts in a few seconds; longer pauses have no benefit.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const HEALTHY_AFTER: Duration = Duration::from_secs(30);
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// An event of a watch.
#[derive(Debug, Clone)]
pub enum Event<K> {
    /// The object was created or changed, or listed.
    Applied {
        /// The object, without `managedFields` and kubectl's annotation with its last configuration.
        object: Box<K>,
        /// Whether it comes from a list, and so may be unchanged.
        listed: bool,
    },
    /// The object was deleted.
    Deleted(Gone<K>),
    /// A list is complete: the events so far have all objects.
    Synced,
    /// The API was restored to an earlier state, as after a restore of etcd. A list follows, whose resource versions may
    /// be older than those before. Older resource versions are not comparable any more.
    Rewound,
}

/// A deleted object.
#[derive(Debug, Clone)]
pub struct Gone<K> {
    /// Its namespace, unless it is a cluster-wide kind.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its last state, if the watch received the deletion and the object is readable.
    pub object: Option<Box<K>>,
    /// Whether the watch received the deletion. If not, the object is only missing in a list, which may also mean that
    /// the API was restored to an earlier state.
    pub is_seen: bool,
}

/// An object of a list that may be unreadable by itself, without failing the list.
pub trait Guarded:
    Resource<DynamicType: Clone> + Clone + DeserializeOwned + Debug + Send + 'static
{
    /// The readable object.
    type Object: Resource;

    /// The object, or why it is unreadable.
    fn readable(self) -> Result<Self::Object, String>;
}

impl<K> Guarded for DeserializeGuard<K>
where
    K: Resource<DynamicType: Clone> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    type Object = K;

    fn readable(self) -> Result<K, String> {
        self.0.map_err(|bad| bad.error)
    }
}

/// The selection of a watch.
#[derive(Debug, Clone)]
pub struct Watch<K, G = DeserializeGuard<K>> {
    api: Api<G>,
    config: watcher::Config,
    objects: PhantomData<K>,
}

impl<K> Watch<K> {
    /// All objects of `api`; the guard keeps one unreadable object from failing the list. It reads each object as a tree
    /// first.
    pub fn new(api: Api<DeserializeGuard<K>>) -> Self {
        Self::guarded(api)
    }
}

impl<K, G> Watch<K, G> {
    /// All objects of `api`, of a type that guards itself.
    pub fn guarded(api: Api<G>) -> Self {
        Self {
            api,
            config: watcher::Config::default().page_size(PAGE),
            objects: PhantomData,
        }
    }

    /// Narrows by labels; an empty selector changes nothing.
    #[must_use]
    pub fn labels(mut self, selector: &str) -> Self {
        if !selector.is_empty() {
            self.config = self.config.labels(selector);
        }
        self
    }

    /// Narrows by fields.
    #[must_use]
    pub fn fields(mut self, selector: &str) -> Self {
        self.config = self.config.fields(selector);
        self
    }
}

/// An observation of a watch whose kind may not exist.
#[derive(Debug, Clone)]
pub enum Observation<K> {
    /// The API does not serve this kind, according to its response. Reported once until the API serves the kind.
    NotServed,
    /// An event.
    Seen(Event<K>),
}

/// Watches until `token` is cancelled and calls `handle` for each event.
///
/// Retries after failures with back-off and logs each transition. Skips an unreadable object with a warning at each
/// change. The next list finds deletions that the watch has missed, and an object that was replaced by another one of its
/// name is reported as deleted first. Calls `handle` in order; it must be quick.
pub async fn watch_trimmed<G: Guarded>(
    watch: Watch<G::Object, G>,
    token: CancellationToken,
    mut handle: impl FnMut(Event<G::Object>) + Send,
) {
    watch_if_served(watch, token, |observation| match observation {
        Observation::NotServed => {}
        Observation::Seen(event) => handle(event),
    })
    .await;
}

/// Like [`watch_trimmed`], for a kind whose CRD may be missing, deleted or created.
///
/// A missing CRD is reported as [`Observation::NotServed`] without deletions, as the error page of a proxy has the same
/// code. When a CRD is deleted, the API first deletes its objects, which the watch reports. The next list of the kind
/// reports all others that are missing.
pub async fn watch_if_served<G: Guarded>(
    watch: Watch<G::Object, G>,
    token: CancellationToken,
    mut handle: impl FnMut(Observation<G::Object>) + Send,
) {
    let Watch { api, config, .. } = watch;
    let kind = api.resource_url().to_owned();
    let mut events = watcher(api.clone(), config.clone()).boxed();
    let mut seen = Seen::default();
    let mut health = Health::new(kind);
    while let Some(next) = token.run_until_cancelled(events.next()).await.flatten() {
        let error = match next {
            Ok(event) => {
                health.works(&event);
                seen.take(event, &mut |event| handle(Observation::Seen(event)));
                continue;
            }
            Err(error) => error,
        };
        if is_rewound(&error) {
            tracing::warn!(
                kind = health.kind,
                "the API was restored to an earlier state; listing all objects again"
            );
            handle(Observation::Seen(Event::Rewound));
            continue;
        }
        if is_not_served(&error) {
            if health.is_served {
                handle(Observation::NotServed);
            }
            // Resource versions of the former CRD are invalid for the next one, so list again.
            events = watcher(api.clone(), config.clone()).boxed();
        }
        let pause = health.fails(&error);
        let waited = token.run_until_cancelled(tokio::time::sleep(pause));
        if waited.await.is_none() {
            return;
        }
    }
}

/// The health of a watch, for its log and its back-off.
#[derive(Debug)]
struct Health {
    kind: String,
    backoff: Backoff,
    failing: bool,
    is_served: bool,
}

impl Health {
    fn new(kind: String) -> Self {
        Self {
            kind,
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, HEALTHY_AFTER),
            failing: false,
            is_served: true,
        }
    }

    fn works<K>(&mut self, event: &watcher::Event<K>) {
        self.backoff.succeeded(Instant::now());
        // The watcher sends this event before it tries the list.
        if matches!(event, watcher::Event::Init) {
            return;
        }
        self.is_served = true;
        if std::mem::take(&mut self.failing) {
            tracing::info!(kind = self.kind, "watch recovered");
        }
    }

    /// Records a failure and returns the pause before the retry.
    fn fails(&mut self, error: &watcher::Error) -> Duration {
        let kind = &self.kind;
        self.is_served &= !is_not_served(error);
        if std::mem::replace(&mut self.failing, true) {
            tracing::debug!(kind, error = %Chain(error), "watch still failing; retrying");
        } else {
            tracing::warn!(kind, error = %Chain(error), "watch failed; retrying");
        }
        self.backoff.failed(Instant::now())
    }
}

/// A list in a missing namespace is empty; only a missing kind has this status.
fn is_not_served(error: &watcher::Error) -> bool {
    use watcher::Error::{InitialListFailed, WatchStartFailed};
    matches!(
        error,
        InitialListFailed(::kube::Error::Api(status)) | WatchStartFailed(::kube::Error::Api(status))
            if status.code == 404
    )
}

/// Whether [`history`](super::history) has detected a restored API; the watcher lists again by itself.
fn is_rewound(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchError(status) if status.message == super::history::REWOUND)
}

/// Namespace and name.
type Key = (Option<String>, String);

/// The reported objects of a watch, with which a list detects deletions.
#[derive(Debug, Default)]
struct Seen {
    /// UID by key of all objects that were reported as applied and not as deleted.
    live: HashMap<Key, String>,
    /// Keys of the list in progress.
    listed: HashSet<Key>,
}

impl Seen {
    fn take<G: Guarded>(
        &mut self,
        event: watcher::Event<G>,
        handle: &mut impl FnMut(Event<G::Object>),
    ) {
        match event {
            watcher::Event::Init => self.listed.clear(),
            watcher::Event::InitApply(guard) => {
                self.listed.insert(key(guard.meta()));
                self.applied(guard, true, handle);
            }
            watcher::Event::Apply(guard) => self.applied(guard, false, handle),
            watcher::Event::Delete(guard) => self.deleted(guard, handle),
            watcher::Event::InitDone => {
                let listed = std::mem::take(&mut self.listed);
                let gone = self.live.keys().filter(|key| !listed.contains(*key));
                for key in gone.cloned().collect::<Vec<_>>() {
                    self.forget(&key, false, None, handle);
                }
                handle(Event::Synced);
            }
        }
    }

    fn applied<G: Guarded>(
        &mut self,
        guard: G,
        listed: bool,
        handle: &mut impl FnMut(Event<G::Object>),
    ) {
        let named = key(guard.meta());
        match guard.readable() {
            Ok(mut object) => {
                trim(&mut object);
                let key = named;
                let uid = object.meta().uid.clone().unwrap_or_default();
                if self.live.get(&key).is_some_and(|known| *known != uid) {
                    self.forget(&key, false, None, handle);
                }
                self.live.insert(key, uid);
                handle(Event::Applied {
                    object: Box::new(object),
                    listed,
                });
            }
            Err(error) => {
                tracing::warn!(object = ?named, error, "skipping an unreadable object");
            }
        }
    }

    fn deleted<G: Guarded>(&mut self, guard: G, handle: &mut impl FnMut(Event<G::Object>)) {
        let key = key(guard.meta());
        let object = guard.readable().ok().map(|mut object| {
            trim(&mut object);
            Box::new(object)
        });
        self.forget(&key, true, object, handle);
    }

    /// Reports a deletion; the fields are those of [`Gone`].
    fn forget<K>(
        &mut self,
        key: &Key,
        is_seen: bool,
        object: Option<Box<K>>,
        handle: &mut impl FnMut(Event<K>),
    ) {
        // An object that was never reported as applied is not reported as deleted.
        if let Some(uid) = self.live.remove(key) {
            let (namespace, name) = key.clone();
            handle(Event::Deleted(Gone {
                namespace,
                name,
                uid,
                object,
                is_seen,
            }));
        }
    }
}

fn key(meta: &ObjectMeta) -> Key {
    (
        meta.namespace.clone(),
        meta.name.clone().unwrap_or_default(),
    )
}

/// Removes fields that no program of ours reads and that are often most of an object.
fn trim<K: Resource>(object: &mut K) {
    let meta = object.meta_mut();
    meta.managed_fields = None;
    if let Some(annotations) = &mut meta.annotations {
        annotations.remove(LAST_APPLIED);
    }
}

#[cfg(test)]
mod tests;
