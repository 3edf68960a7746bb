//! What is here, as the hub's resync asks for it.

use std::sync::Arc;

use argocd::ranges::{self, Sums};
use argocd::{Meta, digest};
use protocol::payload::{Ranges, RequestUpdate, SyncedResource, SyncedResourceList};
use protocol::{Kind, ObjectKey};
use serde_json::Value;

use super::message::Reader;
use crate::sync::cache::{Entry, Store};

/// What we hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    /// One for each object.
    pub updates: Vec<RequestUpdate>,
    /// Go's checksum over all of them.
    pub checksum: Option<Vec<u8>>,
}

/// Everything that came from this principal.
pub(super) fn retained(store: &Store, reader: Reader<'_>) -> Inventory {
    let all = store.all().into_iter();
    list(
        all.filter_map(|(key, entry)| update(&key, &entry, reader))
            .collect(),
    )
}

/// What came from this principal in some ranges.
pub(super) fn held_in(store: &Store, reader: Reader<'_>, ranges: &Ranges) -> Inventory {
    let mut retained = retained(store, reader);
    retained.updates.retain(|update| {
        is_in(
            &ranges::name_of(&update.kind, &update.namespace, &update.name),
            ranges,
        )
    });
    list(retained.updates)
}

/// The Applications of this principal in some ranges.
pub(super) fn shown_in(store: &Store, reader: Reader<'_>, ranges: &Ranges) -> Vec<ObjectKey> {
    let all = shown(store, reader).into_iter();
    all.filter(|(name, ..)| is_in(name, ranges))
        .map(|(_, key, _)| key)
        .collect()
}

/// Sums over what came from this principal, and over what we show of it.
pub(super) fn sums(store: &Store, reader: Reader<'_>) -> SyncedResourceList {
    let retained = retained(store, reader);
    let mut objects = Sums::for_objects(retained.updates.len());
    for update in &retained.updates {
        let name = ranges::name_of(&update.kind, &update.namespace, &update.name);
        objects.add(&name, update.digest.as_deref().unwrap_or_default());
    }
    let shown = shown(store, reader);
    let mut statuses = Sums::for_objects(shown.len());
    for (name, _, live) in shown {
        statuses.add(&name, &ranges::shown(&live));
    }
    SyncedResourceList {
        checksum: retained.checksum,
        ranges: Some(objects.to_bytes()),
        statuses: Some(statuses.to_bytes()),
    }
}

/// The Applications of this principal: what the hub calls each, what we call it, and how it is.
fn shown(store: &Store, reader: Reader<'_>) -> Vec<(String, ObjectKey, Arc<Value>)> {
    let applications = |(key, entry): (ObjectKey, Entry)| {
        let update = update(&key, &entry, reader)?;
        let name = ranges::name_of(&update.kind, &update.namespace, &update.name);
        (key.kind == Kind::Application).then_some((name, key, entry.live?))
    };
    store.all().into_iter().filter_map(applications).collect()
}

fn is_in(name: &str, ranges: &Ranges) -> bool {
    let of = usize::try_from(ranges.of).unwrap_or(usize::MAX);
    u32::try_from(ranges::range_of(name, of)).is_ok_and(|range| ranges.these.contains(&range))
}

fn list(updates: Vec<RequestUpdate>) -> Inventory {
    let entries = updates
        .iter()
        .map(|u| (u.kind.as_str(), u.name.as_str(), u.uid.as_str()));
    let checksum = digest::list_checksum(entries);
    Inventory { updates, checksum }
}

/// One object that the principal asks about; without a UID it is not here.
pub(super) fn one(store: &Store, reader: Reader<'_>, asked: &SyncedResource) -> Inventory {
    let Ok(kind) = asked.kind.parse::<Kind>() else {
        return Inventory::default();
    };
    let argocd_namespace = &reader.scope.argocd_namespace;
    let moved = kind != Kind::Application
        || asked.namespace.is_empty()
        || asked.namespace == reader.welcome.principal_namespace;
    let namespace = if moved {
        argocd_namespace
    } else {
        &asked.namespace
    };
    let here = ObjectKey::new(kind, namespace, &asked.name);
    let in_argocd = ObjectKey::new(kind, argocd_namespace, &asked.name);
    let found = [here, in_argocd]
        .into_iter()
        .find_map(|key| update(&key, &store.get(&key), reader));
    let update = found.unwrap_or_else(|| RequestUpdate {
        name: asked.name.clone(),
        namespace: asked.namespace.clone(),
        kind: asked.kind.clone(),
        ..RequestUpdate::default()
    });
    Inventory {
        updates: vec![update],
        checksum: None,
    }
}

fn update(key: &ObjectKey, entry: &Entry, reader: Reader<'_>) -> Option<RequestUpdate> {
    let live = entry.live.as_deref()?;
    let meta = Meta::of(live);
    let capabilities = &reader.welcome.capabilities;
    if key
        .kind
        .needs()
        .is_some_and(|needed| !capabilities.has(needed))
    {
        return None;
    }
    // What is told may be taken away as unknown to the hub. A Go principal says its name with some objects only, so
    // towards it the source UID is all there is.
    let ours = reader.welcome.principal_uid.as_deref();
    if ours.is_some() && meta.principal_uid() != ours {
        return None;
    }
    Some(RequestUpdate {
        name: key.name.clone(),
        namespace: reader.hub_namespace(key, live),
        uid: meta.source_uid()?.to_owned(),
        kind: key.kind.as_str().to_owned(),
        checksum: checksum(key.kind, live, capabilities.is_ours()),
        digest: entry.wanted.as_ref().map(|wanted| wanted.digest.clone()),
    })
}

/// Go's checksum. Ours does not look at it, so it is not told one of what a Secret holds.
fn checksum(kind: Kind, live: &Value, is_ours: bool) -> Option<Vec<u8>> {
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

    #[test]
    fn inventory_uses_hub_names_and_spoke_names_for_go() {
        let ours = Welcome {
            agent_name: Some("spoke1".to_owned()),
            principal_namespace: "hub-argocd".to_owned(),
            capabilities: Capabilities::ours(),
            ..welcome()
        };
        for (welcome, namespace) in [(ours, "spoke1"), (welcome(), "argocd")] {
            let retained = retained(
                &store(),
                Reader {
                    scope: &scope(),
                    welcome: &welcome,
                },
            );
            assert_eq!(
                retained.updates.first().map(|u| u.namespace.as_str()),
                Some(namespace)
            );
        }
    }

    #[test]
    fn only_what_carries_the_stamp_of_this_principal_is_told() {
        let names = |welcome: &Welcome| -> Vec<String> {
            let reader = Reader {
                scope: &scope(),
                welcome,
            };
            let retained = retained(&store(), reader);
            assert!(retained.checksum.is_some());
            retained
                .updates
                .into_iter()
                .map(|update| update.name)
                .collect()
        };
        assert_eq!(names(&welcome()), ["ours"]);
        let unnamed = Welcome {
            principal_uid: None,
            ..welcome()
        };
        assert!(
            names(&unnamed).contains(&"old".to_owned()),
            "a Go principal has to be told of what it did not stamp"
        );
    }

    #[test]
    fn a_digest_is_told_only_of_what_the_hub_said_since_we_started() {
        let store = store();
        let wanted = Wanted {
            desired: json!({}),
            digest: "d1".to_owned(),
            written: None,
            leaving: false,
        };
        store.remember(ObjectKey::new(Kind::Application, "argocd", "ours"), wanted);
        let retained = retained(
            &store,
            Reader {
                scope: &scope(),
                welcome: &welcome(),
            },
        );
        let digests: Vec<_> = retained
            .updates
            .iter()
            .map(|update| update.digest.as_deref())
            .collect();
        assert_eq!(digests, [Some("d1")]);
    }

    #[test]
    fn what_is_not_here_is_asked_for_without_a_uid() {
        let asked = SyncedResource {
            name: "new".to_owned(),
            kind: "Application".to_owned(),
            ..SyncedResource::default()
        };
        let retained = one(
            &store(),
            Reader {
                scope: &scope(),
                welcome: &welcome(),
            },
            &asked,
        );
        assert_eq!(
            retained.updates.first().map(|update| update.uid.as_str()),
            Some("")
        );
    }
}
