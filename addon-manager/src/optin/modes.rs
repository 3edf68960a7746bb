//! The last mode of each cluster, in a `ConfigMap` so that it survives a restart.
//!
//! While a cluster has the add-on, the `ManagedClusterAddOn` records its mode. After it opts out, only this `ConfigMap`
//! shows that its Applications had another owner than a new label asks for.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    hub::{InstalledBefore, Modes, mode_of},
    keys,
};

/// Its name, in the manager's own namespace.
pub const NAME: &str = "argocd-agent-addon-modes";
/// The minimum time between writes: many clusters that enrol together share one.
const PAUSE: Duration = Duration::from_secs(3);

/// The recorded modes.
#[derive(Debug)]
pub struct Written {
    /// The content of the `ConfigMap`; none while it is unknown.
    known: Option<Known>,
    /// The time of the last write.
    last: Option<Instant>,
}

#[derive(Debug, Default)]
struct Known {
    modes: Modes,
    exists: bool,
}

impl Written {
    /// The recorded modes.
    pub fn modes(&self) -> Modes {
        let known = self.known.as_ref();
        known.map(|it| it.modes.clone()).unwrap_or_default()
    }
}

/// Reads and writes the recorded modes.
#[derive(Clone)]
pub struct ModeRecords(Api<ConfigMap>);

impl std::fmt::Debug for ModeRecords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper").finish_non_exhaustive()
    }
}

impl ModeRecords {
    /// Records in this namespace.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self(Api::namespaced(client, namespace))
    }

    /// Reads the recorded modes.
    pub async fn read(&self) -> Result<Written, kube::Error> {
        let map = self.0.get_opt(NAME).await?;
        let exists = map.is_some();
        let data = map.and_then(|map| map.data).unwrap_or_default();
        Ok(Written {
            known: Some(Known {
                modes: parse(&data),
                exists,
            }),
            last: None,
        })
    }

    /// Writes the changes, unless the last write was a moment ago; returns when to call again.
    pub async fn write(
        &self,
        written: &mut Written,
        modes: &Modes,
    ) -> Result<Option<Duration>, kube::Error> {
        if written.known.is_none() {
            *written = self.read().await?;
        }
        let Written { known, last } = written;
        let Some(before) = known.as_ref() else {
            return Ok(Some(PAUSE));
        };
        let changes = changes(&before.modes, modes);
        if changes.is_empty() {
            return Ok(None);
        }
        let since = last.map(|at| at.elapsed());
        if let Some(since) = since.filter(|since| *since < PAUSE) {
            return Ok(Some(PAUSE.saturating_sub(since)));
        }
        let exists = before.exists;
        // If the write fails, the content is unknown.
        *known = None;
        self.put(exists, modes, changes).await?;
        *known = Some(Known {
            modes: modes.clone(),
            exists: true,
        });
        *last = Some(Instant::now());
        Ok(None)
    }

    async fn put(
        &self,
        exists: bool,
        modes: &Modes,
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
        let entries = modes.iter();
        let map = ConfigMap {
            metadata: ObjectMeta {
                name: Some(NAME.to_owned()),
                ..ObjectMeta::default()
            },
            data: Some(
                entries
                    .map(|(name, had)| (name.clone(), text(had)))
                    .collect(),
            ),
            ..ConfigMap::default()
        };
        self.0.create(&PostParams::default(), &map).await.map(drop)
    }
}

/// `managed, UID of the ManagedCluster, UID of the ManagedClusterAddOn`.
fn text(had: &InstalledBefore) -> String {
    let InstalledBefore { mode, uid, addon } = had;
    format!("{}, {uid}, {addon}", mode.as_str())
}

/// Skips entries that it cannot parse.
fn parse(data: &BTreeMap<String, String>) -> Modes {
    let read = |text: &String| {
        let mut parts = text.split(", ");
        Some(InstalledBefore {
            mode: mode_of(parts.next()?)?,
            uid: parts.next()?.to_owned(),
            addon: parts.next()?.to_owned(),
        })
    };
    let entries = data.iter();
    entries
        .filter_map(|(name, text)| Some((name.clone(), read(text)?)))
        .collect()
}

/// The data of a merge patch; null removes an entry.
fn changes(before: &Modes, now: &Modes) -> BTreeMap<String, Value> {
    let gone = before.keys().filter(|name| !now.contains_key(*name));
    let gone = gone.map(|name| (name.clone(), Value::Null));
    let new = now
        .iter()
        .filter(|(name, had)| before.get(*name) != Some(had));
    new.map(|(name, had)| (name.clone(), Value::String(text(had))))
        .chain(gone)
        .collect()
}

#[cfg(test)]
mod tests {
    use principal::Mode;

    use super::*;

    fn had(mode: Mode, uid: &str) -> InstalledBefore {
        InstalledBefore {
            mode,
            uid: uid.to_owned(),
            addon: "9".to_owned(),
        }
    }

    #[test]
    fn modes_are_read_as_they_were_written_and_garbage_is_not() {
        let modes: Modes = [
            ("a".to_owned(), had(Mode::Managed, "1")),
            ("b".to_owned(), had(Mode::Autonomous, "2")),
        ]
        .into();
        let entries = modes.iter();
        let mut data: BTreeMap<_, _> = entries
            .map(|(name, had)| (name.clone(), text(had)))
            .collect();
        for (name, garbage) in [("c", ""), ("d", "managed"), ("e", "other, 3, 4")] {
            data.insert(name.to_owned(), garbage.to_owned());
        }
        assert_eq!(parse(&data), modes);
    }

    #[test]
    fn only_differences_are_written() {
        let one: Modes = [("a".to_owned(), had(Mode::Managed, "1"))].into();
        let other: Modes = [("b".to_owned(), had(Mode::Managed, "2"))].into();
        assert!(changes(&one, &one).is_empty());
        let expected = [
            ("a".to_owned(), Value::Null),
            ("b".to_owned(), Value::String("managed, 2, 9".to_owned())),
        ];
        assert_eq!(changes(&one, &other), expected.into());
    }
}
