//! Observes the Applications of a cluster by a watch, whose cost for the API server is equal for every make.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use kube::{
    api::DynamicObject,
    runtime::watcher::{self, Event, watcher},
};
use serde_json::Value;
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    steps::{At, Objects},
    wait,
};

/// The observed fields of an Application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shown {
    /// The desired revision, of the spec.
    pub(super) wanted: String,
    /// The deployed revision, of the status.
    pub(super) deployed: String,
}

/// The observed Applications of a cluster, by namespace and name.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    complete: bool,
    shown: BTreeMap<(String, String), Shown>,
}

impl Seen {
    /// One Application.
    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<&Shown> {
        self.shown.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// How many match.
    pub(super) fn count(&self, like: impl Fn(&str, &Shown) -> bool) -> usize {
        let shown = self.shown.iter();
        shown
            .filter(|((namespace, _), shown)| like(namespace, shown))
            .count()
    }

    fn take(&mut self, event: Event<DynamicObject>) {
        match event {
            Event::Init => self.shown.clear(),
            Event::InitDone => self.complete = true,
            Event::InitApply(object) | Event::Apply(object) => {
                let text = |pointer: &str| {
                    let found = object.data.pointer(pointer).and_then(Value::as_str);
                    found.unwrap_or_default().to_owned()
                };
                let shown = Shown {
                    wanted: text("/spec/source/targetRevision"),
                    deployed: text("/status/sync/revision"),
                };
                self.shown.insert(key(&object), shown);
            }
            Event::Delete(object) => drop(self.shown.remove(&key(&object))),
        }
    }
}

fn key(object: &DynamicObject) -> (String, String) {
    let metadata = &object.metadata;
    let text = |it: &Option<String>| it.clone().unwrap_or_default();
    (text(&metadata.namespace), text(&metadata.name))
}

/// A watch on the Applications of a cluster, until it is dropped.
#[derive(Debug)]
pub(super) struct Observer {
    seen: watch::Receiver<Seen>,
    _task: AbortOnDropHandle<()>,
}

impl Observer {
    /// Starts the watch, and returns when it has listed all Applications.
    pub(super) async fn of(cluster: &Objects) -> Result<Self> {
        let applications = cluster.everywhere(&At::application("", ""));
        let (emits, mut seen) = watch::channel(Seen::default());
        let look = async move {
            let mut events = watcher(applications, watcher::Config::default()).boxed();
            while let Some(event) = events.next().await {
                match event {
                    Ok(event) => emits.send_modify(|seen| seen.take(event)),
                    Err(error) => tracing::warn!(%error, "the watch is retried"),
                }
            }
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "ends with its handle, which the observer has"
        )]
        let task = AbortOnDropHandle::new(tokio::spawn(look));
        let there = timeout(wait::BOUND, seen.wait_for(|seen| seen.complete)).await;
        drop(there.context("the watch does not start")??);
        Ok(Self { seen, _task: task })
    }

    /// Waits until the state matches; none if that takes longer. The value is the time of the match.
    pub(super) async fn until(
        &self,
        bound: Duration,
        like: impl FnMut(&Seen) -> bool,
    ) -> Option<Instant> {
        let mut seen = self.seen.clone();
        let found = timeout(bound, seen.wait_for(like)).await;
        matches!(found, Ok(Ok(_seen))).then(Instant::now)
    }

    /// How many match now.
    pub(super) fn count(&self, like: impl Fn(&str, &Shown) -> bool) -> usize {
        self.seen.borrow().count(like)
    }

    /// Waits until this many match; returns how many matched, and how long after `since` that was.
    pub(super) async fn until_count(
        &self,
        count: usize,
        (since, bound): (Instant, Duration),
        like: impl Fn(&str, &Shown) -> bool,
    ) -> (usize, Duration) {
        let all = self.until(bound, |seen| seen.count(&like) >= count).await;
        match all {
            Some(at) => (count, at - since),
            None => (self.count(like), since.elapsed()),
        }
    }
}
