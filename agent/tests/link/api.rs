//! A spoke's API server in memory: lists, watches, creates, patches and deletes two kinds.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use argocd::{Meta, Patch};
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch};
use axum::{Json, Router};
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, oneshot, watch};

use super::wait::{SOON, soon};

const ROOT: &str = "/apis/argoproj.io/v1alpha1/namespaces/{namespace}/{plural}";
/// After this a watch says nothing any more.
const LAST: u64 = u64::MAX;
const CORE: &str = "/api/v1/namespaces/{namespace}/{plural}";

/// The server, and what it holds; the latter outlives a restart.
pub(super) struct Api {
    pub(super) address: SocketAddr,
    pub(super) world: Arc<World>,
    // Its own, so that it dies with all its connections, as a killed server does.
    runtime: Option<Runtime>,
}

/// What the server holds.
#[derive(Default)]
pub(super) struct World {
    inner: Mutex<Inner>,
    version: watch::Sender<u64>,
    /// Watches tell nothing.
    silent: watch::Sender<bool>,
    /// A client wrote, whatever came of it.
    written: Notify,
}

#[derive(Default)]
struct Inner {
    version: u64,
    objects: BTreeMap<(String, String), Value>,
    /// Every change, so that a watch can begin anywhere.
    history: Vec<(u64, String, &'static str, Value)>,
    /// What was before this version is forgotten: whoever watches from there has to list again.
    oldest: u64,
    /// The definitions of all of Argo CD's kinds are missing.
    bare: bool,
    /// Nobody is known here any more.
    forgetful: bool,
    /// Every write by a client.
    writes: Vec<String>,
}

impl Api {
    pub(super) async fn start(world: Arc<World>) -> Self {
        Self::start_at(world, "127.0.0.1:0".parse().unwrap()).await
    }

    pub(super) async fn start_at(world: Arc<World>, address: SocketAddr) -> Self {
        let mut router = Router::new();
        for root in [ROOT, CORE] {
            router = router
                .route(root, get(list_or_watch).post(create))
                .route(&format!("{root}/{{name}}"), patch(patch_one).delete(delete));
        }
        let version = get(async || Json(json!({ "major": "1", "minor": "36" })));
        let known = from_fn_with_state(Arc::clone(&world), only_who_is_known);
        let router = router
            .route("/version", version)
            .with_state(Arc::clone(&world))
            .layer(known);
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (told, address_bound) = oneshot::channel();
        runtime.spawn(async move {
            let listener = TcpListener::bind(address).await.unwrap();
            told.send(listener.local_addr().unwrap()).unwrap();
            axum::serve(listener, router).await.unwrap();
        });
        let address = soon("the API server's address", address_bound)
            .await
            .unwrap();
        Self {
            address,
            world,
            runtime: Some(runtime),
        }
    }

    pub(super) fn client(&self) -> kube::Client {
        let url = format!("http://{}", self.address).parse().unwrap();
        kube::Client::try_from(kube::Config::new(url)).unwrap()
    }

    /// Ends it with all its connections.
    pub(super) async fn stop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            let down = move || runtime.shutdown_timeout(SOON);
            tokio::task::spawn_blocking(down).await.unwrap();
        }
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl World {
    /// Changes an object as somebody on the spoke would.
    pub(super) fn edit(&self, plural: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let mut inner = self.inner.lock().unwrap();
        let key = (plural.to_owned(), name.to_owned());
        let mut object = inner.objects.get(&key).unwrap().clone();
        change(&mut object);
        inner.put(key, object);
        self.tell(&inner);
    }

    /// Makes an object as somebody on the spoke would.
    pub(super) fn make(&self, plural: &str, object: Value) {
        let mut inner = self.inner.lock().unwrap();
        let name = Meta::of(&object).name().to_owned();
        inner.put((plural.to_owned(), name), object);
        self.tell(&inner);
    }

    /// Takes an object away as somebody on the spoke would.
    pub(super) fn remove(&self, plural: &str, name: &str) {
        let mut inner = self.inner.lock().unwrap();
        inner.remove(&(plural.to_owned(), name.to_owned()));
        self.tell(&inner);
    }

    /// Takes an object away and makes an equal one of the same name.
    pub(super) fn replace(&self, plural: &str, name: &str) {
        let mut inner = self.inner.lock().unwrap();
        let key = (plural.to_owned(), name.to_owned());
        let mut object = inner.objects.get(&key).unwrap().clone();
        inner.remove(&key);
        object["metadata"]["uid"] = Value::Null;
        inner.put(key, object);
        self.tell(&inner);
    }

    /// Waits until clients have written this at least so often.
    pub(super) async fn until_written(&self, write: &str, times: usize) {
        let waited = async {
            loop {
                let told = self.written.notified();
                if self.writes().iter().filter(|done| *done == write).count() >= times {
                    return;
                }
                told.await;
            }
        };
        soon(write, waited).await;
    }

    pub(super) fn object(&self, plural: &str, name: &str) -> Option<Value> {
        let inner = self.inner.lock().unwrap();
        inner
            .objects
            .get(&(plural.to_owned(), name.to_owned()))
            .cloned()
    }

    /// What clients wrote, in order: `create name`, `patch name`, `delete name`.
    pub(super) fn writes(&self) -> Vec<String> {
        self.inner.lock().unwrap().writes.clone()
    }

    /// Waits until an object fits.
    pub(super) async fn until(
        &self,
        what: &str,
        plural: &str,
        name: &str,
        fits: impl Fn(Option<&Value>) -> bool,
    ) {
        let mut version = self.version.subscribe();
        let waited = async {
            while !fits(self.object(plural, name).as_ref()) {
                version.changed().await.unwrap();
            }
        };
        soon(what, waited).await;
    }

    /// Takes the definitions of all kinds away with all objects, or brings them.
    pub(super) fn serve(&self, serve: bool) {
        let mut inner = self.inner.lock().unwrap();
        inner.bare = !serve;
        let keys: Vec<_> = inner.objects.keys().cloned().collect();
        for key in keys {
            inner.remove(&key);
        }
        inner.version += 1;
        self.tell(&inner);
    }

    /// Forgets who its clients are, or knows them again.
    pub(super) fn forget_clients(&self, forget: bool) {
        self.inner.lock().unwrap().forgetful = forget;
    }

    /// Breaks watches and forgets what they have not told.
    pub(super) fn forget_history(&self) {
        let mut inner = self.inner.lock().unwrap();
        inner.version += 1;
        inner.oldest = inner.version;
        self.tell(&inner);
    }

    /// Keeps watches from telling what happens, or lets them catch up.
    pub(super) fn hold_watches(&self, hold: bool) {
        self.silent.send_replace(hold);
    }

    fn tell(&self, inner: &Inner) {
        self.version.send_replace(inner.version);
    }
}

impl Inner {
    /// Whether the definition of this kind is missing; those of Kubernetes itself are not.
    fn lacks(&self, plural: &str) -> bool {
        self.bare && !["secrets", "configmaps"].contains(&plural)
    }

    /// What a watch says next that has told of everything up to a version, and of which version that is.
    fn next_line(
        &self,
        plural: &str,
        query: &HashMap<String, String>,
        from: u64,
    ) -> Option<(u64, String)> {
        let line = |kind: &str, object: &Value| {
            json!({ "type": kind, "object": object }).to_string() + "\n"
        };
        if from < self.oldest {
            return Some((LAST, line("ERROR", &expired())));
        }
        let mut later = self.history.iter();
        let next =
            later.find(|(v, p, _, object)| *v > from && *p == plural && is_selected(query, object));
        next.map(|(at, _, change, object)| (*at, line(change, object)))
    }

    fn put(&mut self, key: (String, String), mut object: Value) -> Value {
        let change = if self.objects.contains_key(&key) {
            "MODIFIED"
        } else {
            "ADDED"
        };
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = format!("local-{}", self.version).into();
        }
        let going = object["metadata"]["deletionTimestamp"].is_string();
        let held = object["metadata"]["finalizers"]
            .as_array()
            .is_some_and(|f| !f.is_empty());
        self.objects.insert(key.clone(), object.clone());
        if going && !held {
            self.remove(&key);
        } else {
            self.history
                .push((self.version, key.0, change, object.clone()));
        }
        object
    }

    fn remove(&mut self, key: &(String, String)) {
        if let Some(mut object) = self.objects.remove(key) {
            self.version += 1;
            object["metadata"]["resourceVersion"] = self.version.to_string().into();
            self.history
                .push((self.version, key.0.clone(), "DELETED", object));
        }
    }
}

async fn only_who_is_known(
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

async fn list_or_watch(
    State(world): State<Arc<World>>,
    Path((_, plural)): Path<(String, String)>,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    if world.inner.lock().unwrap().lacks(&plural) {
        return failure(StatusCode::NOT_FOUND, "NotFound");
    }
    if query.get("watch").is_some_and(|watch| watch == "true") {
        watch(world, plural, query)
    } else {
        list(&world, &plural, &query)
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
                        if inner.lacks(&asked.0) {
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

/// What a watch says last whose version is forgotten.
fn expired() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "message": "too old resource version", "reason": "Expired", "code": 410,
    })
}

/// By name, and by one label if the selector says no more.
fn is_selected(query: &HashMap<String, String>, object: &Value) -> bool {
    let meta = Meta::of(object);
    let name = query.get("fieldSelector");
    let label = query.get("labelSelector").and_then(|it| it.split_once('='));
    name.is_none_or(|selector| *selector == format!("metadata.name={}", meta.name()))
        && label.is_none_or(|(key, value)| meta.label(key) == Some(value))
}

async fn create(
    State(world): State<Arc<World>>,
    Path((_, plural)): Path<(String, String)>,
    Json(object): Json<Value>,
) -> Response {
    let mut inner = world.inner.lock().unwrap();
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    inner.writes.push(format!("create {name}"));
    world.written.notify_waiters();
    let key = (plural, name);
    if inner.lacks(&key.0) {
        return failure(StatusCode::NOT_FOUND, "NotFound");
    }
    if inner.objects.contains_key(&key) {
        return failure(StatusCode::CONFLICT, "AlreadyExists");
    }
    let answer = inner.put(key, object);
    world.tell(&inner);
    (StatusCode::CREATED, Json(answer)).into_response()
}

async fn patch_one(
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
    world.tell(&inner);
    Json(answer).into_response()
}

async fn delete(
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
    world.tell(&inner);
    Json(answer).into_response()
}

/// Whether a test is not met, or something to be replaced or removed is not there.
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

/// As the API server answers when a validation fails.
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
