//! Random actions of users on the hub and on the spokes.

use argocd::{Application, Meta, keys};
use principal::Key;
use principal::store::{Memory as Hub, Watched};
use protocol::{Kind, ObjectKey};
use serde_json::{Value, json};

use agent::sync::api::Memory as Spoke;

use crate::dice::Dice;
use crate::intents::Intents;
use crate::ledger::Ledger;
use crate::process::{ARGOCD, TEAM};

pub(crate) const NAMES: [&str; 3] = ["one", "two", "three"];
const PROJECTS: [&str; 2] = ["default", "team"];

/// All users, with a number for each thing that has to be unique.
pub(crate) struct People {
    pub(crate) dice: Dice,
    pub(crate) hub: Hub,
    pub(crate) clusters: Vec<String>,
    pub(crate) ledger: Ledger,
    pub(crate) intents: Intents,
    number: usize,
}

impl People {
    pub(crate) fn new(dice: &Dice, hub: &Hub, clusters: &[String]) -> Self {
        Self {
            dice: dice.clone(),
            hub: hub.clone(),
            clusters: clusters.to_vec(),
            ledger: Ledger::default(),
            intents: Intents::default(),
            number: 0,
        }
    }

    fn number(&mut self) -> usize {
        self.number += 1;
        self.number
    }

    /// A user changes something on the hub; returns a description.
    pub(crate) fn act_on_hub(&mut self, is_harsh: bool) -> String {
        let kinds = if is_harsh { 21 } else { 20 };
        let (what, apps) = (self.dice.below(kinds), self.hub.all(Watched::Application));
        if what < 5 || apps.is_empty() {
            return self.create();
        }
        let all: Vec<(&Key, &Value)> = apps.iter().collect();
        let (key, app) = *self.dice.pick(&all);
        let (key, app) = (key.clone(), app.clone());
        match what {
            5..=7 => self.edit(&key),
            8 | 9 => {
                self.delete(&key, &app);
                format!("{key} with UID {} deleted", Meta::of(&app).uid())
            }
            10 => self.recreate(&key, &app),
            11 => self.move_elsewhere(&key),
            12..=14 => self.sync(&key, &app),
            15 => self.refresh(&key),
            16 => self.terminate(&key, &app),
            17 => self.ignore(&key, &app),
            18 | 19 => self.change_project(),
            _ => self.change_cascade(&key, &app),
        }
    }

    fn put(&mut self, object: Value) {
        self.intents.created(&object);
        self.hub.put(Watched::Application, object);
    }

    /// Deletes an Application that is like this now.
    fn delete(&mut self, key: &Key, app: &Value) {
        self.ledger.deleted_on_hub(app);
        self.intents.deleted(key);
        self.hub
            .delete(Watched::Application, &key.namespace, &key.name);
    }

    fn patch(&mut self, key: &Key, patch: Value) {
        self.intents.patched(key, &patch);
        self.hub
            .edit(Watched::Application, &key.namespace, &key.name, patch);
    }

    fn create(&mut self) -> String {
        let own = self.dice.pick(&self.clusters).clone();
        let namespace = self.dice.pick(&[own.as_str(), ARGOCD, TEAM]).to_string();
        let to = if namespace == own {
            self.dice
                .pick(&[own.as_str(), "in-cluster", "in-cluster", "elsewhere"])
                .to_string()
        } else {
            let cluster = self.dice.pick(&self.clusters).clone();
            self.dice
                .pick(&[
                    cluster.as_str(),
                    cluster.as_str(),
                    cluster.as_str(),
                    "in-cluster",
                ])
                .to_string()
        };
        let key = Key {
            namespace,
            name: self.dice.pick(&NAMES).to_string(),
        };
        if self.hub.application(&key.namespace, &key.name).is_some() {
            return self.edit(&key);
        }
        let number = self.number();
        let finalizers: &[&str] = if self.dice.probability(0.5) {
            &[keys::RESOURCES_FINALIZER]
        } else {
            &[]
        };
        let object = json!({
            "apiVersion": keys::API_VERSION,
            "kind": "Application",
            "metadata": {
                "namespace": key.namespace, "name": key.name, "finalizers": finalizers,
                "labels": { "made": number.to_string() },
            },
            "spec": {
                "project": self.dice.pick(&PROJECTS),
                "source": { "repoURL": "https://example.com/r.git", "path": number.to_string() },
                "destination": { "name": to, "namespace": "work" },
            },
        });
        self.put(object);
        format!("{key} to {to} created as {number}")
    }

    fn edit(&mut self, key: &Key) -> String {
        let number = self.number();
        let text = number.to_string();
        let patch = match self.dice.below(4) {
            0 => json!({ "metadata": { "labels": { "edited": text } } }),
            1 => json!({ "metadata": { "annotations": { "note": text } } }),
            2 => {
                json!({ "metadata": { "annotations": { "note": null } }, "spec": { "source": { "path": text } } })
            }
            _ => json!({ "spec": { "source": { "path": text } } }),
        };
        self.patch(key, patch);
        format!("{key} edited as {number}")
    }

    /// A user changes the path of its source.
    pub(crate) fn set_path(&mut self, key: &Key) -> String {
        let path = format!("path {}", self.number());
        self.patch(key, json!({ "spec": { "source": { "path": path } } }));
        path
    }

    /// As an `ApplicationSet` does that was deleted and made again.
    fn recreate(&mut self, key: &Key, app: &Value) -> String {
        if Meta::of(app).is_deleting() {
            return "nothing".to_owned();
        }
        let mut again = json!({ "apiVersion": keys::API_VERSION, "kind": "Application" });
        again["metadata"] = json!({
            "namespace": key.namespace, "name": key.name, "labels": app["metadata"]["labels"],
        });
        again["spec"] = app["spec"].clone();
        let release = json!({ "metadata": { "finalizers": null } });
        self.patch(key, release);
        let app = self.hub.application(&key.namespace, &key.name);
        self.delete(key, &app.unwrap_or_default());
        self.put(again);
        format!("{key} deleted and made again")
    }

    /// As `argocd app delete --cascade=false` does: the finalizer goes, and then the Application. The pause between the two
    /// is short or long.
    fn change_cascade(&mut self, key: &Key, app: &Value) -> String {
        if Meta::of(app).is_deleting() {
            return "nothing".to_owned();
        }
        if Meta::of(app).finalizers().is_empty() {
            let finalizers = json!([keys::RESOURCES_FINALIZER]);
            self.patch(key, json!({ "metadata": { "finalizers": finalizers } }));
            return format!("{key} cascades");
        }
        self.patch(key, json!({ "metadata": { "finalizers": null } }));
        if self.dice.probability(0.5) {
            return format!("{key} does not cascade any more");
        }
        let app = self.hub.application(&key.namespace, &key.name);
        self.delete(key, &app.unwrap_or_default());
        format!("{key} deleted without its workload")
    }

    fn move_elsewhere(&mut self, key: &Key) -> String {
        let to = self.dice.pick(&self.clusters).clone();
        self.patch(key, json!({ "spec": { "destination": { "name": to } } }));
        format!("{key} moved to {to}")
    }

    /// Argo CD's API server refuses a sync while another operation is set.
    pub(crate) fn sync(&mut self, key: &Key, app: &Value) -> String {
        if Application::of(app).operation().is_some() || Meta::of(app).is_deleting() {
            return "nothing".to_owned();
        }
        let name = format!("sync-{}", self.number());
        let operation = json!({
            "info": [{ "name": "by", "value": name }], "sync": { "revision": "HEAD" },
        });
        self.patch(key, json!({ "operation": operation }));
        format!("{key} {name} asked for")
    }

    pub(crate) fn refresh(&mut self, key: &Key) -> String {
        let annotations = json!({ keys::REFRESH: "normal" });
        self.patch(key, json!({ "metadata": { "annotations": annotations } }));
        format!("{key} refresh asked for")
    }

    fn terminate(&mut self, key: &Key, app: &Value) -> String {
        let state = Application::of(app).operation_state();
        if state.is_none_or(|state| state.phase() != "Running") {
            return "nothing".to_owned();
        }
        let phase = json!({ "phase": "Terminating" });
        self.patch(key, json!({ "status": { "operationState": phase } }));
        format!("{key} termination asked for")
    }

    fn ignore(&mut self, key: &Key, app: &Value) -> String {
        let ignored = Meta::of(app).is_ignored();
        let label = (!ignored).then_some("true");
        let labels = json!({ keys::IGNORE_SYNC: label });
        self.patch(key, json!({ "metadata": { "labels": labels } }));
        format!("{key} ignored: {}", !ignored)
    }

    fn change_project(&mut self) -> String {
        let (number, how) = (self.number(), self.dice.below(4));
        if how == 0 {
            self.hub.delete(Watched::AppProject, ARGOCD, "team");
            return "project team deleted".to_owned();
        }
        let to = match how {
            1 => self.dice.pick(&self.clusters).clone(),
            _ => "*".to_owned(),
        };
        self.hub
            .put(Watched::AppProject, project("team", &to, number));
        format!("project team admits {to}")
    }

    /// A user changes something on a spoke; returns a description.
    pub(crate) fn act_on_spoke(&mut self, cluster: &str, spoke: &Spoke) -> String {
        let all = spoke.all();
        let what = self.dice.below(6);
        if what == 0 || all.is_empty() {
            let name = (*self.dice.pick(&NAMES)).to_owned();
            let key = ObjectKey::new(Kind::Application, ARGOCD, name.clone());
            if spoke.get(&key).is_some() {
                return "nothing".to_owned();
            }
            let local = json!({
                "apiVersion": keys::API_VERSION, "kind": "Application",
                "metadata": { "namespace": ARGOCD, "name": name },
                "spec": { "project": "default", "source": { "path": "local" },
                          "destination": { "name": "in-cluster" } },
            });
            spoke.put(Kind::Application, local);
            return format!("{key} made locally");
        }
        let (key, object) = self.dice.pick(&all);
        match what {
            1 => {
                self.ledger.deleted_locally(cluster, object);
                spoke.delete(key);
                format!("{key} with UID {} deleted locally", Meta::of(object).uid())
            }
            2 => {
                let number = self.number().to_string();
                let annotations = json!({ "local": number });
                spoke.edit(key, json!({ "metadata": { "annotations": annotations } }));
                format!("{key} annotated locally")
            }
            3 => {
                let number = self.number().to_string();
                let labels = json!({ "local": number });
                spoke.edit(key, json!({ "metadata": { "labels": labels } }));
                format!("{key} labelled locally")
            }
            _ => {
                let number = self.number();
                let spec = if key.kind == Kind::AppProject {
                    json!({ "description": number.to_string() })
                } else {
                    json!({ "source": { "path": format!("local {number}") } })
                };
                spoke.edit(key, json!({ "spec": spec }));
                format!("{key} edited locally as {number}")
            }
        }
    }
}

/// A project that admits everything to these clusters.
pub(crate) fn project(name: &str, to: &str, number: usize) -> Value {
    json!({
        "apiVersion": keys::API_VERSION,
        "kind": "AppProject",
        "metadata": { "namespace": ARGOCD, "name": name },
        "spec": {
            "description": number.to_string(),
            "sourceRepos": ["*"], "sourceNamespaces": ["*"],
            // By a server, it would admit all clusters.
            "destinations": [{ "name": to, "namespace": "*" }],
        },
    })
}
