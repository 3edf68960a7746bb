//! How each Application stands, in a small record that follows its changes. Pure.
//!
//! A page needs the counts of all Applications of a cluster. Counting objects takes a decoder for each; these records are
//! made once for each change, and a changed fleet routes them again without the objects.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use argocd::{
    Application,
    keys::MIRRORED_FROM,
    mirror,
    routing::{Clusters, RoutingSettings},
};
use diagnosis::status::{Standing, Tally, belongs_to};
use jiff::Timestamp;
use principal::Changes;
use serde_json::{Value, json};

/// A name or a URL of a cluster is never longer.
const LONGEST: usize = 512;
/// Stands for a longer one: no cluster has this name.
const NO_CLUSTER: &str = "-";

/// What one Application needs to be routed and counted again.
#[derive(Clone, Debug)]
struct Record {
    /// The name and the server of its destination.
    destination: [Arc<str>; 2],
    /// Whether it is a mirror of the cluster of its namespace.
    is_mirror: bool,
    /// How it stands; the cluster is another one after a change of the fleet, and empty if it is counted for none.
    standing: Standing,
    /// Whether it is counted for a cluster.
    counted: bool,
}

/// All Applications of the hub.
#[derive(Debug)]
pub struct Standings {
    routing: RoutingSettings,
    clusters: Clusters,
    /// By namespace and name.
    records: BTreeMap<Arc<str>, BTreeMap<Box<str>, Record>>,
    tallies: BTreeMap<Arc<str>, Tally>,
    /// Texts that records share.
    texts: BTreeSet<Arc<str>>,
}

impl Standings {
    /// None yet.
    pub fn new(routing: RoutingSettings) -> Self {
        Self {
            routing,
            clusters: Clusters::default(),
            records: BTreeMap::new(),
            tallies: BTreeMap::new(),
            texts: BTreeSet::new(),
        }
    }

    /// The counted Applications of one cluster.
    pub fn tally(&self, cluster: &str) -> Tally {
        self.tallies.get(cluster).cloned().unwrap_or_default()
    }

    /// The Applications of one cluster that need attention now, by namespace and name: where they are, and since when each is
    /// behind.
    pub fn troubled(
        &self,
        cluster: &str,
        now: Timestamp,
    ) -> impl Iterator<Item = (&str, &str, &Standing)> {
        let all = self.records.iter().flat_map(|(namespace, records)| {
            let records = records.iter();
            records.map(move |(name, record)| (&**namespace, &**name, record))
        });
        all.filter(move |(_, _, it)| {
            it.counted && &*it.standing.cluster == cluster && it.standing.needs_a_look(now)
        })
        .map(|(namespace, name, record)| (namespace, name, &record.standing))
    }

    /// Routes all Applications again, if the fleet has changed.
    pub fn route(&mut self, clusters: Clusters) {
        if clusters == self.clusters {
            return;
        }
        self.clusters = clusters;
        self.tallies.clear();
        let mut records = std::mem::take(&mut self.records);
        for (namespace, records) in &mut records {
            for (name, record) in records {
                let way = record.way(namespace, name);
                let cluster = belongs_to(&way, &self.clusters, &self.routing);
                record.counted = cluster.is_some();
                record.standing.cluster = self.shared(cluster.as_deref().unwrap_or_default());
                if record.counted {
                    let tally = self.tallies.entry(Arc::clone(&record.standing.cluster));
                    tally.or_default().add(&record.standing);
                }
            }
        }
        self.records = records;
    }

    /// Takes in changes. `written` finds when an Application that is behind got its present source, if that is known.
    pub fn apply(
        &mut self,
        changes: &Changes,
        written: impl Fn(&str, &str) -> Option<Timestamp>,
        now: Timestamp,
    ) {
        if changes.from_start {
            self.records.clear();
            self.tallies.clear();
            self.texts.clear();
        }
        for (namespace, name) in &changes.removed {
            self.remove(namespace, name);
        }
        for object in &changes.applications {
            self.take(object, &written, now);
        }
        if self.texts.len() > 2 * (self.tallies.len() + self.records.len()) + 1000 {
            self.texts.retain(|text| Arc::strong_count(text) > 1);
        }
    }

    fn take(
        &mut self,
        object: &Value,
        written: impl Fn(&str, &str) -> Option<Timestamp>,
        now: Timestamp,
    ) {
        let app = Application::of(object);
        let (namespace, name) = (app.namespace(), app.name());
        let before = self.remove(namespace, name);
        let cluster = belongs_to(object, &self.clusters, &self.routing);
        let counted = cluster.is_some();
        let cluster = self.shared(cluster.as_deref().unwrap_or_default());
        let mut standing = Standing::counted_for(cluster, object);
        let destination = app.destination();
        let destination = [destination.name, destination.server].map(|it| self.shared(it));
        let is_mirror = mirror::is_of(object, namespace);
        if standing.behind {
            // The objects have no managed fields, so the time of the last write of the spec is not in them.
            let known = before.and_then(|it| it.standing.behind_since);
            let since = written(namespace, name).or(known).unwrap_or(now);
            standing.behind_since = Some(since);
        }
        if counted {
            let tally = self.tallies.entry(Arc::clone(&standing.cluster));
            tally.or_default().add(&standing);
        }
        let record = Record {
            destination,
            is_mirror,
            standing,
            counted,
        };
        let namespace = self.shared(namespace);
        let records = self.records.entry(namespace).or_default();
        records.insert(name.into(), record);
    }

    fn remove(&mut self, namespace: &str, name: &str) -> Option<Record> {
        let records = self.records.get_mut(namespace)?;
        let record = records.remove(name)?;
        if records.is_empty() {
            self.records.remove(namespace);
        }
        if record.counted
            && let Some(tally) = self.tallies.get_mut(&record.standing.cluster)
        {
            tally.remove(&record.standing);
            if tally.total() == 0 {
                self.tallies.remove(&record.standing.cluster);
            }
        }
        Some(record)
    }

    /// The text, shared by all records that have it.
    fn shared(&mut self, text: &str) -> Arc<str> {
        let text = if text.len() > LONGEST {
            NO_CLUSTER
        } else {
            text
        };
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let text: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&text));
        text
    }
}

impl Record {
    /// An Application with the same route.
    fn way(&self, namespace: &str, name: &str) -> Value {
        let [to, server] = &self.destination;
        let mut way = json!({
            "metadata": { "namespace": namespace, "name": name },
            "spec": { "destination": { "name": &**to, "server": &**server } },
        });
        if self.is_mirror
            && let Some(metadata) = way.get_mut("metadata").and_then(Value::as_object_mut)
        {
            let annotations = json!({ MIRRORED_FROM: namespace });
            metadata.insert("annotations".to_owned(), annotations);
        }
        way
    }
}

#[cfg(test)]
mod tests;
