//! The required state when nothing changes any more, computed independently of the product.

use std::collections::BTreeMap;

use agent::sync::api::Memory as Spoke;
use argocd::{Application, Meta, keys};
use principal::Key;
use principal::store::{Memory as Hub, Watched};
use protocol::{Kind, ObjectKey};
use serde_json::{Value, json};

use crate::process::ARGOCD;
use crate::witness::Witness;

/// Where a user expects an Application.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Belongs {
    /// To this cluster, into this namespace.
    To(String, String),
    /// It contradicts itself.
    Conflict,
    /// Nowhere.
    Hub,
}

/// One Application of the hub and its expected state.
struct Judged {
    key: Key,
    object: Value,
    belongs: Belongs,
    ignored: bool,
    /// Its copy has to match the hub.
    delivered: bool,
}

/// The expected state of both sides.
pub(crate) struct Oracle<'a> {
    hub: &'a Hub,
    spokes: &'a BTreeMap<String, Spoke>,
    witness: &'a Witness,
    judged: Vec<Judged>,
}

impl<'a> Oracle<'a> {
    pub(crate) fn new(
        hub: &'a Hub,
        spokes: &'a BTreeMap<String, Spoke>,
        witness: &'a Witness,
    ) -> Self {
        let apps = hub.all(Watched::Application);
        let clusters: Vec<String> = spokes.keys().cloned().collect();
        let belongs = |key: &Key, object: &Value| belongs(key, object, &clusters);
        let mut keepers: BTreeMap<(String, String, String), (String, String)> = BTreeMap::new();
        for (key, object) in &apps {
            let meta = Meta::of(object);
            if let (Belongs::To(cluster, namespace), false) =
                (belongs(key, object), meta.is_ignored())
            {
                let claim = (
                    meta.creation_timestamp().unwrap_or_default().to_owned(),
                    meta.uid().to_owned(),
                );
                let place = (cluster, namespace, key.name.clone());
                let keeper = keepers.entry(place).or_insert_with(|| claim.clone());
                *keeper = claim.min(keeper.clone());
            }
        }
        let judged = apps.iter().map(|(key, object)| {
            let (meta, belongs) = (Meta::of(object), belongs(key, object));
            let keeps = match &belongs {
                Belongs::To(cluster, namespace) => keepers
                    .get(&(cluster.clone(), namespace.clone(), key.name.clone()))
                    .is_some_and(|(_, uid)| uid == meta.uid()),
                Belongs::Conflict | Belongs::Hub => false,
            };
            let admitted = match &belongs {
                Belongs::To(cluster, _) => {
                    meta.is_deleting() || admits(hub, Application::of(object).project(), cluster)
                }
                Belongs::Conflict | Belongs::Hub => false,
            };
            Judged {
                key: key.clone(),
                object: object.clone(),
                ignored: meta.is_ignored(),
                delivered: keeps && admitted && !meta.is_ignored(),
                belongs,
            }
        });
        Self {
            hub,
            spokes,
            witness,
            judged: judged.collect(),
        }
    }

    /// The Applications whose copies have to match the hub.
    pub(crate) fn delivered(&self) -> Vec<(Key, Value)> {
        let delivered = self.judged.iter().filter(|judged| judged.delivered);
        delivered
            .map(|judged| (judged.key.clone(), judged.object.clone()))
            .collect()
    }

    /// All deviations from the expected state.
    pub(crate) fn findings(&self) -> Vec<String> {
        let mut findings = vec![];
        for judged in &self.judged {
            self.check_hub(judged, &mut findings);
        }
        for (cluster, spoke) in self.spokes {
            for (key, object) in spoke.all() {
                self.check_spoke(cluster, &key, &object, &mut findings);
            }
            for project in self.hub.all(Watched::AppProject).keys() {
                self.check_project(cluster, spoke, &project.name, &mut findings);
            }
        }
        findings
    }

    fn check_hub(&self, judged: &Judged, findings: &mut Vec<String>) {
        let Judged { key, object, .. } = judged;
        if Meta::of(object).is_deleting() {
            let ends = judged.delivered || (judged.belongs == Belongs::Conflict && !judged.ignored);
            if ends {
                findings.push(format!("{key}: its deletion never ends"));
            }
            return;
        }
        let Belongs::To(cluster, namespace) = &judged.belongs else {
            return;
        };
        if !judged.delivered {
            return;
        }
        let copy = self
            .spokes
            .get(cluster)
            .and_then(|spoke| spoke.get(&app(namespace, &key.name)));
        let Some(copy) = copy else {
            findings.push(format!("{key}: it is not on {cluster}"));
            return;
        };
        for (what, wanted, found) in compared(object, &copy) {
            if wanted != found {
                findings.push(format!(
                    "{key} on {cluster}: {what} is {found} and should be {wanted}"
                ));
            }
        }
        let app = Application::of(object);
        if app.operation().is_some() {
            findings.push(format!("{key}: its operation stands for ever"));
        }
        if app.annotation(keys::REFRESH).is_some() {
            findings.push(format!("{key}: its refresh is never answered"));
        }
    }

    fn check_spoke(
        &self,
        cluster: &str,
        key: &ObjectKey,
        object: &Value,
        findings: &mut Vec<String>,
    ) {
        let meta = Meta::of(object);
        let Some(source) = meta.source_uid() else {
            return;
        };
        if meta.is_deleting() {
            findings.push(format!("{cluster}: the deletion of {key} never ends"));
        }
        let wanted = if key.kind == Kind::Application {
            self.may_be_there(cluster, key, source)
        } else {
            admits(self.hub, &key.name, cluster)
        };
        if !wanted {
            findings.push(format!("{cluster}: {key} of {source} is not wanted there"));
        }
    }

    fn may_be_there(&self, cluster: &str, key: &ObjectKey, source: &str) -> bool {
        self.judged.iter().any(|judged| {
            let same = Meta::of(&judged.object).uid() == source;
            let here = judged.key.name == key.name
                && judged.belongs == Belongs::To(cluster.to_owned(), key.namespace.clone());
            // A conflicting or ignored Application keeps the copies that it had before.
            let left = judged.ignored || judged.belongs == Belongs::Conflict;
            here || (left && same && self.witness.was_sent(cluster, source, key))
        })
    }

    fn check_project(&self, cluster: &str, spoke: &Spoke, name: &str, findings: &mut Vec<String>) {
        if !admits(self.hub, name, cluster) {
            return;
        }
        let on_hub = self.project(name);
        let copy = spoke.get(&ObjectKey::new(Kind::AppProject, ARGOCD, name));
        let text = |object: &Option<Value>| {
            object
                .as_ref()
                .map(|object| object["spec"]["description"].clone())
        };
        if text(&copy) != text(&on_hub) {
            findings.push(format!(
                "project {name} on {cluster}: {:?} and should be {:?}",
                text(&copy),
                text(&on_hub)
            ));
        }
    }

    fn project(&self, name: &str) -> Option<Value> {
        let projects = self.hub.all(Watched::AppProject);
        projects
            .into_iter()
            .find(|(key, _)| key.name == name)
            .map(|(_, object)| object)
    }
}

fn app(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new(Kind::Application, namespace, name)
}

/// The cluster of an Application of the hub.
pub(crate) fn cluster_of(key: &Key, object: &Value, clusters: &[String]) -> Option<String> {
    match belongs(key, object, clusters) {
        Belongs::To(cluster, _) => Some(cluster),
        Belongs::Conflict | Belongs::Hub => None,
    }
}

fn belongs(key: &Key, object: &Value, clusters: &[String]) -> Belongs {
    let to = Application::of(object).destination().name;
    if clusters.contains(&key.namespace) {
        return if to == key.namespace || to == keys::IN_CLUSTER {
            Belongs::To(key.namespace.clone(), ARGOCD.to_owned())
        } else {
            Belongs::Conflict
        };
    }
    if clusters.iter().any(|it| it == to) {
        Belongs::To(to.to_owned(), key.namespace.clone())
    } else {
        Belongs::Hub
    }
}

/// The projects of the simulation admit one cluster or all.
fn admits(hub: &Hub, project: &str, cluster: &str) -> bool {
    let projects = hub.all(Watched::AppProject);
    projects.iter().any(|(key, object)| {
        let to = &object["spec"]["destinations"][0]["name"];
        key.name == project && (*to == json!("*") || *to == json!(cluster))
    })
}

/// Fields that the hub owns, and then those that the spoke owns: name, expected value, actual value.
fn compared(hub: &Value, copy: &Value) -> Vec<(&'static str, Value, Value)> {
    let mut spec = hub["spec"].clone();
    spec["destination"]["name"] = json!(keys::IN_CLUSTER);
    let (on_hub, on_spoke) = (Meta::of(hub), Meta::of(copy));
    let cascades = |meta: Meta<'_>| json!(meta.finalizers().contains(&keys::RESOURCES_FINALIZER));
    vec![
        ("source", json!(on_hub.uid()), json!(on_spoke.source_uid())),
        ("spec", spec, copy["spec"].clone()),
        ("labels", json!(on_hub.labels()), json!(on_spoke.labels())),
        (
            "the note",
            json!(on_hub.annotation("note")),
            json!(on_spoke.annotation("note")),
        ),
        ("cascade", cascades(on_hub), cascades(on_spoke)),
        (
            "status on the hub",
            copy["status"].clone(),
            without_ours(hub["status"].clone()),
        ),
    ]
}

/// Without the conditions that the hub itself puts there.
fn without_ours(mut status: Value) -> Value {
    let ours = |condition: &Value| {
        let kind = condition["type"].as_str().unwrap_or_default();
        kind.starts_with(keys::HUB_CONDITION_PREFIX)
    };
    if let Some(list) = status.get_mut("conditions").and_then(Value::as_array_mut) {
        list.retain(|condition| !ours(condition));
        if list.is_empty() {
            status
                .as_object_mut()
                .map(|fields| fields.remove("conditions"));
        }
    }
    status
}
