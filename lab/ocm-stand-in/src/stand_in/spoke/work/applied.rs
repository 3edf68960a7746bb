//! The spoke's own record of the objects of a work, which owns them and outlives the work on the hub.

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
    rules,
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

/// The record of a work, created if absent; none while an old one is being deleted.
pub(super) async fn ensure(spoke: &Spoke, work: &str) -> Result<Option<Record>> {
    let api = APPLIED_MANIFEST_WORK.all(&spoke.work);
    let (name, hub_hash) = name(spoke, work);
    if let Some(object) = api.get_opt(&name).await? {
        let is_going = object.metadata.deletion_timestamp.is_some();
        return Ok((!is_going).then_some(Record { api, object }));
    }
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": APPLIED_MANIFEST_WORK.api_version(),
        "kind": APPLIED_MANIFEST_WORK.name,
        "metadata": { "name": name, "finalizers": [FINALIZER] },
        "spec": { "hubHash": hub_hash, "agentID": spoke.agent, "manifestWorkName": work },
    }))?;
    let object = api.create(&PostParams::default(), &object).await?;
    Ok(Some(Record { api, object }))
}

/// Records the applied objects and deletes those no longer listed; false while a deletion is pending.
pub(super) async fn record(
    applier: &mut Applier,
    record: &Record,
    spec: &Value,
    outcomes: &[Outcome],
) -> Result<bool> {
    let mut listed: Vec<Value> = Vec::new();
    for outcome in outcomes.iter().filter(|outcome| outcome.is_ours) {
        if let Ok(uid) = &outcome.result {
            listed.push(entry(&outcome.meta, uid));
        }
    }
    let manifested: Vec<&Value> = outcomes.iter().map(|outcome| &outcome.meta).collect();
    let mut is_done = true;
    for old in record.resources() {
        if listed.iter().any(|new| is_same(new, &old)) {
            continue;
        }
        let is_listed = manifested.iter().any(|meta| is_same(meta, &old));
        if is_listed
            && !rules::is_orphan(spec, &old)
            && outcomes.iter().any(|o| o.is_ours && is_same(&o.meta, &old))
        {
            // It could not be applied this time; it is still ours.
            listed.push(old);
        } else if !is_listed
            && !remove_one(applier, &old, &record.owner(), rules::is_orphan(spec, &old)).await?
        {
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
pub(super) async fn remove(
    spoke: &Spoke,
    applier: &mut Applier,
    work: &str,
    spec: &Value,
) -> Result<bool> {
    let api = APPLIED_MANIFEST_WORK.all(&spoke.work);
    let (name, _) = name(spoke, work);
    let Some(object) = api.get_opt(&name).await? else {
        return Ok(true);
    };
    let record = Record { api, object };
    if record.object.metadata.deletion_timestamp.is_none() {
        record.api.delete(&name, &DeleteParams::default()).await?;
    }
    let mut remaining = Vec::new();
    for resource in record.resources() {
        let is_orphan = rules::is_orphan(spec, &resource);
        if !remove_one(applier, &resource, &record.owner(), is_orphan).await? {
            remaining.push(resource);
        }
    }
    if !remaining.is_empty() {
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

/// Deletes one object unless it has other owners; true once it is gone or not ours.
async fn remove_one(
    applier: &mut Applier,
    resource: &Value,
    owner: &Value,
    is_orphan: bool,
) -> Result<bool> {
    let name = resource["name"].as_str().unwrap_or_default();
    let api = applier.api_of(resource).await?;
    let live = match api.get_opt(name).await {
        Ok(Some(live)) if live.uid().as_deref() == resource["uid"].as_str() => live,
        Ok(_) => return Ok(true),
        // The kind itself is gone, and with it the object.
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(true),
        Err(error) => return Err(error.into()),
    };
    let value = serde_json::to_value(&live)?;
    let others = owners(&value, owner, false);
    let is_shared = others.as_array().is_some_and(|all| !all.is_empty());
    if is_orphan || is_shared {
        if value.pointer("/metadata/ownerReferences") != Some(&others) {
            let patch = json!({ "metadata": {
                "resourceVersion": live.metadata.resource_version, "ownerReferences": others,
            }});
            api.patch(name, &PatchParams::default(), &Patch::Merge(&patch))
                .await?;
        }
        return Ok(true);
    }
    if live.metadata.deletion_timestamp.is_none() {
        let precise = Preconditions {
            uid: live.metadata.uid.clone(),
            resource_version: None,
        };
        let how = DeleteParams::background().preconditions(precise);
        condition::tolerate_staleness(api.delete(name, &how).await)?;
    }
    Ok(api.get_opt(name).await?.is_none())
}
