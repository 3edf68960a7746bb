//! Applications that Argo CD saw too early, and set aside for minutes.
//!
//! Argo CD learns of Applications and projects by two watches, and an Application whose project it does not know yet is
//! looked at again only when everything is, minutes later. So is one that it looked at while its repo server was not up
//! yet, as on a cluster whose Argo CD has just been brought. It is asked to look now, as a person would by its refresh
//! button.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use argocd::{Meta, Patch, keys};
use protocol::{Kind, ObjectKey};
use runtime::backoff::Backoff;
use runtime::error::Chain;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Replica;
use super::plan::Step;
use crate::sync::cache::Store;

/// Argo CD's other watch gets so much time first.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// The Applications that are stuck, as far as was seen.
#[derive(Debug, Default)]
pub(super) struct RefreshNudger {
    // Bounded by the number of Applications; held for an insert, never over an await.
    keys: Mutex<BTreeSet<ObjectKey>>,
    wake: Notify,
}

impl RefreshNudger {
    /// Takes in an object that changed.
    pub(super) fn saw(&self, store: &Store, key: &ObjectKey, object: &Value) {
        if key.kind == Kind::Application && waits(object).is_some() {
            self.note([key.clone()]);
        }
        if key.kind == Kind::AppProject {
            let all = store.all().into_iter();
            let waiting = all.filter(|(app, entry)| {
                app.kind == Kind::Application
                    && entry.live.as_deref().and_then(waits_for_project) == Some(&key.name)
            });
            self.note(waiting.map(|(app, _)| app).collect::<Vec<_>>());
        }
    }

    fn note(&self, keys: impl IntoIterator<Item = ObjectKey>) {
        let mut all = self.lock();
        let before = all.len();
        all.extend(keys);
        if all.len() != before {
            self.wake.notify_one();
        }
    }

    /// Waits; what comes anew does not wait as long as what has been asked for in vain.
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
        self.lock().iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<ObjectKey>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The project that Argo CD says it does not have.
fn waits_for_project(app: &Value) -> Option<&str> {
    let conditions = app.pointer("/status/conditions")?.as_array()?;
    let says_so = conditions.iter().any(|condition| {
        condition["type"] == "InvalidSpecError"
            && condition["message"]
                .as_str()
                .is_some_and(|message| message.ends_with("which does not exist"))
    });
    says_so.then(|| app.pointer("/spec/project")?.as_str())?
}

/// Whether Argo CD says that it did not reach its repo server.
fn waits_for_repo_server(app: &Value) -> bool {
    let conditions = app.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        let message = condition["message"].as_str().unwrap_or_default();
        condition["type"] == "ComparisonError"
            && message.contains("code = Unavailable")
            && message.contains("Error while dialing")
    })
}

/// What an Application was too early for.
#[derive(Debug, PartialEq, Eq)]
enum Wait<'a> {
    /// Its project.
    Project(&'a str),
    /// Argo CD's repo server.
    RepoServer,
}

fn waits(app: &Value) -> Option<Wait<'_>> {
    let project = waits_for_project(app).map(Wait::Project);
    project.or_else(|| waits_for_repo_server(app).then_some(Wait::RepoServer))
}

impl Replica {
    /// Asks Argo CD to look again at what is stuck, until nothing is.
    pub(super) async fn unstick(&self, token: CancellationToken) {
        while token
            .run_until_cancelled(self.stuck.wake.notified())
            .await
            .is_some()
        {
            let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, LONGEST_PAUSE);
            while !self.stuck.lock().is_empty() {
                if token
                    .run_until_cancelled(self.stuck.pause(&mut backoff))
                    .await
                    .is_none()
                {
                    return;
                }
                for key in self.stuck.all() {
                    if !self.nudge(&key).await {
                        self.stuck.lock().remove(&key);
                    }
                }
            }
        }
    }

    /// Asks for one look; false if there is nothing to ask for, or not before something changes.
    async fn nudge(&self, key: &ObjectKey) -> bool {
        let _only_writer = self.lock(key).await;
        let Some(app) = self.store.live(key) else {
            return false;
        };
        let Some(wait) = waits(&app) else {
            return false;
        };
        let meta = Meta::of(&app);
        let is_there = match wait {
            Wait::Project(name) => {
                let namespace = &self.scope.argocd_namespace;
                let project = ObjectKey::new(Kind::AppProject, namespace, name);
                self.store.live(&project).is_some()
            }
            // Argo CD itself finds out.
            Wait::RepoServer => true,
        };
        if !is_there || meta.source_uid().is_none() {
            return false;
        }
        tracing::info!(object = %key, ?wait, "requesting a refresh: Argo CD compared the Application too early");
        let patch = json!({ "metadata": { "annotations": { keys::REFRESH: "normal" } } });
        let step = Step::Patch {
            uid: meta.uid().to_owned(),
            patch: Patch::Merge(patch),
        };
        if let Err(error) = self.writer.carry_out(key, step, None).await {
            tracing::debug!(object = %key, error = %Chain(&error), "cannot request a refresh of Argo CD; retrying");
        }
        true
    }
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
    async fn what_comes_anew_does_not_wait_for_what_was_asked_for_in_vain() {
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
    fn only_a_project_that_is_said_to_be_missing_is_waited_for() {
        let missing = "Application referencing project p which does not exist";
        assert_eq!(
            waits_for_project(&app("InvalidSpecError", missing)),
            Some("p")
        );
        assert_eq!(waits_for_project(&app("SyncError", missing)), None);
        let denied = "application destination is not permitted in project 'p'";
        assert_eq!(waits_for_project(&app("InvalidSpecError", denied)), None);
        assert_eq!(waits_for_project(&json!({})), None);
    }

    #[test]
    fn a_repo_server_that_is_not_up_yet_is_waited_for_and_what_it_says_is_not() {
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
