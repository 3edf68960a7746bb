//! Random requests for the in-memory API server and for a real one, and the normal form in which answers are compared.
//!
//! Everything here is pure; an end-to-end test sends the requests. Each server makes its own UIDs and versions, so a
//! [`Step`] refers to those of earlier answers, and a [`Record`] of one server's answers resolves them.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::keys;
use crate::object::Meta;
use crate::patch::Patch;

mod server;
mod steps;
#[cfg(test)]
mod tests;

pub use server::Memory;
pub use steps::{plain, sequence};

/// The namespace of all objects.
pub const NAMESPACE: &str = "differential";

/// The label that a list may select.
pub const LABEL: &str = "team";

/// Deliberate differences between the in-memory API server and a real one, with their reasons; `docs/testing.md` has
/// the same list.
pub const DIFFERENCES: [(&str, &str); 9] = [
    (
        "creationTimestamp, generation, managedFields, deletionGracePeriodSeconds",
        "removed before a comparison: no program in a simulation decides by them",
    ),
    (
        "the type of a change",
        "created and changed objects are reported alike, as by kube's watchers; the test derives the type",
    ),
    (
        "merged changes",
        "a watch skips states between two looks: the stores need only the last; the test looks after each step",
    ),
    (
        "the last state of a deleted object",
        "only key and UID are reported: the stores use nothing else",
    ),
    (
        "schemas",
        "no validation, pruning and defaults: the test sends valid objects only",
    ),
    (
        "server-side apply and PUT",
        "no store of either end uses them",
    ),
    (
        "the status subresource",
        "the CRDs of Argo CD have none: a status is a field like others",
    ),
    (
        "label selectors",
        "the stores select by kind; the test filters the list of the in-memory server itself",
    ),
    (
        "expired versions",
        "an interrupted watch of the in-memory stores lists again, as after 410 Gone",
    ),
];

/// Metadata that is removed before a comparison.
const REMOVED: [&str; 4] = [
    "creationTimestamp",
    "generation",
    "managedFields",
    "deletionGracePeriodSeconds",
];

/// A kind of the test: two that a CRD defines, and one that is built in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Of Argo CD.
    Application,
    /// Of Argo CD.
    AppProject,
    /// As of a repository.
    Secret,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Application, Self::AppProject, Self::Secret];

    /// `apiVersion` and `kind`.
    pub const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Application => (keys::API_VERSION, "Application"),
            Self::AppProject => (keys::API_VERSION, "AppProject"),
            Self::Secret => ("v1", "Secret"),
        }
    }
}

/// The key of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: &'static str,
}

/// The UID or version that a write requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pin {
    /// Any.
    Free,
    /// That of the last answer with the object.
    Last,
    /// That of the first answer with the object, which may be an earlier one of this name.
    First,
}

/// A request, as it is for every server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Creates an object.
    Create(Key, Value),
    /// Patches an object.
    Patch {
        /// Its key.
        key: Key,
        /// The patch, without its conditions.
        patch: Patch,
        /// The required UID.
        uid: Pin,
        /// The required version.
        version: Pin,
    },
    /// Deletes an object.
    Delete {
        /// Its key.
        key: Key,
        /// The required UID.
        uid: Pin,
        /// The required version.
        version: Pin,
    },
    /// Lists a kind, or those of its objects whose [`LABEL`] has this value.
    List(Kind, Option<&'static str>),
}

/// A request with the UIDs and versions of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Creates an object.
    Create(Key, Value),
    /// Patches an object; the conditions are part of the patch.
    Patch(Key, Patch),
    /// Deletes an object.
    Delete {
        /// Its key.
        key: Key,
        /// The required UID.
        uid: Option<String>,
        /// The required version.
        version: Option<String>,
    },
    /// Lists a kind, or those of its objects whose [`LABEL`] has this value.
    List(Kind, Option<&'static str>),
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The object after the write.
    Object(Value),
    /// The object is gone.
    Gone,
    /// The objects of a list, by name.
    Objects(Vec<Value>),
    /// The request is refused.
    Refused {
        /// The status code.
        code: u16,
        /// The reason of the Status.
        reason: String,
    },
}

/// An event of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The object is new.
    Added(Value),
    /// The object has changed.
    Modified(Value),
    /// The object is gone.
    Deleted {
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
    },
}

/// What one server has answered: identities for later requests, and the order in which its UIDs and versions appeared.
#[derive(Debug, Default)]
pub struct Record {
    /// UID and version of each answer with an object.
    identities: BTreeMap<Key, Vec<(String, String)>>,
    uids: Vec<String>,
    versions: Vec<String>,
}

impl Record {
    /// The step as a request to this server.
    pub fn request(&self, step: &Step) -> Request {
        match step {
            Step::Create(key, object) => Request::Create(*key, object.clone()),
            Step::Patch {
                key,
                patch,
                uid,
                version,
            } => {
                let (uid, version) = (self.uid(*key, *uid), self.version(*key, *version));
                Request::Patch(*key, pinned(patch.clone(), uid, version))
            }
            Step::Delete { key, uid, version } => Request::Delete {
                key: *key,
                uid: self.uid(*key, *uid).map(str::to_owned),
                version: self.version(*key, *version).map(str::to_owned),
            },
            Step::List(kind, team) => Request::List(*kind, *team),
        }
    }

    /// Records the answer to a step, and returns its normal form.
    pub fn answer(&mut self, step: &Step, answer: Answer) -> Answer {
        match (step, answer) {
            (
                Step::Create(key, _) | Step::Patch { key, .. } | Step::Delete { key, .. },
                Answer::Object(object),
            ) => {
                let meta = Meta::of(&object);
                let identity = (meta.uid().to_owned(), meta.resource_version().to_owned());
                self.identities.entry(*key).or_default().push(identity);
                Answer::Object(self.object(object))
            }
            (_, Answer::Objects(objects)) => {
                let objects = objects.into_iter().map(|object| self.object(object));
                Answer::Objects(objects.collect())
            }
            (_, other) => other,
        }
    }

    /// The normal form of an event.
    pub fn event(&mut self, event: Event) -> Event {
        match event {
            Event::Added(object) => Event::Added(self.object(object)),
            Event::Modified(object) => Event::Modified(self.object(object)),
            Event::Deleted { name, uid } => Event::Deleted {
                name,
                uid: alias("uid", &uid, &mut self.uids),
            },
        }
    }

    /// The object without fields that differ between servers, with its UID and version by order of appearance.
    fn object(&mut self, mut object: Value) -> Value {
        let Some(fields) = object.as_object_mut() else {
            return object;
        };
        // The items of a list of a built-in kind do not have them.
        fields.retain(|field, _| field != "apiVersion" && field != "kind");
        let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) else {
            return object;
        };
        metadata.retain(|field, _| !REMOVED.contains(&field.as_str()));
        for (field, known) in [
            ("uid", &mut self.uids),
            ("resourceVersion", &mut self.versions),
        ] {
            if let Some(value) = metadata.get_mut(field) {
                *value = alias(field, value.as_str().unwrap_or_default(), known).into();
            }
        }
        if let Some(time) = metadata.get_mut("deletionTimestamp") {
            *time = "set".into();
        }
        object
    }

    fn uid(&self, key: Key, pin: Pin) -> Option<&str> {
        let uid = || {
            let identity = self.identity(key, pin);
            identity.map_or("none", |(uid, _)| uid.as_str())
        };
        (pin != Pin::Free).then(uid)
    }

    fn version(&self, key: Key, pin: Pin) -> Option<&str> {
        let version = || {
            let identity = self.identity(key, pin);
            identity.map_or("1", |(_, version)| version.as_str())
        };
        (pin != Pin::Free).then(version)
    }

    /// The identity that a pin requires; none if no answer had the object.
    fn identity(&self, key: Key, pin: Pin) -> Option<&(String, String)> {
        let known = self.identities.get(&key)?;
        match pin {
            Pin::First => known.first(),
            Pin::Free | Pin::Last => known.last(),
        }
    }
}

/// `field` and the position of the value among those that appeared.
fn alias(field: &str, value: &str, known: &mut Vec<String>) -> String {
    let position = known.iter().position(|it| it == value);
    let position = position.unwrap_or_else(|| {
        known.push(value.to_owned());
        known.len() - 1
    });
    format!("{field} {position}")
}

/// The patch with its conditions, as the programs write them.
fn pinned(patch: Patch, uid: Option<&str>, version: Option<&str>) -> Patch {
    let patch = match uid {
        Some(uid) => patch.only_for(uid),
        None => patch,
    };
    match version {
        Some(version) => patch.under(version),
        None => patch,
    }
}
