//! The Argo CD cluster Secret of a managed cluster.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

use crate::keys;
use crate::object::set;

#[cfg(test)]
mod tests;

/// Prefix of the annotations that carry the cluster's claims.
const CLAIM_PREFIX: &str = "claim.argocd-agent.open-cluster-management.io/";

/// The inputs of [`build`].
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The cluster.
    pub cluster: &'a str,
    /// Namespace of Argo CD on the hub.
    pub argocd_namespace: &'a str,
    /// [`server_url`] of the resource proxy for this cluster.
    pub server: &'a str,
    /// Argo CD's credentials for it.
    pub access: &'a Access,
    /// Labels of the ManagedCluster; reserved ones are left out, so a spoke cannot pose as another.
    pub labels: &'a BTreeMap<String, String>,
    /// Claims of the ManagedCluster; they become annotations, because a spoke can write them.
    pub claims: &'a BTreeMap<String, String>,
}

/// Argo CD's credentials for the resource proxy.
#[derive(Clone, Default, PartialEq, Eq, derive_more::Debug)]
#[debug("Access")]
pub struct Access {
    /// Bearer token.
    pub bearer_token: Option<String>,
    /// CA of the resource proxy, PEM.
    pub ca: Option<String>,
    /// Client certificate, PEM.
    pub certificate: Option<String>,
    /// Its key, PEM.
    pub key: Option<String>,
}

/// Name of the Secret.
pub fn name(cluster: &str) -> String {
    format!("cluster-{cluster}")
}

/// The server URL in Argo CD of a cluster behind the resource proxy at `address` (`host:port`).
pub fn server_url(address: &str, cluster: &str) -> String {
    format!(
        "https://{}?agentName={cluster}",
        address.trim_end_matches('/')
    )
}

/// The whole Secret, for server-side apply.
pub fn build(inputs: Inputs<'_>) -> Value {
    let Inputs {
        cluster,
        argocd_namespace,
        server,
        access,
        labels,
        claims,
    } = inputs;
    let mut all_labels: Map<String, Value> = labels
        .iter()
        .filter(|(key, _)| !keys::is_reserved(key))
        .map(|(key, value)| (key.clone(), value.as_str().into()))
        .collect();
    all_labels.insert(keys::SECRET_TYPE.to_owned(), "cluster".into());
    all_labels.insert(keys::AGENT_NAME.to_owned(), cluster.into());
    let mut annotations: Map<String, Value> = claims
        .iter()
        .filter(|(key, _)| is_annotation_name(key))
        .map(|(key, value)| (format!("{CLAIM_PREFIX}{key}"), value.as_str().into()))
        .collect();
    annotations.insert(keys::MANAGED_BY.to_owned(), keys::MANAGED_BY_US.into());
    annotations.insert(keys::SKIP_RECONCILE.to_owned(), "true".into());
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name(cluster),
            "namespace": argocd_namespace,
            "labels": all_labels,
            "annotations": annotations,
        },
        "type": "Opaque",
        "data": {
            "name": STANDARD.encode(cluster),
            "server": STANDARD.encode(server),
            "config": STANDARD.encode(config(access).to_string()),
        },
    })
}

/// Argo CD's `ClusterConfig`. Its `[]byte` fields are base64 of the PEM.
fn config(access: &Access) -> Value {
    let mut tls = json!({ "insecure": false });
    for (field, pem) in [
        ("caData", &access.ca),
        ("certData", &access.certificate),
        ("keyData", &access.key),
    ] {
        set(
            &mut tls,
            field,
            pem.as_ref().map(|pem| STANDARD.encode(pem)),
        );
    }
    let mut config = json!({ "tlsClientConfig": tls });
    set(&mut config, "bearerToken", access.bearer_token.as_deref());
    config
}

/// The credentials in the `config` of a Secret, as far as they can be decoded.
pub fn access(config: &[u8]) -> Access {
    let config: Value = serde_json::from_slice(config).unwrap_or_default();
    let text = |field: &str| {
        let encoded = config.pointer("/tlsClientConfig")?.get(field)?.as_str()?;
        String::from_utf8(STANDARD.decode(encoded).ok()?).ok()
    };
    let token = config.get("bearerToken").and_then(Value::as_str);
    Access {
        bearer_token: token.map(str::to_owned),
        ca: text("caData"),
        certificate: text("certData"),
        key: text("keyData"),
    }
}

/// The `config` of a Secret with other credentials, base64 as in the Secret. Fields that a user added stay.
pub fn with_access(before: &[u8], access: &Access) -> String {
    let mut all: Value = serde_json::from_slice(before).unwrap_or_default();
    if let Some(all) = all.as_object_mut() {
        // Otherwise an old token would remain when there is no new one.
        all.remove("bearerToken");
    }
    crate::patch::merge(&mut all, &config(access));
    STANDARD.encode(all.to_string())
}

/// Whether a predecessor of this program created the Secret for the same cluster, so that we may take it over:
/// `argocd-agentctl`, a principal with self-registration, or the older add-on.
pub fn is_predecessors(
    cluster: &str,
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> bool {
    let label = |key: &str| labels.get(key).map(String::as_str);
    let of_cluster =
        label(keys::SECRET_TYPE) == Some("cluster") && label(keys::AGENT_NAME) == Some(cluster);
    let managed = annotations.get(keys::MANAGED_BY).map(String::as_str);
    of_cluster
        && (managed == Some(keys::MANAGED_BY_US)
            || label(keys::SELF_REGISTERED) == Some("true")
            || label(keys::OLDER_CLUSTER_NAME) == Some(cluster))
}

/// The API server accepts 63 characters after the slash.
fn is_annotation_name(key: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=63).contains(&key.len())
        && key.chars().all(fits)
        && key.starts_with(|c: char| c.is_ascii_alphanumeric())
        && key.ends_with(|c: char| c.is_ascii_alphanumeric())
}
