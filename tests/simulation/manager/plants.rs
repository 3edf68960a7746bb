//! Breaks a promise of the hub program directly before the judgement, so that no program reacts.

use serde_json::{Value, json};

use super::World;
use super::api::{Key, Write};
use super::fault::Last;
use super::ledger::OWN;
use super::ocm::{ADD_ONS, ADDON, WORKS};
use super::people::{Intent, People, REQUESTS};

impl World {
    /// Does nothing in a history without an object that the promise is about.
    pub(super) fn plant(&self, last: Last, asked: &[(Intent, String)]) {
        let has = |intent: &&Intent| self.people.add_on(&intent.name).is_some();
        let mut intents = asked.iter().map(|(intent, _)| intent);
        let enrolled = intents.clone().find(|it| it.wants_it() && has(it));
        let out = intents.clone().find(|it| !it.wants_it() && !has(it));
        let revoked = intents.find(|it| it.wants_it() && it.revoked && has(it));
        match (last, enrolled, out) {
            (Last::NoAddOn, Some(it), _) => self.remove(&add_on(it)),
            (Last::LeftAddOn, _, Some(it)) => {
                let left = json!({
                    "apiVersion": "addon.open-cluster-management.io/v1alpha1",
                    "kind": "ManagedClusterAddOn", "metadata": {}, "spec": {},
                });
                self.plants(&add_on(it), Write::Create(left));
            }
            (Last::Mode, Some(it), _) => self.annotate(it, "mode", &json!("other")),
            (Last::Maker, Some(it), _) => {
                let made = if it.by_hand {
                    json!("true")
                } else {
                    Value::Null
                };
                self.annotate(it, "made-for-label", &made);
            }
            (Last::Restored, ..) => {
                if let Some(it) = revoked {
                    self.annotate(it, "revoked", &Value::Null);
                }
            }
            (Last::StuckAddOn, Some(it), _) => self.delete_slowly(&add_on(it)),
            (Last::NoWork, Some(it), _) => {
                for (key, _) in self.api.list(WORKS, &it.name) {
                    self.remove(&key);
                }
            }
            (Last::StuckWork, Some(it), _) => {
                for (key, _) in self.api.list(WORKS, &it.name).iter().take(1) {
                    self.delete_slowly(key);
                }
            }
            (Last::Granted, ..) => self.grant_one(asked),
            (Last::Selection, ..) => self.select_all(),
            (_, None, _) | (Last::LeftAddOn, _, None) => {}
        }
    }

    /// Signs a request of a cluster that may have no certificate.
    fn grant_one(&self, asked: &[(Intent, String)]) {
        let other = asked.iter().find(|(it, _)| !it.wants_it() || it.revoked);
        let Some((_, request)) = other else {
            return;
        };
        let key: Key = (REQUESTS.to_owned(), String::new(), request.clone());
        let granted = Write::Merge(json!({ "status": { "certificate": "Zm9yZ2Vk" } }));
        let written = self.api.write(&key, "status", "planted", granted);
        written.expect("the request is there");
    }

    /// Labels every Pod of the hub program as the one that serves agents.
    fn select_all(&self) {
        let labels = json!({ People::annotation("active"): "true" });
        for (key, _) in self.api.list("pods", OWN) {
            let labelled = json!({ "metadata": { "labels": labels } });
            self.plants(&key, Write::Merge(labelled));
        }
    }

    fn plants(&self, key: &Key, write: Write) {
        let written = self.api.write(key, "", "planted", write);
        written.expect("a write that fits");
    }

    fn annotate(&self, intent: &Intent, name: &str, value: &Value) {
        let annotations = json!({ People::annotation(name): value });
        let patch = json!({ "metadata": { "annotations": annotations } });
        self.plants(&add_on(intent), Write::Merge(patch));
    }

    fn remove(&self, key: &Key) {
        let released = json!({ "metadata": { "finalizers": null } });
        self.plants(key, Write::Merge(released));
        self.plants(key, Write::Delete(None, None));
    }

    fn delete_slowly(&self, key: &Key) {
        let finalizers = json!({ "finalizers": ["example.com/stuck"] });
        self.plants(key, Write::Merge(json!({ "metadata": finalizers })));
        self.plants(key, Write::Delete(None, None));
    }
}

fn add_on(intent: &Intent) -> Key {
    (ADD_ONS.to_owned(), intent.name.clone(), ADDON.to_owned())
}
