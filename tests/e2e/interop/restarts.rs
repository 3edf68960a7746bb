//! One end crashes, both sides change, and after the restart both agree.

use anyhow::{Result, ensure};
use lab::peers::Pair;
use serde_json::{Value, json};

use super::{PROJECT, Replicated, SOON, allow, body};

/// Three Applications: one is going to change, one to go, one to stay as it is.
struct Three {
    changing: Replicated,
    going: Replicated,
    staying: Replicated,
    /// One that does not exist yet.
    coming: Replicated,
}

impl Three {
    async fn deliver(pair: &Pair) -> Result<Self> {
        let three = Self {
            changing: Replicated::new(pair, "changing"),
            going: Replicated::new(pair, "going"),
            staying: Replicated::new(pair, "staying"),
            coming: Replicated::new(pair, "coming"),
        };
        for app in [&three.changing, &three.going, &three.staying] {
            app.deliver(pair, &[]).await?;
        }
        three
            .staying
            .set_status(pair, "OutOfSync", "Missing")
            .await?;
        three
            .staying
            .until_status(pair, "OutOfSync", "Missing")
            .await?;
        Ok(three)
    }

    /// Changes on both sides while they are disconnected.
    async fn meanwhile(&self, pair: &Pair) -> Result<()> {
        self.changing.set_revision(pair, "v2").await?;
        pair.hub.delete(&self.going.hub).await?;
        pair.hub
            .apply(&self.coming.hub, body(&pair.names.agent, &[]))
            .await?;
        self.staying.set_status(pair, "Synced", "Healthy").await
    }

    /// Both sides agree.
    async fn agreed(&self, pair: &Pair) -> Result<()> {
        self.changing.until_revision(pair, "v2").await?;
        self.coming.until_revision(pair, "v1").await?;
        pair.spoke.until_gone(&self.going.spoke, SOON).await?;
        let staying = pair.spoke.read(&self.staying.spoke).await?;
        ensure!(staying["metadata"]["deletionTimestamp"].is_null());
        Ok(())
    }
}

pub(crate) async fn changes_without_a_principal_are_recovered(pair: &mut Pair) -> Result<()> {
    allow(pair, PROJECT).await?;
    let three = Three::deliver(pair).await?;
    pair.principal.kill().await;
    three.meanwhile(pair).await?;
    pair.start_principal().await?;
    three.agreed(pair).await?;
    three
        .staying
        .until_status(pair, "Synced", "Healthy")
        .await?;
    later(pair, &three).await
}

pub(crate) async fn changes_without_an_agent_are_recovered(pair: &mut Pair) -> Result<()> {
    allow(pair, PROJECT).await?;
    let three = Three::deliver(pair).await?;
    pair.agent.kill().await;
    three.meanwhile(pair).await?;
    let edit = json!({"spec": {"source": {"path": "theirs"}}});
    pair.spoke.merge(&three.changing.spoke, edit).await?;
    pair.start_agent().await?;
    three.agreed(pair).await?;
    let replica = pair.spoke.read(&three.changing.spoke).await?;
    ensure!(replica["spec"]["source"]["path"] == "a&b<c>", "{replica:#}");
    three
        .staying
        .until_status(pair, "Synced", "Healthy")
        .await?;
    later(pair, &three).await
}

/// Later changes are delivered and reported.
async fn later(pair: &Pair, three: &Three) -> Result<()> {
    for app in [&three.changing, &three.coming, &three.staying] {
        app.set_revision(pair, "v3").await?;
        app.until_revision(pair, "v3").await?;
        app.set_status(pair, "Synced", "Degraded").await?;
        app.until_status(pair, "Synced", "Degraded").await?;
    }
    let gone: Option<Value> = pair.hub.get(&three.going.hub).await?;
    ensure!(gone.is_none());
    Ok(())
}
