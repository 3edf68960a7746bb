//! What users last wrote to each Application of the hub: the fields that no program may change.

use std::collections::BTreeMap;

use argocd::{Meta, Patch};
use principal::Key;
use principal::store::{Memory as Hub, Watched};
use serde_json::{Value, json};

/// The Applications of the hub as users wrote them; statuses and commands in them do not count.
#[derive(Clone, Debug, Default)]
pub(crate) struct Intents(BTreeMap<Key, Value>);

impl Intents {
    /// A user creates this Application.
    pub(crate) fn created(&mut self, object: &Value) {
        self.0.insert(key(object), object.clone());
    }

    /// A user patches it.
    pub(crate) fn patched(&mut self, key: &Key, patch: &Value) {
        let patch = Patch::Merge(patch.clone());
        if let Some(known) = self.0.get_mut(key)
            && let Some(changed) = patch.try_applied_to(known)
        {
            *known = changed;
        }
    }

    /// A user deletes it: without finalizers it is gone at once.
    pub(crate) fn deleted(&mut self, key: &Key) {
        let stays = self
            .0
            .get(key)
            .is_some_and(|known| !Meta::of(known).finalizers().is_empty());
        if stays {
            let now = json!({ "metadata": { "deletionTimestamp": "2026-01-02T00:00:00Z" } });
            self.patched(key, &now);
        } else {
            self.0.remove(key);
        }
    }

    /// The hub is as it was when these objects were all that it had; deletions are forgotten.
    pub(crate) fn restored(&self, objects: &[Value]) -> Self {
        let undeleted = json!({ "metadata": { "deletionTimestamp": null } });
        let mut all = Self::default();
        for key in objects.iter().map(key) {
            if let Some(known) = self.0.get(&key) {
                all.0.insert(key.clone(), known.clone());
                all.patched(&key, &undeleted);
            }
        }
        all
    }

    /// Where the hub differs from what users last wrote.
    pub(crate) fn findings(&self, hub: &Hub) -> Vec<String> {
        let apps = hub.all(Watched::Application);
        let mut findings = vec![];
        for (key, wanted) in &self.0 {
            let is_deleting = Meta::of(wanted).is_deleting();
            match apps.get(key) {
                None if is_deleting => {}
                None => findings.push(format!(
                    "{key} is gone from the hub, and users last wrote {:#}",
                    fields(wanted)
                )),
                Some(found) if is_deleting && Meta::of(found).is_deleting() => {}
                Some(found) if fields(found) == fields(wanted) => {}
                Some(found) => findings.push(format!(
                    "{key} with UID {} is {} on the hub, and users last wrote {}",
                    Meta::of(found).uid(),
                    fields(found),
                    fields(wanted)
                )),
            }
        }
        let unknown = apps.keys().filter(|key| !self.0.contains_key(key));
        findings.extend(unknown.map(|key| format!("{key} is on the hub, and users wrote no such")));
        findings
    }
}

fn key(object: &Value) -> Key {
    let meta = Meta::of(object);
    Key {
        namespace: meta.namespace().to_owned(),
        name: meta.name().to_owned(),
    }
}

/// The fields that only users write while an Application is not being deleted.
fn fields(object: &Value) -> Value {
    let meta = Meta::of(object);
    json!({
        "spec": object["spec"],
        "labels": meta.labels(),
        "note": meta.annotation("note"),
        "finalizers": meta.finalizers(),
        "deleting": meta.is_deleting(),
    })
}
