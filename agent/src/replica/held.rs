//! What is here, as the hub's resync asks for it.

use argocd::{Meta, digest, keys};
use protocol::payload::{RequestUpdate, SyncedResource};
use protocol::{Kind, ObjectKey};
use serde_json::Value;

use crate::link::Welcome;
use crate::store::{Entry, Store};

/// What we hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held {
    /// One for each object.
    pub updates: Vec<RequestUpdate>,
    /// Go's checksum over all of them.
    pub checksum: Option<Vec<u8>>,
}

/// Everything that came from this principal.
pub(super) fn held(store: &Store, welcome: &Welcome) -> Held {
    let updates: Vec<RequestUpdate> = store
        .all()
        .into_iter()
        .filter_map(|(key, entry)| update(&key, &entry, welcome))
        .collect();
    let entries = updates
        .iter()
        .map(|u| (u.kind.as_str(), u.name.as_str(), u.uid.as_str()));
    let checksum = digest::list_checksum(entries);
    Held { updates, checksum }
}

/// One object that the principal asks about; without a UID it is not here.
pub(super) fn one(
    store: &Store,
    argocd_namespace: &str,
    asked: &SyncedResource,
    welcome: &Welcome,
) -> Held {
    let Ok(kind) = asked.kind.parse::<Kind>() else {
        return Held::default();
    };
    let moved = kind != Kind::Application
        || asked.namespace.is_empty()
        || asked.namespace == welcome.principal_namespace;
    let namespace = if moved {
        argocd_namespace
    } else {
        &asked.namespace
    };
    let here = ObjectKey::new(kind, namespace, &asked.name);
    let in_argocd = ObjectKey::new(kind, argocd_namespace, &asked.name);
    let found = [here, in_argocd]
        .into_iter()
        .find_map(|key| update(&key, &store.get(&key), welcome));
    let update = found.unwrap_or_else(|| RequestUpdate {
        name: asked.name.clone(),
        namespace: asked.namespace.clone(),
        kind: asked.kind.clone(),
        ..RequestUpdate::default()
    });
    Held {
        updates: vec![update],
        checksum: None,
    }
}

fn update(key: &ObjectKey, entry: &Entry, welcome: &Welcome) -> Option<RequestUpdate> {
    let live = entry.live.as_deref()?;
    let meta = Meta::of(live);
    let other_principal = match (meta.principal_uid(), welcome.principal_uid.as_deref()) {
        (Some(theirs), Some(ours)) => theirs != ours,
        (None, _) | (_, None) => false,
    };
    if other_principal {
        return None;
    }
    Some(RequestUpdate {
        name: key.name.clone(),
        namespace: hub_namespace(key, live, welcome),
        uid: meta.source_uid()?.to_owned(),
        kind: key.kind.as_str().to_owned(),
        checksum: digest::spec_checksum(live),
        digest: entry.wanted.as_ref().map(|wanted| wanted.digest.clone()),
    })
}

/// A Go principal that keeps namespaces looks there.
fn hub_namespace(key: &ObjectKey, live: &Value, welcome: &Welcome) -> String {
    if Meta::of(live).annotation(keys::NAMESPACE_REMAPPED) == Some("true") {
        welcome.principal_namespace.clone()
    } else {
        key.namespace.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::store::Wanted;

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

    #[test]
    fn only_what_came_from_this_principal_or_from_no_one_named_is_told() {
        let held = held(&store(), &welcome());
        let names: Vec<&str> = held
            .updates
            .iter()
            .map(|update| update.name.as_str())
            .collect();
        assert_eq!(names, ["old", "ours"]);
        assert!(held.checksum.is_some());
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
        let held = held(&store, &welcome());
        let digests: Vec<_> = held
            .updates
            .iter()
            .map(|update| update.digest.as_deref())
            .collect();
        assert_eq!(digests, [None, Some("d1")]);
    }

    #[test]
    fn what_is_not_here_is_asked_for_without_a_uid() {
        let asked = SyncedResource {
            name: "new".to_owned(),
            kind: "Application".to_owned(),
            ..SyncedResource::default()
        };
        let held = one(&store(), "argocd", &asked, &welcome());
        assert_eq!(
            held.updates.first().map(|update| update.uid.as_str()),
            Some("")
        );
    }
}
