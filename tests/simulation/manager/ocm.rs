//! OCM on the hub and its agents on the clusters, in their own words: owners, configurations, applied works.
//!
//! It collects no garbage, so that everything that the hub program leaves is found.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::api::{Api, Key, Write, is_deleting};
use crate::dice::Dice;

pub(crate) const ADDON: &str = "argocd-agent-addon";
pub(crate) const ADD_ONS: &str = "managedclusteraddons.addon.open-cluster-management.io";
pub(crate) const OFFERS: &str = "clustermanagementaddons.addon.open-cluster-management.io";
pub(crate) const WORKS: &str = "manifestworks.work.open-cluster-management.io";
const FINALIZER: &str = "cluster.open-cluster-management.io/manifest-work-cleanup";
const NAME: &str = "ocm";

/// OCM's controllers; they never fail.
#[derive(Clone, Debug)]
pub(crate) struct Ocm {
    pub(crate) api: Api,
    pub(crate) dice: Dice,
}

impl Ocm {
    pub(crate) async fn run(self, stop: CancellationToken) {
        let work = async {
            loop {
                self.pass();
                sleep(self.dice.millis((50, 1_500))).await;
            }
        };
        stop.run_until_cancelled(work).await;
    }

    /// How long OCM may need for a change that needs some passes.
    pub(crate) const SLOW: Duration = Duration::from_secs(10);

    fn pass(&self) {
        let offer = self.api.get(OFFERS, "", ADDON);
        if let Some(offer) = &offer {
            self.offer(offer);
        }
        for (key, add_on) in self.api.list(ADD_ONS, "") {
            if let Some(offer) = &offer {
                self.own(&key, &add_on, offer);
                self.configure(&key, &add_on, offer);
            }
        }
        for (key, work) in self.api.list(WORKS, "") {
            self.work(&key, &work);
        }
    }

    fn status(&self, key: &Key, object: &Value, status: &Value) {
        if object["status"] == *status {
            return;
        }
        let version = &object["metadata"]["resourceVersion"];
        let patch = json!({ "metadata": { "resourceVersion": version }, "status": status });
        drop(self.api.write(key, "status", NAME, Write::Merge(patch)));
    }

    fn offer(&self, offer: &Value) {
        let key = (OFFERS.to_owned(), String::new(), ADDON.to_owned());
        let known = &offer["status"]["defaultConfigReferences"];
        let defaults = offer["spec"]["defaultConfigs"].as_array();
        let references = defaults.into_iter().flatten().map(|config| {
            let hash = desired_hash(known, config).unwrap_or_default();
            reference(config, &hash, &Value::Null)
        });
        let mut status = offer["status"].clone();
        status["defaultConfigReferences"] = json!(references.collect::<Vec<_>>());
        self.status(&key, offer, &status);
    }

    fn own(&self, key: &Key, add_on: &Value, offer: &Value) {
        let owner = json!([{
            "apiVersion": offer["apiVersion"], "kind": "ClusterManagementAddOn", "name": ADDON,
            "uid": offer["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
        }]);
        if add_on["metadata"]["ownerReferences"] != owner {
            let patch = json!({ "metadata": { "ownerReferences": owner } });
            drop(self.api.write(key, "", NAME, Write::Merge(patch)));
        }
    }

    fn configure(&self, key: &Key, add_on: &Value, offer: &Value) {
        let Some(add_on) = self
            .api
            .get(&key.0, &key.1, &key.2)
            .filter(|_| !is_deleting(add_on))
        else {
            return;
        };
        let known = &add_on["status"]["configReferences"];
        let own = add_on["spec"]["configs"]
            .as_array()
            .filter(|it| !it.is_empty());
        let inherited = offer["status"]["defaultConfigReferences"].as_array();
        let inherited = inherited.into_iter().flatten().map(|it| {
            let config = json!({
                "group": it["group"], "resource": it["resource"],
                "namespace": it["desiredConfig"]["namespace"], "name": it["desiredConfig"]["name"],
            });
            let hash = it["desiredConfig"]["specHash"].as_str();
            (config, hash.unwrap_or_default().to_owned())
        });
        // The hub program writes the hashes of a cluster's own configurations.
        let of_its_own = own.into_iter().flatten().map(|config| {
            let hash = desired_hash(known, config).unwrap_or_default();
            (config.clone(), hash)
        });
        let wanted: Vec<(Value, String)> = if own.is_some() {
            of_its_own.collect()
        } else {
            inherited.collect()
        };
        let references = wanted.iter();
        let references = references.map(|(config, hash)| reference(config, hash, known));
        let references: Vec<Value> = references.collect();
        let mut status = add_on["status"].clone();
        status["configReferences"] = json!(references);
        set(
            &mut status,
            &json!({
                "type": "Configured", "status": "True", "reason": "ConfigurationsConfigured",
                "message": "Configurations configured", "lastTransitionTime": "2026-01-01T00:00:00Z",
            }),
        );
        self.status(key, &add_on, &status);
    }

    /// The work agent of a cluster applies a work, and releases a deleted one.
    fn work(&self, key: &Key, work: &Value) {
        if is_deleting(work) {
            let patch = json!({ "metadata": { "finalizers": null } });
            drop(self.api.write(key, "", NAME, Write::Merge(patch)));
            return;
        }
        if work["metadata"]["finalizers"].is_null() {
            let patch = json!({ "metadata": { "finalizers": [FINALIZER] } });
            drop(self.api.write(key, "", NAME, Write::Merge(patch)));
            return;
        }
        let mut status = work["status"].clone();
        for kind in ["Applied", "Available"] {
            set(
                &mut status,
                &json!({
                    "type": kind, "status": "True", "reason": "Done", "message": "",
                    "observedGeneration": work["metadata"]["generation"],
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }),
            );
        }
        self.status(key, work, &status);
    }
}

pub(crate) fn uid(object: &Arc<Value>) -> String {
    let uid = object["metadata"]["uid"].as_str();
    uid.unwrap_or_default().to_owned()
}

/// The hash that a list of references has for a configuration.
fn desired_hash(references: &Value, config: &Value) -> Option<String> {
    let references = references.as_array()?.iter();
    let mut named = references.filter(|it| {
        it["desiredConfig"]["name"] == config["name"]
            && it["desiredConfig"]["namespace"] == config["namespace"]
    });
    Some(
        named.next()?["desiredConfig"]["specHash"]
            .as_str()?
            .to_owned(),
    )
}

fn reference(config: &Value, hash: &str, known: &Value) -> Value {
    let known = known.as_array().into_iter().flatten();
    let mut known = known.filter(|it| it["resource"] == config["resource"]);
    let applied = known.next().map(|it| it["lastAppliedConfig"].clone());
    let mut made = json!({
        "group": config["group"], "resource": config["resource"],
        "desiredConfig": {
            "namespace": config["namespace"], "name": config["name"], "specHash": hash,
        },
    });
    if let Some(applied) = applied.filter(|it| !it.is_null()) {
        made["lastAppliedConfig"] = applied;
    }
    made
}

/// Sets a condition in a status.
fn set(status: &mut Value, condition: &Value) {
    let all = status["conditions"].as_array().cloned();
    let mut all = all.unwrap_or_default();
    match all.iter_mut().find(|it| it["type"] == condition["type"]) {
        Some(known) => *known = condition.clone(),
        None => all.push(condition.clone()),
    }
    status["conditions"] = json!(all);
}
