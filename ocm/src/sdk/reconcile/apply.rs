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
        object_cache::Expected,
        registration,
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
    let part = Part::of("registration", Written::Registration);
    status_part(hub, cluster, addon, part, status).await
}

/// Writes the conditions of the deploy part with `Available`, all of them: what is left out vanishes.
///
/// OCM writes `Available`, too. So this is under the version that was looked at.
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
    let (cluster, addon) = (target.name, target.addon);
    let part = Part {
        manager: "deploy",
        written: Written::Conditions,
        guarded: available.is_some(),
    };
    status_part(hub, cluster, addon, part, status).await
}

/// Says how far the hooks are, if that is news. With a field manager of its own, so that what was
/// said of the works stays.
pub(super) async fn hooks<A: Addon>(
    hub: &Hub<A>,
    cluster: &ClusterName,
    addon: &ManagedClusterAddOn,
    stated: &Verdict,
    now: Timestamp,
) -> Result<(), Error> {
    let live = addon.conditions();
    let stated = stated.onto(live, now);
    if condition::find(live, &stated.type_).is_some_and(|live| condition::same(live, &stated)) {
        return Ok(());
    }
    let status = json!({ "conditions": [stated] });
    let part = Part::of("hooks", Written::Conditions);
    status_part(hub, cluster, addon, part, status).await
}

/// Writes `Available` alone. With a field manager of its own, so that what was said of the works stays.
pub(super) async fn available<A: Addon>(
    hub: &Hub<A>,
    target: Target<'_>,
    available: Condition,
) -> Result<(), Error> {
    log_change(target, &available);
    let status = json!({ "conditions": [available] });
    let (cluster, addon) = (target.name, target.addon);
    let part = Part::of("health", Written::Available);
    status_part(hub, cluster, addon, part, status).await
}

fn log_change(target: Target<'_>, available: &Condition) {
    let before = condition::find(target.addon.conditions(), &available.type_);
    if before.is_some_and(|before| condition::same(before, available)) {
        return;
    }
    let Condition { status, reason, .. } = available;
    info!(cluster = %target.name, available = status, reason, "availability changed");
}

/// A part of the status that is written at once.
struct Part {
    /// The end of its field manager's name.
    manager: &'static str,
    written: Written,
    /// Whether it is written only if nobody has written since.
    guarded: bool,
}

impl Part {
    const fn of(manager: &'static str, written: Written) -> Self {
        Self {
            manager,
            written,
            guarded: false,
        }
    }
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
        written,
        guarded,
    } = part;
    let name = hub.addon.name();
    // With the UID, a status meant for one add-on is never put onto its successor.
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
    let result = api
        .patch_status(name.as_str(), &params, &Patch::Apply(&body))
        .await;
    let object = match result {
        Ok(object) => object,
        Err(kube::Error::Api(status)) if status.is_not_found() => {
            debug!(%cluster, part, "deleted before its status was written");
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
