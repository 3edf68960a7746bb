//! The parts of a spoke's Argo CD that matter to us, each with a delay.
//!
//! It compares, it syncs when asked, it refreshes, it cleans up before an Application goes. It counts what it was asked
//! to do, because nothing may be asked for twice.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent::sync::api::Memory;
use argocd::object::OperationState;
use argocd::{Application, Meta, digest, keys};
use protocol::{Kind, ObjectKey};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::dice::{Dice, Trace};

/// How long Argo CD takes for one thing, in milliseconds.
const PACE: (u64, u64) = (5, 1500);

/// The syncs and cascading deletions that an Argo CD ran.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deeds(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    syncs: BTreeMap<String, usize>,
    removed: Vec<Removed>,
    time: u64,
}

/// An Application whose workload an Argo CD deleted.
#[derive(Clone, Debug)]
pub(crate) struct Removed {
    pub(crate) key: ObjectKey,
    pub(crate) uid: String,
    /// UID of its source on the hub.
    pub(crate) source: Option<String>,
}

impl Deeds {
    /// How often each sync, by the name that its user gave it, was begun.
    pub(crate) fn syncs(&self) -> BTreeMap<String, usize> {
        self.lock().syncs.clone()
    }

    /// The record of this Application's last sync is gone, so the sync may run again.
    pub(crate) fn forget(&self, app: &Value) {
        let operation = &app["status"]["operationState"]["operation"];
        if let Some(name) = operation["info"][0]["value"].as_str() {
            self.lock().syncs.remove(name);
        }
    }

    /// This sync may run again.
    pub(crate) fn forget_sync(&self, name: &str) {
        self.lock().syncs.remove(name);
    }

    /// The syncs are as at that time, of those that are still asked for.
    pub(crate) fn put_back(&self, then: &BTreeMap<String, usize>, asked: &[String]) {
        let mut counts = self.lock();
        for name in asked {
            match then.get(name) {
                Some(times) => counts.syncs.insert(name.clone(), *times),
                None => counts.syncs.remove(name),
            };
        }
    }

    /// The Applications whose workload was deleted.
    pub(crate) fn removed(&self) -> Vec<Removed> {
        self.lock().removed.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A time that no other thing had.
    fn now(&self) -> String {
        let mut counts = self.lock();
        counts.time += 1;
        let (minutes, seconds) = (counts.time / 60, counts.time % 60);
        format!(
            "2026-06-01T{:02}:{:02}:{seconds:02}Z",
            minutes / 60 % 24,
            minutes % 60
        )
    }
}

/// The Argo CD of one spoke.
pub(crate) struct Controller {
    pub(crate) cluster: String,
    pub(crate) spoke: Memory,
    pub(crate) deeds: Deeds,
    pub(crate) dice: Dice,
    pub(crate) trace: Trace,
}

impl Controller {
    /// Works until cancelled.
    pub(crate) async fn run(self, token: CancellationToken) {
        loop {
            let count = self.spoke.changes().count();
            let mut idle = true;
            for (key, _) in self.spoke.all() {
                if key.kind != Kind::Application {
                    continue;
                }
                // As it is now, and not before the last pause.
                let Some(app) = self.spoke.get(&key) else {
                    continue;
                };
                let Some(patch) = self.next(&key, &app) else {
                    continue;
                };
                self.spoke.edit(&key, patch);
                idle = false;
                let pause = tokio::time::sleep(self.dice.millis(PACE));
                if token.run_until_cancelled(pause).await.is_none() {
                    return;
                }
            }
            let changed = self.spoke.changes().since(count);
            if idle && token.run_until_cancelled(changed).await.is_none() {
                return;
            }
        }
    }

    /// The next thing to do about an Application.
    fn next(&self, key: &ObjectKey, object: &Value) -> Option<Value> {
        let app = Application::of(object);
        if app.is_deleting() {
            return self.cleaned_up(key, app);
        }
        if app.annotation(keys::REFRESH).is_some() {
            let done = json!({ "annotations": { keys::REFRESH: null } });
            return Some(json!({
                "metadata": done, "status": { "reconciledAt": self.deeds.now() },
            }));
        }
        self.operated(key, app).or_else(|| compared(object))
    }

    fn cleaned_up(&self, key: &ObjectKey, app: Application<'_>) -> Option<Value> {
        let finalizers = app.finalizers();
        let kept: Vec<&&str> = finalizers
            .iter()
            .filter(|name| !name.starts_with(keys::RESOURCES_FINALIZER))
            .collect();
        if kept.len() == finalizers.len() {
            return None;
        }
        let removed = Removed {
            key: key.clone(),
            uid: app.uid().to_owned(),
            source: app.source_uid().map(str::to_owned),
        };
        self.trace.emit(format_args!(
            "{}: workload of {key} deleted, UID {} from {:?}",
            self.cluster, removed.uid, removed.source
        ));
        self.deeds.lock().removed.push(removed);
        Some(json!({ "metadata": { "finalizers": kept } }))
    }

    fn operated(&self, key: &ObjectKey, app: Application<'_>) -> Option<Value> {
        let state = app.operation_state();
        let phase = state.map_or("", |state| state.phase());
        if phase == "Running" || phase == "Terminating" {
            let (ended, now) = (
                if phase == "Running" {
                    "Succeeded"
                } else {
                    "Failed"
                },
                self.deeds.now(),
            );
            let started = state.and_then(OperationState::started_at);
            return Some(json!({
                "operation": null,
                "status": {
                    "operationState": { "phase": ended, "finishedAt": now },
                    "history": [{ "deployStartedAt": started }],
                },
            }));
        }
        let operation = app.operation()?;
        let name = operation["info"][0]["value"].as_str().unwrap_or("-");
        *self.deeds.lock().syncs.entry(name.to_owned()).or_default() += 1;
        self.trace
            .emit(format_args!("{}: {key} syncs {name}", self.cluster));
        Some(json!({ "status": { "operationState": {
            "phase": "Running", "operation": operation, "startedAt": self.deeds.now(),
        } } }))
    }
}

/// The comparison with git, as far as it follows from the spec.
fn compared(object: &Value) -> Option<Value> {
    let spec = digest::short(&object["spec"]);
    (object["status"]["sync"]["comparedTo"] != json!(spec)).then(|| {
        json!({ "status": {
            "sync": { "status": "OutOfSync", "comparedTo": spec },
            "health": { "status": if Meta::of(object).uid().ends_with('7') { "Degraded" } else { "Healthy" } },
        } })
    })
}
