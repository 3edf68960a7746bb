//! Requests a refresh of Applications that Argo CD compared too early.
//!
//! Argo CD reads Applications and projects by two watches. It compares an Application whose project is not in its cache
//! again only after minutes, and likewise one that it compared before its repo server was up, as on a cluster with a
//! newly installed Argo CD. The agent requests a refresh, as a user does with the refresh button.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use argocd::{Meta, Patch, keys};
use protocol::{Kind, ObjectKey};
use runtime::backoff::Backoff;
use runtime::error::Chain;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::plan::Step;
use super::state::Replica;
use crate::lock::lock;
use crate::sync::cache::Store;

/// Argo CD's other watch catches up within this time.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// The Applications that wait for a refresh.
#[derive(Debug, Default)]
pub(super) struct RefreshNudger {
    // Bounded by the number of Applications; locked for an insert, never over an await.
    keys: Mutex<BTreeSet<ObjectKey>>,
    wake: Notify,
}

impl RefreshNudger {
    /// Takes a changed object.
    pub(super) fn saw(&self, store: &Store, key: &ObjectKey, object: &Value) {
        if key.kind == Kind::Application && waits(object).is_some() {
            self.note([key.clone()]);
        }
        if key.kind == Kind::AppProject {
            let all = store.all().into_iter();
            let waiting = all.filter(|(app, entry)| {
                let wait = entry.live.as_deref().and_then(waits);
                app.kind == Kind::Application && wait == Some(Wait::Project(&key.name))
            });
            self.note(waiting.map(|(app, _)| app).collect::<Vec<_>>());
        }
    }

    fn note(&self, keys: impl IntoIterator<Item = ObjectKey>) {
        let mut all = lock(&self.keys);
        let before = all.len();
        all.extend(keys);
        if all.len() != before {
            self.wake.notify_one();
        }
    }

    /// Requests refreshes with back-off until `token` is cancelled.
    pub(super) async fn run(&self, replica: &Replica, token: CancellationToken) {
        let refreshing = async {
            loop {
                self.wake.notified().await;
                let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, LONGEST_PAUSE);
                while !lock(&self.keys).is_empty() {
                    self.pause(&mut backoff).await;
                    for key in self.all() {
                        if !nudge(replica, &key).await {
                            lock(&self.keys).remove(&key);
                        }
                    }
                }
            }
        };
        token.run_until_cancelled(refreshing).await;
    }

    /// Waits for the back-off; a new Application resets it.
    async fn pause(&self, backoff: &mut Backoff) {
        let pause = backoff.failed(Instant::now());
        let another = self.wake.notified();
        if tokio::time::timeout(pause, another).await.is_ok() {
            backoff.reset();
            tokio::time::sleep(backoff.failed(Instant::now())).await;
        }
    }

    /// The Applications to refresh.
    pub(super) fn all(&self) -> Vec<ObjectKey> {
        lock(&self.keys).iter().cloned().collect()
    }
}

/// Types and messages of the Application's conditions.
fn conditions(app: &Value) -> impl Iterator<Item = (&str, &str)> {
    let conditions = app.pointer("/status/conditions").and_then(Value::as_array);
    let conditions = conditions.into_iter().flatten();
    conditions.filter_map(|it| Some((it.get("type")?.as_str()?, it.get("message")?.as_str()?)))
}

/// The part that was missing when Argo CD compared an Application.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wait<'a> {
    /// Its project.
    Project(&'a str),
    /// Argo CD's repo server.
    RepoServer,
}

/// The part that Argo CD reports as missing or unreachable; first of all the project.
fn waits(app: &Value) -> Option<Wait<'_>> {
    let waits = conditions(app).filter_map(|(kind, message)| {
        if kind == "InvalidSpecError" && message.ends_with("which does not exist") {
            let project = app.pointer("/spec/project")?.as_str()?;
            return Some(Wait::Project(project));
        }
        let is_unreachable = kind == "ComparisonError"
            && message.contains("code = Unavailable")
            && message.contains("Error while dialing");
        is_unreachable.then_some(Wait::RepoServer)
    });
    waits.min()
}

/// Requests one refresh; false if it would not help before something changes.
async fn nudge(replica: &Replica, key: &ObjectKey) -> bool {
    let _only_writer = replica.locks.lock(key).await;
    let Some(app) = replica.store.live(key) else {
        return false;
    };
    let is_there = match waits(&app) {
        None => false,
        Some(Wait::Project(name)) => {
            let namespace = &replica.scope.argocd_namespace;
            let project = ObjectKey::new(Kind::AppProject, namespace, name);
            replica.store.live(&project).is_some()
        }
        // Argo CD checks this itself.
        Some(Wait::RepoServer) => true,
    };
    let meta = Meta::of(&app);
    if !is_there || meta.source_uid().is_none() {
        return false;
    }
    tracing::info!(object = %key, wait = ?waits(&app), "requesting a refresh: Argo CD compared the Application too early");
    let patch = json!({ "metadata": { "annotations": { keys::REFRESH: "normal" } } });
    let step = Step::Patch {
        uid: meta.uid().to_owned(),
        patch: Patch::Merge(patch),
    };
    if let Err(error) = replica.write(key, step, None).await {
        tracing::debug!(object = %key, error = %Chain(&error), "cannot request a refresh of Argo CD; retrying");
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app(kind: &str, message: &str) -> Value {
        json!({
            "spec": { "project": "p" },
            "status": { "conditions": [{ "type": kind, "message": message }] },
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_application_resets_the_refresh_backoff() {
        let stuck = RefreshNudger::default();
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, LONGEST_PAUSE);
        for _ in 0..20 {
            backoff.failed(Instant::now());
        }
        let begun = Instant::now();
        stuck.pause(&mut backoff).await;
        assert!(begun.elapsed() > FIRST_PAUSE * 2);

        let begun = Instant::now();
        stuck.note([ObjectKey::new(Kind::Application, "argocd", "new")]);
        stuck.pause(&mut backoff).await;
        assert!(begun.elapsed() <= FIRST_PAUSE);
    }

    #[test]
    fn only_a_missing_project_makes_an_application_wait() {
        let missing = "Application referencing project p which does not exist";
        let stuck = app("InvalidSpecError", missing);
        assert_eq!(waits(&stuck), Some(Wait::Project("p")));
        assert_eq!(waits(&app("SyncError", missing)), None);
        let denied = "application destination is not permitted in project 'p'";
        assert_eq!(waits(&app("InvalidSpecError", denied)), None);
        assert_eq!(waits(&json!({})), None);
    }

    #[test]
    fn an_unreachable_repo_server_counts_and_its_own_errors_do_not() {
        let refused = "Failed to load target state: failed to generate manifest for source 1 of 1: rpc error: \
                       code = Unavailable desc = connection error: desc = \"transport: Error while dialing: \
                       dial tcp 10.96.2.111:8081: connect: connection refused\"";
        let early = app("ComparisonError", refused);
        assert_eq!(waits(&early), Some(Wait::RepoServer));
        let wrong =
            "Failed to load target state: rpc error: code = Unknown desc = path does not exist";
        assert_eq!(waits(&app("ComparisonError", wrong)), None);
        let missing = "Application referencing project p which does not exist";
        let project = app("InvalidSpecError", missing);
        assert_eq!(waits(&project), Some(Wait::Project("p")));
    }
}
