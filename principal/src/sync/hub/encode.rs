//! Encodes the events about an object for a cluster, at the moment when they are sent.

use argocd::{Meta, command, projection};
use bytes::Bytes;
use protocol::{Event, Facet, Kind, ObjectKey, Source, Verb, trace::Mark};
use runtime::trace::Notes;
use serde_json::{Value, json};

use super::{index::Entry, objects::Objects, spans};
use crate::{
    domain::{ClusterName, Key},
    store::Packed,
};

/// The hub's objects as one cluster receives them.
#[derive(Debug)]
pub(crate) struct EventEncoder<'a> {
    pub(crate) objects: &'a Objects,
    pub(crate) cluster: &'a ClusterName,
    /// Whether the receiver is a Go agent.
    pub(crate) is_go: bool,
    /// The traced changes that wait to be sent.
    pub(crate) traces: &'a Notes<Mark>,
}

impl Source for EventEncoder<'_> {
    fn encode(&self, key: &ObjectKey, facet: Facet, stated_before: bool) -> Option<Event> {
        let Some(event) = self.event(key, facet, stated_before) else {
            spans::unsent(self.traces, (key, facet));
            return None;
        };
        let cluster = self.cluster.as_str();
        Some(spans::sent(self.traces, (key, facet), cluster, event))
    }
}

impl EventEncoder<'_> {
    fn event(&self, key: &ObjectKey, facet: Facet, stated_before: bool) -> Option<Event> {
        let event = match (key.kind, facet) {
            (Kind::Application, Facet::State) => {
                let entry = self.deliverable_entry(key)?;
                if entry.is_mirror_of(self.cluster) {
                    // The cluster owns its state; the event only requests a refresh.
                    entry.refresh()?;
                    self.application(key, &entry, true)
                } else if self.is_go && entry.is_gone_there() {
                    // A Go agent would create it again.
                    return None;
                } else {
                    self.application(key, &entry, stated_before)
                }
            }
            (Kind::Application, Facet::Command) => {
                command(key, &self.deliverable_entry(key)?, self.is_go)?
            }
            (_, Facet::State) => {
                let provision = self.objects.lock().index.provision(self.cluster, key)?;
                about(key, state(stated_before), &provision, &provision)
            }
            (_, Facet::Status | Facet::Command) => return None,
        };
        Some(self.objects.signed(event))
    }

    fn application(&self, key: &ObjectKey, entry: &Entry, stated_before: bool) -> Event {
        let hub = entry.head();
        let mut wire = for_agent(projection::wire_application(hub), self.is_go);
        if let Some(id) = entry.refresh() {
            wire = command::with_refresh_id(wire, id);
        }
        about(key, state(stated_before), hub, &wire)
    }

    /// The entry that the cluster may receive: delivered to it, or a mirror of its own.
    fn deliverable_entry(&self, key: &ObjectKey) -> Option<Entry> {
        let key = Key::from_object(key)?;
        let state = self.objects.lock();
        let entry = state.index.application(&key)?;
        let theirs = entry.placement.delivered_to() == Some(self.cluster)
            || entry.is_mirror_of(self.cluster);
        theirs.then(|| entry.clone())
    }
}

impl Objects {
    /// Requests the deletion of a copy. The stub has identifiers only: the cluster may not be allowed to read the object.
    pub(crate) fn deletion(&self, key: &ObjectKey, uid: &str) -> Event {
        let (api_version, kind) = match key.kind {
            Kind::Application | Kind::AppProject => (argocd::keys::API_VERSION, key.kind.as_str()),
            Kind::Repository => ("v1", "Secret"),
            Kind::GpgKey | Kind::TlsCerts | Kind::SshKnownHosts => ("v1", "ConfigMap"),
        };
        let stub = json!({
            "apiVersion": api_version,
            "kind": kind,
            "metadata": { "name": key.name, "namespace": key.namespace, "uid": uid },
        });
        self.signed(Event::about(key, Verb::Delete, uid, "", body(&stub)))
    }

    /// The last state of a deleted Application. A Go agent deletes its copy as it is, and the workload with it if the copy
    /// has the finalizer; ours keeps the workload in any case.
    pub(crate) fn final_update(&self, key: &ObjectKey, object: &Packed) -> Event {
        let object = object.head();
        let wire = for_agent(projection::wire_application(object), true);
        self.signed(about(key, Verb::SpecUpdate, object, &wire))
    }
}

/// A Go agent puts all finalizers on its copy, and no controller on the spoke would remove the hub's own.
fn for_agent(wire: Value, is_go: bool) -> Value {
    if is_go {
        projection::with_argocd_finalizers(wire)
    } else {
        wire
    }
}

fn command(key: &ObjectKey, entry: &Entry, is_go: bool) -> Option<Event> {
    let hub = entry.head();
    if entry.is_terminating() {
        let wire = projection::wire_termination(&entry.object().whole());
        return Some(about(key, Verb::TerminateOperation, hub, &wire));
    }
    let (verb, version) = (Verb::SetOperation, entry.operation_version()?);
    // Before 0.9 a Go agent takes the whole body as the new state.
    let wire = for_agent(projection::wire_operation(hub), is_go);
    Some(Event::about(key, verb, entry.uid(), version, body(&wire)))
}

const fn state(stated_before: bool) -> Verb {
    if stated_before {
        Verb::SpecUpdate
    } else {
        Verb::Create
    }
}

fn about(key: &ObjectKey, verb: Verb, object: &Value, wire: &Value) -> Event {
    let meta = Meta::of(object);
    Event::about(key, verb, meta.uid(), meta.resource_version(), body(wire))
}

fn body(value: &Value) -> Bytes {
    // A Value has string keys only: it cannot fail.
    serde_json::to_vec(value)
        .map(Bytes::from)
        .unwrap_or_default()
}
