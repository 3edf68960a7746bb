//! Binds Pods to the only node there is, if they may run on it.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::{node, watched::Watched};

/// The decision about a Pod that has no node.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Bind,
    /// Nothing yet: the Pod has a scheduling gate.
    Hold,
    /// Unschedulable: it wants another node.
    Unfit(String),
}

/// Schedules Pods until it is dropped.
pub(crate) async fn run(client: Client, node: String, mut pods: Watched<Pod>) {
    let labels = node::labels(&node);
    // The last message for each unschedulable Pod, so that it is written once. By UID.
    let mut refused: BTreeMap<String, String> = BTreeMap::new();
    loop {
        pods.changed().await;
        let mut failed = false;
        for pod in pods.all() {
            let Some(spec) = &pod.spec else { continue };
            if spec.node_name.is_some() || pod.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let api: Api<Pod> =
                Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
            let uid = pod.uid().unwrap_or_default();
            let done = match fate(spec, &labels) {
                Fate::Bind => bind(&api, &pod, &node).await,
                Fate::Hold => Ok(()),
                Fate::Unfit(why) if refused.get(&uid) == Some(&why) => Ok(()),
                Fate::Unfit(why) => refuse(&api, &pod, &why).await.map(|()| {
                    refused.insert(uid, why);
                }),
            };
            match done {
                Ok(()) => {}
                // Bound meanwhile, or gone: the watch will report it.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                Err(error) => {
                    tracing::warn!(pod = pod.name_any(), %error, "cannot schedule");
                    failed = true;
                }
            }
        }
        if failed {
            // The API is unavailable: retry soon, or at the next change.
            let _sooner = tokio::time::timeout(Duration::from_secs(1), pods.changed()).await;
            pods.look_again();
        }
    }
}

/// Decides about a Pod without node. Affinity, taints and resources are ignored: there is one
/// node, empty.
fn fate(spec: &PodSpec, labels: &BTreeMap<String, String>) -> Fate {
    if spec
        .scheduling_gates
        .as_ref()
        .is_some_and(|gates| !gates.is_empty())
    {
        return Fate::Hold;
    }
    let wanted = spec.node_selector.iter().flatten();
    let missing: Vec<String> = wanted
        .filter(|(key, value)| labels.get(*key) != Some(*value))
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    if missing.is_empty() {
        Fate::Bind
    } else {
        Fate::Unfit(format!(
            "0/1 nodes are available: the node has no label {}",
            missing.join(", ")
        ))
    }
}

async fn bind(api: &Api<Pod>, pod: &Pod, node: &str) -> kube::Result<()> {
    let name = pod.name_any();
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": { "name": name, "namespace": pod.namespace(), "uid": pod.uid() },
        "target": { "apiVersion": "v1", "kind": "Node", "name": node },
    });
    let _status: serde_json::Value = api
        .create_subresource("binding", &name, &PostParams::default(), &binding)
        .await?;
    Ok(())
}

async fn refuse(api: &Api<Pod>, pod: &Pod, why: &str) -> kube::Result<()> {
    let status = json!({
        "metadata": { "uid": pod.uid() },
        "status": { "conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why,
            "lastTransitionTime": jiff::Timestamp::now(),
        }] },
    });
    let params = PatchParams {
        field_manager: Some(node::MANAGER.to_owned()),
        ..PatchParams::default()
    };
    api.patch_status(&pod.name_any(), &params, &Patch::Strategic(&status))
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(json: serde_json::Value) -> PodSpec {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_pod_that_selects_linux_is_bound() {
        let pod =
            spec(json!({ "containers": [], "nodeSelector": { "kubernetes.io/os": "linux" } }));
        assert_eq!(fate(&pod, &node::labels("n")), Fate::Bind);
    }

    #[test]
    fn a_pod_with_an_unmatched_selector_stays_pending_with_a_reason() {
        let pod = spec(json!({ "containers": [], "nodeSelector": { "gpu": "yes" } }));
        let why = "0/1 nodes are available: the node has no label gpu=yes".to_owned();
        assert_eq!(fate(&pod, &node::labels("n")), Fate::Unfit(why));
    }

    #[test]
    fn a_gated_pod_is_not_scheduled() {
        let pod = spec(json!({ "containers": [], "schedulingGates": [{ "name": "later" }] }));
        assert_eq!(fate(&pod, &node::labels("n")), Fate::Hold);
    }
}
