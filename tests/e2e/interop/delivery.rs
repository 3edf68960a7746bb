//! Specs go to the spoke, statuses come back.

use anyhow::{Result, ensure};
use lab::{
    peers::{Make, Pair},
    steps::At,
};
use serde_json::{Value, json};

use super::{PROJECT, Replicated, SOON, SOURCE_UID, allow, body, further_namespace};

pub(crate) async fn an_application_arrives_and_its_status_comes_back(
    pair: &mut Pair,
) -> Result<()> {
    let app = Replicated::new(pair, "app");
    let (hub, replica) = app.deliver(pair, &[]).await?;
    ensure!(replica["metadata"]["annotations"][SOURCE_UID] == hub["metadata"]["uid"]);
    ensure!(
        replica["spec"]["destination"] == json!({"name": "in-cluster", "namespace": "guestbook"})
    );
    ensure!(replica["spec"]["syncPolicy"] == hub["spec"]["syncPolicy"]);

    app.set_status(pair, "OutOfSync", "Missing").await?;
    app.until_status(pair, "OutOfSync", "Missing").await?;
    let patch = json!({
        "metadata": {"labels": {"team": "b"}, "annotations": {"note": "new"}},
        "spec": {"source": {"targetRevision": "v2"}, "syncPolicy": null},
    });
    pair.hub.merge(&app.hub, patch).await?;
    let replica = app.until_revision(pair, "v2").await?;
    ensure!(
        replica["metadata"]["labels"] == json!({"team": "b"}),
        "{replica:#}"
    );
    ensure!(
        replica["metadata"]["annotations"]["note"] == "new",
        "{replica:#}"
    );
    ensure!(replica["spec"]["syncPolicy"].is_null(), "{replica:#}");
    ensure!(
        replica["status"]["health"]["status"] == "Missing",
        "a new spec took the status away"
    );

    app.set_status(pair, "Synced", "Healthy").await?;
    let hub = app.until_status(pair, "Synced", "Healthy").await?;
    ensure!(
        hub["spec"]["destination"]["name"] == pair.names.agent,
        "a status changed the hub's spec"
    );
    Ok(())
}

pub(crate) async fn an_edit_and_a_deletion_on_the_spoke_are_undone(pair: &mut Pair) -> Result<()> {
    let app = Replicated::new(pair, "app");
    let (hub, _) = app.deliver(pair, &[]).await?;
    let patch = json!({"spec": {"source": {"targetRevision": "theirs"}}});
    pair.spoke.merge(&app.spoke, patch).await?;
    app.until_revision(pair, "v1").await?;

    let before = pair.spoke.read(&app.spoke).await?["metadata"]["uid"].clone();
    pair.spoke.delete(&app.spoke).await?;
    let made_again = |replica: &Value| !replica.is_null() && replica["metadata"]["uid"] != before;
    let replica = pair
        .spoke
        .until(&app.spoke, "is made again", SOON, made_again)
        .await?;
    ensure!(replica["spec"]["source"]["targetRevision"] == "v1");
    ensure!(replica["metadata"]["annotations"][SOURCE_UID] == hub["metadata"]["uid"]);
    let hub = pair.hub.read(&app.hub).await?;
    ensure!(
        hub["metadata"]["deletionTimestamp"].is_null(),
        "a spoke deleted on the hub"
    );
    // The recreated replica reports as before.
    app.set_status(pair, "Synced", "Healthy").await?;
    app.until_status(pair, "Synced", "Healthy").await?;
    Ok(())
}

pub(crate) async fn a_destination_names_the_agent(pair: &mut Pair) -> Result<()> {
    let names = pair.names.clone();
    let further = further_namespace(&names.agent);
    allow(pair, PROJECT).await?;
    for side in [&pair.hub, &pair.spoke] {
        side.apply(&At::namespace(&further), json!({})).await?;
    }
    let apps = [
        // From one Argo CD namespace to the other, and with the namespace kept.
        Replicated {
            hub: At::application(&names.hub, "app"),
            spoke: At::application(&names.spoke, "app"),
        },
        Replicated {
            hub: At::application(&further, "app"),
            spoke: At::application(&further, "app"),
        },
    ];
    for app in &apps {
        pair.hub.apply(&app.hub, body(&names.agent, &[])).await?;
        app.until_revision(pair, "v1").await?;
        app.set_status(pair, "Synced", "Healthy").await?;
        app.until_status(pair, "Synced", "Healthy").await?;
        app.set_revision(pair, "v2").await?;
        app.until_revision(pair, "v2").await?;
        pair.hub.delete(&app.hub).await?;
        pair.spoke.until_gone(&app.spoke, SOON).await?;
    }
    Ok(())
}

/// The agent creates a namespace that is missing on the spoke. Our agent also reports to our principal when Argo CD does
/// not watch that namespace.
pub(crate) async fn a_missing_namespace_is_made(pair: &mut Pair) -> Result<()> {
    let names = pair.names.clone();
    let further = further_namespace(&names.agent);
    allow(pair, PROJECT).await?;
    pair.hub.apply(&At::namespace(&further), json!({})).await?;
    let settings = At::config_map(&names.spoke, "argocd-cmd-params-cm");
    let elsewhere = json!({"data": {"application.namespaces": "elsewhere"}});
    pair.spoke.apply(&settings, elsewhere).await?;
    let app = Replicated {
        hub: At::application(&further, "app"),
        spoke: At::application(&further, "app"),
    };
    pair.hub.apply(&app.hub, body(&names.agent, &[])).await?;
    app.until_revision(pair, "v1").await?;
    if pair.pairing.principal == Make::Ours && pair.pairing.agent == Make::Ours {
        let is_reported = |app: &Value| {
            let conditions = app["status"]["conditions"].as_array();
            conditions.into_iter().flatten().any(|it| {
                it["message"]
                    .as_str()
                    .is_some_and(|message| message.contains("application.namespaces"))
            })
        };
        pair.hub
            .until(
                &app.hub,
                "says that Argo CD does not look there",
                SOON,
                is_reported,
            )
            .await?;
    }
    app.set_status(pair, "Synced", "Healthy").await?;
    app.until_status(pair, "Synced", "Healthy").await.map(drop)
}
