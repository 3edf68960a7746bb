//! What the hub says of a cluster.

use argocd::keys::addon::{ADDON, MANAGER, PRINCIPAL_SERVICE};
use serde_json::Value;

use super::definitions;
use crate::{
    args::Global,
    check::{
        addresses,
        spoke::{Configured, Hub as Known, One, configuration},
    },
    facts::Addon,
    hub::{
        ADDONS, By, CLUSTERS, CONFIGURATIONS, DEPLOYMENTS, Error, Hub, NAMESPACES, OFFERS, SERVICES,
    },
    object::{container, label},
    run::{hub_settings, inspect::present},
};

/// All of it.
pub(super) struct AtHub {
    pub(super) hub: Known,
    pub(super) configured: Configured,
    /// Address that agents dial, from the hub.
    pub(super) addresses: Vec<(String, u16)>,
}

impl AtHub {
    /// The add-on of this cluster.
    pub(super) fn addon(&self) -> Option<&Value> {
        let addon = self.hub.addon.as_ref().ok()?.as_ref()?;
        Some(&addon.1)
    }
}

/// Reads it; only a hub that does not answer at all is an error.
pub(super) async fn read(
    hub: &Hub,
    global: &Global,
    cluster: Option<&str>,
) -> Result<AtHub, Error> {
    let about = hub.about().await?;
    let own = Some(global.own_namespace.as_str());
    let settings = hub_settings(hub, global).await;
    let addon = match cluster {
        Some(cluster) => hub.find(ADDONS, Some(cluster), ADDON).await,
        None => Ok(None),
    };
    let offer = hub.find(OFFERS, None, ADDON).await;
    let configured = configured(hub, present(&addon), present(&offer)).await;
    let manager = hub.find(DEPLOYMENTS, own, MANAGER).await;
    let service = hub.find(SERVICES, own, PRINCIPAL_SERVICE).await;
    Ok(AtHub {
        addresses: addresses(present(&manager), present(&service)),
        configured,
        hub: Known {
            about: Some(about),
            system: hub.find(NAMESPACES, None, "kube-system").await,
            managed: managed(hub, cluster).await,
            addon: addon.map(|it| it.map(|it| (Addon::read(&it), it))),
            definitions: definitions(hub).await,
            argocd_image: image(hub, &settings.routing.argocd_namespace).await,
        },
    })
}

/// By a list, for which every role of these commands has the right.
async fn managed(hub: &Hub, cluster: Option<&str>) -> One {
    let Some(cluster) = cluster else {
        return Ok(None);
    };
    let found = hub.find_all(CLUSTERS, &By::name(cluster)).await?;
    Ok(found.into_iter().next())
}

async fn configured(hub: &Hub, addon: Option<&Value>, offer: Option<&Value>) -> Configured {
    let Some((namespace, name)) = configuration(addon, offer) else {
        return Configured::default();
    };
    let by = By {
        namespace: Some(namespace),
        ..By::name(&name)
    };
    let found = hub.list(CONFIGURATIONS, &by).await.unwrap_or_default();
    found
        .first()
        .map_or_else(Configured::default, Configured::read)
}

/// The image of the hub's Argo CD: of its server, else of its repo server.
async fn image(hub: &Hub, argocd: &str) -> Option<String> {
    let all = hub.list(DEPLOYMENTS, &By::namespace(argocd)).await.ok()?;
    ["server", "repo-server"].iter().find_map(|component| {
        let is_it = |it: &&Value| label(it, "app.kubernetes.io/component") == *component;
        let image = container(all.iter().find(is_it)?)?.get("image")?;
        Some(image.as_str()?.to_owned())
    })
}
