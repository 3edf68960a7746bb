//! `ConfigMap`s that hub and spoke share: GPG keys, TLS certificates and SSH known hosts.
//!
//! Local entries of the spoke stay and win. The agent adds the hub's entries, records them in an annotation, and removes
//! them when the hub removes them. It never deletes the `ConfigMap` itself: Argo CD does not start without it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::digest;
use crate::host_keys::{KnownHost, is_certificate_of};
use crate::keys;
use crate::object::{Meta, to_map};
use crate::patch::{self, Patch};
use crate::projection::{SpokeContext, Unusable};

#[cfg(test)]
mod tests;

/// A shared `ConfigMap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shared {
    /// GPG keys; every cluster gets all of them.
    GpgKeys,
    /// TLS certificates, one entry for each host.
    TlsCerts,
    /// SSH known hosts, one line for each key of a host.
    SshKnownHosts,
}

/// The entry with all known hosts.
const KNOWN_HOSTS: &str = "ssh_known_hosts";

/// The annotations that the agent writes on a shared `ConfigMap`.
const STAMPS: [&str; 3] = [keys::SOURCE_UID, keys::PRINCIPAL_UID, keys::SHARED_ENTRIES];

impl Shared {
    /// All shared `ConfigMap`s.
    pub const ALL: [Self; 3] = [Self::GpgKeys, Self::TlsCerts, Self::SshKnownHosts];

    /// The name of the `ConfigMap` in Argo CD.
    pub const fn name(self) -> &'static str {
        match self {
            Self::GpgKeys => "argocd-gpg-keys-cm",
            Self::TlsCerts => "argocd-tls-certs-cm",
            Self::SshKnownHosts => "argocd-ssh-known-hosts-cm",
        }
    }

    fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|shared| shared.name() == name)
    }

    /// The entries of `data`, each under a name of its own.
    fn split(self, data: &Map<String, Value>) -> Entries {
        let texts = data
            .iter()
            .filter_map(|(name, value)| Some((name, value.as_str()?)));
        match self {
            Self::GpgKeys | Self::TlsCerts => texts
                .map(|(name, text)| (name.clone(), text.to_owned()))
                .collect(),
            Self::SshKnownHosts => known_hosts(data)
                .lines()
                .filter(|line| KnownHost::read(line).is_some())
                .map(|line| (digest::short(&line.trim().into()), line.trim().to_owned()))
                .collect(),
        }
    }
}

/// Texts by name.
type Entries = BTreeMap<String, String>;

/// Whether a desired object is a shared `ConfigMap`.
pub fn is_shared(desired: &Value) -> bool {
    desired.get("kind").and_then(Value::as_str) == Some("ConfigMap")
}

/// The hub's `ConfigMap` with the entries for one cluster; none if there are no such entries.
///
/// GPG keys are for all clusters, even if there are none, as a Go agent expects.
pub fn wire(shared: Shared, hub: &Value, hosts: &BTreeSet<String>) -> Option<Value> {
    let meta = Meta::of(hub);
    if meta.is_ignored() {
        return None;
    }
    let data = data(hub);
    let data: Map<String, Value> = match shared {
        Shared::GpgKeys => data.clone(),
        Shared::TlsCerts => data
            .iter()
            .filter(|(name, _)| is_certificate_of(name, hosts))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
        Shared::SshKnownHosts => {
            let is_for = |line: &&str| KnownHost::read(line).is_some_and(|it| it.is_of(hosts));
            let lines = known_hosts(data).lines().filter(is_for);
            of_known_hosts(lines).into_iter().collect()
        }
    };
    if data.is_empty() && shared != Shared::GpgKeys {
        return None;
    }
    Some(json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": meta.name(),
            "namespace": meta.namespace(),
            "uid": meta.uid(),
            "resourceVersion": meta.resource_version(),
        },
        "data": data,
    }))
}

/// The `ConfigMap` with the hub's entries, which the agent merges into the local one or creates.
pub fn desired_on_spoke(incoming: &Value, context: &SpokeContext<'_>) -> Result<Value, Unusable> {
    let meta = Meta::of(incoming);
    let shared = Shared::of(meta.name()).ok_or(Unusable::NoName)?;
    if meta.uid().is_empty() {
        return Err(Unusable::NoUid);
    }
    if incoming
        .get("data")
        .is_some_and(|data| !data.is_null() && !data.as_object().is_some_and(all_texts))
    {
        return Err(Unusable::BadData);
    }
    let entries = shared.split(data(incoming));
    let data = joined(shared, &Map::new(), &BTreeSet::new(), &entries);
    Ok(json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": meta.name(),
            "namespace": context.argocd_namespace,
            // Argo CD ignores the ConfigMap without this label
            "labels": { keys::PART_OF: "argocd" },
            "annotations": stamps(Some(meta.uid()), context.principal_uid, entries.keys()),
        },
        "data": data,
    }))
}

fn all_texts(data: &Map<String, Value>) -> bool {
    data.values().all(Value::is_string)
}

/// Whether it has no entries, so that there is no reason to create it.
pub fn is_empty(desired: &Value) -> bool {
    data(desired).is_empty()
}

/// The patch that adds the hub's entries to the local ones and removes those that the hub has removed.
pub(crate) fn merge_patch(live: &Value, desired: &Value) -> Option<Patch> {
    let (have, want) = (Meta::of(live), Meta::of(desired));
    let shared = Shared::of(want.name())?;
    let before = recorded(have);
    let local: Entries = shared
        .split(data(live))
        .into_iter()
        .filter(|(name, _)| !before.contains(name.as_str()))
        .collect();
    let ours: Entries = shared
        .split(data(desired))
        .into_iter()
        .filter(|(name, text)| !is_taken(shared, &local, name, text))
        .collect();
    let wanted = stamps(want.source_uid(), want.principal_uid(), ours.keys());
    let after = joined(shared, data(live), &before, &ours);
    between(live, &after, wanted)
}

/// The patch that removes the hub's entries; local entries stay.
pub fn withdraw_patch(live: &Value) -> Option<Patch> {
    let meta = Meta::of(live);
    let shared = Shared::of(meta.name())?;
    let after = joined(shared, data(live), &recorded(meta), &Entries::new());
    between(live, &after, Map::new())
}

/// Whether the spoke has an entry of its own for this one.
fn is_taken(shared: Shared, local: &Entries, name: &str, text: &str) -> bool {
    if local.contains_key(name) {
        return true;
    }
    let known = KnownHost::read(text).filter(|_| shared == Shared::SshKnownHosts);
    let mut others = local.values().map(|line| KnownHost::read(line));
    known.is_some() && others.any(|other| other == known)
}

/// Replaces the hub's former entries in `live` by its current ones. Unchanged entries stay, byte for byte.
fn joined(
    shared: Shared,
    live: &Map<String, Value>,
    before: &BTreeSet<&str>,
    ours: &Entries,
) -> Map<String, Value> {
    let mut after = live.clone();
    match shared {
        Shared::GpgKeys | Shared::TlsCerts => {
            after.retain(|name, _| !before.contains(name.as_str()));
            let ours = ours.iter();
            after.extend(ours.map(|(name, text)| (name.clone(), text.as_str().into())));
        }
        Shared::SshKnownHosts if before.is_empty() && ours.is_empty() => {}
        Shared::SshKnownHosts => {
            let is_local = |line: &&str| {
                !before.contains(digest::short(&line.trim().into()).as_str())
                    || KnownHost::read(line).is_none()
            };
            let local = known_hosts(live).lines().filter(is_local);
            let lines = local.chain(ours.values().map(String::as_str));
            after.remove(KNOWN_HOSTS);
            after.extend(of_known_hosts(lines));
        }
    }
    after
}

fn known_hosts(data: &Map<String, Value>) -> &str {
    let text = data.get(KNOWN_HOSTS).and_then(Value::as_str);
    text.unwrap_or_default()
}

/// The entry with these lines; none without lines.
fn of_known_hosts<'a>(lines: impl Iterator<Item = &'a str>) -> Option<(String, Value)> {
    let text: String = lines.flat_map(|line| [line, "\n"]).collect();
    (!text.is_empty()).then(|| (KNOWN_HOSTS.to_owned(), text.into()))
}

/// The annotations that record the hub's entries; none if there are none.
fn stamps<'a>(
    source_uid: Option<&str>,
    principal_uid: Option<&str>,
    entries: impl IntoIterator<Item = &'a String>,
) -> Map<String, Value> {
    let names: Vec<&str> = entries.into_iter().map(String::as_str).collect();
    if names.is_empty() {
        return Map::new();
    }
    let stamps = [
        (keys::SOURCE_UID, source_uid.map(str::to_owned)),
        (keys::PRINCIPAL_UID, principal_uid.map(str::to_owned)),
        (keys::SHARED_ENTRIES, Some(names.join(","))),
    ];
    stamps
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?.into())))
        .collect()
}

fn between(
    live: &Value,
    data_after: &Map<String, Value>,
    stamps: Map<String, Value>,
) -> Option<Patch> {
    let annotations = to_map(Meta::of(live).annotations());
    let mut after = annotations.clone();
    after.retain(|key, _| !STAMPS.contains(&key.as_str()));
    after.extend(stamps);
    patch::between(
        &json!({ "metadata": { "annotations": annotations }, "data": data(live) }),
        &json!({ "metadata": { "annotations": after }, "data": data_after }),
    )
}

/// The hub's entries, according to the annotation.
fn recorded(meta: Meta<'_>) -> BTreeSet<&str> {
    let names = meta.annotation(keys::SHARED_ENTRIES).unwrap_or_default();
    names.split(',').filter(|name| !name.is_empty()).collect()
}

fn data(object: &Value) -> &Map<String, Value> {
    static NONE: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    object
        .get("data")
        .and_then(Value::as_object)
        .unwrap_or(&NONE)
}
