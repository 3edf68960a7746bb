//! The API's answer to each request.

use std::collections::HashMap;
use std::sync::Arc;

use argocd::{Meta, Patch};
use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use serde_json::{Value, json};

use super::{LAST, World};

pub(super) async fn only_known_peers(
    State(world): State<Arc<World>>,
    request: Request,
    next: Next,
) -> Response {
    let is_known = !world.inner.lock().unwrap().forgetful;
    if is_known {
        next.run(request).await
    } else {
        failure(StatusCode::UNAUTHORIZED, "Unauthorized")
    }
}

pub(super) async fn list_or_watch(
    State(world): State<Arc<World>>,
    Path((_, plural)): Path<(String, String)>,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    if world.inner.lock().unwrap().is_missing(&plural) {
        return failure(StatusCode::NOT_FOUND, "NotFound");
    }
    if query.get("watch").is_some_and(|watch| watch == "true") {
        watch(world, plural, query)
    } else {
        list(&world, &plural, &query)
    }
}

/// Two lines of the Pod `talker`, the only one.
pub(super) async fn log(Path((_, _, name)): Path<(String, String, String)>) -> Response {
    if name == "talker" {
        "one\ntwo\n".into_response()
    } else {
        failure(StatusCode::NOT_FOUND, "NotFound")
    }
}

fn list(world: &World, plural: &str, query: &HashMap<String, String>) -> Response {
    let inner = world.inner.lock().unwrap();
    let items: Vec<&Value> = inner
        .objects
        .iter()
        .filter(|(key, o)| key.0 == plural && is_selected(query, o))
        .map(|(_, o)| o)
        .collect();
    let version = inner.version.to_string();
    Json(json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "List",
        "metadata": { "resourceVersion": version }, "items": items,
    }))
    .into_response()
}

fn watch(world: Arc<World>, plural: String, query: HashMap<String, String>) -> Response {
    let from: u64 = query
        .get("resourceVersion")
        .and_then(|v| v.parse().ok())
        .unwrap_or_default();
    let version = world.version.subscribe();
    let asked = Arc::new((plural, query));
    let lines =
        futures::stream::unfold((world, version, from), move |(world, mut version, from)| {
            let asked = Arc::clone(&asked);
            async move {
                if from == LAST {
                    return None;
                }
                loop {
                    let mut silent = world.silent.subscribe();
                    silent.wait_for(|silent| !*silent).await.ok()?;
                    version.borrow_and_update();
                    let next = {
                        let inner = world.inner.lock().unwrap();
                        if inner.is_missing(&asked.0) {
                            return None;
                        }
                        inner.next_line(&asked.0, &asked.1, from)
                    };
                    if let Some((at, line)) = next {
                        return Some((Bytes::from(line), (world, version, at)));
                    }
                    version.changed().await.ok()?;
                }
            }
        });
    Body::from_stream(lines.map(Ok::<_, std::io::Error>)).into_response()
}

/// The last event of a watch from an expired version.
pub(super) fn expired() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "message": "too old resource version", "reason": "Expired", "code": 410,
    })
}

/// Whether the object matches the field selector of a name, and a selector of one label.
pub(super) fn is_selected(query: &HashMap<String, String>, object: &Value) -> bool {
    let meta = Meta::of(object);
    let name = query.get("fieldSelector");
    let label = query.get("labelSelector").and_then(|it| it.split_once('='));
    name.is_none_or(|selector| *selector == format!("metadata.name={}", meta.name()))
        && label.is_none_or(|(key, value)| meta.label(key) == Some(value))
}

pub(super) async fn create(
    State(world): State<Arc<World>>,
    Path((_, plural)): Path<(String, String)>,
    Json(object): Json<Value>,
) -> Response {
    let mut inner = world.inner.lock().unwrap();
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    inner.writes.push(format!("create {name}"));
    world.written.notify_waiters();
    let key = (plural, name);
    if inner.is_missing(&key.0) {
        return failure(StatusCode::NOT_FOUND, "NotFound");
    }
    if inner.objects.contains_key(&key) {
        return failure(StatusCode::CONFLICT, "AlreadyExists");
    }
    let answer = inner.put(key, object);
    world.notify(&inner);
    (StatusCode::CREATED, Json(answer)).into_response()
}

pub(super) async fn get_one(
    State(world): State<Arc<World>>,
    Path((_, plural, name)): Path<(String, String, String)>,
) -> Response {
    match world.object(&plural, &name) {
        Some(object) => Json(object).into_response(),
        None => failure(StatusCode::NOT_FOUND, "NotFound"),
    }
}

pub(super) async fn patch_one(
    State(world): State<Arc<World>>,
    Path((_, plural, name)): Path<(String, String, String)>,
    headers: HeaderMap,
    Json(patch): Json<Value>,
) -> Response {
    let mut inner = world.inner.lock().unwrap();
    inner.writes.push(format!("patch {name}"));
    world.written.notify_waiters();
    let key = (plural, name);
    let Some(object) = inner.objects.get(&key) else {
        return failure(StatusCode::NOT_FOUND, "NotFound");
    };
    let patch = match headers["content-type"].to_str().unwrap() {
        "application/merge-patch+json" => Patch::Merge(patch),
        "application/json-patch+json" if fails(&patch, object) => {
            return failure(StatusCode::UNPROCESSABLE_ENTITY, "Invalid");
        }
        "application/json-patch+json" => Patch::Json(without_tests(patch)),
        other => panic!("{other} is not served"),
    };
    let patched = patch.applied_to(object);
    let keeps = |field| patched.pointer(field) == object.pointer(field);
    if !keeps("/metadata/resourceVersion") {
        return failure(StatusCode::CONFLICT, "Conflict");
    }
    if !keeps("/metadata/uid") {
        return immutable("metadata.uid");
    }
    let answer = inner.put(key, patched);
    world.notify(&inner);
    Json(answer).into_response()
}

pub(super) async fn delete(
    State(world): State<Arc<World>>,
    Path((_, plural, name)): Path<(String, String, String)>,
) -> Response {
    let mut inner = world.inner.lock().unwrap();
    inner.writes.push(format!("delete {name}"));
    world.written.notify_waiters();
    let key = (plural, name);
    let Some(mut object) = inner.objects.get(&key).cloned() else {
        return failure(StatusCode::NOT_FOUND, "NotFound");
    };
    object["metadata"]["deletionTimestamp"] = "2026-11-20T10:00:00Z".into();
    let answer = inner.put(key, object);
    world.notify(&inner);
    Json(answer).into_response()
}

/// Whether a test fails, or a path to replace or remove does not exist.
fn fails(operations: &Value, object: &Value) -> bool {
    let operations = operations.as_array().unwrap();
    operations.iter().any(|operation| {
        let found = object.pointer(operation["path"].as_str().unwrap());
        match operation["op"].as_str().unwrap() {
            "test" => found != Some(&operation["value"]),
            "add" => false,
            _ => found.is_none(),
        }
    })
}

fn without_tests(mut operations: Value) -> Value {
    operations
        .as_array_mut()
        .unwrap()
        .retain(|operation| operation["op"] != "test");
    operations
}

/// The API server's answer to a failed validation.
fn immutable(field: &str) -> Response {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "message": "field is immutable", "reason": "Invalid", "code": 422,
        "details": { "causes": [{ "reason": "FieldValueInvalid", "field": field }] },
    });
    (StatusCode::UNPROCESSABLE_ENTITY, Json(body)).into_response()
}

fn failure(code: StatusCode, reason: &str) -> Response {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "message": reason, "reason": reason, "code": code.as_u16(),
    });
    (code, Json(body)).into_response()
}
