//! Every Application that needs a look, with the cause. Pure.

use argocd::{Application, keys::HUB_CONDITION_PREFIX};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::standing::{HealthStatus, is_behind, is_late};
use crate::{
    object::{app_conditions, list, text, time},
    writers::wanted_since,
};

/// How a change is called with which the cluster's Argo CD has not compared for too long.
const BEHIND: &str = "Behind";

/// Those that need a look.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Troubles {
    /// By namespace and name.
    pub applications: Vec<Trouble>,
    /// Why this may be stale, if the hub program does not run.
    pub silent: Option<String>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trouble {
    /// Its namespace on the hub.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The cluster for which it is counted.
    pub cluster: Option<String>,
    /// The type of our condition, its health, or that it is behind.
    pub reason: String,
    /// Since when.
    pub since: Option<Timestamp>,
    /// Its conditions.
    pub cause: String,
    /// Its status of the sync.
    pub sync: Option<String>,
    /// Its health.
    pub health: Option<String>,
}

/// The problem of an Application of this cluster, if it has one that `status` reports.
pub fn trouble(application: &Value, cluster: Option<String>, now: Timestamp) -> Option<Trouble> {
    trouble_since(application, cluster, wanted_since(application), now)
}

/// The same for an object without managed fields: `wanted` is when its spec was last written, if known.
pub fn trouble_since(
    application: &Value,
    cluster: Option<String>,
    wanted: Option<Timestamp>,
    now: Timestamp,
) -> Option<Trouble> {
    let (reason, since, cause) = of_ours(application)
        .or_else(|| cluster.as_ref().and_then(|_| sick(application)))
        .or_else(|| late(application, cluster.as_ref().and(wanted)?, now))?;
    let app = Application::of(application);
    let word = |pointer| {
        let word = text(application, pointer);
        (!word.is_empty()).then(|| word.to_owned())
    };
    Some(Trouble {
        namespace: app.namespace().to_owned(),
        name: app.name().to_owned(),
        cluster,
        reason,
        since,
        cause,
        sync: word("/status/sync/status"),
        health: word("/status/health/status"),
    })
}

type Cause = (String, Option<Timestamp>, String);

fn of_ours(application: &Value) -> Option<Cause> {
    let all = app_conditions(application);
    let mut ours = all.filter(|it| it.kind.starts_with(HUB_CONDITION_PREFIX));
    let first = ours.next()?;
    let cause = ours.fold(first.message.to_owned(), |messages, it| {
        format!("{messages}; also {}: {}", it.kind, it.message)
    });
    Some((first.kind.to_owned(), first.since, cause))
}

fn sick(application: &Value) -> Option<Cause> {
    let health = text(application, "/status/health/status");
    if !HealthStatus::of(health).is_sick() {
        return None;
    }
    let mut messages = vec![text(application, "/status/health/message").to_owned()];
    messages.retain(|it| !it.is_empty());
    messages.extend(resource(application, health));
    let operation = |field: &str| text(application, &format!("/status/operationState/{field}"));
    if matches!(operation("phase"), "Failed" | "Error") {
        messages.push(format!("the last sync failed: {}", operation("message")));
    }
    messages.extend(errors(application));
    if messages.is_empty() {
        messages.push("Argo CD on the cluster reports no details".to_owned());
    }
    let since = time(application, "/status/health/lastTransitionTime");
    Some((health.to_owned(), since, messages.join("; ")))
}

/// The first of its resources that is as it is.
fn resource(application: &Value, health: &str) -> Option<String> {
    let mut resources = list(application, "/status/resources").iter();
    let first = resources.find(|it| text(it, "/health/status") == health)?;
    let [kind, name, message] = ["/kind", "/name", "/health/message"].map(|it| text(first, it));
    match (kind, name, message) {
        ("", ..) | (_, "", _) => None,
        (_, _, "") => Some(format!("{kind} {name}")),
        _ => Some(format!("{kind} {name}: {message}")),
    }
}

/// Errors that Argo CD on the cluster reported.
fn errors(application: &Value) -> impl Iterator<Item = String> {
    let errors = app_conditions(application).filter(|it| it.kind.ends_with("Error"));
    let errors = errors.filter(|it| !it.kind.starts_with(HUB_CONDITION_PREFIX));
    errors.map(|it| format!("{}: {}", it.kind, it.message))
}

fn late(application: &Value, since: Timestamp, now: Timestamp) -> Option<Cause> {
    if !is_behind(application) || !is_late(since, now) {
        return None;
    }
    let mut messages = vec![
        "Argo CD on the cluster has not yet compared the version that is on the hub".to_owned(),
    ];
    messages.extend(errors(application));
    Some((BEHIND.to_owned(), Some(since), messages.join("; ")))
}

impl Troubles {
    /// Those, sorted.
    pub fn new(mut applications: Vec<Trouble>, silent: Option<String>) -> Self {
        applications.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        Self {
            applications,
            silent,
        }
    }

    /// Whether it needs attention.
    pub const fn is_bad(&self) -> bool {
        self.silent.is_some() || !self.applications.is_empty()
    }
}

#[cfg(test)]
mod tests;
