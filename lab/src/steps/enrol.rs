//! Enables and disables the add-on on a cluster.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use super::{
    at::{ADDON, At},
    objects::{Objects, has_condition},
};

/// The label that opts a cluster in.
pub const MODE: &str = "argocd-agent.open-cluster-management.io/mode";
/// The label that OCM puts on a cluster for an add-on.
pub const FEATURE: &str = "feature.open-cluster-management.io/addon-argocd-agent-addon";
/// The agent's namespace on a spoke.
pub const AGENT_NAMESPACE: &str = "open-cluster-management-agent-addon";
/// Argo CD's namespace, on the hub and on the spokes.
pub const ARGOCD: &str = "argocd";
/// The Secret with the agent's certificate.
pub const CERTIFICATE: &str =
    "argocd-agent-addon-open-cluster-management.io-argocd-agent-addon-client-cert";

/// From a label to a running agent: CSR, work, pod, first connection. A minute is generous.
const ENROLMENT: Duration = Duration::from_secs(90);
/// Deletions go through the work agent, the kubelet's grace period and garbage collection.
const REMOVAL: Duration = Duration::from_secs(90);

/// Opts a cluster in with the label; the manager creates the `ManagedClusterAddOn`.
pub async fn by_label(hub: &Objects, cluster: &str) -> Result<()> {
    by_label_as(hub, cluster, "managed").await
}

/// Like [`by_label`], in the given mode.
pub async fn by_label_as(hub: &Objects, cluster: &str, mode: &str) -> Result<()> {
    hub.merge(
        &At::cluster(cluster),
        json!({"metadata": {"labels": {MODE: mode}}}),
    )
    .await?;
    hub.until_there(&At::addon(cluster), ENROLMENT)
        .await
        .map(drop)
}

/// Opts a cluster in like `clusteradm addon enable`.
pub async fn by_addon(hub: &Objects, cluster: &str) -> Result<()> {
    let spec = json!({"spec": {"installNamespace": AGENT_NAMESPACE}});
    hub.apply(&At::addon(cluster), spec).await.map(drop)
}

/// Like [`by_addon`], with a configuration of its own that has this variable from the start; [`without_variables`]
/// removes it.
pub async fn by_addon_with_variable(
    hub: &Objects,
    cluster: &str,
    name: &str,
    value: &str,
) -> Result<()> {
    let variables = json!([{"name": name, "value": value}]);
    let own = At::addon_config(cluster, VARIABLES);
    hub.apply(&own, json!({"spec": {"customizedVariables": variables}}))
        .await?;
    let mut addon = configured(cluster);
    addon["spec"]["installNamespace"] = AGENT_NAMESPACE.into();
    hub.apply(&At::addon(cluster), addon).await.map(drop)
}

/// Removes the label.
pub async fn take_label_away(hub: &Objects, cluster: &str) -> Result<()> {
    let nothing = json!({"metadata": {"labels": {MODE: null}}});
    hub.merge(&At::cluster(cluster), nothing).await.map(drop)
}

/// Waits until all conditions that a user checks report a working add-on.
///
/// Ignores `ClusterCertificateRotated`: OCM's agent does not report it when the Secret had to wait for its
/// namespace, as on a new cluster.
pub async fn until_available(hub: &Objects, cluster: &str) -> Result<Value> {
    let at = At::addon(cluster);
    for (kind, status, reason) in [
        ("Available", "True", "AgentConnected"),
        ("Progressing", "False", "Completed"),
        ("RegistrationApplied", "True", ""),
        ("ManifestApplied", "True", ""),
        ("Configured", "True", ""),
    ] {
        let emits = |addon: &Value| has_condition(addon, kind, status, reason);
        hub.until(
            &at,
            &format!("says {kind}={status} {reason}"),
            ENROLMENT,
            emits,
        )
        .await?;
    }
    let labelled = |object: &Value| object["metadata"]["labels"][FEATURE] == "available";
    hub.until(
        &At::cluster(cluster),
        "has the feature label",
        ENROLMENT,
        labelled,
    )
    .await?;
    hub.read(&at).await
}

/// The Argo CD cluster Secret of a cluster.
pub fn cluster_secret(cluster: &str) -> At {
    At::secret(ARGOCD, &format!("cluster-{cluster}"))
}

/// The agent's Deployment on a cluster.
pub fn agent() -> At {
    At::deployment(AGENT_NAMESPACE, "argocd-agent-addon-agent")
}

/// Waits until nothing of ours is left for this cluster, on the hub and on the spoke.
pub async fn until_removed(hub: &Objects, spoke: &Objects, cluster: &str) -> Result<()> {
    hub.until_gone(&At::addon(cluster), REMOVAL).await?;
    for work in hub.list(&At::work(cluster, ""), &of_addon()).await? {
        let name = work["metadata"]["name"].as_str().unwrap_or_default();
        hub.until_gone(&At::work(cluster, name), REMOVAL).await?;
    }
    hub.until_gone(&cluster_secret(cluster), REMOVAL).await?;
    for at in [
        agent(),
        At::service_account(AGENT_NAMESPACE, "argocd-agent-addon-agent"),
        At::secret(AGENT_NAMESPACE, CERTIFICATE),
    ] {
        spoke.until_gone(&at, REMOVAL).await?;
    }
    let unlabelled = |object: &Value| object["metadata"]["labels"][FEATURE].is_null();
    hub.until(
        &At::cluster(cluster),
        "lost the feature label",
        REMOVAL,
        unlabelled,
    )
    .await?;
    Ok(())
}

/// The label selector of the add-on's objects.
pub fn of_addon() -> String {
    format!("open-cluster-management.io/addon-name={ADDON}")
}

/// Gives a cluster's add-on a configuration of its own with this variable.
pub async fn with_variable(hub: &Objects, cluster: &str, name: &str, value: &str) -> Result<()> {
    let variables = json!([{"name": name, "value": value}]);
    with_configuration(hub, cluster, json!({"customizedVariables": variables})).await
}

/// Gives a cluster's add-on a configuration of its own with this spec; [`without_variables`] removes it.
pub async fn with_configuration(hub: &Objects, cluster: &str, spec: Value) -> Result<()> {
    let own = At::addon_config(cluster, VARIABLES);
    hub.apply(&own, json!({ "spec": spec })).await?;
    hub.merge(&At::addon(cluster), configured(cluster))
        .await
        .map(drop)
}

/// The spec of an add-on that has a configuration of its own.
fn configured(cluster: &str) -> Value {
    json!({"spec": {"configs": [{
        "group": "addon.open-cluster-management.io",
        "resource": "addondeploymentconfigs",
        "namespace": cluster,
        "name": VARIABLES,
    }]}})
}

/// Removes that configuration.
pub async fn without_variables(hub: &Objects, cluster: &str) -> Result<()> {
    let none = json!({"spec": {"configs": null}});
    hub.merge(&At::addon(cluster), none).await?;
    hub.delete(&At::addon_config(cluster, VARIABLES)).await
}

/// The organizational units in the subject that a cluster's agent must request: they name the certificate authority. None
/// without a registration.
pub async fn registered_units(hub: &Objects, cluster: &str) -> Result<Vec<String>> {
    let addon = hub.get(&At::addon(cluster)).await?.unwrap_or_default();
    let registrations = addon["status"]["registrations"].as_array();
    let signer = format!("open-cluster-management.io/{ADDON}");
    let mut registrations = registrations.into_iter().flatten();
    let ours = registrations.find(|it| it["signerName"] == signer.as_str());
    let units = ours.map(|it| it["subject"]["organizationUnit"].clone());
    Ok(units
        .and_then(|units| serde_json::from_value(units).ok())
        .unwrap_or_default())
}

/// The name of the add-on's own configuration.
const VARIABLES: &str = "variables";
