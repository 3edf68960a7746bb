//! A hub for the tests of this folder, in memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use argocd::routing::RoutingSettings;
use diagnosis::testing;
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt as _;
use ocm::{
    api::{addon::ManagedClusterAddOn, cluster::ManagedCluster},
    name::{AddonName, ClusterName},
};
use principal::{
    Certificates, Changes, Cursor, Delivery, Enrolment, Fleet, Mode, SessionReport, Sessions,
    Traffic,
};
use runtime::clock::Clock;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{
    answer::Answer,
    answers::{Answers, Sources},
    guard::Route,
    hub::Hub,
};
use crate::keys;

/// The objects of the hub, and a counter of questions about changes.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) clusters: BTreeMap<ClusterName, Arc<ManagedCluster>>,
    pub(super) addons: BTreeMap<ClusterName, Arc<ManagedClusterAddOn>>,
    pub(super) applications: BTreeMap<(String, String), Value>,
    /// Those that changed since the last question.
    pub(super) changed: BTreeSet<(String, String)>,
    pub(super) deliveries: Vec<Delivery>,
    pub(super) traffic: BTreeMap<String, Traffic>,
    pub(super) synced: bool,
    pub(super) asked: usize,
}

/// Shares its state with the test.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory(pub(super) Arc<Mutex<State>>);

impl Memory {
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.lock().unwrap())
    }

    /// Adds or changes an Application.
    pub(super) fn put(&self, object: Value) {
        let text = |field: &str| object["metadata"][field].as_str().unwrap().to_owned();
        let key = (text("namespace"), text("name"));
        self.change(|state| {
            state.changed.insert(key.clone());
            state.applications.insert(key, object);
        });
    }

    /// Adds or changes a cluster with the add-on.
    pub(super) fn enrol(
        &self,
        name: &str,
        labels: &Value,
        conditions: &[testing::ConditionFields<'_>],
    ) {
        let name = ClusterName::new(name).unwrap();
        let mut addon = testing::addon_object(name.as_str(), "managed", conditions);
        addon["apiVersion"] = json!("addon.open-cluster-management.io/v1beta1");
        addon["kind"] = json!("ManagedClusterAddOn");
        addon["spec"] = json!({});
        let owner = &mut addon["metadata"]["ownerReferences"][0];
        owner["apiVersion"] = json!("addon.open-cluster-management.io/v1beta1");
        (owner["uid"], owner["controller"]) = (json!("u"), json!(true));
        let cluster = json!({
            "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": { "name": name.as_str(), "labels": labels },
            "spec": { "hubAcceptsClient": true },
        });
        self.change(|state| {
            let addon = serde_json::from_value(addon).unwrap();
            state.addons.insert(name.clone(), Arc::new(addon));
            let cluster = serde_json::from_value(cluster).unwrap();
            state.clusters.insert(name, Arc::new(cluster));
        });
    }
}

impl Hub for Memory {
    fn is_synced(&self) -> bool {
        self.change(|state| state.synced)
    }

    fn enrolled(&self) -> Vec<ClusterName> {
        self.change(|state| state.addons.keys().cloned().collect())
    }

    fn clusters(&self) -> Vec<(ClusterName, Arc<ManagedCluster>)> {
        let pairs = |state: &mut State| state.clusters.clone().into_iter().collect();
        self.change(pairs)
    }

    fn cluster(&self, name: &ClusterName) -> Option<Arc<ManagedCluster>> {
        self.change(|state| state.clusters.get(name).cloned())
    }

    fn addon(&self, name: &ClusterName) -> Option<Arc<ManagedClusterAddOn>> {
        self.change(|state| state.addons.get(name).cloned())
    }

    fn changes(&self, cursor: Cursor, limit: usize) -> Option<Changes> {
        self.change(|state| {
            state.asked += 1;
            let changed = std::mem::take(&mut state.changed);
            let mut changed = changed.into_iter().collect::<Vec<_>>();
            let later = changed.split_off(limit.min(changed.len()));
            state.changed = later.into_iter().collect();
            let found = changed.iter().map(|key| state.applications[key].clone());
            Some(Changes {
                cursor,
                from_start: false,
                applications: found.collect(),
                removed: Vec::new(),
                more: !state.changed.is_empty(),
            })
        })
    }

    fn application(&self, namespace: &str, name: &str) -> Option<Value> {
        let key = (namespace.to_owned(), name.to_owned());
        self.change(|state| state.applications.get(&key).cloned())
    }

    fn namesakes(&self, name: &str, limit: usize) -> Vec<Value> {
        self.change(|state| {
            let named = state.applications.iter().filter(|((_, it), _)| it == name);
            named
                .map(|(_, object)| object.clone())
                .take(limit)
                .collect()
        })
    }

    fn project(&self, name: &str) -> Option<Value> {
        Some(json!({
            "metadata": { "name": name, "namespace": "argocd" },
            "spec": {
                "destinations": [{ "name": "*", "namespace": "*", "server": "*" }],
                "sourceRepos": ["*"], "sourceNamespaces": ["*"],
            },
        }))
    }

    fn deliveries(&self, _namespace: &str, _name: &str) -> Vec<Delivery> {
        self.change(|state| state.deliveries.clone())
    }

    fn traffic(&self) -> BTreeMap<String, Traffic> {
        self.change(|state| state.traffic.clone())
    }
}

/// The answers of a hub program, and what they are computed from.
pub(super) struct World {
    pub(super) hub: Memory,
    pub(super) answers: Answers<Memory>,
    pub(super) serving: watch::Sender<bool>,
    pub(super) sessions: watch::Sender<Sessions>,
    pub(super) clock: Clock,
}

impl World {
    /// Two enrolled clusters, paris and rome, with sessions.
    pub(super) fn new() -> Self {
        let hub = Memory::default();
        hub.change(|state| state.synced = true);
        hub.enrol("paris", &json!({ "env": "prod" }), &[testing::CONNECTED]);
        hub.enrol("rome", &json!({}), &[testing::CONNECTED]);
        let enrolment = |name: &str| Enrolment {
            mode: Mode::Managed,
            server: Some(format!("https://proxy/{name}")),
            since: None,
            fresh: false,
            confirm_delete: None,
            shares_unscoped: None,
            certificates: Certificates::All,
        };
        let clusters = ["paris", "rome"].map(|name| (name.to_owned(), enrolment(name)));
        let fleet = Fleet {
            clusters: clusters.into(),
        };
        let session = SessionReport {
            connected: true,
            since: testing::now(),
            ..SessionReport::default()
        };
        let sessions = ["paris", "rome"].map(|name| (name.to_owned(), Arc::new(session.clone())));
        let (serving, is_serving) = watch::channel(true);
        let (sessions, reports) = watch::channel(Arc::new(BTreeMap::from(sessions)));
        let clock = Clock::standing_at(testing::now());
        let answers = Answers::new(Sources {
            hub: hub.clone(),
            serving: is_serving,
            fleet: watch::channel(Arc::new(fleet)).1,
            sessions: reports,
            addon: AddonName::new(keys::ADDON).unwrap(),
            routing: RoutingSettings {
                argocd_namespace: "argocd".to_owned(),
                allowed_namespaces: Vec::new(),
            },
            managed: None,
            replica: "manager-0".to_owned(),
            version: "0.1.0".to_owned(),
            clock: clock.clone(),
        });
        Self {
            hub,
            answers,
            serving,
            sessions,
            clock,
        }
    }

    /// The status and the JSON of an answer.
    pub(super) async fn ask(&self, route: &Route) -> (StatusCode, Value) {
        read(self.answers.answer(route, &HeaderMap::new()).await).await
    }

    pub(super) async fn fleet(&self) -> Value {
        let (status, answer) = self.ask(&Route::Fleet).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        answer
    }
}

/// The route of a cluster.
pub(super) fn cluster(name: &str) -> Route {
    Route::Cluster(ClusterName::new(name).unwrap())
}

/// The route of an Application.
pub(super) fn path(namespace: &str, name: &str) -> Route {
    Route::Path {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

/// The status and the JSON of an answer.
pub(super) async fn read(answer: Answer) -> (StatusCode, Value) {
    let status = answer.status();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

/// An Application as the principal keeps it: without managed fields.
pub(super) fn application(namespace: &str, name: &str, cluster: &str) -> Value {
    let mut object = testing::application(namespace, name, &json!({ "name": cluster }));
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.remove("managedFields");
    object
}
