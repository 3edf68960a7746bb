//! The hub in memory as the store of a principal: its watches, and the requests that write.

use argocd::{
    Meta, Patch,
    global_projects::GlobalProjects,
    testing::memory::{Change, Seen},
};
use async_trait::async_trait;
use futures::{FutureExt as _, future::BoxFuture};
use live::events::{self, Observed};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::Memory;
use crate::{
    domain::Key,
    store::{Packed, Report, Reporter, Store, Watched, WriteError},
};

impl Memory {
    /// `lists`: the watch lists again, so it sees no deletion.
    fn notify(
        &self,
        kind: Watched,
        seen: &mut Seen<(Watched, Key)>,
        lists: bool,
        report: &Reporter,
    ) {
        let updates = self.lock().objects.updates(seen, |(is, _)| *is == kind);
        for updates in updates {
            report(match updates {
                Change::Applied(_, object) => Report::Applied(kind, Packed::of(object)),
                Change::Gone((_, key), uid) => Report::Deleted {
                    kind,
                    key,
                    uid,
                    is_seen: !lists,
                },
            });
        }
        if lists {
            report(Report::Synced(kind));
        }
    }
}

#[async_trait]
impl Store for Memory {
    fn watch(&self, report: Reporter, token: CancellationToken) -> BoxFuture<'static, ()> {
        let memory = self.clone();
        async move {
            let mut seen = Watched::ALL.map(|kind| (kind, Seen::new()));
            // The value of `breaks` at the last list.
            let mut listed = None;
            let mut known = GlobalProjects::default();
            let mut restored = memory.lock().restores;
            loop {
                let count = memory.shared.changed.count();
                let (broken, breaks, put_back, global_projects) = {
                    let state = memory.lock();
                    let globals = state.global_projects.clone();
                    (state.broken, state.breaks, state.restores, globals)
                };
                if !broken && restored != put_back {
                    restored = put_back;
                    listed = None;
                    for (kind, seen) in &mut seen {
                        seen.list_again();
                        report(Report::Rewound(*kind));
                    }
                }
                if !broken && known != global_projects {
                    report(Report::GlobalProjects(global_projects.clone()));
                    known = global_projects;
                }
                for (kind, seen) in seen.iter_mut().filter(|_| !broken) {
                    memory.notify(*kind, seen, listed != Some(breaks), &report);
                }
                if !broken {
                    listed = Some(breaks);
                }
                let next = memory.shared.changed.since(count);
                if token.run_until_cancelled(next).await.is_none() {
                    return;
                }
            }
        }
        .boxed()
    }

    async fn patch(
        &self,
        kind: Watched,
        key: &Key,
        version: &str,
        patch: Patch,
    ) -> Result<Packed, WriteError> {
        let key = (kind, key.clone());
        if self.lock().failing.as_ref() == Some(&key.1.name) {
            return Err(WriteError::Unavailable("failing".into()));
        }
        self.write(move |objects| objects.patch(&key, &patch.under(version)))
            .await
            .map(Packed::of)
    }

    async fn create(&self, kind: Watched, object: &Value) -> Result<Packed, WriteError> {
        let key = (kind, Key::of(Meta::of(object)));
        if self.lock().invalid.as_ref() == Some(&key.1.name) {
            return Err(WriteError::Refused("invalid".to_owned()));
        }
        self.write(move |objects| Ok((objects.create(key, object.clone())?, true)))
            .await
            .map(Packed::of)
    }

    async fn delete(
        &self,
        kind: Watched,
        key: &Key,
        uid: &str,
        version: &str,
    ) -> Result<(), WriteError> {
        let key = (kind, key.clone());
        self.write(move |objects| {
            objects.delete(&key, Some(uid), Some(version))?;
            Ok((Value::Null, true))
        })
        .await
        .map(drop)
    }

    async fn events(&self, of: &Observed) -> Result<Vec<Value>, WriteError> {
        tokio::task::yield_now().await;
        let state = self.lock();
        if state.outage {
            return Err(WriteError::Unavailable("outage".into()));
        }
        let events = state.events.values().filter(|event| of.is_of(event));
        Ok(events.cloned().collect())
    }

    async fn note(&self, of: &Observed, write: &events::Write) -> Result<(), WriteError> {
        tokio::task::yield_now().await;
        self.change(|state| state.note(of, write))
    }

    async fn principal_uid(&self) -> Result<String, WriteError> {
        Ok("principal-uid".to_owned())
    }
}
