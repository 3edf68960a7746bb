//! Events: what people see with `kubectl describe`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, Client, api::PostParams};
use serde_json::json;
use tracing::debug;

use super::{
    hash::digest,
    metrics::{Metrics, Written},
};

/// At most so many Events go out in [`WINDOW`]: whoever floods the hub with requests must not
/// make us flood it too.
const BUDGET: usize = 100;
/// The window of the budget.
const WINDOW: SignedDuration = SignedDuration::from_mins(1);
/// The longest note that the API accepts.
const NOTE_LIMIT: usize = 1024;

/// What an Event says.
#[derive(Clone, Debug)]
pub(crate) struct NewEvent<'a> {
    /// About what.
    pub(crate) regarding: ObjectReference,
    /// `Warning` or `Normal`.
    pub(crate) warning: bool,
    /// A word in camel case.
    pub(crate) reason: &'a str,
    /// For people.
    pub(crate) note: &'a str,
}

/// Says each thing once an object, not once a look.
///
/// The Event's name is made from what it says, so that a restart does not repeat it either.
#[derive(Debug, Default)]
pub(crate) struct Events {
    stated: Mutex<LastEmitted>,
}

#[derive(Debug, Default)]
struct LastEmitted {
    by_object: BTreeMap<String, BTreeSet<String>>,
    since: Option<Timestamp>,
    count: usize,
}

impl LastEmitted {
    /// Whether this is new and within the budget.
    fn take(&mut self, object: &str, reason: &str, now: Timestamp) -> bool {
        let stated = self.by_object.get(object);
        if stated.is_some_and(|reasons| reasons.contains(reason)) || !self.may_say(now) {
            return false;
        }
        let stated = self.by_object.entry(object.to_owned()).or_default();
        stated.insert(reason.to_owned())
    }

    /// Whether the budget has room for one more, which is counted.
    fn may_say(&mut self, now: Timestamp) -> bool {
        if self
            .since
            .is_none_or(|since| now.duration_since(since) >= WINDOW)
        {
            (self.since, self.count) = (Some(now), 0);
        }
        if self.count >= BUDGET {
            return false;
        }
        self.count = self.count.saturating_add(1);
        true
    }
}

impl Events {
    /// The object is gone, or all is well with it: what was said may be said again.
    pub(crate) fn forget(&self, regarding: &ObjectReference) {
        let mut stated = self.stated.lock().unwrap_or_else(PoisonError::into_inner);
        stated.by_object.remove(&key(regarding));
    }

    /// Says something, unless it was said, and tells whether it was new. An Event that cannot be
    /// written is no reason to fail.
    pub(crate) async fn emit(
        &self,
        client: &Client,
        reporter: &str,
        emitting: NewEvent<'_>,
        now: Timestamp,
        metrics: &Metrics,
    ) -> bool {
        let object = key(&emitting.regarding);
        let new = {
            let mut stated = self.stated.lock().unwrap_or_else(PoisonError::into_inner);
            stated.take(&object, emitting.reason, now)
        };
        if !new {
            return false;
        }
        write(client, event(reporter, emitting, None, now), metrics).await;
        true
    }

    /// Says what has happened just now, each time that it does.
    pub(crate) async fn notify(
        &self,
        client: &Client,
        reporter: &str,
        emitting: NewEvent<'_>,
        now: Timestamp,
        metrics: &Metrics,
    ) {
        let may_say = {
            let mut stated = self.stated.lock().unwrap_or_else(PoisonError::into_inner);
            stated.may_say(now)
        };
        if may_say {
            write(client, event(reporter, emitting, Some(now), now), metrics).await;
        }
    }
}

async fn write(client: &Client, event: Event, metrics: &Metrics) {
    let namespace = event.metadata.namespace.clone().unwrap_or_default();
    let api = Api::<Event>::namespaced(client.clone(), &namespace);
    match api.create(&PostParams::default(), &event).await {
        Ok(_) => metrics.wrote(Written::Event),
        Err(error) => {
            let name = event.metadata.name;
            debug!(name, reason = event.reason, %error, "event not written");
        }
    }
}

fn key(object: &ObjectReference) -> String {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    format!(
        "{} {}/{}",
        text(&object.kind),
        text(&object.namespace),
        text(&object.name)
    )
}

/// `at`: what makes it another one than an earlier one that said the same.
fn event(reporter: &str, emitting: NewEvent<'_>, at: Option<Timestamp>, now: Timestamp) -> Event {
    let NewEvent {
        regarding,
        warning,
        reason,
        note,
    } = emitting;
    let name = regarding.name.clone().unwrap_or_default();
    let at = at.map(|at| at.to_string());
    let identity = digest(&json!([regarding.uid, reason, note, at]));
    let suffix = identity.get(..12).unwrap_or_default();
    let note: String = note.chars().take(NOTE_LIMIT / 4).collect();
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{name}.{suffix}")),
            // Events about objects without a namespace live in this one.
            namespace: Some(
                regarding
                    .namespace
                    .clone()
                    .unwrap_or_else(|| "default".to_owned()),
            ),
            ..ObjectMeta::default()
        },
        action: Some(reason.to_owned()),
        event_time: Some(MicroTime(now)),
        note: Some(note),
        reason: Some(reason.to_owned()),
        regarding: Some(regarding),
        reporting_controller: Some(format!("open-cluster-management.io/{reporter}")),
        reporting_instance: Some(reporter.to_owned()),
        type_: Some(if warning { "Warning" } else { "Normal" }.to_owned()),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_thing_is_said_once_an_object() {
        let mut stated = LastEmitted::default();
        assert!(stated.take("a", "Reason", at(0)));
        assert!(!stated.take("a", "Reason", at(100_000)));
        assert!(stated.take("a", "Other", at(0)));
        assert!(stated.take("b", "Reason", at(0)));
    }

    #[test]
    fn a_flood_of_requests_is_not_answered_with_a_flood_of_events() {
        let mut stated = LastEmitted::default();
        let reply = |stated: &mut LastEmitted, second| {
            let names = (0..1000).map(|number| format!("{second}-{number}"));
            names
                .filter(|name| stated.take(name, "Reason", at(second)))
                .count()
        };
        assert_eq!(reply(&mut stated, 0), BUDGET);
        assert_eq!(reply(&mut stated, 59), 0);
        assert_eq!(reply(&mut stated, 60), BUDGET);
    }

    #[test]
    fn the_same_saying_has_the_same_name_after_a_restart() {
        let emitting = || NewEvent {
            regarding: ObjectReference {
                name: Some("csr".to_owned()),
                uid: Some("u".to_owned()),
                ..ObjectReference::default()
            },
            warning: true,
            reason: "Reason",
            note: "note",
        };
        let (first, second) = (
            event("a", emitting(), None, at(0)),
            event("a", emitting(), None, at(9)),
        );
        assert_eq!(first.metadata.name, second.metadata.name);
        assert_eq!(first.metadata.namespace.as_deref(), Some("default"));
    }
}
