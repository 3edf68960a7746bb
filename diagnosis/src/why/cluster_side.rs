//! What happened on the cluster, as far as the hub shows it: delivered, confirmed, synced, healthy. Pure.

use argocd::{
    Application,
    keys::{
        CONDITION_CONTESTED, CONDITION_DELETION_UNCONFIRMED, CONDITION_DISCONNECTED,
        CONDITION_ERROR, CONDITION_REPOSITORY, HUB_CONDITION_PREFIX,
    },
    object::OperationState,
    routing::Route,
};

use super::{Hop, State};
use crate::{
    comparison::{compared, is_confirmed},
    facts::Addon,
    object::{AppCondition, app_conditions, text, time},
    status::{Connection, connected, worst},
};

/// Whether the cluster's agent is there. `silent`: why the hub program does not say.
pub(super) fn connection(cluster: &str, addon: Option<&Addon>, silent: Option<&str>) -> Hop {
    let Some(addon) = addon else {
        let text = format!("cluster {cluster} has no add-on");
        return Hop::new("cluster", State::Unclear, text);
    };
    let is = connected(addon);
    let hop = |state, text: &str| Hop::new("cluster", state, text).at(is.since);
    if let Some(silent) = silent {
        return hop(State::Unclear, silent).next("argocd-agentctl check");
    }
    if let (Some(reason), None) = (&addon.revoked, addon.deleting) {
        let text = format!(
            "its agent is revoked ({reason}) and rejected; workloads keep running, changes do not arrive"
        );
        return hop(State::Bad, &text).next(format!(
            "restore it with a new key: argocd-agentctl agent restore {cluster}"
        ));
    }
    let waiting = match is.state {
        Connection::Yes => return hop(State::Good, "its agent is connected"),
        Connection::No | Connection::Unknown | Connection::NotYet => {
            let reason = worst(addon).map_or_else(
                || "no status reported yet".to_owned(),
                |it| format!("{}: {}", it.reason, it.message),
            );
            format!(
                "its agent is not connected ({reason}); workloads keep running, changes arrive when it reconnects"
            )
        }
        Connection::Leaving => "the add-on is being removed; delivery has stopped".to_owned(),
    };
    hop(State::Waiting, &waiting).next(format!(
        "look at `argocd-agentctl status {cluster} -o wide`"
    ))
}

/// The hops on the cluster. `blocked`: the hub does not deliver it.
pub(super) fn hops(app: Application<'_>, route: &Route, blocked: bool) -> Vec<Hop> {
    let mut hops: Vec<_> = app_conditions(app.value()).filter_map(reported).collect();
    hops.push(delivery(app, route, blocked, &hops));
    if app.status().is_some_and(|it| it.get("sync").is_some()) {
        hops.extend([sync(app), health(app)]);
    }
    hops.extend(app_conditions(app.value()).filter_map(of_argo_cd));
    hops
}

/// What the add-on reports of it that is not decided on the hub.
fn reported(condition: AppCondition<'_>) -> Option<Hop> {
    let (name, state, next) = match condition.kind {
        CONDITION_ERROR => (
            "refused",
            State::Bad,
            "fix the cause in the message on the cluster; the agent retries by itself",
        ),
        CONDITION_DELETION_UNCONFIRMED => (
            "deletion",
            State::Waiting,
            "confirm the deletion or keep the copy, as the message says",
        ),
        CONDITION_REPOSITORY => (
            "repository",
            State::Bad,
            "set the Application's project on the Secret that the message names, or share unscoped repositories",
        ),
        CONDITION_CONTESTED => (
            "contested",
            State::Bad,
            "stop the field manager that the message names, or make its change on the hub",
        ),
        CONDITION_DISCONNECTED => (
            "disconnected",
            State::Waiting,
            "reconnect the cluster; if it is gone for good, opt it out",
        ),
        _ => return None,
    };
    let hop = Hop::new(name, state, condition.message);
    Some(hop.at(condition.since).next(next))
}

/// What Argo CD on the cluster reports of it.
fn of_argo_cd(condition: AppCondition<'_>) -> Option<Hop> {
    let AppCondition { kind, message, .. } = condition;
    if kind.starts_with(HUB_CONDITION_PREFIX) {
        return None;
    }
    let is_error = kind.ends_with("Error");
    let state = if is_error { State::Bad } else { State::Unclear };
    let hop = Hop::new("argo-cd", state, format!("{kind}: {message}")).at(condition.since);
    Some(hop.next("Argo CD on the cluster reported this; fix the cause that it names"))
}

/// Whether Argo CD on the cluster has seen what the hub wants now.
fn delivery(app: Application<'_>, route: &Route, blocked: bool, reported: &[Hop]) -> Hop {
    let at = time(app.value(), "/status/reconciledAt");
    let hop = |state, text: &str| Hop::new("delivery", state, text).at(at);
    if let Route::Mirror(_) = route {
        return hop(State::Good, "its cluster reports it");
    }
    if blocked {
        let text = "is blocked on the hub; an existing copy is left unchanged, and its status may be stale";
        return hop(State::Waiting, text);
    }
    if compared(app).is_none() {
        let text = "the cluster has not reported a status yet";
        return hop(State::Waiting, text).next(look_there(route));
    }
    if reported.iter().any(|it| it.hop == "refused") {
        return hop(State::Waiting, "the cluster refused the newest change");
    }
    if is_confirmed(app) {
        let text = "confirmed: Argo CD on the cluster has compared this source";
        return hop(State::Good, text);
    }
    let text = "sent; Argo CD on the cluster has not compared this source yet";
    hop(State::Waiting, text).next(look_there(route))
}

/// What to do when Argo CD on the cluster says nothing.
fn look_there(route: &Route) -> String {
    let cluster = route.cluster().unwrap_or_default();
    format!(
        "wait some seconds; if this stays, check Argo CD's controller on the cluster: argocd-agentctl check spoke \
         {cluster} --spoke-kubeconfig FILE"
    )
}

/// What helps after a sync that failed with this message of Argo CD.
fn cure(message: &str) -> &'static str {
    if is_missing_namespace(message) {
        "add CreateNamespace=true to spec.syncPolicy.syncOptions, or create the namespace on the cluster, then sync again"
    } else {
        "fix the cause in the message, then sync again"
    }
}

/// Whether a message has the API server's words about a missing namespace: `namespaces "NAME" not found`.
fn is_missing_namespace(message: &str) -> bool {
    let mut named = message.split("namespaces \"").skip(1);
    named.any(
        |rest| matches!(rest.split_once('"'), Some((_, then)) if then.starts_with(" not found")),
    )
}

fn sync(app: Application<'_>) -> Hop {
    let text = |pointer| text(app.value(), pointer);
    let status = text("/status/sync/status");
    let revision = text("/status/sync/revision").chars();
    let mut summary = match revision.take(12).collect::<String>().as_str() {
        "" => status.to_owned(),
        short => format!("{status} at {short}"),
    };
    let operation = app.operation_state();
    let phase = operation.map_or("", |operation| operation.phase());
    if !phase.is_empty() {
        let message = text("/status/operationState/message");
        summary = format!("{summary}; the last sync: {phase}, {message}");
    }
    let at = operation.and_then(|it| it.finished_at().or_else(|| it.started_at()));
    let at = at.and_then(|at| at.parse().ok());
    let hop = |state| Hop::new("sync", state, summary.clone()).at(at);
    let running = operation.is_some_and(OperationState::is_active);
    if matches!(phase, "Failed" | "Error") {
        hop(State::Bad).next(cure(text("/status/operationState/message")))
    } else if status == "Synced" {
        hop(State::Good)
    } else if running || app.operation().is_some() {
        hop(State::Waiting).next("wait for the sync to end")
    } else {
        let next = "sync it (argocd app sync, or the UI), or give it an automated syncPolicy";
        hop(State::Waiting).next(next)
    }
}

fn health(app: Application<'_>) -> Hop {
    let text = |pointer| text(app.value(), pointer);
    let status = text("/status/health/status");
    let summary = match text("/status/health/message") {
        "" => status.to_owned(),
        message => format!("{status}: {message}"),
    };
    let at = time(app.value(), "/status/health/lastTransitionTime");
    let hop = |state| Hop::new("health", state, summary.clone()).at(at);
    let look = "check its resources in Argo CD's UI on the hub, or on the cluster";
    match status {
        "Healthy" | "Suspended" => hop(State::Good),
        "Degraded" => hop(State::Bad).next(look),
        "Progressing" | "Missing" => hop(State::Waiting).next(look),
        _ => hop(State::Unclear),
    }
}
