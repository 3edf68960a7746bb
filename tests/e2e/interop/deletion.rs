//! Deletions on the hub.

use anyhow::{Result, ensure};
use lab::{peers::Pair, steps::deliver::CASCADE};
use serde_json::{Value, json};

use super::{Replicated, SOON};

pub(crate) async fn an_application_without_finalizers_goes(pair: &mut Pair) -> Result<()> {
    let (app, other) = (Replicated::new(pair, "app"), Replicated::new(pair, "other"));
    app.deliver(pair, &[]).await?;
    other.deliver(pair, &[]).await?;
    pair.hub.delete(&app.hub).await?;
    pair.spoke.until_gone(&app.spoke, SOON).await?;
    // A namesake that comes later is another one.
    let (hub, _) = app.deliver(pair, &[]).await?;
    let new = |replica: &Value| {
        replica["metadata"]["annotations"][super::SOURCE_UID] == hub["metadata"]["uid"]
    };
    pair.spoke
        .until(&app.spoke, "is of the new one", SOON, new)
        .await?;
    let spared = pair.spoke.read(&other.spoke).await?;
    ensure!(spared["metadata"]["deletionTimestamp"].is_null());
    Ok(())
}

pub(crate) async fn an_application_with_a_finalizer_goes_after_its_workload(
    pair: &mut Pair,
) -> Result<()> {
    let app = Replicated::new(pair, "app");
    let (_, replica) = app.deliver(pair, &[CASCADE]).await?;
    ensure!(
        replica["metadata"]["finalizers"] == json!([CASCADE]),
        "{replica:#}"
    );
    pair.hub.delete(&app.hub).await?;
    let going = |replica: &Value| !replica["metadata"]["deletionTimestamp"].is_null();
    pair.spoke
        .until(&app.spoke, "is being deleted", SOON, going)
        .await?;
    let hub = pair.hub.read(&app.hub).await?;
    ensure!(going(&hub), "the hub waits for the workload");

    // The application controller has removed the workload.
    pair.spoke
        .merge(&app.spoke, json!({"metadata": {"finalizers": null}}))
        .await?;
    pair.spoke.until_gone(&app.spoke, SOON).await?;
    pair.hub.until_gone(&app.hub, SOON).await
}
