//! The `ConfigMap` with the records.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Details, Record, Records};
use crate::{hub::mode_of, keys};

/// Its name, in the manager's own namespace.
pub const NAME: &str = "argocd-agent-addon-modes";
/// Changes of many clusters within this time are one write. A change that concerns credentials does not wait.
const PAUSE: Duration = Duration::from_secs(3);

/// The content of the `ConfigMap`.
#[derive(Debug)]
pub struct Written {
    /// None while it is not known.
    known: Option<Content>,
    last: Option<Instant>,
}

#[derive(Debug, Default)]
struct Content {
    records: Records,
    exists: bool,
}

impl Written {
    /// The recorded decisions.
    pub fn records(&self) -> Records {
        let known = self.known.as_ref();
        known.map(|it| it.records.clone()).unwrap_or_default()
    }
}

/// Reads and writes the `ConfigMap`.
#[derive(Clone, Debug)]
pub struct Store(Api<ConfigMap>);

impl Store {
    /// In this namespace.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self(Api::namespaced(client, namespace))
    }

    /// Reads what is there.
    pub async fn read(&self) -> Result<Written, kube::Error> {
        let map = self.0.get_opt(NAME).await?;
        let exists = map.is_some();
        let data = map.and_then(|map| map.data).unwrap_or_default();
        let records = parse(&data);
        Ok(Written {
            known: Some(Content { records, exists }),
            last: None,
        })
    }

    /// Writes what changed; returns the time until the next attempt when it is too early.
    pub async fn write(
        &self,
        written: &mut Written,
        records: &Records,
    ) -> Result<Option<Duration>, kube::Error> {
        if written.known.is_none() {
            *written = self.read().await?;
        }
        let Written { known, last } = written;
        let Some(before) = known.as_ref() else {
            return Ok(Some(PAUSE));
        };
        let changes = changes(&before.records, records);
        if changes.is_empty() {
            return Ok(None);
        }
        let since = last.map(|at| at.elapsed());
        let waits = since.filter(|since| *since < PAUSE && !is_urgent(&before.records, records));
        if let Some(since) = waits {
            return Ok(Some(PAUSE.saturating_sub(since)));
        }
        let exists = before.exists;
        // After a write that failed, the content is unknown.
        *known = None;
        self.put(exists, records, changes).await?;
        *known = Some(Content {
            records: records.clone(),
            exists: true,
        });
        *last = Some(Instant::now());
        Ok(None)
    }

    async fn put(
        &self,
        exists: bool,
        records: &Records,
        changes: BTreeMap<String, Value>,
    ) -> Result<(), kube::Error> {
        if exists {
            let params = PatchParams {
                field_manager: Some(keys::FIELD_MANAGER.to_owned()),
                ..PatchParams::default()
            };
            let patch = Patch::Merge(json!({ "data": changes }));
            return self.0.patch(NAME, &params, &patch).await.map(drop);
        }
        let entries = records.iter();
        let map = ConfigMap {
            metadata: ObjectMeta {
                name: Some(NAME.to_owned()),
                ..ObjectMeta::default()
            },
            data: Some(
                entries
                    .map(|(name, record)| (name.clone(), text(record)))
                    .collect(),
            ),
            ..ConfigMap::default()
        };
        self.0.create(&PostParams::default(), &map).await.map(drop)
    }
}

/// Whether credentials were revoked, restored or replaced.
fn is_urgent(before: &Records, now: &Records) -> bool {
    let credentials = |it: &Record| (it.details.revoked.clone(), it.details.rekey.clone());
    let differs = |(name, record): (&String, &Record)| {
        let before = before.get(name).map(credentials).unwrap_or_default();
        before != credentials(record)
    };
    now.iter().any(differs)
}

/// Without a mode.
const NO_MODE: &str = "none";

/// `managed, UID of the ManagedCluster, UID of the ManagedClusterAddOn`, then the details as JSON unless there are none.
/// Earlier versions read the first three parts and ignore the rest.
fn text(record: &Record) -> String {
    let mode = record.mode.map_or(NO_MODE, principal::Mode::as_str);
    let start = format!("{mode}, {}, {}", record.uid, record.addon);
    if record.details == Details::default() {
        return start;
    }
    let details = serde_json::to_string(&record.details).unwrap_or_default();
    format!("{start}, {details}")
}

fn record(text: &str) -> Option<Record> {
    let mut parts = text.splitn(4, ", ");
    let word = parts.next()?;
    let mode = mode_of(word);
    if mode.is_none() && word != NO_MODE {
        return None;
    }
    Some(Record {
        mode,
        uid: parts.next()?.to_owned(),
        addon: parts.next()?.to_owned(),
        details: match parts.next() {
            Some(details) => serde_json::from_str(details).ok()?,
            None => Details::default(),
        },
    })
}

/// Entries that cannot be read count as absent.
fn parse(data: &BTreeMap<String, String>) -> Records {
    let entries = data.iter();
    entries
        .filter_map(|(name, text)| {
            let record = record(text);
            if record.is_none() {
                tracing::warn!(
                    cluster = name,
                    "ignoring an invalid entry of the ConfigMap {NAME}"
                );
            }
            Some((name.clone(), record?))
        })
        .collect()
}

/// The data of the merge patch; null for entries to remove.
fn changes(before: &Records, now: &Records) -> BTreeMap<String, Value> {
    let gone = before.keys().filter(|name| !now.contains_key(*name));
    let gone = gone.map(|name| (name.clone(), Value::Null));
    let new = now
        .iter()
        .filter(|(name, record)| before.get(*name) != Some(record));
    new.map(|(name, record)| (name.clone(), Value::String(text(record))))
        .chain(gone)
        .collect()
}

#[cfg(test)]
mod tests {
    use principal::Mode;

    use super::*;
    use crate::decisions::Revocation;

    fn with_mode(mode: Mode, uid: &str) -> Record {
        Record {
            mode: Some(mode),
            uid: uid.to_owned(),
            addon: "9".to_owned(),
            details: Details::default(),
        }
    }

    fn revoked() -> Record {
        let mut record = with_mode(Mode::Managed, "1");
        record.mode = None;
        record.details.revoked = Some(Revocation {
            reason: "stolen, \"twice\"\n".to_owned(),
            key: Some("old".to_owned()),
        });
        record.details.removed = Some(jiff::Timestamp::UNIX_EPOCH);
        record
    }

    #[test]
    fn records_survive_a_round_trip_and_garbage_is_ignored() {
        let records: Records = [
            ("a".to_owned(), with_mode(Mode::Managed, "1")),
            ("b".to_owned(), with_mode(Mode::Autonomous, "2")),
            ("r".to_owned(), revoked()),
        ]
        .into();
        let entries = records.iter();
        let mut data: BTreeMap<_, _> = entries
            .map(|(name, record)| (name.clone(), text(record)))
            .collect();
        assert_eq!(data["a"], "managed, 1, 9", "the format of earlier versions");
        let garbage = [
            ("c", ""),
            ("d", "managed"),
            ("e", "other, 3, 4"),
            ("f", "managed, 3, 4, {"),
        ];
        for (name, garbage) in garbage {
            data.insert(name.to_owned(), garbage.to_owned());
        }
        assert_eq!(parse(&data), records);
    }

    #[test]
    fn only_differences_are_written() {
        let one: Records = [("a".to_owned(), with_mode(Mode::Managed, "1"))].into();
        let other: Records = [("b".to_owned(), with_mode(Mode::Managed, "2"))].into();
        assert!(changes(&one, &one).is_empty());
        let expected = [
            ("a".to_owned(), Value::Null),
            ("b".to_owned(), Value::String("managed, 2, 9".to_owned())),
        ];
        assert_eq!(changes(&one, &other), expected.into());
    }

    #[test]
    fn revocation_and_restore_are_urgent_and_modes_are_not() {
        let one: Records = [("a".to_owned(), with_mode(Mode::Managed, "1"))].into();
        let out: Records = [("a".to_owned(), revoked())].into();
        assert!(is_urgent(&one, &out) && is_urgent(&out, &one));
        assert!(!is_urgent(&Records::new(), &one));
        assert!(is_urgent(&Records::new(), &out));
    }
}
