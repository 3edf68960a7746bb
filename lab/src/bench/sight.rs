//! What a user of a cluster sees of its Applications: by a watch, so that looking costs the API server the same for every make.

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

/// What is looked at of an Application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shown {
    /// What shall be deployed: the spec's revision.
    pub(super) wanted: String,
    /// What is: the status' revision.
    pub(super) deployed: String,
}

/// The Applications of a cluster, by namespace and name.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    complete: bool,
    shown: BTreeMap<(String, String), Shown>,
}

impl Seen {
    /// One of them.
    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<&Shown> {
        self.shown.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// How many are like this.
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

/// A watch on the Applications of a cluster, kept going until it is dropped.
#[derive(Debug)]
pub(super) struct Sight {
    seen: watch::Receiver<Seen>,
    _task: AbortOnDropHandle<()>,
}

impl Sight {
    /// Watches, and has seen everything that is there.
    pub(super) async fn of(cluster: &Objects) -> Result<Self> {
        let applications = cluster.everywhere(&At::application("", ""));
        let (emits, mut seen) = watch::channel(Seen::default());
        let look = async move {
            let mut events = watcher(applications, watcher::Config::default()).boxed();
            while let Some(event) = events.next().await {
                match event {
                    Ok(event) => emits.send_modify(|seen| seen.take(event)),
                    Err(error) => tracing::warn!(%error, "the bench looks again"),
                }
            }
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "ends with its handle, which the sight has"
        )]
        let task = AbortOnDropHandle::new(tokio::spawn(look));
        let there = timeout(wait::BOUND, seen.wait_for(|seen| seen.complete)).await;
        drop(there.context("the watch does not begin")??);
        Ok(Self { seen, _task: task })
    }

    /// Waits until it looks like this; none if that takes longer. The value is when.
    pub(super) async fn until(
        &self,
        bound: Duration,
        like: impl FnMut(&Seen) -> bool,
    ) -> Option<Instant> {
        let mut seen = self.seen.clone();
        let found = timeout(bound, seen.wait_for(like)).await;
        matches!(found, Ok(Ok(_seen))).then(Instant::now)
    }

    /// How many are like this now.
    pub(super) fn count(&self, like: impl Fn(&str, &Shown) -> bool) -> usize {
        self.seen.borrow().count(like)
    }

    /// Waits until so many are like this; how many came, and how long after `since` that was.
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
