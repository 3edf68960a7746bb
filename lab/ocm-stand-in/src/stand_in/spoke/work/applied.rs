//! The spoke's own record of the objects of a work, which owns them and outlives the work on the hub.
//!
//! As in OCM, the owner references that the last apply left decide which objects go with the work. Its spec has no say any
//! more: an option that was never applied keeps nothing.

use anyhow::Result;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{
    super::Spoke,
    apply::{Applier, Outcome},
    merge::owners,
};
use crate::{condition, kinds::APPLIED_MANIFEST_WORK};

const FINALIZER: &str = "cluster.open-cluster-management.io/applied-manifest-work-cleanup";

/// An AppliedManifestWork as last observed.
#[derive(Debug)]
pub(super) struct Record {
    api: Api<DynamicObject>,
    object: DynamicObject,
}

impl Record {
    /// The owner reference that ties an object to this record.
    pub(super) fn owner(&self) -> Value {
        json!({
            "apiVersion": APPLIED_MANIFEST_WORK.api_version(),
            "kind": APPLIED_MANIFEST_WORK.name,
            "name": self.object.name_any(),
            "uid": self.object.uid(),
        })
    }

    /// Whether it is being deleted, and its objects with it.
    pub(super) const fn is_going(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }

    fn resources(&self) -> Vec<Value> {
        self.object.data["status"]["appliedResources"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    }
}

fn name(spoke: &Spoke, work: &str) -> (String, String) {
    let hub = hex::encode(Sha256::digest(spoke.hub_url.trim_end_matches('/')));
    (format!("{hub}-{work}"), hub)
}

/// The record of a work, created if absent. It may be one that a user has deleted.
pub(super) async fn ensure(spoke: &Spoke, work: &str) -> Result<Record> {
    let api = APPLIED_MANIFEST_WORK.all(&spoke.work);
    let (name, hub_hash) = name(spoke, work);
    if let Some(object) = api.get_opt(&name).await? {
        return Ok(Record { api, object });
    }
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": APPLIED_MANIFEST_WORK.api_version(),
        "kind": APPLIED_MANIFEST_WORK.name,
        "metadata": { "name": name, "finalizers": [FINALIZER] },
        "spec": { "hubHash": hub_hash, "agentID": spoke.agent, "manifestWorkName": work },
    }))?;
    let object = api.create(&PostParams::default(), &object).await?;
    Ok(Record { api, object })
}

/// Records the applied objects and deletes those no longer listed; false while a deletion is pending.
pub(super) async fn record(
    applier: &mut Applier,
    record: &Record,
    outcomes: &[Outcome],
) -> Result<bool> {
    let mut listed: Vec<Value> = Vec::new();
    for outcome in outcomes {
        if let Ok(uid) = &outcome.result {
            listed.push(entry(&outcome.meta, uid));
        }
    }
    let mut is_done = true;
    for old in record.resources() {
        if listed.iter().any(|new| is_same(new, &old)) {
            continue;
        }
        if outcomes.iter().any(|one| is_same(&one.meta, &old)) {
            // It could not be applied this time; it is still recorded.
            listed.push(old);
        } else if !remove_one(applier, &old, &record.owner()).await? {
            is_done = false;
            listed.push(old);
        }
    }
    listed.sort_by_key(Value::to_string);
    condition::write_status(&record.api, &record.object, |status| {
        status["appliedResources"] = json!(listed);
    })
    .await?;
    Ok(is_done)
}

fn entry(meta: &Value, uid: &str) -> Value {
    let mut entry = json!({ "uid": uid });
    for key in ["group", "version", "resource", "namespace", "name"] {
        entry[key] = meta[key].clone();
    }
    entry
}

fn is_same(a: &Value, b: &Value) -> bool {
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    ["group", "resource", "namespace", "name"]
        .iter()
        .all(|key| text(a, key) == text(b, key))
}

/// Removes all objects of a deleted work; true once all are gone and the record too.
pub(super) async fn remove(spoke: &Spoke, applier: &mut Applier, work: &str) -> Result<bool> {
    let api = APPLIED_MANIFEST_WORK.all(&spoke.work);
    let (name, _) = name(spoke, work);
    let Some(object) = api.get_opt(&name).await? else {
        return Ok(true);
    };
    let record = Record { api, object };
    if !record.is_going() {
        record.api.delete(&name, &DeleteParams::default()).await?;
    }
    let (mut are_gone, mut failure) = (true, None);
    for resource in record.resources() {
        // One that cannot be removed keeps the record, and no other object.
        match remove_one(applier, &resource, &record.owner()).await {
            Ok(is_gone) => are_gone &= is_gone,
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    if let Some(failure) = failure {
        return Err(failure);
    }
    if !are_gone {
        return Ok(false);
    }
    let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    let freed = record
        .api
        .patch(&name, &PatchParams::default(), &free)
        .await;
    condition::tolerate_staleness(freed)?;
    Ok(record.api.get_opt(&name).await?.is_none())
}

/// What becomes of a recorded object.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fate {
    /// It stays: the record does not own it, or it is another object of the same name.
    Stay,
    /// It stays for another record, without the reference to this one. These are its other owners.
    Release(Value),
    /// It is being deleted already.
    Going,
    Delete,
}

/// The fate of a live object, by its owner references. Owners of other kinds keep nothing.
fn fate(live: &Value, recorded: &Value, owner: &Value) -> Fate {
    let has = live.pointer("/metadata/ownerReferences");
    let has = has.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if !has.iter().any(|one| one["uid"] == owner["uid"]) {
        return Fate::Stay;
    }
    let is_other_record = |one: &Value| {
        one["uid"] != owner["uid"]
            && one["kind"] == owner["kind"]
            && one["apiVersion"] == owner["apiVersion"]
    };
    if has.iter().any(is_other_record) {
        return Fate::Release(owners(live, owner, false));
    }
    if live["metadata"]["uid"] != recorded["uid"] {
        Fate::Stay
    } else if live["metadata"]["deletionTimestamp"].is_null() {
        Fate::Delete
    } else {
        Fate::Going
    }
}

/// Deletes one object unless it stays; true once it is gone or no longer ours.
async fn remove_one(applier: &mut Applier, resource: &Value, owner: &Value) -> Result<bool> {
    let name = resource["name"].as_str().unwrap_or_default();
    let api = applier.api_of(resource).await?;
    let live = match api.get_opt(name).await {
        Ok(Some(live)) => live,
        Ok(None) => return Ok(true),
        // The kind itself is gone, and with it the object.
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(true),
        Err(error) => return Err(error.into()),
    };
    match fate(&serde_json::to_value(&live)?, resource, owner) {
        Fate::Stay => return Ok(true),
        Fate::Release(others) => {
            let patch = json!({ "metadata": {
                "resourceVersion": live.metadata.resource_version, "ownerReferences": others,
            }});
            api.patch(name, &PatchParams::default(), &Patch::Merge(&patch))
                .await?;
            return Ok(true);
        }
        Fate::Going => {}
        Fate::Delete => {
            let precise = Preconditions {
                uid: live.metadata.uid.clone(),
                resource_version: None,
            };
            let how = DeleteParams::background().preconditions(precise);
            condition::tolerate_staleness(api.delete(name, &how).await)?;
        }
    }
    Ok(api.get_opt(name).await?.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = "AppliedManifestWork";
    const VERSION: &str = "work.open-cluster-management.io/v1";

    fn owner(kind: &str, uid: &str) -> Value {
        let version = if kind == RECORD { VERSION } else { "v1" };
        json!({ "apiVersion": version, "kind": kind, "name": uid, "uid": uid })
    }

    fn live(owners: &[Value]) -> Value {
        json!({ "metadata": { "name": "a", "uid": "1", "ownerReferences": owners } })
    }

    #[test]
    fn owner_references_decide_about_a_removed_object() {
        let (ours, recorded) = (owner(RECORD, "ours"), json!({ "name": "a", "uid": "1" }));
        let (theirs, other) = (owner(RECORD, "theirs"), owner("ConfigMap", "other"));
        let cases: [(&[Value], Fate); 5] = [
            (&[], Fate::Stay),
            (std::slice::from_ref(&theirs), Fate::Stay),
            (std::slice::from_ref(&ours), Fate::Delete),
            (&[ours.clone(), other.clone()], Fate::Delete),
            (
                &[other.clone(), ours.clone(), theirs.clone()],
                Fate::Release(json!([other, theirs])),
            ),
        ];
        for (owners, wanted) in cases {
            assert_eq!(fate(&live(owners), &recorded, &ours), wanted, "{owners:?}");
        }
        assert_eq!(fate(&json!({}), &recorded, &ours), Fate::Stay);

        let replaced = json!({ "name": "a", "uid": "0" });
        let owned = live(std::slice::from_ref(&ours));
        assert_eq!(fate(&owned, &replaced, &ours), Fate::Stay);
        let mut going = owned;
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(fate(&going, &recorded, &ours), Fate::Going);
    }
}
