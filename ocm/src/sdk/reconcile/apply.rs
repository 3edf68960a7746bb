//! Writes for one cluster. Server-side apply with a field manager for each part of the status, so that
//! each part is written separately and fields of other managers stay.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};
use tracing::{debug, info};

use super::Reconcile;
use crate::{
    api::addon::{ManagedClusterAddOn, ManagedClusterAddOnStatus},
    condition::{self, Verdict},
    sdk::{
        Addon, Error,
        error::unless_gone,
        hash,
        key::Key,
        metrics::Written,
        object_cache::Expected,
        permissions::{self, Step},
        registration,
    },
};

mod works;

impl<A: Addon> Reconcile<'_, A> {
    fn addons(&self) -> Api<DynamicObject> {
        let resource = self.hub.version.managed_cluster_addons();
        Api::namespaced_with(self.hub.client.clone(), self.name.as_str(), &resource)
    }

    /// The add-on's name in errors.
    fn title(&self) -> String {
        format!(
            "ManagedClusterAddOn {}/{}",
            self.name,
            self.hub.addon.name()
        )
    }

    /// Counts a write for the cluster, whose next reconcile waits until the cache shows it.
    fn wrote(&self, what: Written, expected: Expected) {
        let key = Key::Cluster(self.name.clone());
        self.hub.wrote(key, what, expected);
    }

    fn wrote_addon(&self, what: Written, object: DynamicObject) {
        let version = object.metadata.resource_version.unwrap_or_default();
        self.wrote(what, Expected::Version(version));
    }

    /// Writes the registration part of the status.
    pub(super) async fn write_registration(
        &self,
        addon: &ManagedClusterAddOn,
        registration: &ManagedClusterAddOnStatus,
    ) -> Result<(), Error> {
        let status = self.hub.version.write_status(registration);
        let part = ("registration", Written::Registration);
        self.write_status(addon, part, None, status).await
    }

    /// Writes all conditions of the deploy part with `Available`: server-side apply removes omitted ones.
    ///
    /// OCM writes `Available`, too. So the write has the observed resourceVersion.
    pub(super) async fn write_conditions(
        &self,
        addon: &ManagedClusterAddOn,
        conditions: &[Condition],
    ) -> Result<(), Error> {
        let available = condition::find(conditions, condition::addon::AVAILABLE);
        if let Some(available) = available {
            self.log_change(addon, available);
        }
        let guard = available.and(addon.metadata.resource_version.as_deref());
        let status = json!({ "conditions": conditions });
        let part = ("deploy", Written::Conditions);
        self.write_status(addon, part, guard, status).await
    }

    /// Writes the condition of the hooks, if it changed. It has its own field manager, so that the conditions
    /// of the works stay.
    pub(super) async fn write_hooks(
        &self,
        addon: &ManagedClusterAddOn,
        verdict: &Verdict,
    ) -> Result<(), Error> {
        let live = addon.conditions();
        let new = verdict.onto(live, self.now);
        if condition::is_reported(&new, live) {
            return Ok(());
        }
        let status = json!({ "conditions": [new] });
        let part = ("hooks", Written::Conditions);
        self.write_status(addon, part, None, status).await
    }

    /// Writes `Available` alone. It has its own field manager, so that the conditions of the works stay.
    pub(super) async fn write_available(
        &self,
        addon: &ManagedClusterAddOn,
        available: &Condition,
    ) -> Result<(), Error> {
        self.log_change(addon, available);
        let status = json!({ "conditions": [available] });
        let part = ("health", Written::Available);
        self.write_status(addon, part, None, status).await
    }

    fn log_change(&self, addon: &ManagedClusterAddOn, available: &Condition) {
        if !condition::is_reported(available, addon.conditions()) {
            let Condition { status, reason, .. } = available;
            info!(cluster = %self.name, available = status, reason, "availability changed");
        }
    }

    /// Applies one part of the status: the suffix of its field manager's name, and how it is counted. With the
    /// resourceVersion in `guard` it fails after another write.
    async fn write_status(
        &self,
        addon: &ManagedClusterAddOn,
        (part, written): (&str, Written),
        guard: Option<&str>,
        status: Value,
    ) -> Result<(), Error> {
        let (name, cluster) = (self.hub.addon.name(), self.name);
        // With the UID, a status for one add-on is never written to its successor.
        let mut metadata = json!({ "name": name, "namespace": cluster, "uid": addon.metadata.uid });
        if let (Some(version), Some(metadata)) = (guard, metadata.as_object_mut()) {
            metadata.insert("resourceVersion".to_owned(), json!(version));
        }
        let body = json!({
            "apiVersion": self.hub.version.api_version(),
            "kind": "ManagedClusterAddOn",
            "metadata": metadata,
            "status": status,
        });
        let params = PatchParams::apply(&format!("{name}-{part}")).force();
        let (api, patch) = (self.addons(), Patch::Apply(&body));
        let result = api.patch_status(name.as_str(), &params, &patch).await;
        let result = unless_gone(result);
        let action = "apply the status of";
        if let Some(object) = result.map_err(Error::write(action, self.title()))? {
            self.wrote_addon(written, object);
        } else {
            debug!(%cluster, part, "deleted before its status was written");
        }
        Ok(())
    }

    /// Writes hashes of the cluster's own configurations into its references.
    ///
    /// OCM writes the list too, and it has no keys, so it is read again and patched with its resourceVersion.
    pub(super) async fn write_hashes(&self) -> Result<(), Error> {
        let (hub, api) = (self.hub, self.addons());
        let name = hub.addon.name().as_str();
        let fresh = api.get(name).await.map_err(Error::read(self.title()))?;
        let supported = registration::supported(&hub.addon.supported_configs());
        let live = |named: &_| self.config(named).map(|config| config.live.clone());
        let Some(patch) = hash::addon_patch(&json!(fresh), &supported, live) else {
            return Ok(());
        };
        let params = PatchParams::apply(&format!("{name}-configs"));
        let written = api.patch_status(name, &params, &Patch::Merge(&patch)).await;
        let action = "patch the configuration hashes of";
        let written = written.map_err(Error::write(action, self.title()))?;
        self.wrote_addon(Written::Hashes, written);
        Ok(())
    }

    /// Writes the finalizers of a `ManagedClusterAddOn`, with the observed resourceVersion, since other
    /// clients write the list too.
    pub(super) async fn write_finalizers(
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
    pub(super) async fn write_permission(&self, step: Step) -> Result<(), Error> {
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
