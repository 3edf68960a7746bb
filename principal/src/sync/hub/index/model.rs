//! After any sequence of changes on the hub, subscribed clusters converge to their expected objects.

use std::collections::BTreeMap;

use super::*;
use crate::testing::{application, fleet, name, open_project, packed, with};
use argocd::{global_projects::GlobalProjects, keys};
use proptest::prelude::*;
use serde_json::json;

/// A change on the hub.
#[derive(Clone, Debug)]
enum Change {
    /// An Application is created or changed: its namespace, destination, project, and a version of its spec.
    Set {
        app: App,
        to: &'static str,
        project: &'static str,
        path: u8,
        ignored: bool,
    },
    Deleted(App),
    /// A project is created, closed, or deleted.
    Project(&'static str, Option<bool>),
    /// A project becomes the global project of all others, or none is.
    Global(Option<&'static str>),
    /// A repository is created, moved to another project, or deleted.
    Repository(&'static str, Option<&'static str>),
    /// The certificate of a host is added or removed.
    Certificate(bool),
    /// The enrolled clusters, and whether repositories without a project are shared with them.
    Fleet(Vec<&'static str>, bool),
}

#[derive(Clone, Copy, Debug)]
struct App {
    namespace: &'static str,
    name: &'static str,
}

impl App {
    fn key(self) -> Key {
        Key {
            namespace: self.namespace.to_owned(),
            name: self.name.to_owned(),
        }
    }
}

fn changes() -> impl Strategy<Value = Change> {
    let app = || {
        let namespace = prop::sample::select(vec!["a", "ab", "argocd", "team-x", "elsewhere"]);
        let name = prop::sample::select(vec!["one", "two"]);
        (namespace, name).prop_map(|(namespace, name)| App { namespace, name })
    };
    let to = prop::sample::select(vec!["in-cluster", "a", "ab", "unknown"]);
    let project = || prop::sample::select(vec!["default", "team"]);
    let set = (app(), to, project(), 0..3_u8, prop::bool::weighted(0.1)).prop_map(
        |(app, to, project, path, ignored)| Change::Set {
            app,
            to,
            project,
            path,
            ignored,
        },
    );
    let repository = prop::option::of(prop::sample::select(vec!["", "default", "team"]));
    let fleets = prop::sample::subsequence(vec!["a", "ab"], 0..=2);
    prop_oneof![
        6 => set,
        2 => app().prop_map(Change::Deleted),
        1 => (project(), prop::option::of(any::<bool>())).prop_map(|(p, o)| Change::Project(p, o)),
        1 => prop::option::of(project()).prop_map(Change::Global),
        2 => (prop::sample::select(vec!["r1", "r2"]), repository).prop_map(|(r, p)| Change::Repository(r, p)),
        1 => any::<bool>().prop_map(Change::Certificate),
        1 => (fleets, any::<bool>()).prop_map(|(f, s)| Change::Fleet(f, s)),
    ]
}

const CERTIFICATES: &str = "argocd-tls-certs-cm";

fn repository(name: &str, project: &str, version: u64) -> Value {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    json!({
        "metadata": {
            "namespace": "argocd", "name": name, "uid": name, "resourceVersion": version.to_string(),
            "labels": { keys::SECRET_TYPE: keys::REPOSITORY },
        },
        "data": {
            "url": STANDARD.encode("https://other.example/x"),
            "project": STANDARD.encode(project),
            "password": STANDARD.encode("secret"),
        },
    })
}

fn globals(project: Option<&str>) -> GlobalProjects {
    let setting = project.map(|name| format!("- projectName: {name}"));
    let config = json!({ "data": { "globalProjects": setting } });
    GlobalProjects::of(&config).unwrap()
}

/// The hub, and the copies that each cluster received: digest by object.
struct Model {
    index: Index,
    live: BTreeMap<Key, String>,
    copies: BTreeMap<ClusterName, BTreeMap<ObjectKey, String>>,
    version: u64,
}

impl Model {
    fn new() -> Self {
        let settings = RoutingSettings {
            argocd_namespace: "argocd".to_owned(),
            allowed_namespaces: vec!["team-*".to_owned()],
        };
        let mut index = Index::new(settings);
        index.set_fleet(&fleet(&["a", "ab"]));
        let mut model = Self {
            index,
            live: BTreeMap::new(),
            copies: BTreeMap::new(),
            version: 0,
        };
        let effects = model
            .index
            .set_project("default", Some(open_project("default")));
        model.carry_out(effects);
        model
    }

    fn apply(&mut self, change: Change) {
        self.version += 1;
        let effects = match change {
            Change::Set {
                app,
                to,
                project,
                path,
                ignored,
            } => {
                let key = app.key();
                let fresh = format!("uid-{}", self.version);
                let uid = self.live.entry(key).or_insert(fresh).clone();
                let object = with(
                    application(app.namespace, app.name, &uid, self.version),
                    json!({
                        "metadata": { "labels": { keys::IGNORE_SYNC: ignored.to_string() } },
                        "spec": {
                            "project": project,
                            "source": { "path": path.to_string() },
                            "destination": { "name": to },
                        },
                    }),
                );
                self.index.set_application(packed(object), true)
            }
            Change::Deleted(app) => {
                let key = app.key();
                let uid = self.live.remove(&key).unwrap_or_default();
                self.index.remove_application(&key, &uid)
            }
            Change::Project(name, None) => self.index.set_project(name, None),
            Change::Project(name, Some(open)) => {
                let mut project = open_project(name);
                if !open {
                    project["spec"]["destinations"] = json!([]);
                }
                self.index.set_project(name, Some(project))
            }
            Change::Global(project) => self.index.set_globals(globals(project)),
            Change::Repository(name, project) => {
                let object = project.map(|project| repository(name, project, self.version));
                self.index
                    .set_provision(Kind::Repository, name, object.map(packed))
            }
            Change::Certificate(is_there) => {
                let object = json!({
                    "metadata": { "namespace": "argocd", "name": CERTIFICATES, "uid": "tls" },
                    "data": { "example.com": "PEM" },
                });
                self.index.set_provision(
                    Kind::TlsCerts,
                    CERTIFICATES,
                    is_there.then(|| packed(object)),
                )
            }
            Change::Fleet(clusters, shares) => self.join(&clusters, shares),
        };
        self.carry_out(effects);
    }

    /// A cluster that leaves receives nothing more; one that joins compares everything, as a resync does.
    fn join(&mut self, clusters: &[&str], shares: bool) -> Vec<Effect> {
        let mut fleet = fleet(clusters);
        for enrolment in fleet.clusters.values_mut() {
            enrolment.shares_unscoped = Some(shares);
        }
        let effects = self.index.set_fleet(&fleet);
        for cluster in clusters {
            let cluster = name(cluster);
            for key in self.index.delivered_to(&cluster) {
                let copies = self.copies.entry(cluster.clone()).or_default();
                copies.insert(key, String::new());
            }
            let retained = self.copies.get(&cluster).cloned().unwrap_or_default();
            for key in retained.into_keys() {
                self.notify(&cluster, &key);
                if key.kind != Kind::Application && self.wanted(&cluster, &key).is_none() {
                    self.copies.entry(cluster.clone()).or_default().remove(&key);
                }
            }
        }
        effects
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::State { cluster, key } => self.notify(&cluster, &key),
                Effect::Gone {
                    cluster,
                    key,
                    uid: _,
                } => {
                    self.copies.entry(cluster).or_default().remove(&key);
                }
                Effect::Command { .. } | Effect::Conditions(_) => {}
            }
        }
    }

    /// Delivers the state that the hub wants now, if it wants any.
    fn notify(&mut self, cluster: &ClusterName, key: &ObjectKey) {
        if let Some(digest) = self.wanted(cluster, key) {
            self.copies
                .entry(cluster.clone())
                .or_default()
                .insert(key.clone(), digest);
        }
    }

    fn wanted(&self, cluster: &ClusterName, key: &ObjectKey) -> Option<String> {
        if let Some(key) = Key::from_object(key) {
            let entry = self.index.application(&key)?;
            return (entry.placement.delivered_to() == Some(cluster)).then(|| entry.digest());
        }
        let provision = self.index.provision(cluster, key)?;
        Some(match key.kind {
            Kind::Repository => argocd::repository::content_id(&provision),
            Kind::TlsCerts => argocd::digest::agreed_entries(&provision),
            Kind::Application | Kind::AppProject | Kind::GpgKey | Kind::SshKnownHosts => {
                argocd::digest::agreed(&provision)
            }
        })
    }

    /// No cluster has a Secret, a project or a key that is not for it.
    fn check_provisions(&self) -> Result<(), TestCaseError> {
        for cluster in self.index.by_cluster.keys() {
            let retained = self.copies.get(cluster).into_iter().flatten();
            for (key, digest) in retained.filter(|(key, _)| key.kind != Kind::Application) {
                prop_assert_eq!(Some(digest.clone()), self.wanted(cluster, key));
            }
        }
        Ok(())
    }

    /// Every enrolled cluster has its expected objects, up to date.
    fn check(&self) -> Result<(), TestCaseError> {
        for cluster in self.index.by_cluster.keys() {
            for key in self.index.delivered_to(cluster) {
                let copy = self
                    .copies
                    .get(cluster)
                    .and_then(|copies| copies.get(&key))
                    .cloned();
                prop_assert_eq!(copy, self.wanted(cluster, &key), "{} on {}", key, cluster);
            }
        }
        Ok(())
    }

    /// No two Applications are delivered to one name on a spoke.
    fn check_names(&self) -> Result<(), TestCaseError> {
        let mut places = BTreeMap::new();
        for (key, entry) in &self.index.applications {
            if entry.placement.delivered_to().is_some() {
                let other = places.insert(entry.placement.place(), key);
                prop_assert_eq!(other, None);
            }
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn subscribers_of_all_changes_converge(
        history in prop::collection::vec(changes(), 0..40),
    ) {
        let mut model = Model::new();
        for change in history {
            model.apply(change);
            model.check()?;
            model.check_names()?;
            model.check_provisions()?;
        }
    }
}
