//! One watch: it retries for ever, skips unreadable objects, and logs an outage once.

use std::time::Duration;

use futures::{StreamExt as _, pin_mut};
use kube::{
    Api, Resource as _,
    api::{ApiResource, DynamicObject},
    runtime::{
        WatchStreamExt as _,
        utils::{Backoff, ResetTimerBackoff},
        watcher::{self, Event},
    },
};
use tracing::{debug, info, warn};

use super::{text::Text, turn::Turn};
use crate::sdk::{
    Error,
    cache::{Change, Update, version},
    error::chain,
    hub::Hub,
    queue,
};

/// A watch, and how to read its objects. A deletion needs only the key.
pub(super) struct Source<F, G> {
    /// Its name in logs.
    pub(super) what: &'static str,
    pub(super) resource: ApiResource,
    pub(super) config: watcher::Config,
    pub(super) key: F,
    pub(super) read: G,
}

impl<K, V, F: Fn(&DynamicObject) -> Option<K>, G: Fn(DynamicObject) -> Option<V>> Source<F, G> {
    /// Follows the watch for ever; the watcher backs off and lists again after errors.
    pub(super) async fn follow<A>(self, hub: &Hub<A>, apply: impl Fn(Update<K, V>)) -> Error {
        let what = self.what;
        let api = Api::<Text>::all_with(hub.client.clone(), &self.resource);
        let backoff = ResetTimerBackoff::new(Pauses(FIRST), HEALTHY);
        let events = watcher::watcher(api, self.config.clone()).backoff(backoff);
        pin_mut!(events);
        let mut healthy = true;
        let mut turn = Turn::new(&hub.lists);
        while let Some(event) = events.next().await {
            turn.follow(&event).await;
            let event = match event {
                Ok(event) => event,
                Err(error) => {
                    let error = chain(&error);
                    if healthy {
                        warn!(watch = what, error, "watch broken");
                    } else {
                        debug!(watch = what, error, "watch still failing; retrying");
                    }
                    healthy = false;
                    continue;
                }
            };
            // `Init` only starts an attempt to list.
            if !healthy && !matches!(event, Event::Init) {
                info!(watch = what, "watch recovered");
                healthy = true;
            }
            apply(self.update(event));
        }
        Error::WatchEnded(what)
    }

    /// Converts an event of the watcher. An unreadable object is skipped, so that it does not hide the others.
    fn update(&self, event: Event<Text>) -> Update<K, V> {
        let version = match &event {
            Event::Init | Event::InitDone => None,
            Event::InitApply(text) | Event::Apply(text) | Event::Delete(text) => {
                text.meta().resource_version.as_deref().and_then(version)
            }
        };
        let read = |text: Text, change: fn(K, V) -> Change<K, V>| {
            let object = text.decoded();
            let name = object.metadata.name.clone();
            let entry = (self.key)(&object).zip((self.read)(object));
            if entry.is_none() {
                warn!(
                    watch = self.what,
                    object = name,
                    "skipping an unreadable object"
                );
            }
            entry.map_or(Change::Unread, |(key, value)| change(key, value))
        };
        let change = match event {
            Event::Init => Change::Restarted,
            Event::InitApply(text) => read(text, Change::Listed),
            Event::InitDone => Change::Complete,
            Event::Apply(text) => read(text, Change::Applied),
            Event::Delete(text) => {
                (self.key)(&text.decoded()).map_or(Change::Unread, Change::Deleted)
            }
        };
        Update { change, version }
    }
}

/// The back-off of a broken watch. Its maximum is shorter than kube's own (30 s): there are few watches,
/// and after an outage of the hub every cluster waits for them.
struct Pauses(Duration);

/// The first pause.
const FIRST: Duration = Duration::from_millis(400);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(2);
/// How long a watch must be healthy before its back-off resets.
const HEALTHY: Duration = Duration::from_mins(1);

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = self.0;
        self.0 = pause.saturating_mul(2).min(LONGEST);
        Some(queue::spread(pause, rand::random()))
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {
        self.0 = FIRST;
    }
}
