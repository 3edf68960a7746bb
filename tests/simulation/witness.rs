//! Reads each message that reaches an agent: nothing that belongs to one cluster is sent to another.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use argocd::Meta;
use flate2::read::GzDecoder;
use principal::store::{Memory as Hub, Watched};
use prost::Message as _;
use protocol::wire::eventstreamapi;
use protocol::{Event, Facet, Kind, ObjectKey, Verb};
use serde_json::Value;

use crate::oracle;
use crate::process::{ARGOCD, TEAM};

/// A flag and a length go before each message of gRPC.
pub(crate) const HEAD: usize = 5;

/// Knows for which cluster each object of the hub is, in each version; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Witness(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    /// By UID of an Application: its cluster since each version of the hub; none if it goes nowhere.
    routes: BTreeMap<String, BTreeMap<u64, Option<String>>>,
    /// The clusters of Applications before the hub was put back, since when its versions repeat.
    former: BTreeMap<String, BTreeSet<String>>,
    /// The destination that a project admits, by its name and description; users number the descriptions.
    projects: BTreeMap<(String, String), String>,
    /// The copies whose states were sent: the cluster, the UID on the hub and the key of the copy.
    sent: BTreeSet<(String, String, ObjectKey)>,
    findings: BTreeSet<String>,
}

impl Witness {
    /// Notes where the objects of the hub belong; required after each change by a user, before anything else runs.
    pub(crate) fn note(&self, hub: &Hub, clusters: &[String]) {
        let mut known = self.lock();
        for (key, object) in hub.all(Watched::Application) {
            let meta = Meta::of(&object);
            let version = meta.resource_version().parse().unwrap_or_default();
            let route = oracle::cluster_of(&key, &object, clusters);
            let routes = known.routes.entry(meta.uid().to_owned()).or_default();
            if routes.values().next_back() != Some(&route) {
                routes.insert(version, route);
            }
        }
        for (key, object) in hub.all(Watched::AppProject) {
            let to = object["spec"]["destinations"][0]["name"].as_str();
            let to = to.unwrap_or_default().to_owned();
            known.projects.insert((key.name, description(&object)), to);
        }
    }

    /// The versions of the hub start again at an earlier one, so that those of messages do not show their age.
    pub(crate) fn put_back(&self) {
        let mut known = self.lock();
        for (uid, routes) in std::mem::take(&mut known.routes) {
            let clusters = known.former.entry(uid).or_default();
            clusters.extend(routes.into_values().flatten());
        }
    }

    /// A message that an agent receives. Before the first note nothing is judged.
    pub(crate) fn sees(&self, cluster: &str, message: &[u8]) {
        let mut known = self.lock();
        if known.projects.is_empty() {
            return;
        }
        let finding = match event(message) {
            Some(event) => known.judged(cluster, &event),
            None => Some(format!("a message to {cluster} cannot be read")),
        };
        known.findings.extend(finding);
    }

    /// Whether a state of the Application with this UID was sent for this copy.
    pub(crate) fn was_sent(&self, cluster: &str, uid: &str, copy: &ObjectKey) -> bool {
        let sent = (cluster.to_owned(), uid.to_owned(), copy.clone());
        self.lock().sent.contains(&sent)
    }

    pub(crate) fn findings(&self) -> Vec<String> {
        self.lock().findings.iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// The finding about an event for this cluster. Requests to delete a copy name it only, and nothing of it.
    fn judged(&mut self, cluster: &str, event: &Event) -> Option<String> {
        let key = event.object()?;
        let facet = event.facet().filter(|_| event.verb != Verb::Delete)?;
        if (key.kind, facet) == (Kind::Application, Facet::State) {
            let uid = event.event_id.split('_').nth(1).unwrap_or_default();
            let namespace = if key.namespace == TEAM { TEAM } else { ARGOCD };
            let copy = ObjectKey::new(key.kind, namespace, &key.name);
            self.sent.insert((cluster.to_owned(), uid.to_owned(), copy));
        }
        let belongs = match (key.kind, facet) {
            (Kind::Application, facet) => self.belongs_to(cluster, event, facet),
            (Kind::AppProject, Facet::State) => self.admits(cluster, &key, event),
            _ => return None,
        };
        belongs.err().map(|why| {
            let (verb, id) = (event.verb, &event.event_id);
            format!("{verb} of {key} with ID {id} was sent to {cluster}: {why}")
        })
    }

    /// A state belongs to the cluster of its version. A command has the version in which a user gave it, before a move.
    fn belongs_to(&self, cluster: &str, event: &Event, facet: Facet) -> Result<(), String> {
        let mut id = event.event_id.split('_').skip(1);
        let uid = id.next().unwrap_or_default();
        let former = self.former.get(uid);
        if former.is_some_and(|clusters| clusters.contains(cluster)) {
            return Ok(());
        }
        let routes = self.routes.get(uid).ok_or("no user made it")?;
        let is_here = |route: &Option<String>| route.as_deref() == Some(cluster);
        let fits = if facet == Facet::State {
            let version: u64 = id.next().and_then(|it| it.parse().ok()).unwrap_or_default();
            let last = routes.range(..=version).next_back();
            last.is_some_and(|(_, route)| is_here(route))
        } else {
            routes.values().any(is_here)
        };
        fits.then_some(())
            .ok_or_else(|| format!("since each version it belongs to {routes:?}"))
    }

    fn admits(&self, cluster: &str, key: &ObjectKey, event: &Event) -> Result<(), String> {
        let project: Value = serde_json::from_slice(&event.payload).unwrap_or_default();
        let number = description(&project);
        let place = (key.name.clone(), number);
        let to = self.projects.get(&place).ok_or("no user made it")?;
        let fits = to == "*" || to == cluster;
        fits.then_some(())
            .ok_or_else(|| format!("number {} admits {to:?}", place.1))
    }
}

fn description(project: &Value) -> String {
    let text = project["spec"]["description"].as_str();
    text.unwrap_or_default().to_owned()
}

/// The event in a message of gRPC.
pub(crate) fn event(message: &[u8]) -> Option<Event> {
    let is_compressed = message.first() == Some(&1);
    let body = message.get(HEAD..)?;
    let mut plain = vec![];
    if is_compressed {
        GzDecoder::new(body).read_to_end(&mut plain).ok()?;
    } else {
        plain.extend_from_slice(body);
    }
    let frame = eventstreamapi::Event::decode(plain.as_slice()).ok()?;
    Event::try_from(frame.event?).ok()
}
