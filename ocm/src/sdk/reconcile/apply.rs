//! Writes for one cluster. Server-side apply with a field manager for each part of the status, so
//! that parts can be written apart and nobody else's fields are touched.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};
use tracing::{debug, info};

use crate::{
    api::addon::{ManagedClusterAddOn, ManagedClusterAddOnStatus},
    condition::{self, Verdict},
    name::ClusterName,
    sdk::{
        Addon, Error, Target,
        drive::{Hub, Key},
        hash,
        metrics::Written,
        registration,
        world::Expected,
    },
};

mod rights;
mod works;

pub(super) use self::{
    rights::{finalizers, permission},
    works::{desert, works},
};

fn addons_of<A: Addon>(hub: &Hub<A>, cluster: &ClusterName) -> Api<DynamicObject> {
    let resource = hub.version.managed_cluster_addons();
    Api::namespaced_with(hub.client.clone(), cluster.as_str(), &resource)
}

/// Writes the registration part of the status.
pub(super) async fn registration<A: Addon>(
    hub: &Hub<A>,
    target: Target<'_>,
    registration: &ManagedClusterAddOnStatus,
) -> Result<(), Error> {
    let status = hub.version.write_status(registration);
    let (cluster, addon) = (target.name, target.addon);
    status_part(
        hub,
        cluster,
        addon,
        ("registration", Written::Registration),
        status,
    )
    .await
}

/// Writes the conditions of the deploy part, all of them: what is left out vanishes.
pub(super) async fn conditions<A: Addon>(
    hub: &Hub<A>,
    target: Target<'_>,
    conditions: &[Condition],
) -> Result<(), Error> {
    let status = json!({ "conditions": conditions });
    let (cluster, addon) = (target.name, target.addon);
    status_part(hub, cluster, addon, ("deploy", Written::Conditions), status).await
}

/// Writes the first word of an install: what is said of the works and `Available` in one write.
///
/// The two parts have field managers of their own, and server-side apply is of one manager at a time.
/// So the list is patched as a whole, under the version that was looked at; later words of either
/// part take their conditions over.
pub(super) async fn first_word<A: Addon>(
    hub: &Hub<A>,
    target: Target<'_>,
    conditions: &[Condition],
) -> Result<(), Error> {
    let name = hub.addon.name().as_str();
    let version = &target.addon.metadata.resource_version;
    let patch = json!({
        "metadata": { "resourceVersion": version },
        "status": { "conditions": conditions },
    });
    let params = PatchParams {
        field_manager: Some(format!("{name}-first")),
        ..PatchParams::default()
    };
    let api = addons_of(hub, target.name);
    let written = api.patch_status(name, &params, &Patch::Merge(&patch)).await;
    let written = written.map_err(|source| Error::Write {
        action: "patch the conditions of",
        object: format!("ManagedClusterAddOn {}/{name}", target.name),
        source: Box::new(source),
    })?;
    hub.metrics.wrote(Written::Conditions);
    expect_addon(hub, target.name, written);
    Ok(())
}

/// Says how far the hooks are, if that is news. With a field manager of its own, so that what was
/// said of the works stays.
pub(super) async fn hooks<A: Addon>(
    hub: &Hub<A>,
    cluster: &ClusterName,
    addon: &ManagedClusterAddOn,
    said: &Verdict,
    now: Timestamp,
) -> Result<(), Error> {
    let live = addon.conditions();
    let said = said.onto(live, now);
    if condition::find(live, &said.type_).is_some_and(|live| condition::same(live, &said)) {
        return Ok(());
    }
    let status = json!({ "conditions": [said] });
    status_part(hub, cluster, addon, ("hooks", Written::Conditions), status).await
}

/// Writes `Available`. It has a field manager of its own so that not writing it, which is the rule
/// while the hub has lost the cluster, leaves it as it is.
pub(super) async fn available<A: Addon>(
    hub: &Hub<A>,
    target: Target<'_>,
    available: Condition,
) -> Result<(), Error> {
    let Condition {
        status: value,
        reason,
        ..
    } = &available;
    info!(cluster = %target.name, available = value, reason, "availability changed");
    let status = json!({ "conditions": [available] });
    let (cluster, addon) = (target.name, target.addon);
    status_part(hub, cluster, addon, ("health", Written::Available), status).await
}

async fn status_part<A: Addon>(
    hub: &Hub<A>,
    cluster: &ClusterName,
    addon: &ManagedClusterAddOn,
    (part, written): (&str, Written),
    status: Value,
) -> Result<(), Error> {
    let name = hub.addon.name();
    let body = json!({
        "apiVersion": hub.version.api_version(),
        "kind": "ManagedClusterAddOn",
        // With the UID, a status meant for one add-on is never put onto its successor.
        "metadata": { "name": name, "namespace": cluster, "uid": addon.metadata.uid },
        "status": status,
    });
    let params = PatchParams::apply(&format!("{name}-{part}")).force();
    let api = addons_of(hub, cluster);
    let result = api
        .patch_status(name.as_str(), &params, &Patch::Apply(&body))
        .await;
    let object = match result {
        Ok(object) => object,
        Err(kube::Error::Api(status)) if status.is_not_found() => {
            debug!(%cluster, part, "gone while its status was to be written");
            return Ok(());
        }
        Err(source) => {
            return Err(Error::Write {
                action: "apply the status of",
                object: format!("ManagedClusterAddOn {cluster}/{name}"),
                source: Box::new(source),
            });
        }
    };
    hub.metrics.wrote(written);
    expect_addon(hub, cluster, object);
    Ok(())
}

fn expect_addon<A: Addon>(hub: &Hub<A>, cluster: &ClusterName, object: DynamicObject) {
    let version = object.metadata.resource_version.unwrap_or_default();
    hub.world
        .expect(&Key::Cluster(cluster.clone()), Expected::Version(version));
}

/// Writes hashes of the cluster's own configurations into its references.
///
/// The list is OCM's too and has no keys, so it is read again and patched under its version.
pub(super) async fn hashes<A: Addon>(hub: &Hub<A>, target: Target<'_>) -> Result<(), Error> {
    let name = hub.addon.name().as_str();
    let object = || format!("ManagedClusterAddOn {}/{name}", target.name);
    let api = addons_of(hub, target.name);
    let fresh = api.get(name).await;
    let fresh = fresh.map_err(|e| Error::Read {
        object: object(),
        source: Box::new(e),
    })?;
    let supported = registration::supported(&hub.addon.supported_configs());
    let live = |named: &_| {
        hub.world
            .look()
            .config(named)
            .map(|config| config.live.clone())
    };
    let Some(patch) = hash::addon_patch(&json!(fresh), &supported, live) else {
        return Ok(());
    };
    let params = PatchParams {
        field_manager: Some(format!("{name}-configs")),
        ..Default::default()
    };
    let written = api.patch_status(name, &params, &Patch::Merge(&patch)).await;
    let written = written.map_err(|e| Error::Write {
        action: "patch the configuration hashes of",
        object: object(),
        source: Box::new(e),
    })?;
    hub.metrics.wrote(Written::Hashes);
    expect_addon(hub, target.name, written);
    Ok(())
}
