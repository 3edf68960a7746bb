//! Whether Argo CD on a cluster has compared an Application as it is on the hub now. Pure.

use argocd::Application;
use serde_json::{Map, Value, json};

use crate::object::text;

/// The source with which it has compared, and the destination, if it has.
pub(crate) fn compared(app: Application<'_>) -> Option<&Value> {
    app.status().and_then(|it| it.pointer("/sync/comparedTo"))
}

/// Whether it has compared with the very source that the hub has now.
pub(crate) fn is_confirmed(app: Application<'_>) -> bool {
    compared(app).is_some_and(|compared| has_same_source(app, compared))
}

fn has_same_source(app: Application<'_>, compared: &Value) -> bool {
    let wanted = |field: &str| app.spec().and_then(|spec| spec.get(field));
    let hydrated = wanted("sourceHydrator").map(hydrated);
    let (source, sources) = match &hydrated {
        Some(hydrated) => (Some(hydrated), None),
        None => (wanted("source"), wanted("sources")),
    };
    let same = |field, wanted| pruned(wanted) == pruned(compared.get(field));
    same("source", source) && same("sources", sources)
}

/// What Argo CD makes of a `sourceHydrator` and compares with (`SourceHydrator.GetSyncSource`).
fn hydrated(hydrator: &Value) -> Value {
    let texts = ["/syncSource/repoURL", "/drySource/repoURL"].map(|it| text(hydrator, it));
    json!({
        "repoURL": texts.into_iter().find(|it| !it.is_empty()),
        "path": text(hydrator, "/syncSource/path"),
        "targetRevision": text(hydrator, "/syncSource/targetBranch"),
    })
}

/// Without what is empty: Argo CD leaves that out.
fn pruned(value: Option<&Value>) -> Option<Value> {
    match value? {
        Value::Null => None,
        Value::Object(fields) => {
            let kept = |(key, value): (&String, _)| Some((key.clone(), pruned(Some(value))?));
            let kept: Map<_, _> = fields.iter().filter_map(kept).collect();
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        Value::Array(items) => (!items.is_empty()).then(|| Value::Array(items.clone())),
        Value::String(text) if text.is_empty() => None,
        other @ (Value::Bool(_) | Value::Number(_) | Value::String(_)) => Some(other.clone()),
    }
}
