//! Plants faults at the end of a history: each breaks a promise as a defect of the product would.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "each place has a few of the faults"
)]

use std::time::Duration;

use agent::sync::api::{self, Spoke};
use argocd::{Meta, Patch, keys};
use principal::Key;
use principal::store::{Store as _, Watched};
use protocol::{Kind, ObjectKey};
use serde_json::{Value, json};

use super::World;
use super::site::Site;
use crate::fault::Fault;
use crate::network::Conditions;
use crate::oracle::Oracle;
use crate::process::{ARGOCD, TEAM};

/// A delivered Application, and its copy.
struct Delivered<'a> {
    key: Key,
    site: &'a Site,
    copy_key: ObjectKey,
    copy: Value,
}

impl World {
    /// Before the last connection: the product reacts to these.
    pub(super) fn plant_before_a_connection(&self) {
        let Some(Delivered {
            key,
            site,
            copy_key,
            copy,
        }) = self.delivered()
        else {
            return;
        };
        let cascades = Meta::of(&copy)
            .finalizers()
            .contains(&keys::RESOURCES_FINALIZER);
        match self.fault {
            Fault::StolenWorkload if cascades => site.store.inner.delete(&copy_key),
            Fault::Overwritten => {
                let spec = json!({ "spec": { "source": { "path": "overwritten" } } });
                self.edit_on_hub(&key, spec);
            }
            Fault::Vanished => {
                self.edit_on_hub(&key, json!({ "metadata": { "finalizers": null } }));
                self.delete_on_hub(&key);
            }
            _ => {}
        }
    }

    /// Directly before a look, so that no program reacts.
    pub(super) async fn plant_before_a_look(&self) {
        let Some(one) = self.delivered() else {
            return;
        };
        self.plant_on_a_spoke(&one);
        self.plant_in_a_copy(&one);
        self.plant_on_the_hub(&one.key);
        if self.fault == Fault::IdleWrites {
            self.write_idly(&one.key).await;
        }
        if self.fault == Fault::IdleWritesOnSpoke {
            let (spoke, uid) = (&one.site.store, Meta::of(&one.copy).uid());
            for _ in 0..=spoke.failures() {
                let nothing = Patch::Merge(json!({}));
                let written = Spoke::patch(&spoke.inner, &one.copy_key, uid, nothing).await;
                written.expect("the copy is there");
            }
        }
    }

    /// The first spoke changes the status of a copy for ever.
    pub(super) fn plant_at_the_end(&self) {
        if self.fault != Fault::Restless {
            return;
        }
        let (spoke, stop) = (self.sites[0].store.inner.clone(), self.stop.clone());
        self.nature.spawn("restless", async move {
            let mut number = 0_u32;
            let pause = || tokio::time::sleep(Duration::from_mins(1));
            while stop.run_until_cancelled(pause()).await.is_some() {
                number += 1;
                for (key, _) in spoke.all() {
                    spoke.edit(&key, json!({ "status": { "tick": number } }));
                }
            }
        });
    }

    fn plant_on_a_spoke(&self, one: &Delivered<'_>) {
        let (spoke, copy_key) = (&one.site.store.inner, &one.copy_key);
        match self.fault {
            Fault::LostCopy => {
                spoke.edit(copy_key, json!({ "metadata": { "finalizers": null } }));
                spoke.delete(copy_key);
            }
            Fault::LeftCopy => spoke.put(Kind::Application, copy_of("uid-0", ARGOCD, "left")),
            Fault::MisplacedCopy => self.misplace_a_copy(),
            Fault::StuckDeletion => {
                spoke.edit(copy_key, stuck(&one.copy));
                spoke.delete(copy_key);
            }
            Fault::LeftProject => {
                let mut left = copy_of("uid-0", ARGOCD, "left");
                left["kind"] = json!("AppProject");
                spoke.put(Kind::AppProject, left);
            }
            Fault::FalseProject => {
                let project = ObjectKey::new(Kind::AppProject, ARGOCD, "default");
                spoke.edit(&project, json!({ "spec": { "description": "false" } }));
            }
            _ => {}
        }
    }

    fn plant_in_a_copy(&self, one: &Delivered<'_>) {
        let (spoke, copy_key) = (&one.site.store.inner, &one.copy_key);
        match self.fault {
            Fault::FalseSource => annotate(spoke, copy_key, keys::SOURCE_UID, "uid-0"),
            Fault::FalseNote => annotate(spoke, copy_key, "note", "false"),
            Fault::FalseLabels => {
                let labels = json!({ "metadata": { "labels": { "false": "true" } } });
                spoke.edit(copy_key, labels);
            }
            Fault::FalseCascade => {
                let cascades = Meta::of(&one.copy).finalizers();
                let other: &[&str] = if cascades.is_empty() {
                    &[keys::RESOURCES_FINALIZER]
                } else {
                    &[]
                };
                spoke.edit(copy_key, json!({ "metadata": { "finalizers": other } }));
            }
            Fault::FalseSpec => {
                let path = json!({ "spec": { "source": { "path": "false" } } });
                spoke.edit(copy_key, path);
            }
            _ => {}
        }
    }

    fn plant_on_the_hub(&self, key: &Key) {
        let hub = &self.hub.inner;
        match self.fault {
            Fault::StuckOnHub => {
                let app = hub.application(&key.namespace, &key.name);
                self.edit_on_hub(key, stuck(&app.unwrap_or_default()));
                self.delete_on_hub(key);
            }
            Fault::Invented => {
                let mut invented = copy_of("uid-0", ARGOCD, "invented");
                invented["spec"]["destination"]["name"] = json!("elsewhere");
                hub.put(Watched::Application, invented);
            }
            Fault::FalseStatus => {
                let status = json!({ "status": { "health": { "status": "Unknown" } } });
                self.edit_on_hub(key, status);
            }
            Fault::StandingOperation => {
                self.edit_on_hub(key, json!({ "operation": { "sync": {} } }));
            }
            Fault::StandingRefresh => {
                let refresh = json!({ "annotations": { keys::REFRESH: "normal" } });
                self.edit_on_hub(key, json!({ "metadata": refresh }));
            }
            _ => {}
        }
    }

    /// While the principal starts again.
    pub(super) fn plant_at_a_restart(&self) {
        if self.fault == Fault::WriteAtRestart
            && let Some(one) = self.delivered()
        {
            let labels = json!({ "metadata": { "labels": { "restarted": "true" } } });
            self.edit_on_hub(&one.key, labels);
        }
    }

    /// While the agents start again.
    pub(super) fn plant_at_a_restart_of_agents(&self) {
        if self.fault == Fault::CutAtEnd {
            let cut = Conditions {
                cut: true,
                ..Conditions::FINE
            };
            self.network.set_conditions(&self.sites[0].name, cut);
        }
        if self.fault == Fault::WriteAtAgentRestart
            && let Some(one) = self.delivered()
        {
            let labels = json!({ "metadata": { "labels": { "restarted": "true" } } });
            one.site.store.inner.edit(&one.copy_key, labels);
        }
    }

    /// An ignored Application gets a copy where it had none.
    fn misplace_a_copy(&self) {
        let apps = self.hub.inner.all(Watched::Application);
        for (key, app) in apps.iter().filter(|(_, app)| Meta::of(app).is_ignored()) {
            let uid = Meta::of(app).uid();
            for (site, namespace) in self.sites.iter().flat_map(|it| [(it, ARGOCD), (it, TEAM)]) {
                let copy = ObjectKey::new(Kind::Application, namespace, &key.name);
                let spoke = &site.store.inner;
                let is_free = spoke.get(&copy).is_none();
                if is_free && !self.network.witness().was_sent(&site.name, uid, &copy) {
                    return spoke.put(Kind::Application, copy_of(uid, namespace, &key.name));
                }
            }
        }
    }

    /// More such writes than failures of the API server explain.
    async fn write_idly(&self, key: &Key) {
        let hub = &self.hub.inner;
        let app = hub.application(&key.namespace, &key.name);
        let app = app.unwrap_or_default();
        let version = Meta::of(&app).resource_version();
        for _ in 0..=self.hub.failures() {
            let nothing = Patch::Merge(json!({}));
            let written = hub.patch(Watched::Application, key, version, nothing);
            written.await.expect("the object is there");
        }
    }

    fn edit_on_hub(&self, key: &Key, patch: Value) {
        let hub = &self.hub.inner;
        hub.edit(Watched::Application, &key.namespace, &key.name, patch);
    }

    fn delete_on_hub(&self, key: &Key) {
        let hub = &self.hub.inner;
        hub.delete(Watched::Application, &key.namespace, &key.name);
    }

    fn delivered(&self) -> Option<Delivered<'_>> {
        if self.fault == Fault::None {
            return None;
        }
        let spokes = self.spokes();
        let oracle = Oracle::new(&self.hub.inner, &spokes, self.network.witness());
        let wanted = oracle.delivered().into_iter();
        let mut wanted = wanted.filter(|(_, object)| !Meta::of(object).is_deleting());
        wanted.find_map(|(key, object)| {
            let uid = Meta::of(&object).uid();
            self.sites.iter().find_map(|site| {
                let mut all = site.store.inner.all().into_iter();
                let (copy_key, copy) = all.find(|(key, copy)| {
                    key.kind == Kind::Application && Meta::of(copy).source_uid() == Some(uid)
                })?;
                Some(Delivered {
                    key: key.clone(),
                    site,
                    copy_key,
                    copy,
                })
            })
        })
    }
}

fn annotate(spoke: &api::Memory, key: &ObjectKey, name: &str, value: &str) {
    let annotations = json!({ name: value });
    spoke.edit(key, json!({ "metadata": { "annotations": annotations } }));
}

/// A patch that keeps an object that is being deleted.
fn stuck(object: &Value) -> Value {
    let mut finalizers = Meta::of(object).finalizers();
    finalizers.push("example.com/stuck");
    json!({ "metadata": { "finalizers": finalizers } })
}

/// A copy as the agent makes it of the Application with this UID.
fn copy_of(uid: &str, namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": keys::API_VERSION, "kind": "Application",
        "metadata": {
            "namespace": namespace, "name": name, "annotations": { keys::SOURCE_UID: uid },
        },
        "spec": { "project": "default", "destination": { "name": keys::IN_CLUSTER } },
    })
}
