//! Writes for one cluster. Server-side apply with a field manager for each part of the status, so that
//! each part is written separately and fields of other managers stay.

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
        error::unless_gone,
        hash,
        metrics::Written,
        object_cache::Expected,
        registration,
    },
};

mod rights;
mod works;

pub(super) use self::{
    rights::{finalizers, permission},
    works::{release, works},
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
    let part = Part {
        manager: "registration",
        written: Written::Registration,
        guarded: false,
    };
    status_part(hub, target.name, target.addon, part, status).await
}

/// Writes all conditions of the deploy part with `Available`: server-side apply removes omitted ones.
///
/// OCM writes `Available`, too. So the write has the observed resourceVersion.
pub(super) async fn conditions<A: Addon>(
    hub: &Hub<A>,
    target: Target<'_>,
    conditions: &[Condition],
) -> Result<(), Error> {
    let available = condition::find(conditions, condition::addon::AVAILABLE);
    if let Some(available) = available {
        log_change(target, available);
    }
    let status = json!({ "conditions": conditions });
    let part = Part {
        manager: "deploy",
        written: Written::Conditions,
        guarded: available.is_some(),
    };
    status_part(hub, target.name, target.addon, part, status).await
}

/// Writes the condition of the hooks, if it changed. It has its own field manager, so that the conditions
/// of the works stay.
pub(super) async fn hooks<A: Addon>(
    hub: &Hub<A>,
    cluster: &ClusterName,
    addon: &ManagedClusterAddOn,
    verdict: &Verdict,
    now: Timestamp,
) -> Result<(), Error> {
    let live = addon.conditions();
    let new = verdict.onto(live, now);
    if condition::find(live, &new.type_).is_some_and(|live| condition::same(live, &new)) {
        return Ok(());
    }
    let status = json!({ "conditions": [new] });
    let part = Part {
        manager: "hooks",
        written: Written::Conditions,
        guarded: false,
    };
    status_part(hub, cluster, addon, part, status).await
}

/// Writes `Available` alone. It has its own field manager, so that the conditions of the works stay.
pub(super) async fn available<A: Addon>(
    hub: &Hub<A>,
    target: Target<'_>,
    available: Condition,
) -> Result<(), Error> {
    log_change(target, &available);
    let status = json!({ "conditions": [available] });
    let part = Part {
        manager: "health",
        written: Written::Available,
        guarded: false,
    };
    status_part(hub, target.name, target.addon, part, status).await
}

fn log_change(target: Target<'_>, available: &Condition) {
    let before = condition::find(target.addon.conditions(), &available.type_);
    if before.is_some_and(|before| condition::same(before, available)) {
        return;
    }
    let Condition { status, reason, .. } = available;
    info!(cluster = %target.name, available = status, reason, "availability changed");
}

/// A part of the status that is one write.
struct Part {
    /// The suffix of its field manager's name.
    manager: &'static str,
    written: Written,
    /// Whether the write has the observed resourceVersion, and so fails after another write.
    guarded: bool,
}

async fn status_part<A: Addon>(
    hub: &Hub<A>,
    cluster: &ClusterName,
    addon: &ManagedClusterAddOn,
    part: Part,
    status: Value,
) -> Result<(), Error> {
    let Part {
        manager: part,
        written: kind,
        guarded,
    } = part;
    let name = hub.addon.name();
    // With the UID, a status for one add-on is never written to its successor.
    let mut metadata = json!({ "name": name, "namespace": cluster, "uid": addon.metadata.uid });
    if let (true, Some(metadata)) = (guarded, metadata.as_object_mut()) {
        let version = json!(addon.metadata.resource_version);
        metadata.insert("resourceVersion".to_owned(), version);
    }
    let body = json!({
        "apiVersion": hub.version.api_version(),
        "kind": "ManagedClusterAddOn",
        "metadata": metadata,
        "status": status,
    });
    let params = PatchParams::apply(&format!("{name}-{part}")).force();
    let api = addons_of(hub, cluster);
    let patch = Patch::Apply(&body);
    let result = api.patch_status(name.as_str(), &params, &patch).await;
    let object = format!("ManagedClusterAddOn {cluster}/{name}");
    let written = unless_gone(result).map_err(Error::write("apply the status of", object))?;
    let Some(object) = written else {
        debug!(%cluster, part, "deleted before its status was written");
        return Ok(());
    };
    hub.metrics.wrote(kind);
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
/// OCM writes the list too, and it has no keys, so it is read again and patched with its resourceVersion.
pub(super) async fn hashes<A: Addon>(hub: &Hub<A>, target: Target<'_>) -> Result<(), Error> {
    let name = hub.addon.name().as_str();
    let object = || format!("ManagedClusterAddOn {}/{name}", target.name);
    let api = addons_of(hub, target.name);
    let fresh = api.get(name).await.map_err(Error::read(object()))?;
    let supported = registration::supported(&hub.addon.supported_configs());
    let live = |named: &_| {
        hub.world
            .lock()
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
    let action = "patch the configuration hashes of";
    let written = written.map_err(Error::write(action, object()))?;
    hub.metrics.wrote(Written::Hashes);
    expect_addon(hub, target.name, written);
    Ok(())
}
