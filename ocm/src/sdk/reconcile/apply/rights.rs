//! Writes of finalizers, and of an agent's permissions on the hub.

use kube::{
    Api,
    api::{DeleteParams, DynamicObject, Patch, PatchParams},
};
use serde_json::json;
use tracing::info;

use crate::{
    api::addon::ManagedClusterAddOn,
    sdk::{
        Addon, Error,
        error::unless_gone,
        metrics::Written,
        object_cache::Expected,
        permissions::{self, Step},
        reconcile::Reconcile,
    },
};

impl<A: Addon> Reconcile<'_, A> {
    /// Writes the finalizers of a `ManagedClusterAddOn`, with the observed resourceVersion, since other
    /// clients write the list too.
    pub(in crate::sdk::reconcile) async fn write_finalizers(
        &self,
        addon: &ManagedClusterAddOn,
        finalizers: &[String],
    ) -> Result<(), Error> {
        let name = self.hub.addon.name().as_str();
        let version = &addon.metadata.resource_version;
        let metadata = json!({ "resourceVersion": version, "finalizers": finalizers });
        let params = PatchParams::apply(&format!("{name}-deploy"));
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        let written = unless_gone(self.addons().patch(name, &params, &patch).await);
        let action = "write the finalizers of";
        if let Some(object) = written.map_err(Error::write(action, self.title()))? {
            info!(cluster = %self.name, ?finalizers, "finalizers written");
            self.wrote_addon(Written::Finalizers, object);
        }
        Ok(())
    }

    /// Writes a Role or a `RoleBinding`.
    pub(in crate::sdk::reconcile) async fn write_permission(
        &self,
        step: Step,
    ) -> Result<(), Error> {
        let (client, cluster) = (self.hub.client.clone(), self.name);
        let name = permissions::name(self.hub.addon.name());
        let (Step::Apply(part, _) | Step::Delete(part)) = step;
        let resource = part.resource();
        let api = Api::<DynamicObject>::namespaced_with(client, cluster.as_str(), &resource);
        let written = match step {
            Step::Apply(_, body) => {
                let params =
                    PatchParams::apply(&format!("{}-rights", self.hub.addon.name())).force();
                let applied = api.patch(&name, &params, &Patch::Apply(&body)).await;
                applied.map(|object| object.metadata.resource_version)
            }
            Step::Delete(_) => {
                let deleted = api.delete(&name, &DeleteParams::default()).await;
                deleted.map(|_| None)
            }
        };
        let object = format!("{} {cluster}/{name}", resource.kind);
        if let Some(version) = unless_gone(written).map_err(Error::write("write", object))? {
            info!(%cluster, kind = resource.kind, "permissions written");
            let expected = Expected::Permission { part, version };
            self.wrote(Written::Permission, expected);
        }
        Ok(())
    }
}
