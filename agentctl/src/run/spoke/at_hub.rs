//! What the hub says of a cluster.

use argocd::keys::addon::{ADDON, MANAGER, PRINCIPAL_SERVICE};
use diagnosis::object::{container, label, present};
use serde_json::Value;

use super::definitions;
use crate::{
    check::{
        addresses,
        spoke::{Configured, Hub as AtHub, One, configuration},
    },
    hub::{
        ADDONS, CLUSTERS, CONFIGURATIONS, DEPLOYMENTS, Error, Hub, NAMESPACES, OFFERS, SERVICES,
        all, named,
    },
    run::Context,
};

/// Reads it, with the configuration of the cluster and the addresses that agents dial; only a hub that does not answer
/// at all is an error.
pub(super) async fn read(
    context: &Context<'_>,
    cluster: Option<&str>,
) -> Result<(Option<AtHub>, Configured, Vec<(String, u16)>), Error> {
    let (hub, own) = (&context.hub, Some(context.own()));
    let about = hub.about().await?;
    let settings = context.settings().await;
    let addon = match cluster {
        Some(cluster) => hub.find(ADDONS, Some(cluster), ADDON).await,
        None => Ok(None),
    };
    let offer = hub.find(OFFERS, None, ADDON).await;
    let configured = configured(hub, present(&addon), present(&offer)).await;
    let manager = hub.find(DEPLOYMENTS, own, MANAGER).await;
    let service = hub.find(SERVICES, own, PRINCIPAL_SERVICE).await;
    let at_hub = AtHub {
        about,
        system: hub.find(NAMESPACES, None, "kube-system").await,
        managed: managed(hub, cluster).await,
        addon,
        definitions: definitions(hub).await,
        argocd_image: image(hub, &settings.routing.argocd_namespace).await,
    };
    let addresses = addresses(present(&manager), present(&service));
    Ok((Some(at_hub), configured, addresses))
}

/// By a list, for which every role of these commands has the right.
async fn managed(hub: &Hub, cluster: Option<&str>) -> One {
    let Some(cluster) = cluster else {
        return Ok(None);
    };
    let found = hub.find_all(CLUSTERS, None, named(cluster)).await?;
    Ok(found.into_iter().next())
}

async fn configured(hub: &Hub, addon: Option<&Value>, offer: Option<&Value>) -> Configured {
    let Some((namespace, name)) = configuration(addon, offer) else {
        return Configured::default();
    };
    let found = hub
        .find_all(CONFIGURATIONS, Some(&namespace), named(&name))
        .await;
    let found = found.unwrap_or_default();
    found.first().map(Configured::read).unwrap_or_default()
}

/// The image of the hub's Argo CD: of its server, else of its repo server.
async fn image(hub: &Hub, argocd: &str) -> Option<String> {
    let all = hub.find_all(DEPLOYMENTS, Some(argocd), all()).await.ok()?;
    ["server", "repo-server"].iter().find_map(|component| {
        let is_it = |it: &&Value| label(it, "app.kubernetes.io/component") == *component;
        let image = container(all.iter().find(is_it)?)?.get("image")?;
        Some(image.as_str()?.to_owned())
    })
}
