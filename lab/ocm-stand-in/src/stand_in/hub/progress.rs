//! Sets `Progressing` of every ManagedClusterAddOn, by the same rules as OCM's add-on manager.

use std::sync::Arc;

use anyhow::Result;
use kube::{ResourceExt, api::DynamicObject};
use serde_json::{Map, Value};

use super::{
    Hub,
    add_ons::{instances, managed},
    for_each,
};
use crate::{
    condition::{self, Condition},
    control::Again,
    kinds::{
        MANAGED_CLUSTER_ADD_ON, MANIFEST_WORK,
        words::{ADD_ON_NAME, HOSTING_CLUSTER},
    },
    rollout,
};

const ADD_ON_NAMESPACE: &str = "open-cluster-management.io/addon-namespace";
const HASHES: &str = "open-cluster-management.io/config-spec-hash";

pub(super) async fn pass(hub: Hub) -> Result<Again> {
    let mut all = Vec::new();
    for management in managed(&hub) {
        all.extend(instances(&hub, &management.name_any()));
    }
    for_each(all, async |add_on| {
        let works = works(&hub, &add_on);
        let verdict = judge(&add_on, &works);
        let api =
            MANAGED_CLUSTER_ADD_ON.within(&hub.client, &add_on.namespace().unwrap_or_default());
        condition::write_status(&api, &add_on, |status| {
            if verdict == Verdict::Completed && status["configReferences"].is_array() {
                rollout::mark_applied(&mut status["configReferences"], &["lastAppliedConfig"]);
            }
            condition::set(condition::list(status), &verdict.condition());
        })
        .await?;
        Ok(None)
    })
    .await
}

/// The works of an add-on: its own, and those that a hosting cluster runs for it.
fn works(hub: &Hub, add_on: &DynamicObject) -> Vec<Arc<DynamicObject>> {
    let cluster = add_on.namespace().unwrap_or_default();
    let of_add_on = |work: &DynamicObject, namespace: Option<&String>| {
        work.labels().get(ADD_ON_NAME) == Some(&add_on.name_any())
            && work.labels().get(ADD_ON_NAMESPACE) == namespace
    };
    let mut works = hub.cache.within(MANIFEST_WORK, &cluster);
    works.retain(|work| of_add_on(work, None));
    if let Some(host) = add_on.annotations().get(HOSTING_CLUSTER) {
        let mut hosted = hub.cache.within(MANIFEST_WORK, host);
        hosted.retain(|work| of_add_on(work, Some(&cluster)));
        works.extend(hosted);
    }
    works
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Unsupported(String),
    WaitingForManifests,
    WaitingForHostedManifests,
    Progressing(&'static str),
    Completed,
}

impl Verdict {
    fn condition(&self) -> Condition {
        match self {
            Self::Unsupported(kind) => {
                let message =
                    format!("Configuration with gvr {kind} is not supported for this addon");
                Condition::of("Progressing", false, "ConfigurationUnsupported", message)
            }
            Self::WaitingForManifests => {
                let message = "Waiting for ManagedClusterAddOn ManifestApplied condition";
                Condition::of("Progressing", false, "WaitingForManifestApplied", message)
            }
            Self::WaitingForHostedManifests => {
                let message = "Waiting for ManagedClusterAddOn HostingManifestApplied condition";
                Condition::of(
                    "Progressing",
                    false,
                    "WaitingForHostingManifestApplied",
                    message,
                )
            }
            Self::Progressing(what) => Condition::of(
                "Progressing",
                true,
                "Progressing",
                format!("progressing... {what}"),
            ),
            Self::Completed => Condition::of(
                "Progressing",
                false,
                "Completed",
                "completed with no errors.",
            ),
        }
    }
}

/// Applies the rules in order; the first that matches decides.
fn judge(add_on: &DynamicObject, works: &[Arc<DynamicObject>]) -> Verdict {
    if let Some(kind) = unsupported(&add_on.data) {
        return Verdict::Unsupported(kind);
    }
    let has = |kind: &str| condition::find(&add_on.data, kind).is_some();
    if !has("ManifestApplied") {
        return Verdict::WaitingForManifests;
    }
    let is_hosted = add_on
        .annotations()
        .get(HOSTING_CLUSTER)
        .is_some_and(|host| !host.is_empty());
    if is_hosted && !has("HostingManifestApplied") {
        return Verdict::WaitingForHostedManifests;
    }
    if works.is_empty() {
        return Verdict::Progressing("no addon works");
    }
    let hook = format!("addon-{}-pre-delete", add_on.name_any());
    for work in works
        .iter()
        .filter(|work| !work.name_any().starts_with(&hook))
    {
        if !has_same_configs(work, &add_on.data) {
            return Verdict::Progressing("mca and work configs mismatch");
        }
        let generation = work.metadata.generation.unwrap_or_default();
        let is_ready = ["Available", "Applied"]
            .iter()
            .all(|kind| condition::is_true_of_generation(&work.data, kind, generation));
        if !is_ready {
            return Verdict::Progressing("work is not ready");
        }
    }
    Verdict::Completed
}

/// The first configuration of the spec whose kind the add-on does not list as supported.
fn unsupported(add_on: &Value) -> Option<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let kind = |value: &Value| (text(value, "group"), text(value, "resource"));
    let supported: Vec<_> = list(&add_on["status"]["supportedConfigs"])
        .iter()
        .map(kind)
        .collect();
    list(&add_on["spec"]["configs"])
        .iter()
        .map(kind)
        .find(|wanted| !supported.contains(wanted))
        .map(|(group, resource)| format!("{group}/{resource}"))
}

fn has_same_configs(work: &DynamicObject, add_on: &Value) -> bool {
    let Some(text) = work.annotations().get(HASHES) else {
        let references = add_on["status"]["configReferences"].as_array();
        return references.is_none_or(Vec::is_empty);
    };
    let Ok(of_work) = serde_json::from_str::<Map<String, Value>>(text) else {
        return false;
    };
    let is_complete = of_work
        .values()
        .all(|hash| hash.as_str().is_some_and(|hash| !hash.is_empty()));
    is_complete && rollout::hash_map(add_on).as_ref() == Some(&of_work)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    fn add_on() -> Value {
        json!({
            "metadata": { "name": "a", "namespace": "c" },
            "spec": {},
            "status": {
                "conditions": [{ "type": "ManifestApplied", "status": "True" }],
                "configReferences": [{
                    "group": "g", "resource": "r",
                    "desiredConfig": { "namespace": "ns", "name": "n", "specHash": "h" },
                }],
            },
        })
    }

    fn work(hashes: &str, observed: i64) -> Arc<DynamicObject> {
        let condition =
            |kind: &str| json!({ "type": kind, "status": "True", "observedGeneration": observed });
        Arc::new(object(json!({
            "metadata": {
                "name": "addon-a-deploy-0", "generation": 2,
                "annotations": { HASHES: hashes },
            },
            "status": { "conditions": [condition("Available"), condition("Applied")] },
        })))
    }

    #[test]
    fn progress_goes_through_every_rule_in_order() {
        let mut one = add_on();
        one["spec"]["configs"] = json!([{ "group": "x", "resource": "y", "name": "n" }]);
        assert_eq!(
            judge(&object(one), &[]),
            Verdict::Unsupported("x/y".to_owned())
        );

        let mut one = add_on();
        one["status"]["conditions"] = json!([]);
        assert_eq!(judge(&object(one), &[]), Verdict::WaitingForManifests);

        let one = object(add_on());
        assert_eq!(judge(&one, &[]), Verdict::Progressing("no addon works"));
        let mismatch = Verdict::Progressing("mca and work configs mismatch");
        assert_eq!(judge(&one, &[work(r#"{"r.g/ns/n":"old"}"#, 2)]), mismatch);
        assert_eq!(judge(&one, &[work("nonsense", 2)]), mismatch);
        let good = r#"{"r.g/ns/n":"h"}"#;
        assert_eq!(
            judge(&one, &[work(good, 1)]),
            Verdict::Progressing("work is not ready")
        );
        assert_eq!(judge(&one, &[work(good, 2)]), Verdict::Completed);
    }
}
