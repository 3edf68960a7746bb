//! The hashes of configurations in the `ClusterManagementAddOn`.

use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams},
};
use tracing::info;

use super::{
    Addon, Error, hash, hub::Hub, key::Key, metrics::Written, object_cache::Expected, registration,
};

/// Writes missing and outdated hashes into the `ClusterManagementAddOn`; OCM rolls them out from there.
pub(crate) async fn reconcile<A: Addon>(hub: &Hub<A>) -> Result<(), Error> {
    let patch = {
        let state = hub.world.lock();
        let offer = state.offer.live().get(&());
        let supported = registration::supported(&hub.addon.supported_configs());
        let live = |named: &_| state.config(named).map(|config| config.live.clone());
        offer.and_then(|offer| hash::offer_patch(hub.version, &offer.raw, &supported, live))
    };
    let Some(patch) = patch else {
        return Ok(());
    };
    let name = hub.addon.name().as_str();
    let resource = hub.version.cluster_management_addons();
    let api = Api::<DynamicObject>::all_with(hub.client.clone(), &resource);
    let params = PatchParams::apply(&format!("{name}-configs"));
    let result = api.patch_status(name, &params, &Patch::Merge(&patch)).await;
    let object = format!("ClusterManagementAddOn {name}");
    let offer = result.map_err(Error::write("patch the configuration hashes of", object))?;
    info!("configuration hashes written");
    let version = offer.metadata.resource_version.unwrap_or_default();
    hub.wrote(Key::Configs, Written::Hashes, Expected::Version(version));
    Ok(())
}
