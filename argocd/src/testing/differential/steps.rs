//! Random steps. All objects are valid by the CRDs of Argo CD.

use serde_json::{Value, json};

use super::{Key, Kind, LABEL, NAMESPACE, Pin, Step};
use crate::patch::{self, Patch};

/// Random steps; `below` draws a number below its parameter.
pub fn sequence(count: usize, below: &mut dyn FnMut(usize) -> usize) -> Vec<Step> {
    let mut draw = Draw { below };
    (0..count).map(|_| draw.step()).collect()
}

/// A valid object with only the fields that it needs.
pub fn plain(kind: Kind, name: &str) -> Value {
    let (api_version, kind_name) = kind.names();
    let mut object = match kind {
        Kind::Application => json!({ "spec": {
            "project": "default",
            "source": { "repoURL": "https://example.com/r.git", "path": "p" },
            "destination": { "name": "in-cluster", "namespace": "default" },
        } }),
        Kind::AppProject => json!({ "spec": { "sourceRepos": ["*"] } }),
        Kind::Secret => json!({ "type": "Opaque", "data": { "k": "YQ==" } }),
    };
    let head = json!({
        "apiVersion": api_version,
        "kind": kind_name,
        "metadata": { "name": name, "namespace": NAMESPACE },
    });
    patch::merge(&mut object, &head);
    object
}

struct Draw<'a> {
    below: &'a mut dyn FnMut(usize) -> usize,
}

impl Draw<'_> {
    fn one_in(&mut self, sides: usize) -> bool {
        (self.below)(sides) == 0
    }

    fn pick<T: Clone>(&mut self, first: T, others: &[T]) -> T {
        let index = (self.below)(others.len() + 1);
        others.get(index).cloned().unwrap_or(first)
    }

    fn step(&mut self) -> Step {
        // Names are few, so that most requests meet an object.
        let kind = self.pick(Kind::Application, &Kind::ALL);
        let name = self.pick("a", &["b"]);
        let key = Key { kind, name };
        match (self.below)(12) {
            0..=2 => Step::Create(key, self.created(key)),
            3 | 4 => {
                let (uid, version) = (self.pin(), self.pin());
                Step::Delete { key, uid, version }
            }
            5 => Step::List(kind, self.pick(None, &[Some("red")])),
            _ => {
                let patch = self.patch(kind);
                let (uid, version) = (self.pin(), self.pin());
                Step::Patch {
                    key,
                    patch,
                    uid,
                    version,
                }
            }
        }
    }

    fn pin(&mut self) -> Pin {
        self.pick(Pin::Free, &[Pin::Free, Pin::Last, Pin::Last, Pin::First])
    }

    fn created(&mut self, key: Key) -> Value {
        let mut object = plain(key.kind, key.name);
        for change in [self.metadata(), self.metadata(), self.body(key.kind)] {
            patch::merge(&mut object, &change);
        }
        if self.one_in(8) {
            let copied = json!({ "metadata": {
                "uid": "copied",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "deletionTimestamp": "2026-01-02T00:00:00Z",
            } });
            patch::merge(&mut object, &copied);
        }
        object
    }

    fn patch(&mut self, kind: Kind) -> Patch {
        if self.one_in(2) {
            let change = if self.one_in(2) {
                self.metadata()
            } else {
                self.body(kind)
            };
            return Patch::Merge(change);
        }
        let possible = operations(kind);
        let count = self.pick(1, &[0, 1, 2]);
        let operations = (0..count).filter_map(|_| {
            let index = (self.below)(possible.len());
            possible.get(index).cloned()
        });
        Patch::Json(operations.collect())
    }

    /// A merge patch of the metadata, in the body of an object.
    fn metadata(&mut self) -> Value {
        let changes = [
            json!({ "labels": { LABEL: "red" } }),
            json!({ "labels": { LABEL: "blue" } }),
            json!({ "labels": { LABEL: null } }),
            json!({ "labels": {} }),
            json!({ "annotations": { "example.com/note": "x" } }),
            json!({ "annotations": { "example.com/note": null } }),
            json!({ "annotations": null }),
            json!({ "finalizers": ["example.com/one"] }),
            json!({ "finalizers": ["example.com/one", "example.com/two"] }),
            json!({ "finalizers": [] }),
            json!({ "finalizers": null }),
        ];
        json!({ "metadata": self.pick(json!({}), &changes) })
    }

    /// A merge patch of everything but the metadata.
    fn body(&mut self, kind: Kind) -> Value {
        match kind {
            Kind::Application => self.pick(
                json!({ "spec": { "source": { "path": "p" } } }),
                &[
                    json!({ "spec": { "source": { "path": "q" } } }),
                    json!({ "spec": { "source": { "helm": { "valuesObject": { "k": "v" } } } } }),
                    json!({ "spec": { "source": { "helm": { "valuesObject": { "k": null } } } } }),
                    json!({ "spec": { "source": { "helm": null } } }),
                    json!({ "spec": { "sources": [source(&json!({ "k": null, "l": { "m": null } }))] } }),
                    json!({ "spec": { "sources": null } }),
                    json!({ "status": { "health": { "status": "Healthy" } } }),
                    json!({ "status": null }),
                    json!({ "operation": { "initiatedBy": { "username": "ann" } } }),
                    json!({ "operation": null }),
                ],
            ),
            Kind::AppProject => self.pick(
                json!({ "spec": { "description": "d" } }),
                &[
                    json!({ "spec": { "description": null } }),
                    json!({ "spec": { "sourceRepos": ["*", "https://example.com/r.git"] } }),
                    json!({ "spec": { "sourceRepos": [] } }),
                    json!({ "spec": { "destinations": [{ "name": "*", "namespace": "*" }] } }),
                ],
            ),
            Kind::Secret => self.pick(
                json!({ "data": { "k": "Yg==" } }),
                &[
                    json!({ "data": { "k": null } }),
                    json!({ "data": { "l": "Yw==" } }),
                    json!({ "data": null }),
                ],
            ),
        }
    }
}

fn source(values: &Value) -> Value {
    json!({ "repoURL": "https://example.com/r.git", "helm": { "valuesObject": values } })
}

/// Operations of JSON patches; some do not fit most objects.
fn operations(kind: Kind) -> Vec<Value> {
    let mut operations = vec![
        json!({ "op": "add", "path": "/metadata/labels", "value": {} }),
        json!({ "op": "add", "path": "/metadata/labels", "value": { LABEL: "red" } }),
        json!({ "op": "add", "path": "/metadata/labels/team", "value": "blue" }),
        json!({ "op": "replace", "path": "/metadata/labels/team", "value": "red" }),
        json!({ "op": "remove", "path": "/metadata/labels/team" }),
        json!({ "op": "add", "path": "/metadata/annotations", "value": { "example.com/note": "x" } }),
        json!({ "op": "replace", "path": "/metadata/annotations/example.com~1note", "value": "y" }),
        json!({ "op": "remove", "path": "/metadata/annotations/example.com~1note" }),
        json!({ "op": "add", "path": "/metadata/finalizers", "value": ["example.com/one"] }),
        json!({ "op": "add", "path": "/metadata/finalizers/-", "value": "example.com/two" }),
        json!({ "op": "remove", "path": "/metadata/finalizers" }),
        json!({ "op": "remove", "path": "/metadata/finalizers/0" }),
    ];
    operations.extend(match kind {
        Kind::Application => vec![
            json!({ "op": "add", "path": "/spec/source/helm", "value": { "valuesObject": { "k": null } } }),
            json!({ "op": "replace", "path": "/spec/source/helm/valuesObject/k", "value": null }),
            json!({ "op": "replace", "path": "/spec/sources", "value": [source(&json!({ "k": null }))] }),
            json!({ "op": "replace", "path": "/spec/sources/0/path", "value": "q" }),
            json!({ "op": "remove", "path": "/spec/source/path" }),
            json!({ "op": "add", "path": "/status", "value": { "health": { "status": "Missing" } } }),
            json!({ "op": "remove", "path": "/operation" }),
        ],
        Kind::AppProject => vec![
            json!({ "op": "add", "path": "/spec/sourceRepos/-", "value": "https://example.com/s.git" }),
            json!({ "op": "remove", "path": "/spec/sourceRepos/0" }),
            json!({ "op": "replace", "path": "/spec/sourceRepos/1", "value": "*" }),
            json!({ "op": "replace", "path": "/spec/description", "value": "e" }),
        ],
        Kind::Secret => vec![
            json!({ "op": "add", "path": "/data/k", "value": "Yg==" }),
            json!({ "op": "remove", "path": "/data/k" }),
            json!({ "op": "replace", "path": "/data", "value": { "l": "Yw==" } }),
        ],
    });
    operations
}
