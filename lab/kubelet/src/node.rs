//! The one node of the cluster, with the fields that clients read.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{Network, server};

/// The field manager of the kubelet.
pub(crate) const MANAGER: &str = "lab-kubelet";

/// The labels of the node, which node selectors are compared with.
pub(crate) fn labels(name: &str) -> BTreeMap<String, String> {
    [
        ("kubernetes.io/arch", arch()),
        ("kubernetes.io/hostname", name),
        ("kubernetes.io/os", "linux"),
        ("node-role.kubernetes.io/worker", ""),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect()
}

/// The architecture as Go spells it.
const fn arch() -> &'static str {
    match std::env::consts::ARCH.as_bytes() {
        b"aarch64" => "arm64",
        _ => "amd64",
    }
}

/// The node feature with which the API server passes on `WebSockets` unchanged.
const WEBSOCKETS: &str = "ExtendWebSocketsToKubelet";

/// Registers the node, ready. It does not renew a lease: the lab runs no controller that checks
/// it.
pub(crate) async fn register(client: &Client, name: &str, network: &Network) -> anyhow::Result<()> {
    let api: Api<k8s_openapi::api::core::v1::Node> = Api::all(client.clone());
    let params = PatchParams::apply(MANAGER).force();
    let node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": name, "labels": labels(name) },
    });
    api.patch(name, &params, &Patch::Apply(&node)).await?;
    let mut status = status(name, network, Timestamp::now());
    let minor = client.apiserver_version().await?.minor;
    if !has_declared_features(&minor) {
        let fields = status.get_mut("status").and_then(Value::as_object_mut);
        fields.map(|it| it.remove("declaredFeatures"));
    }
    api.patch_status(name, &params, &Patch::Apply(&status))
        .await?;
    Ok(())
}

/// Whether nodes of this minor version of Kubernetes declare features: from 1.35 on.
fn has_declared_features(minor: &str) -> bool {
    let number = minor.trim_end_matches('+').parse::<u32>();
    number.is_ok_and(|it| it >= 35)
}

fn status(name: &str, network: &Network, now: Timestamp) -> Value {
    let condition = |kind: &str, status: &str, reason: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": "",
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        })
    };
    // Resources are not counted: there is enough for any request.
    let resources =
        json!({ "cpu": "64", "memory": "256Gi", "pods": "250", "ephemeral-storage": "1Ti" });
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": name },
        "status": {
            "addresses": [
                { "type": "InternalIP", "address": network.gateway() },
                { "type": "Hostname", "address": name },
            ],
            "daemonEndpoints": { "kubeletEndpoint": { "Port": server::PORT } },
            "declaredFeatures": [WEBSOCKETS],
            "allocatable": resources,
            "capacity": resources,
            "conditions": [
                condition("Ready", "True", "KubeletReady"),
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID"),
            ],
            "nodeInfo": {
                "architecture": arch(), "operatingSystem": "linux", "osImage": "processes of this machine",
                "kubeletVersion": concat!("lab-kubelet-v", env!("CARGO_PKG_VERSION")),
                "containerRuntimeVersion": "process://1", "kernelVersion": "", "machineID": "", "systemUUID": "",
                "bootID": "", "kubeProxyVersion": "",
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_declare_features_from_kubernetes_1_35_on() {
        assert!(has_declared_features("35") && has_declared_features("36+"));
        assert!(!has_declared_features("34") && !has_declared_features("34+"));
    }
}
