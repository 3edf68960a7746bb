//! Writes for one cluster. Server-side apply with a field manager for each part of the status, so
//! that parts can be written apart and nobody else's fields are touched.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};
use tracing::{debug, info};

use super::{plan::Step, report::Facts};
use crate::{
    api::{addon::ManagedClusterAddOnStatus, work::ManifestWork},
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

fn addons_of<A: Addon>(hub: &Hub<A>, cluster: &ClusterName) -> Api<DynamicObject> {
    let resource = hub.version.managed_cluster_addons();
    Api::namespaced_with(hub.client.clone(), cluster.as_str(), &resource)
}

fn works_of<A: Addon>(hub: &Hub<A>, cluster: &ClusterName) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<ManifestWork>(&());
    Api::namespaced_with(hub.client.clone(), cluster.as_str(), &resource)
}

/// Writes the registration part of the status.
pub(super) async fn registration<A: Addon>(
    hub: &Hub<A>,
    target: Target<'_>,
    registration: &ManagedClusterAddOnStatus,
) -> Result<(), Error> {
    let status = hub.version.write_status(registration);
    status_part(hub, target, "registration", status, Written::Registration).await
}

/// Writes the conditions of the deploy part, all of them: what is left out vanishes.
pub(super) async fn conditions<A: Addon>(
    hub: &Hub<A>,
    target: Target<'_>,
    conditions: &[Condition],
) -> Result<(), Error> {
    let status = json!({ "conditions": conditions });
    status_part(hub, target, "deploy", status, Written::Conditions).await
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
    status_part(hub, target, "health", status, Written::Available).await
}

async fn status_part<A: Addon>(
    hub: &Hub<A>,
    target: Target<'_>,
    part: &str,
    status: Value,
    written: Written,
) -> Result<(), Error> {
    let name = hub.addon.name();
    let body = json!({
        "apiVersion": hub.version.api_version(),
        "kind": "ManagedClusterAddOn",
        // With the UID, a status meant for one add-on is never put onto its successor.
        "metadata": { "name": name, "namespace": target.name, "uid": target.addon.metadata.uid },
        "status": status,
    });
    let params = PatchParams::apply(&format!("{name}-{part}")).force();
    let api = addons_of(hub, target.name);
    let result = api
        .patch_status(name.as_str(), &params, &Patch::Apply(&body))
        .await;
    let object = match result {
        Ok(object) => object,
        Err(kube::Error::Api(status)) if status.is_not_found() => {
            debug!(cluster = %target.name, part, "gone while its status was to be written");
            return Ok(());
        }
        Err(source) => {
            return Err(Error::Write {
                action: "apply the status of",
                object: format!("ManagedClusterAddOn {}/{name}", target.name),
                source: Box::new(source),
            });
        }
    };
    hub.metrics.wrote(written);
    expect_addon(hub, target.name, object);
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

/// Carries out steps in their order and notes what became of each work.
pub(super) async fn works<A: Addon>(
    hub: &Hub<A>,
    target: Target<'_>,
    steps: Vec<Step>,
    facts: &mut Facts,
) -> Result<(), Error> {
    for step in steps {
        match step {
            Step::Apply { name, body } => {
                let work = apply_work(hub, target.name, &name, &body).await?;
                let created = work.metadata.creation_timestamp.map(|time| time.0);
                facts.wrote(&name, created, work.metadata.generation.unwrap_or_default());
            }
            Step::Delete { name } => {
                delete_work(hub, target.name, &name).await?;
                facts.deleted(&name);
            }
        }
    }
    Ok(())
}

async fn apply_work<A: Addon>(
    hub: &Hub<A>,
    cluster: &ClusterName,
    name: &str,
    body: &Value,
) -> Result<DynamicObject, Error> {
    let params = PatchParams::apply(&format!("{}-deploy", hub.addon.name())).force();
    let work = works_of(hub, cluster)
        .patch(name, &params, &Patch::Apply(body))
        .await;
    let work = work.map_err(|source| Error::Write {
        action: "apply",
        object: format!("ManifestWork {cluster}/{name}"),
        source: Box::new(source),
    })?;
    info!(%cluster, work = name, generation = work.metadata.generation, "work applied");
    hub.metrics.wrote(Written::WorkApplied);
    let version = work.metadata.resource_version.clone().unwrap_or_default();
    let expected = Expected::Work {
        name: name.to_owned(),
        version,
    };
    hub.world.expect(&Key::Cluster(cluster.clone()), expected);
    Ok(work)
}

/// Deletes a work; one that is gone already is as good.
pub(super) async fn delete_work<A: Addon>(
    hub: &Hub<A>,
    cluster: &ClusterName,
    name: &str,
) -> Result<(), Error> {
    match works_of(hub, cluster)
        .delete(name, &DeleteParams::default())
        .await
    {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.is_not_found() => {}
        Err(source) => {
            let object = format!("ManifestWork {cluster}/{name}");
            return Err(Error::Write {
                action: "delete",
                object,
                source: Box::new(source),
            });
        }
    }
    info!(%cluster, work = name, "work deleted");
    hub.metrics.wrote(Written::WorkDeleted);
    hub.world.expect(
        &Key::Cluster(cluster.clone()),
        Expected::NoWork(name.to_owned()),
    );
    Ok(())
}
