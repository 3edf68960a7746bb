//! Projects go to the agents whose clusters they admit.

use anyhow::{Result, ensure};
use lab::{
    peers::{Pair, allow},
    steps::At,
};
use serde_json::{Value, json};

use super::SOON;

pub(crate) async fn a_project_follows_and_goes(pair: &mut Pair) -> Result<()> {
    let hub = At::project(&pair.names.hub, "mine");
    let spoke = At::project(&pair.names.spoke, "mine");
    allow(pair, "mine").await?;
    let replica = pair.spoke.until_there(&spoke, SOON).await?;
    let destinations = json!([{"name": "in-cluster", "namespace": "*", "server": "https://kubernetes.default.svc"}]);
    ensure!(
        replica["spec"]["destinations"] == destinations,
        "{replica:#}"
    );

    pair.hub
        .merge(&hub, json!({"spec": {"description": "changed"}}))
        .await?;
    let changed = |replica: &Value| replica["spec"]["description"] == "changed";
    pair.spoke
        .until(&spoke, "is changed", SOON, changed)
        .await?;

    // An edit on the spoke does not last.
    pair.spoke
        .merge(&spoke, json!({"spec": {"description": "theirs"}}))
        .await?;
    pair.spoke
        .until(&spoke, "is changed back", SOON, changed)
        .await?;

    pair.hub.delete(&hub).await?;
    pair.spoke.until_gone(&spoke, SOON).await
}
