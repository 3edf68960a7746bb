//! The inventory of the spoke, for a resync with the hub.

use std::sync::Arc;

use argocd::ranges::{self, Sums};
use argocd::{Meta, digest};
use protocol::payload::{Ranges, RequestUpdate, SyncedResource, SyncedResourceList};
use protocol::{Kind, ObjectKey};
use serde_json::Value;

use super::message::Reader;
use crate::sync::cache::{Entry, Store};

/// The objects of the spoke from one principal, as a resync names them.
#[derive(Clone, Copy)]
pub(crate) struct Inventory<'a> {
    store: &'a Store,
    reader: Reader<'a>,
}

impl<'a> Inventory<'a> {
    pub(super) const fn new(store: &'a Store, reader: Reader<'a>) -> Self {
        Self { store, reader }
    }

    /// All objects.
    pub(crate) fn all(self) -> Vec<RequestUpdate> {
        let all = self.store.all().into_iter();
        all.filter_map(|(key, entry)| update(&key, &entry, self.reader))
            .collect()
    }

    /// The objects in some ranges.
    pub(crate) fn in_ranges(self, ranges: &Ranges) -> Vec<RequestUpdate> {
        let mut updates = self.all();
        updates.retain(|update| is_in(&name_of(update), ranges));
        updates
    }

    /// The Applications in some ranges.
    pub(crate) fn apps_in(self, ranges: &Ranges) -> Vec<ObjectKey> {
        let all = self.shown().into_iter();
        all.filter(|(name, ..)| is_in(name, ranges))
            .map(|(_, key, _)| key)
            .collect()
    }

    /// Sums over the objects and over the statuses.
    pub(crate) fn sums(self) -> SyncedResourceList {
        let updates = self.all();
        let mut objects = Sums::for_objects(updates.len());
        for update in &updates {
            let digest = update.digest.as_deref().unwrap_or_default();
            objects.add(&name_of(update), digest);
        }
        let shown = self.shown();
        let mut statuses = Sums::for_objects(shown.len());
        for (name, _, live) in shown {
            statuses.add(&name, &ranges::shown(&live));
        }
        SyncedResourceList {
            checksum: checksum(&updates),
            ranges: Some(objects.to_bytes()),
            statuses: Some(statuses.to_bytes()),
        }
    }

    /// The Applications: the hub's name, the spoke's key and the live object of each.
    fn shown(self) -> Vec<(String, ObjectKey, Arc<Value>)> {
        let applications = |(key, entry): (ObjectKey, Entry)| {
            let update = update(&key, &entry, self.reader)?;
            (key.kind == Kind::Application).then_some((name_of(&update), key, entry.live?))
        };
        self.store
            .all()
            .into_iter()
            .filter_map(applications)
            .collect()
    }

    /// One object that the principal asks about; an answer without a UID reports that it does not exist. None for an unknown
    /// kind.
    pub(crate) fn find(self, asked: &SyncedResource) -> Option<RequestUpdate> {
        let kind = asked.kind.parse::<Kind>().ok()?;
        let argocd_namespace = &self.reader.scope.argocd_namespace;
        let moved = kind != Kind::Application
            || asked.namespace.is_empty()
            || asked.namespace == self.reader.welcome.principal_namespace;
        let namespace = if moved {
            argocd_namespace
        } else {
            &asked.namespace
        };
        let found = [namespace, argocd_namespace].into_iter().find_map(|it| {
            let key = ObjectKey::new(kind, it, &asked.name);
            update(&key, &self.store.get(&key), self.reader)
        });
        Some(found.unwrap_or_else(|| RequestUpdate {
            name: asked.name.clone(),
            namespace: asked.namespace.clone(),
            kind: asked.kind.clone(),
            ..RequestUpdate::default()
        }))
    }
}

/// Go's checksum over objects.
pub(crate) fn checksum(updates: &[RequestUpdate]) -> Option<Vec<u8>> {
    let entries = updates.iter();
    digest::list_checksum(entries.map(|u| (u.kind.as_str(), u.name.as_str(), u.uid.as_str())))
}

fn name_of(update: &RequestUpdate) -> String {
    ranges::name_of(&update.kind, &update.namespace, &update.name)
}

fn is_in(name: &str, ranges: &Ranges) -> bool {
    let of = usize::try_from(ranges.of).unwrap_or(usize::MAX);
    u32::try_from(ranges::range_of(name, of)).is_ok_and(|range| ranges.these.contains(&range))
}

fn update(key: &ObjectKey, entry: &Entry, reader: Reader<'_>) -> Option<RequestUpdate> {
    let live = entry.live.as_deref()?;
    let meta = Meta::of(live);
    let capabilities = &reader.welcome.capabilities;
    let needed = key.kind.needs();
    if needed.is_some_and(|needed| !capabilities.has(needed)) {
        return None;
    }
    // The hub may delete a reported object that it does not know. A Go principal stamps only some objects, so for it
    // the source UID decides.
    let ours = reader.welcome.principal_uid.as_deref();
    if ours.is_some() && meta.principal_uid() != ours {
        return None;
    }
    Some(RequestUpdate {
        name: key.name.clone(),
        namespace: reader.hub_namespace(key, live),
        uid: meta.source_uid()?.to_owned(),
        kind: key.kind.as_str().to_owned(),
        checksum: spec_checksum(key.kind, live, capabilities.is_ours()),
        digest: entry.wanted.as_ref().map(|wanted| wanted.digest.clone()),
    })
}

/// Go's checksum of one object. Our principal does not read it, so the agent sends it none of a Secret's data.
fn spec_checksum(kind: Kind, live: &Value, is_ours: bool) -> Option<Vec<u8>> {
    match kind {
        Kind::Application | Kind::AppProject => digest::spec_checksum(live),
        Kind::Repository if is_ours => None,
        Kind::Repository => digest::data_checksum(live, false),
        Kind::GpgKey | Kind::TlsCerts | Kind::SshKnownHosts => digest::data_checksum(live, true),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::Scope;
    use crate::sync::cache::Wanted;
    use crate::transport::Welcome;
    use argocd::keys;
    use protocol::version::Capabilities;

    fn store() -> Store {
        let store = Store::default();
        for (name, source, principal) in [
            ("ours", "u1", "p1"),
            ("theirs", "u2", "p2"),
            ("old", "u3", ""),
        ] {
            let object = json!({
                "metadata": { "name": name, "namespace": "argocd", "uid": "l", "annotations": {
                    keys::SOURCE_UID: source, keys::PRINCIPAL_UID: principal,
                } },
                "spec": {},
            });
            store.seen(
                ObjectKey::new(Kind::Application, "argocd", name),
                Arc::new(object),
            );
        }
        let local = json!({ "metadata": { "name": "local", "namespace": "argocd", "uid": "l" } });
        store.seen(
            ObjectKey::new(Kind::Application, "argocd", "local"),
            Arc::new(local),
        );
        store
    }

    fn welcome() -> Welcome {
        Welcome {
            principal_uid: Some("p1".to_owned()),
            ..Welcome::default()
        }
    }

    fn scope() -> Scope {
        Scope {
            argocd_namespace: "argocd".to_owned(),
            further_namespaces: vec![],
            keep_namespaces: false,
            create_namespaces: false,
            label_selector: String::new(),
            mode: protocol::Mode::Managed,
        }
    }

    fn all(store: &Store, welcome: &Welcome) -> Vec<RequestUpdate> {
        let scope = &scope();
        Inventory::new(store, Reader { scope, welcome }).all()
    }

    #[test]
    fn inventory_uses_hub_names_and_spoke_names_for_go() {
        let ours = Welcome {
            agent_name: Some("spoke1".to_owned()),
            principal_namespace: "hub-argocd".to_owned(),
            capabilities: Capabilities::ours(),
            ..welcome()
        };
        for (welcome, namespace) in [(ours, "spoke1"), (welcome(), "argocd")] {
            let updates = all(&store(), &welcome);
            assert_eq!(
                updates.first().map(|u| u.namespace.as_str()),
                Some(namespace)
            );
        }
    }

    #[test]
    fn inventory_has_only_objects_with_the_stamp_of_this_principal() {
        let names = |welcome: &Welcome| -> Vec<String> {
            let updates = all(&store(), welcome);
            assert!(checksum(&updates).is_some());
            updates.into_iter().map(|update| update.name).collect()
        };
        assert_eq!(names(&welcome()), ["ours"]);
        let unnamed = Welcome {
            principal_uid: None,
            ..welcome()
        };
        assert!(
            names(&unnamed).contains(&"old".to_owned()),
            "a Go principal also gets objects that it did not stamp"
        );
    }

    #[test]
    fn inventory_has_digests_only_of_states_received_since_the_start() {
        let store = store();
        let wanted = Wanted {
            desired: json!({}),
            digest: "d1".to_owned(),
            written: None,
            leaving: false,
        };
        store.remember(ObjectKey::new(Kind::Application, "argocd", "ours"), wanted);
        let updates = all(&store, &welcome());
        let digests: Vec<_> = updates
            .iter()
            .map(|update| update.digest.as_deref())
            .collect();
        assert_eq!(digests, [Some("d1")]);
    }

    #[test]
    fn a_missing_object_is_reported_without_a_uid() {
        let asked = SyncedResource {
            name: "new".to_owned(),
            kind: "Application".to_owned(),
            ..SyncedResource::default()
        };
        let (scope, welcome) = (scope(), welcome());
        let reader = Reader {
            scope: &scope,
            welcome: &welcome,
        };
        let found = Inventory::new(&store(), reader).find(&asked);
        assert_eq!(found.map(|update| update.uid).as_deref(), Some(""));
    }
}
