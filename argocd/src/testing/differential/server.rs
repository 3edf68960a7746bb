//! The in-memory API server as the test asks it.

use std::collections::{BTreeMap, BTreeSet};

use super::{Answer, Event, Key, Kind, LABEL, Request};
use crate::object::Meta;
use crate::testing::memory::{Change, Denied, Objects, Seen};

/// The in-memory API server, with a watch of each kind.
#[derive(Debug)]
pub struct Memory {
    objects: Objects<Key>,
    watches: BTreeMap<Kind, Seen<Key>>,
    /// The objects that a watch has reported and that are not gone.
    reported: BTreeSet<Key>,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            objects: Objects::new("uid"),
            watches: Kind::ALL.map(|kind| (kind, Seen::new())).into(),
            reported: BTreeSet::new(),
        }
    }
}

impl Memory {
    /// Carries out a request.
    pub fn answer(&mut self, request: &Request) -> Answer {
        let answered = match request {
            Request::Create(key, object) => {
                let created = self.objects.create(*key, object.clone());
                created.map(Answer::Object)
            }
            Request::Patch(key, patch) => {
                let patched = self.objects.patch(key, patch);
                patched.map(|(object, _)| Answer::Object(object))
            }
            Request::Delete { key, uid, version } => {
                let deleted = self.objects.delete(key, uid.as_deref(), version.as_deref());
                let left = self.objects.get(key).cloned();
                deleted.map(|()| left.map_or(Answer::Gone, Answer::Object))
            }
            Request::List(kind, team) => {
                let all = self.objects.iter().filter(|(key, object)| {
                    let is_selected = team.is_none() || Meta::of(object).label(LABEL) == *team;
                    key.kind == *kind && is_selected
                });
                Ok(Answer::Objects(
                    all.map(|(_, object)| object.clone()).collect(),
                ))
            }
        };
        answered.unwrap_or_else(refused)
    }

    /// The events since the last call.
    pub fn events(&mut self) -> Vec<(Kind, Event)> {
        let mut events = Vec::new();
        for (kind, seen) in &mut self.watches {
            for change in self.objects.updates(seen, |key| key.kind == *kind) {
                let event = match change {
                    Change::Applied(key, object) if self.reported.insert(key) => {
                        Event::Added(object)
                    }
                    Change::Applied(_, object) => Event::Modified(object),
                    Change::Gone(key, uid) => {
                        self.reported.remove(&key);
                        let name = key.name.to_owned();
                        Event::Deleted { name, uid }
                    }
                };
                events.push((*kind, event));
            }
        }
        events
    }
}

/// The Status of a refusal.
fn refused(denied: Denied) -> Answer {
    let (code, reason) = match denied {
        Denied::NotFound => (404, "NotFound"),
        Denied::Exists => (409, "AlreadyExists"),
        Denied::Conflict => (409, "Conflict"),
        Denied::OtherObject | Denied::NewFinalizer | Denied::Misfit => (422, "Invalid"),
    };
    let reason = reason.to_owned();
    Answer::Refused { code, reason }
}
