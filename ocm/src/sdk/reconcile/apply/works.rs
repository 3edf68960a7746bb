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
    sdk::{
        Addon, Error, WorkReport,
        error::unless_gone,
        metrics::Written,
        object_cache::{Expected, Work},
        reconcile::{Reconcile, plan::Step, report::Facts},
    },
};

fn title(namespace: &str, name: &str) -> String {
    format!("ManifestWork {namespace}/{name}")
}

impl<A: Addon> Reconcile<'_, A> {
    fn works_in(&self, namespace: &str) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<ManifestWork>(&());
        Api::namespaced_with(self.hub.client.clone(), namespace, &resource)
    }

    /// Carries out steps in their order and records the results.
    pub(in crate::sdk::reconcile) async fn write_works(
        &self,
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
                    let work = self.apply_work(&namespace, &name, &body).await?;
                    facts.wrote(WorkReport {
                        hosted: namespace != self.name.as_str(),
                        created: work.metadata.creation_timestamp.map(|time| time.0),
                        generation: work.metadata.generation.unwrap_or_default(),
                        namespace,
                        name,
                        ..WorkReport::default()
                    });
                }
                Step::Delete { namespace, name } => {
                    self.delete_work(&namespace, &name).await?;
                    facts.deleted(&namespace, &name);
                }
            }
        }
        Ok(())
    }

    async fn apply_work(
        &self,
        namespace: &str,
        name: &str,
        body: &Value,
    ) -> Result<DynamicObject, Error> {
        let params = PatchParams::apply(&format!("{}-deploy", self.hub.addon.name())).force();
        let (api, patch) = (self.works_in(namespace), Patch::Apply(body));
        let work = api.patch(name, &params, &patch).await;
        let work = work.map_err(Error::write("apply", title(namespace, name)))?;
        let generation = work.metadata.generation;
        info!(cluster = %self.name, namespace, work = name, generation, "work applied");
        let version = work.metadata.resource_version.clone().unwrap_or_default();
        self.wrote(Written::WorkApplied, Expected::Work(version));
        Ok(work)
    }

    /// Deletes a work, if it exists.
    async fn delete_work(&self, namespace: &str, name: &str) -> Result<(), Error> {
        let api = self.works_in(namespace);
        let deleted = unless_gone(api.delete(name, &DeleteParams::default()).await);
        deleted.map_err(Error::write("delete", title(namespace, name)))?;
        info!(cluster = %self.name, namespace, work = name, "work deleted");
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        self.wrote(Written::WorkDeleted, Expected::NoWork { namespace, name });
        Ok(())
    }

    /// Removes the work agent's finalizer from a deleting work whose cluster no longer exists, so that no
    /// work agent would remove it.
    pub(in crate::sdk::reconcile) async fn release_work(&self, work: &Work) -> Result<(), Error> {
        let (namespace, name) = (&work.report.namespace, &work.report.name);
        let mut others = work.finalizers.clone();
        others.retain(|finalizer| finalizer != keys::WORK_FINALIZER);
        let metadata = json!({ "resourceVersion": work.resource_version, "finalizers": others });
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        let (api, params) = (self.works_in(namespace), PatchParams::default());
        let released = unless_gone(api.patch(name, &params, &patch).await);
        let action = "remove the finalizer from";
        let released = released.map_err(Error::write(action, title(namespace, name)))?;
        if released.is_some() {
            warn!(cluster = %self.name, namespace, work = name, "released the ManifestWork: its cluster no longer exists and cannot remove it");
            self.hub.metrics.wrote(Written::WorkDeleted);
        }
        Ok(())
    }
}
