//! Writes of works.

use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};
use tracing::{info, warn};

use crate::{
    api::work::ManifestWork,
    keys,
    name::ClusterName,
    sdk::{
        Addon, Error, WorkReport,
        drive::{Hub, Key},
        error::unless_gone,
        metrics::Written,
        object_cache::{Expected, Work},
        reconcile::{plan::Step, report::Facts},
    },
};

fn title(namespace: &str, name: &str) -> String {
    format!("ManifestWork {namespace}/{name}")
}

fn works_in<A: Addon>(hub: &Hub<A>, namespace: &str) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<ManifestWork>(&());
    Api::namespaced_with(hub.client.clone(), namespace, &resource)
}

/// Carries out steps in their order and records the results.
pub(in crate::sdk::reconcile) async fn works<A: Addon>(
    hub: &Hub<A>,
    cluster: &ClusterName,
    steps: Vec<Step>,
    facts: &mut Facts,
) -> Result<(), Error> {
    for step in steps {
        match step {
            Step::Apply {
                namespace,
                name,
                body,
            } => {
                let work = apply(hub, cluster, (&namespace, &name), &body).await?;
                facts.wrote(WorkReport {
                    hosted: namespace != cluster.as_str(),
                    created: work.metadata.creation_timestamp.map(|time| time.0),
                    generation: work.metadata.generation.unwrap_or_default(),
                    namespace,
                    name,
                    ..WorkReport::default()
                });
            }
            Step::Delete { namespace, name } => {
                delete(hub, cluster, &namespace, &name).await?;
                facts.deleted(&namespace, &name);
            }
        }
    }
    Ok(())
}

async fn apply<A: Addon>(
    hub: &Hub<A>,
    cluster: &ClusterName,
    (namespace, name): (&str, &str),
    body: &Value,
) -> Result<DynamicObject, Error> {
    let params = PatchParams::apply(&format!("{}-deploy", hub.addon.name())).force();
    let work = works_in(hub, namespace)
        .patch(name, &params, &Patch::Apply(body))
        .await;
    let work = work.map_err(Error::write("apply", title(namespace, name)))?;
    info!(%cluster, namespace, work = name, generation = work.metadata.generation, "work applied");
    hub.metrics.wrote(Written::WorkApplied);
    let version = work.metadata.resource_version.clone().unwrap_or_default();
    let expected = Expected::Work { version };
    hub.world.expect(&Key::Cluster(cluster.clone()), expected);
    Ok(work)
}

/// Deletes a work, if it exists.
async fn delete<A: Addon>(
    hub: &Hub<A>,
    cluster: &ClusterName,
    namespace: &str,
    name: &str,
) -> Result<(), Error> {
    let params = DeleteParams::default();
    let deleted = works_in(hub, namespace).delete(name, &params).await;
    unless_gone(deleted).map_err(Error::write("delete", title(namespace, name)))?;
    info!(%cluster, namespace, work = name, "work deleted");
    hub.metrics.wrote(Written::WorkDeleted);
    let expected = Expected::NoWork {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    hub.world.expect(&Key::Cluster(cluster.clone()), expected);
    Ok(())
}

/// Removes the work agent's finalizer from a deleting work whose cluster no longer exists, so that no
/// work agent would remove it.
pub(in crate::sdk::reconcile) async fn release<A: Addon>(
    hub: &Hub<A>,
    cluster: &ClusterName,
    work: &Work,
) -> Result<(), Error> {
    let (namespace, name) = (&work.report.namespace, &work.report.name);
    let mut others = work.finalizers.clone();
    others.retain(|finalizer| finalizer != keys::WORK_FINALIZER);
    let metadata = json!({ "resourceVersion": work.resource_version, "finalizers": others });
    let patch = Patch::Merge(json!({ "metadata": metadata }));
    let params = PatchParams::default();
    let released = works_in(hub, namespace).patch(name, &params, &patch).await;
    let action = "remove the finalizer from";
    let released = unless_gone(released).map_err(Error::write(action, title(namespace, name)))?;
    if released.is_none() {
        return Ok(());
    }
    warn!(%cluster, namespace, work = name, "released the ManifestWork: its cluster no longer exists and cannot remove it");
    hub.metrics.wrote(Written::WorkDeleted);
    Ok(())
}
