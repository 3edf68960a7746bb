//! Copies a cluster's Events about an Application to the hub's Application.
//!
//! Pure: plans writes from the Events of the cluster and of the hub; no writes if there is nothing new. The name of an
//! Event on the hub is deterministic, so that a restart creates no duplicates. Events of a cluster are claims:
//! [`reported`] sanitizes them, and the involved object never comes from the cluster.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::request::{Object, Query, Request, Subject, Verb};
use argocd::{Meta, keys};

mod reported;
#[cfg(test)]
mod tests;

pub use reported::{Noted, Unreadable};
use reported::{Observation, seconds};

/// The most Events of an Application that the hub shows, the newest first.
const MOST: usize = 50;
/// The most Events of an Application on the hub at a time, regardless of the cluster; the hub expires them after an hour.
const MOST_KEPT: usize = 500;
/// The lifetime of Events in the hub's API, in seconds.
const HOUR: i64 = 3600;
/// Characters of the Application's name in the name of an Event.
const LONGEST_NAME: usize = 200;

/// An Application of the hub, and its identity on the cluster where it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The namespace of the Application on the hub.
    pub namespace: String,
    /// Its name, on both sides.
    pub name: String,
    /// Its UID on the hub.
    pub uid: String,
    /// The cluster where it runs.
    pub cluster: String,
    /// Its namespace there.
    pub namespace_there: String,
    /// Its UID there, if known.
    pub uid_there: Option<String>,
}

/// A write of an Event on the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// This Event is new.
    Create(Value),
    /// An Event was seen again.
    Patch {
        /// Its name on the hub.
        name: String,
        /// A merge patch.
        body: Value,
    },
}

impl Observed {
    /// The request to the cluster's API for its Events.
    pub fn question(&self) -> String {
        let mut fields = format!(
            "involvedObject.kind=Application,involvedObject.name={}",
            self.name
        );
        if let Some(uid) = &self.uid_there {
            fields.push_str(",involvedObject.uid=");
            fields.push_str(uid);
        }
        let query = [
            ("fieldSelector".to_owned(), fields),
            ("limit".to_owned(), reported::MOST.to_string()),
        ];
        Request {
            verb: Verb::List,
            subject: Subject::Object(Object {
                version: "v1".to_owned(),
                resource: "events".to_owned(),
                namespace: Some(self.namespace_there.clone()),
                ..Object::default()
            }),
            query: Query::from_iter(query),
        }
        .target()
    }

    /// The label selector of its Events on the hub.
    pub fn labels(&self) -> String {
        format!("{}={}", keys::NOTED_ON, self.cluster)
    }

    /// The field selector of its Events on the hub.
    pub fn fields(&self) -> String {
        format!(
            "involvedObject.name={},involvedObject.uid={}",
            self.name, self.uid
        )
    }

    /// Whether we created this Event of the hub for it.
    pub fn is_of(&self, event: &Value) -> bool {
        let involved = |field: &str| event.pointer(&format!("/involvedObject/{field}"));
        Meta::of(event).label(keys::NOTED_ON) == Some(&self.cluster)
            && involved("uid").and_then(Value::as_str) == Some(&self.uid)
            && involved("name").and_then(Value::as_str) == Some(&self.name)
    }

    /// Plans the writes so that the hub, which has `known`, shows the Events that the cluster has `noted`.
    pub fn plan(&self, noted: Noted, known: &[Value], now: Timestamp) -> Vec<Write> {
        let known: BTreeMap<&str, &Value> = known
            .iter()
            .filter(|event| self.is_of(event))
            .map(|event| (Meta::of(event).name(), event))
            .collect();
        let mut room = MOST_KEPT.saturating_sub(known.len());
        let mut writes = Vec::new();
        for seen in self.newest(noted, now) {
            let name = self.name_of(&seen);
            match known.get(name.as_str()) {
                Some(event) => {
                    let again = seen_again(&seen, event);
                    writes.extend(again.map(|body| Write::Patch { name, body }));
                }
                None if room > 0 => {
                    room -= 1;
                    writes.push(Write::Create(self.event(&name, &seen)));
                }
                None => {}
            }
        }
        writes
    }

    /// The Events to show: each once, about the current Application.
    fn newest(&self, noted: Noted, now: Timestamp) -> Vec<Observation> {
        let observations = noted.observations(&self.namespace_there, &self.name);
        let is_recent = |it: &Observation| (now.as_second() - it.last).abs() <= HOUR;
        let mut all: Vec<_> = observations.into_iter().filter(is_recent).collect();
        all.sort_by(|a, b| (b.last, &b.id).cmp(&(a.last, &a.id)));
        let newest = all.first().map(|it| it.of.clone());
        // An earlier Application of this name has another UID.
        let of = self.uid_there.clone().or(newest).unwrap_or_default();
        let mut ids = BTreeSet::new();
        all.retain(|it| it.of == of && ids.insert(it.id.clone()));
        all.truncate(MOST);
        all
    }

    /// The name on the hub: unique and stable for an Event of an Application.
    fn name_of(&self, seen: &Observation) -> String {
        let mut hash = Sha256::new();
        for part in [&self.cluster, &self.uid, &seen.id] {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        let digest = hex::encode(hash.finalize());
        let digest: String = digest.chars().take(24).collect();
        let name: String = self.name.chars().take(LONGEST_NAME).collect();
        format!("{}.{digest}", name.trim_end_matches(['.', '-']))
    }

    fn event(&self, name: &str, seen: &Observation) -> Value {
        let Self {
            namespace, cluster, ..
        } = self;
        let labels = Map::from_iter([(keys::NOTED_ON.to_owned(), Value::from(&**cluster))]);
        let mut event = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": { "namespace": namespace, "name": name, "labels": labels },
            "involvedObject": {
                "apiVersion": keys::API_VERSION,
                "kind": "Application",
                "namespace": namespace,
                "name": self.name,
                "uid": self.uid,
            },
            "type": seen.severity,
            "reason": seen.reason,
            "message": seen.message,
            "source": { "component": seen.component, "host": cluster },
            "reportingComponent": seen.component,
            "reportingInstance": cluster,
            "count": seen.count,
            "firstTimestamp": seconds(seen.first),
            "lastTimestamp": seconds(seen.last),
        });
        if let (Some(action), Some(event)) = (&seen.action, event.as_object_mut()) {
            event.insert("action".to_owned(), action.clone().into());
        }
        event
    }
}

/// The patch for an Event that the hub has; none if it is not newer. Count and time never decrease, so a cluster that
/// alternates between values causes no endless writes.
fn seen_again(seen: &Observation, event: &Value) -> Option<Value> {
    let count = event.get("count").and_then(Value::as_i64).unwrap_or(0);
    let last = event.get("lastTimestamp").and_then(Value::as_str);
    let last = last.and_then(|it| it.parse::<Timestamp>().ok());
    let last = last.map_or(i64::MIN, Timestamp::as_second);
    let is_new = i64::from(seen.count) > count || seen.last > last;
    is_new.then(|| {
        json!({
            "count": count.max(i64::from(seen.count)),
            "lastTimestamp": seconds(last.max(seen.last)),
        })
    })
}
