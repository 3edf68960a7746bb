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
use serde_json::{Value, json};

use super::{Hop, State, time};
use crate::{
    facts::Addon,
    status::{Connection, connected, worst},
};

/// Whether the cluster's agent is there. `silent`: why the hub program does not say.
pub(super) fn connection(cluster: &str, addon: Option<&Addon>, silent: Option<&str>) -> Hop {
    let Some(addon) = addon else {
        let text = format!("cluster {cluster} has no add-on");
        return Hop::new("cluster", State::Unclear, text);
    };
    let is = connected(addon);
    if let Some(silent) = silent {
        return Hop::new("cluster", State::Unclear, silent)
            .at(is.since)
            .next("argocd-agentctl check");
    }
    if let (Some(reason), None) = (&addon.revoked, addon.deleting) {
        let text = format!(
            "its agent is revoked ({reason}) and rejected; workloads keep running, changes do not arrive"
        );
        return Hop::new("cluster", State::Bad, text)
            .at(is.since)
            .next(format!(
                "restore it with a new key: argocd-agentctl agent restore {cluster}"
            ));
    }
    let look = || format!("look at `argocd-agentctl status {cluster} -o wide`");
    let (state, text) = match is.state {
        Connection::Yes => (State::Good, "its agent is connected".to_owned()),
        Connection::No | Connection::Unknown | Connection::NotYet => {
            let reason = worst(addon).map_or_else(
                || "no status reported yet".to_owned(),
                |it| format!("{}: {}", it.reason, it.message),
            );
            let text = format!(
                "its agent is not connected ({reason}); workloads keep running, changes arrive when it reconnects"
            );
            (State::Waiting, text)
        }
        Connection::Leaving => (
            State::Waiting,
            "the add-on is being removed; delivery has stopped".to_owned(),
        ),
    };
    let hop = Hop::new("cluster", state, text).at(is.since);
    if state == State::Good {
        hop
    } else {
        hop.next(look())
    }
}

/// The hops on the cluster. `held`: the hub does not deliver it.
pub(super) fn hops(app: Application<'_>, route: &Route, blocked: bool) -> Vec<Hop> {
    let mut hops = reported(app);
    hops.push(delivery(app, route, blocked, &hops));
    if app.status().is_some_and(|it| it.get("sync").is_some()) {
        hops.push(sync(app));
        hops.push(health(app));
    }
    hops.extend(of_argo_cd(app));
    hops
}

fn conditions(app: Application<'_>) -> impl Iterator<Item = (&str, &str, &Value)> {
    let list = app.status().and_then(|status| status.get("conditions"));
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.map(|it| {
        let text = |field: &str| it.get(field).and_then(Value::as_str).unwrap_or_default();
        (text("type"), text("message"), it)
    })
}

/// What the add-on says of it that is not decided on the hub.
fn reported(app: Application<'_>) -> Vec<Hop> {
    let hop = |(kind, message, condition): (&str, &str, &Value)| {
        let (name, state, next) = match kind {
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
        let at = time(condition.get("lastTransitionTime"));
        Some(Hop::new(name, state, message).at(at).next(next))
    };
    conditions(app).filter_map(hop).collect()
}

/// Whether Argo CD on the cluster has seen what the hub wants now.
fn delivery(app: Application<'_>, route: &Route, blocked: bool, reported: &[Hop]) -> Hop {
    let at = app
        .status()
        .and_then(|status| time(status.get("reconciledAt")));
    let hop = |state, text: &str| Hop::new("delivery", state, text).at(at);
    if let Route::Mirror(_) = route {
        return hop(State::Good, "its cluster reports it");
    }
    if blocked {
        let text = "is blocked on the hub; an existing copy is left unchanged, and its status may be stale";
        return hop(State::Waiting, text);
    }
    let Some(compared) = compared(app) else {
        let text = "the cluster has not reported a status yet";
        return hop(State::Waiting, text).next(look_there(route));
    };
    if reported.iter().any(|it| it.hop == "refused") {
        return hop(State::Waiting, "the cluster refused the newest change");
    }
    if has_same_source(app, compared) {
        let text = "confirmed: Argo CD on the cluster has compared this source";
        hop(State::Good, text)
    } else {
        let text = "sent; Argo CD on the cluster has not compared this source yet";
        hop(State::Waiting, text).next(look_there(route))
    }
}

/// What to do when Argo CD on the cluster says nothing.
fn look_there(route: &Route) -> String {
    let cluster = route.cluster().unwrap_or_default();
    format!(
        "wait some seconds; if this stays, check Argo CD's controller on the cluster: argocd-agentctl check spoke \
         {cluster} --spoke-kubeconfig FILE"
    )
}

fn compared(app: Application<'_>) -> Option<&Value> {
    app.status().and_then(|it| it.pointer("/sync/comparedTo"))
}

fn has_same_source(app: Application<'_>, compared: &Value) -> bool {
    let wanted = |field: &str| app.spec().and_then(|spec| spec.get(field)).cloned();
    let (source, sources) = wanted("sourceHydrator").map_or_else(
        || (wanted("source"), wanted("sources")),
        |hydrator| (Some(hydrated(&hydrator)), None),
    );
    let same =
        |field, wanted: Option<Value>| pruned(wanted.as_ref()) == pruned(compared.get(field));
    same("source", source) && same("sources", sources)
}

/// What Argo CD makes of a `sourceHydrator` and compares with (`SourceHydrator.GetSyncSource`).
fn hydrated(hydrator: &Value) -> Value {
    let text = |pointer| {
        let text = hydrator.pointer(pointer).and_then(Value::as_str);
        text.filter(|it| !it.is_empty())
    };
    let repository = text("/syncSource/repoURL").or_else(|| text("/drySource/repoURL"));
    json!({
        "repoURL": repository,
        "path": text("/syncSource/path"),
        "targetRevision": text("/syncSource/targetBranch"),
    })
}

/// Whether Argo CD on the cluster has compared with the very source that the hub has now.
pub(crate) fn is_confirmed(app: Application<'_>) -> bool {
    compared(app).is_some_and(|compared| has_same_source(app, compared))
}

/// Without what is empty: Argo CD leaves that out.
fn pruned(value: Option<&Value>) -> Option<Value> {
    match value? {
        Value::Null => None,
        Value::Object(fields) => {
            let fields = fields.iter();
            let kept: serde_json::Map<_, _> = fields
                .filter_map(|(key, value)| Some((key.clone(), pruned(Some(value))?)))
                .collect();
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        Value::Array(items) => (!items.is_empty()).then(|| Value::Array(items.clone())),
        Value::String(text) if text.is_empty() => None,
        other @ (Value::Bool(_) | Value::Number(_) | Value::String(_)) => Some(other.clone()),
    }
}

fn text<'a>(app: Application<'a>, pointer: &str) -> &'a str {
    let text = app.status().and_then(|status| status.pointer(pointer));
    text.and_then(Value::as_str).unwrap_or_default()
}

fn sync(app: Application<'_>) -> Hop {
    let (status, revision) = (text(app, "/sync/status"), text(app, "/sync/revision"));
    let short: String = revision.chars().take(12).collect();
    let mut summary = if short.is_empty() {
        status.to_owned()
    } else {
        format!("{status} at {short}")
    };
    let operation = app.operation_state();
    let phase = operation.map_or("", |operation| operation.phase());
    let failed = matches!(phase, "Failed" | "Error");
    if !phase.is_empty() {
        let message = text(app, "/operationState/message");
        summary = format!("{summary}; the last sync: {phase}, {message}");
    }
    let at = operation.and_then(|it| it.finished_at().or_else(|| it.started_at()));
    let at = at.and_then(|at| at.parse().ok());
    let running = operation.is_some_and(OperationState::is_active);
    let asked = app.operation().is_some();
    let (state, next) = match status {
        "Synced" if !failed => (State::Good, None),
        _ if failed => (
            State::Bad,
            Some("fix the cause in the message, then sync again"),
        ),
        _ if running || asked => (State::Waiting, Some("wait for the sync to end")),
        _ => (
            State::Waiting,
            Some("sync it (argocd app sync, or the UI), or give it an automated syncPolicy"),
        ),
    };
    let hop = Hop::new("sync", state, summary).at(at);
    match next {
        Some(next) => hop.next(next),
        None => hop,
    }
}

fn health(app: Application<'_>) -> Hop {
    let (status, message) = (text(app, "/health/status"), text(app, "/health/message"));
    let summary = if message.is_empty() {
        status.to_owned()
    } else {
        format!("{status}: {message}")
    };
    let at = app.status();
    let at = at.and_then(|it| time(it.pointer("/health/lastTransitionTime")));
    let hop = |state| Hop::new("health", state, summary.clone()).at(at);
    let look = "check its resources in Argo CD's UI on the hub, or on the cluster";
    match status {
        "Healthy" | "Suspended" => hop(State::Good),
        "Degraded" => hop(State::Bad).next(look),
        "Progressing" | "Missing" => hop(State::Waiting).next(look),
        _ => hop(State::Unclear),
    }
}

/// What Argo CD on the cluster says of it.
fn of_argo_cd(app: Application<'_>) -> Vec<Hop> {
    let others = conditions(app).filter(|(kind, ..)| !kind.starts_with(HUB_CONDITION_PREFIX));
    let hop = |(kind, message, condition): (&str, &str, &Value)| {
        let state = if kind.ends_with("Error") {
            State::Bad
        } else {
            State::Unclear
        };
        Hop::new("argo-cd", state, format!("{kind}: {message}"))
            .at(time(condition.get("lastTransitionTime")))
            .next("Argo CD on the cluster reported this; fix the cause that it names")
    };
    others.map(hop).collect()
}
