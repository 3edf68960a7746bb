//! The API behind the pages in Argo CD's UI, if it is enabled.

use argocd::routing::RoutingSettings;
use principal::Inventory;
use runtime::clock::Clock;
use tokio::sync::watch;

use super::HubContext;
use crate::{
    keys,
    ui_api::{self, StartError, secret},
};

/// Starts the API. Every replica answers, and the leader keeps the Secret with its token.
pub(super) async fn start(
    context: &HubContext,
    inventory: Inventory,
    leading: &watch::Receiver<bool>,
) -> Result<(), StartError> {
    let Some(address) = context.config.ui_api else {
        return Ok(());
    };
    let principal = &context.config.shared.principal;
    let argocd = principal.argocd_namespace.clone();
    let stored = secret::follow(context.client.clone(), &argocd, &context.spawner);
    let pod = context.config.args.pod_name.0.clone();
    let parts = ui_api::Parts {
        client: context.client.clone(),
        address,
        routing: RoutingSettings {
            argocd_namespace: argocd.clone(),
            allowed_namespaces: principal.other_namespaces.clone(),
        },
        replica: pod.unwrap_or_else(|| keys::MANAGER.to_owned()),
        channels: context.channels.clone(),
        inventory,
        stored: stored.clone(),
        spawner: context.spawner.clone(),
        clock: Clock::system(),
    };
    let address = ui_api::start(parts).await?;
    tracing::info!(%address, "the API of the UI listens");
    let (writer, view) = (context.writer.clone(), context.channels.view.subscribe());
    context.spawn_while_leading("ui secret", leading.clone(), move || {
        secret::keep(writer.clone(), argocd.clone(), stored.clone(), view.clone())
    });
    Ok(())
}
