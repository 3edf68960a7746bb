//! A watch that lasts: through restarts of the API server, lost connections and bad objects.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
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

/// Objects fetched at once by a list; bounds the memory of a start among many large objects.
const PAGE: u32 = 100;
/// An API server restarts in a few seconds; waiting longer than this between tries gains nothing.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const HEALTHY_AFTER: Duration = Duration::from_secs(30);
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What a watch has seen.
#[derive(Debug, Clone)]
pub enum Event<K> {
    /// The object is there, and looks like this.
    Applied {
        /// The object, without `managedFields` and kubectl's copy of itself.
        object: Box<K>,
        /// It came with a list, so it may be old news.
        listed: bool,
    },
    /// The object is gone.
    Deleted(Gone<K>),
    /// A list is complete: what was seen so far is all there is.
    Synced,
    /// The API is back at an earlier state, as after its etcd was restored: what follows is a list, and versions in it
    /// may be older than those that were told. Numbers of versions from before mean nothing any more.
    Rewound,
}

/// An object that is gone.
#[derive(Debug, Clone)]
pub struct Gone<K> {
    /// Its namespace, unless it is a cluster-wide kind.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its last state, when its deletion was watched and it could be read.
    pub object: Option<Box<K>>,
    /// Its deletion was watched, and not only found out because it was there no more: that is also what a server looks
    /// like that was put back to a former state.
    pub is_seen: bool,
}

/// What to watch.
#[derive(Debug, Clone)]
pub struct Watch<K> {
    api: Api<DeserializeGuard<K>>,
    config: watcher::Config,
}

impl<K> Watch<K> {
    /// Everything of `api`; its guard lets one bad object through without failing the others.
    pub fn new(api: Api<DeserializeGuard<K>>) -> Self {
        Self {
            api,
            config: watcher::Config::default().page_size(PAGE),
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

/// What a watch of a kind that may not exist has seen.
#[derive(Debug, Clone)]
pub enum Observation<K> {
    /// The API does not serve this kind, as far as its answer tells. Told once, until it does.
    NotServed,
    /// Anything else.
    Seen(Event<K>),
}

/// Watches until `token` is cancelled and tells `handle` what is seen.
///
/// Failures are waited out with back-off and logged on the transition. An object that cannot be
/// read is skipped with a warning, as often as it changes. A deletion that was missed while the
/// watch was down is found by the next list, and an object that was replaced by one of the same
/// name is told as deleted first. `handle` is called in order and must be quick.
pub async fn watch_trimmed<K>(
    watch: Watch<K>,
    token: CancellationToken,
    mut handle: impl FnMut(Event<K>) + Send,
) where
    K: Resource<DynamicType: Clone> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    watch_if_served(watch, token, |observation| match observation {
        Observation::NotServed => {}
        Observation::Seen(event) => handle(event),
    })
    .await;
}

/// Like [`watch_trimmed`], for a kind of which the definition may be missing, go and come.
///
/// When it goes, that alone is told: the error page of a proxy has the same code. Objects that go with their definition
/// are deleted before it and told so; what else is missing is told when the kind is there again and listed.
pub async fn watch_if_served<K>(
    watch: Watch<K>,
    token: CancellationToken,
    mut handle: impl FnMut(Observation<K>) + Send,
) where
    K: Resource<DynamicType: Clone> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let Watch { api, config } = watch;
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
            // Versions of the former definition mean nothing for the next one: list anew.
            events = watcher(api.clone(), config.clone()).boxed();
        }
        let pause = health.fails(&error);
        let waited = token.run_until_cancelled(tokio::time::sleep(pause));
        if waited.await.is_none() {
            return;
        }
    }
}

/// How a watch fares, for its log and its pauses.
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
        // Said before the list was tried.
        if matches!(event, watcher::Event::Init) {
            return;
        }
        self.is_served = true;
        if std::mem::take(&mut self.failing) {
            tracing::info!(kind = self.kind, "watch recovered");
        }
    }

    /// How long to wait.
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

/// A namespace that is missing has no objects; only a kind that is missing is answered so.
fn is_not_served(error: &watcher::Error) -> bool {
    let (watcher::Error::InitialListFailed(source) | watcher::Error::WatchStartFailed(source)) =
        error
    else {
        return false;
    };
    matches!(source, ::kube::Error::Api(status) if status.code == 404)
}

/// What [`history`](super::history) has found out; the watcher lists anew by itself.
fn is_rewound(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchError(status) if status.message == super::history::REWOUND)
}

/// How it is known that an object is gone.
#[derive(Debug)]
enum Went<K> {
    /// Its deletion was watched; how it was last, if that could be read.
    Seen(Option<Box<K>>),
    /// It is not there any more.
    Unseen,
}

/// Namespace and name.
type Key = (Option<String>, String);

/// What a watch has told so far, so that a list can tell what is gone.
#[derive(Debug, Default)]
struct Seen {
    /// UID by key of everything told as applied and not as deleted since.
    live: HashMap<Key, String>,
    /// What the list under way has named.
    listed: HashSet<Key>,
}

impl Seen {
    fn take<K>(
        &mut self,
        event: watcher::Event<DeserializeGuard<K>>,
        handle: &mut impl FnMut(Event<K>),
    ) where
        K: Resource,
    {
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
                let gone: Vec<Key> = self
                    .live
                    .keys()
                    .filter(|key| !listed.contains(*key))
                    .cloned()
                    .collect();
                for key in gone {
                    self.forget(&key, Went::Unseen, handle);
                }
                handle(Event::Synced);
            }
        }
    }

    fn applied<K: Resource>(
        &mut self,
        guard: DeserializeGuard<K>,
        listed: bool,
        handle: &mut impl FnMut(Event<K>),
    ) {
        match guard.0 {
            Ok(mut object) => {
                trim(&mut object);
                let key = key(object.meta());
                let uid = object.meta().uid.clone().unwrap_or_default();
                if self.live.get(&key).is_some_and(|known| *known != uid) {
                    self.forget(&key, Went::Unseen, handle);
                }
                self.live.insert(key, uid);
                handle(Event::Applied {
                    object: Box::new(object),
                    listed,
                });
            }
            Err(bad) => {
                let object = key(&bad.metadata);
                tracing::warn!(?object, error = %bad.error, "skipping an unreadable object");
            }
        }
    }

    fn deleted<K: Resource>(
        &mut self,
        guard: DeserializeGuard<K>,
        handle: &mut impl FnMut(Event<K>),
    ) {
        let key = key(guard.meta());
        let object = guard.0.ok().map(|mut object| {
            trim(&mut object);
            Box::new(object)
        });
        self.forget(&key, Went::Seen(object), handle);
    }

    fn forget<K>(&mut self, key: &Key, went: Went<K>, handle: &mut impl FnMut(Event<K>)) {
        // What was never told as applied has nothing to be told as deleted.
        if let Some(uid) = self.live.remove(key) {
            let (namespace, name) = key.clone();
            let (is_seen, object) = match went {
                Went::Seen(object) => (true, object),
                Went::Unseen => (false, None),
            };
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

/// Takes away what nobody needs and what is often most of an object.
fn trim<K: Resource>(object: &mut K) {
    let meta = object.meta_mut();
    meta.managed_fields = None;
    if let Some(annotations) = &mut meta.annotations {
        annotations.remove(LAST_APPLIED);
    }
}

#[cfg(test)]
mod tests;
