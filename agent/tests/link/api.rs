//! A spoke's API server in memory: lists, watches, creates, patches and deletes two kinds.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use argocd::Meta;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, oneshot, watch};

use super::terminals::exec;
use super::wait::{SOON, soon};

mod answers;

use answers::{
    create, delete, expired, get_one, is_selected, list_or_watch, log, only_known_peers, patch_one,
};

const ROOT: &str = "/apis/argoproj.io/v1alpha1/namespaces/{namespace}/{plural}";
/// The version after the last event of a watch.
const LAST: u64 = u64::MAX;
const CORE: &str = "/api/v1/namespaces/{namespace}/{plural}";

/// The server and its objects, which survive its restart.
pub(super) struct Api {
    pub(super) address: SocketAddr,
    pub(super) world: Arc<World>,
    // A separate runtime, so that all connections break as with a killed server.
    runtime: Option<Runtime>,
}

/// The objects and settings of the server.
#[derive(Default)]
pub(super) struct World {
    inner: Mutex<Inner>,
    version: watch::Sender<u64>,
    /// Watches report nothing.
    silent: watch::Sender<bool>,
    /// Notifies of each write of a client, with any result.
    written: Notify,
    /// The number of open terminals.
    pub(super) terminals: watch::Sender<usize>,
}

#[derive(Default)]
struct Inner {
    version: u64,
    objects: BTreeMap<(String, String), Value>,
    /// Every change, so that a watch can start from any version.
    history: Vec<(u64, String, &'static str, Value)>,
    /// The history before this version is gone: a client that watches from there has to list again.
    oldest: u64,
    /// The definitions of all of Argo CD's kinds are missing.
    bare: bool,
    /// The server rejects all clients as unauthorized.
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
                .route(
                    &format!("{root}/{{name}}"),
                    get(get_one).patch(patch_one).delete(delete),
                )
                .route(&format!("{root}/{{name}}/log"), get(log))
                .route(&format!("{root}/{{name}}/exec"), get(exec));
        }
        let version = get(async || Json(json!({ "major": "1", "minor": "36" })));
        let known = from_fn_with_state(Arc::clone(&world), only_known_peers);
        let router = router
            .route("/version", version)
            .with_state(Arc::clone(&world))
            .layer(known);
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (reply, address_bound) = oneshot::channel();
        runtime.spawn(async move {
            let listener = TcpListener::bind(address).await.unwrap();
            reply.send(listener.local_addr().unwrap()).unwrap();
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
    /// Changes an object, as a user of the spoke does.
    pub(super) fn edit(&self, plural: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let mut inner = self.inner.lock().unwrap();
        let key = (plural.to_owned(), name.to_owned());
        let mut object = inner.objects.get(&key).unwrap().clone();
        change(&mut object);
        inner.put(key, object);
        self.notify(&inner);
    }

    /// Creates an object, as a user of the spoke does.
    pub(super) fn make(&self, plural: &str, object: Value) {
        let mut inner = self.inner.lock().unwrap();
        let name = Meta::of(&object).name().to_owned();
        inner.put((plural.to_owned(), name), object);
        self.notify(&inner);
    }

    /// Deletes an object, as a user of the spoke does.
    pub(super) fn remove(&self, plural: &str, name: &str) {
        let mut inner = self.inner.lock().unwrap();
        inner.remove(&(plural.to_owned(), name.to_owned()));
        self.notify(&inner);
    }

    /// Deletes an object and creates an equal one of the same name.
    pub(super) fn replace(&self, plural: &str, name: &str) {
        let mut inner = self.inner.lock().unwrap();
        let key = (plural.to_owned(), name.to_owned());
        let mut object = inner.objects.get(&key).unwrap().clone();
        inner.remove(&key);
        object["metadata"]["uid"] = Value::Null;
        inner.put(key, object);
        self.notify(&inner);
    }

    /// Waits until clients have done this write at least `times` times.
    pub(super) async fn until_written(&self, write: &str, times: usize) {
        let waited = async {
            loop {
                let next = self.written.notified();
                if self.writes().iter().filter(|done| *done == write).count() >= times {
                    return;
                }
                next.await;
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

    /// The writes of clients, in order: `create name`, `patch name`, `delete name`.
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

    /// Removes the definitions of all kinds with all objects, or adds the definitions.
    pub(super) fn serve(&self, serve: bool) {
        let mut inner = self.inner.lock().unwrap();
        inner.bare = !serve;
        let keys: Vec<_> = inner.objects.keys().cloned().collect();
        for key in keys {
            inner.remove(&key);
        }
        inner.version += 1;
        self.notify(&inner);
    }

    /// Rejects all clients as unauthorized, or accepts them again.
    pub(super) fn forget_clients(&self, forget: bool) {
        self.inner.lock().unwrap().forgetful = forget;
    }

    /// Breaks watches, and drops the changes that they have not reported.
    pub(super) fn forget_history(&self) {
        let mut inner = self.inner.lock().unwrap();
        inner.version += 1;
        inner.oldest = inner.version;
        self.notify(&inner);
    }

    /// Pauses watches, or lets them catch up.
    pub(super) fn pause_watches(&self, pause: bool) {
        self.silent.send_replace(pause);
    }

    fn notify(&self, inner: &Inner) {
        self.version.send_replace(inner.version);
    }
}

impl Inner {
    /// Whether the definition of this kind is missing; those of Kubernetes itself are not.
    fn is_missing(&self, plural: &str) -> bool {
        self.bare && !["secrets", "configmaps"].contains(&plural)
    }

    /// The next event of a watch after version `from`, with its version.
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
        let has_finalizers = object["metadata"]["finalizers"]
            .as_array()
            .is_some_and(|f| !f.is_empty());
        self.objects.insert(key.clone(), object.clone());
        if going && !has_finalizers {
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
