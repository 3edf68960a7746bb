//! What happened on the cluster, as far as the hub shows it: delivered, confirmed, synced, healthy. Pure.

use argocd::{
    Application,
    keys::{
        CONDITION_CONTESTED, CONDITION_DISCONNECTED, CONDITION_ERROR, CONDITION_REPOSITORY,
        HUB_CONDITION_PREFIX,
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
        let what = format!("cluster {cluster} has no add-on");
        return Hop::new("cluster", State::Unclear, what);
    };
    let is = connected(addon);
    if let Some(silent) = silent {
        return Hop::new("cluster", State::Unclear, silent)
            .at(is.since)
            .next("argocd-agentctl check");
    }
    if let (Some(reason), None) = (&addon.revoked, addon.deleting) {
        let what = format!(
            "its agent is revoked ({reason}) and kept out; what runs there goes on, and changes do not arrive"
        );
        return Hop::new("cluster", State::Bad, what)
            .at(is.since)
            .next(format!(
                "argocd-agentctl agent restore {cluster} lets it in again, with another key"
            ));
    }
    let look = || format!("look at `argocd-agentctl status {cluster} -o wide`");
    let (state, what) = match is.state {
        Connection::Yes => (State::Good, "its agent is connected".to_owned()),
        Connection::No | Connection::Unknown | Connection::NotYet => {
            let reason = worst(addon).map_or_else(
                || "nothing is said of it yet".to_owned(),
                |it| format!("{}: {}", it.reason, it.message),
            );
            let what = format!(
                "its agent is not connected ({reason}); what runs there goes on, and changes arrive when it is back"
            );
            (State::Waiting, what)
        }
        Connection::Leaving => (
            State::Waiting,
            "the add-on is being taken off; nothing is delivered any more".to_owned(),
        ),
    };
    let hop = Hop::new("cluster", state, what).at(is.since);
    if state == State::Good {
        hop
    } else {
        hop.next(look())
    }
}

/// The hops on the cluster. `held`: the hub does not deliver it.
pub(super) fn hops(app: Application<'_>, route: &Route, held: bool) -> Vec<Hop> {
    let mut hops = said(app);
    hops.push(delivery(app, route, held, &hops));
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
fn said(app: Application<'_>) -> Vec<Hop> {
    let hop = |(kind, message, condition): (&str, &str, &Value)| {
        let (name, state, next) = match kind {
            CONDITION_ERROR => (
                "refused",
                State::Bad,
                "mend on the cluster what the message names; it is tried again by itself",
            ),
            CONDITION_REPOSITORY => (
                "repository",
                State::Bad,
                "give the Secret that the message names the Application's project, or share unscoped repositories",
            ),
            CONDITION_CONTESTED => (
                "contested",
                State::Bad,
                "stop the field manager that the message names, or make its change on the hub",
            ),
            CONDITION_DISCONNECTED => (
                "disconnected",
                State::Waiting,
                "have the cluster connected again; if it never will be, opt it out",
            ),
            _ => return None,
        };
        let at = time(condition.get("lastTransitionTime"));
        Some(Hop::new(name, state, message).at(at).next(next))
    };
    conditions(app).filter_map(hop).collect()
}

/// Whether Argo CD on the cluster has seen what the hub wants now.
fn delivery(app: Application<'_>, route: &Route, held: bool, said: &[Hop]) -> Hop {
    let at = app
        .status()
        .and_then(|status| time(status.get("reconciledAt")));
    let hop = |state, what: &str| Hop::new("delivery", state, what).at(at);
    if let Route::Mirror(_) = route {
        return hop(State::Good, "its cluster reports it");
    }
    if held {
        let what =
            "is held back on the hub; a copy from before is left alone, and its status may be old";
        return hop(State::Waiting, what);
    }
    let Some(compared) = compared(app) else {
        let what = "nothing has come back from the cluster yet";
        return hop(State::Waiting, what).next(look_there(route));
    };
    if said.iter().any(|it| it.hop == "refused") {
        return hop(State::Waiting, "the cluster did not take the newest change");
    }
    if has_same_source(app, compared) {
        let what = "confirmed: Argo CD on the cluster has compared with this very source";
        hop(State::Good, what)
    } else {
        let what = "sent; Argo CD on the cluster has not compared with this source yet";
        hop(State::Waiting, what).next(look_there(route))
    }
}

/// What to do when Argo CD on the cluster says nothing.
fn look_there(route: &Route) -> String {
    let cluster = route.cluster().unwrap_or_default();
    format!(
        "wait some seconds; if it stays, look at Argo CD's controller on the cluster: argocd-agentctl check spoke \
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
    let mut what = if short.is_empty() {
        status.to_owned()
    } else {
        format!("{status} at {short}")
    };
    let operation = app.operation_state();
    let phase = operation.map_or("", |operation| operation.phase());
    let failed = matches!(phase, "Failed" | "Error");
    if !phase.is_empty() {
        let message = text(app, "/operationState/message");
        what = format!("{what}; the last sync: {phase}, {message}");
    }
    let at = operation.and_then(|it| it.finished_at().or_else(|| it.started_at()));
    let at = at.and_then(|at| at.parse().ok());
    let running = operation.is_some_and(OperationState::is_active);
    let asked = app.operation().is_some();
    let (state, next) = match status {
        "Synced" if !failed => (State::Good, None),
        _ if failed => (
            State::Bad,
            Some("mend what the message of the sync names, then sync again"),
        ),
        _ if running || asked => (State::Waiting, Some("wait for the sync to end")),
        _ => (
            State::Waiting,
            Some("sync it (argocd app sync, or the UI), or give it an automated syncPolicy"),
        ),
    };
    let hop = Hop::new("sync", state, what).at(at);
    match next {
        Some(next) => hop.next(next),
        None => hop,
    }
}

fn health(app: Application<'_>) -> Hop {
    let (status, message) = (text(app, "/health/status"), text(app, "/health/message"));
    let what = if message.is_empty() {
        status.to_owned()
    } else {
        format!("{status}: {message}")
    };
    let at = app.status();
    let at = at.and_then(|it| time(it.pointer("/health/lastTransitionTime")));
    let hop = |state| Hop::new("health", state, what.clone()).at(at);
    let look = "look at its resources in Argo CD's UI on the hub, or at the cluster itself";
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
            .next("Argo CD on the cluster says this; put right what it names")
    };
    others.map(hop).collect()
}
