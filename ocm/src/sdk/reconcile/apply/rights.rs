//! Writes of finalizers, and of an agent's permissions on the hub.

use kube::{
    Api,
    api::{DeleteParams, DynamicObject, Patch, PatchParams},
};
use serde_json::json;
use tracing::info;

use super::{addons_of, expect_addon};
use crate::{
    api::addon::ManagedClusterAddOn,
    name::ClusterName,
    sdk::{
        Addon, Error,
        drive::{Hub, Key},
        error::unless_gone,
        metrics::Written,
        object_cache::Expected,
        permissions::{self, Part, Step},
    },
};

/// Writes the finalizers of a `ManagedClusterAddOn`, with the observed resourceVersion, since other
/// clients write the list too.
pub(in crate::sdk::reconcile) async fn finalizers<A: Addon>(
    hub: &Hub<A>,
    cluster: &ClusterName,
    addon: &ManagedClusterAddOn,
    finalizers: &[String],
) -> Result<(), Error> {
    let name = hub.addon.name().as_str();
    let version = &addon.metadata.resource_version;
    let metadata = json!({ "resourceVersion": version, "finalizers": finalizers });
    let params = PatchParams {
        field_manager: Some(format!("{name}-deploy")),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(json!({ "metadata": metadata }));
    let written = addons_of(hub, cluster).patch(name, &params, &patch).await;
    let object = format!("ManagedClusterAddOn {cluster}/{name}");
    let written = unless_gone(written).map_err(Error::write("write the finalizers of", object))?;
    if let Some(object) = written {
        info!(%cluster, ?finalizers, "finalizers written");
        hub.metrics.wrote(Written::Finalizers);
        expect_addon(hub, cluster, object);
    }
    Ok(())
}

/// Writes a Role or a `RoleBinding`.
pub(in crate::sdk::reconcile) async fn permission<A: Addon>(
    hub: &Hub<A>,
    cluster: &ClusterName,
    step: Step,
) -> Result<(), Error> {
    let name = permissions::name(hub.addon.name());
    let (part, written) = match step {
        Step::Apply(part, body) => {
            let params = PatchParams::apply(&format!("{}-rights", hub.addon.name())).force();
            let patch = Patch::Apply(&body);
            let written = api(hub, cluster, part).patch(&name, &params, &patch).await;
            (part, written.map(|object| object.metadata.resource_version))
        }
        Step::Delete(part) => {
            let params = DeleteParams::default();
            let deleted = api(hub, cluster, part).delete(&name, &params).await;
            (part, deleted.map(|_| None))
        }
    };
    let object = format!("{} {cluster}/{name}", part.kind());
    let Some(version) = unless_gone(written).map_err(Error::write("write", object))? else {
        return Ok(());
    };
    info!(%cluster, kind = part.kind(), "permissions written");
    hub.metrics.wrote(Written::Permission);
    let expected = Expected::Permission { part, version };
    hub.world.expect(&Key::Cluster(cluster.clone()), expected);
    Ok(())
}

fn api<A: Addon>(hub: &Hub<A>, cluster: &ClusterName, part: Part) -> Api<DynamicObject> {
    Api::namespaced_with(hub.client.clone(), cluster.as_str(), &part.resource())
}
