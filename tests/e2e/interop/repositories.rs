//! Repositories and keys go to the agents that may have them, and are taken back.

use anyhow::{Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use lab::{
    peers::{Make, Pair, allow},
    steps::At,
};
use serde_json::{Value, json};

use super::{SOON, SOURCE_UID};

const GPG_KEYS: &str = "argocd-gpg-keys-cm";

fn repository(project: &str, password: &str) -> Value {
    json!({
        "metadata": {"labels": {"argocd.argoproj.io/secret-type": "repository"}},
        "data": {
            "url": STANDARD.encode("https://git.example/r.git"),
            "project": STANDARD.encode(project),
            "password": STANDARD.encode(password),
        },
    })
}

async fn until_password(pair: &Pair, at: &At, password: &str) -> Result<Value> {
    let what = format!("has the password {password}");
    let has = |secret: &Value| secret["data"]["password"] == STANDARD.encode(password);
    pair.spoke.until(at, &what, SOON, has).await
}

pub(crate) async fn a_repository_follows_its_project_and_goes(pair: &mut Pair) -> Result<()> {
    let hub = At::secret(&pair.names.hub, "mine");
    let spoke = At::secret(&pair.names.spoke, "mine");
    allow(pair, "mine").await?;
    pair.spoke
        .until_there(&At::project(&pair.names.spoke, "mine"), SOON)
        .await?;
    let made = pair.hub.apply(&hub, repository("mine", "one")).await?;
    let replica = until_password(pair, &spoke, "one").await?;
    ensure!(replica["metadata"]["annotations"][SOURCE_UID] == made["metadata"]["uid"]);
    ensure!(replica["metadata"]["labels"]["argocd.argoproj.io/secret-type"] == "repository");

    pair.hub.apply(&hub, repository("mine", "two")).await?;
    until_password(pair, &spoke, "two").await?;
    // An edit on the spoke does not last.
    let edit = json!({"data": {"password": STANDARD.encode("theirs")}});
    pair.spoke.merge(&spoke, edit).await?;
    until_password(pair, &spoke, "two").await?;

    let away = json!({"spec": {"destinations": [{"name": "elsewhere", "namespace": "*"}]}});
    pair.hub
        .merge(&At::project(&pair.names.hub, "mine"), away)
        .await?;
    pair.spoke.until_gone(&spoke, SOON).await
}

pub(crate) async fn repository_changed_offline_is_updated(pair: &mut Pair) -> Result<()> {
    allow(pair, "mine").await?;
    let at = |namespace: &str, name: &str| At::secret(namespace, name);
    let (hub, spoke) = (pair.names.hub.clone(), pair.names.spoke.clone());
    pair.spoke
        .until_there(&At::project(&spoke, "mine"), SOON)
        .await?;
    for name in ["changing", "going"] {
        pair.hub
            .apply(&at(&hub, name), repository("mine", "one"))
            .await?;
        until_password(pair, &at(&spoke, name), "one").await?;
    }
    pair.agent.kill().await;
    pair.hub
        .apply(&at(&hub, "changing"), repository("mine", "two"))
        .await?;
    pair.hub.delete(&at(&hub, "going")).await?;
    pair.start_agent().await?;
    until_password(pair, &at(&spoke, "changing"), "two").await?;
    // A Go principal answers with an error when the agent has an unknown object, and does not delete it.
    if pair.pairing.principal == Make::Ours {
        pair.spoke.until_gone(&at(&spoke, "going"), SOON).await?;
    }
    Ok(())
}

pub(crate) async fn gpg_keys_follow_and_go(pair: &mut Pair) -> Result<()> {
    let hub = At::config_map(&pair.names.hub, GPG_KEYS);
    let spoke = At::config_map(&pair.names.spoke, GPG_KEYS);
    let keeps_local = pair.pairing.agent == Make::Ours;
    if keeps_local {
        pair.spoke
            .apply(&spoke, json!({"data": {"LOCAL": "L"}}))
            .await?;
    }
    pair.hub.apply(&hub, json!({"data": {"A": "1"}})).await?;
    let has = |a: &'static str| move |keys: &Value| keys["data"]["A"] == a;
    pair.spoke
        .until(&spoke, "has the key", SOON, has("1"))
        .await?;
    pair.hub.apply(&hub, json!({"data": {"A": "2"}})).await?;
    let keys = pair
        .spoke
        .until(&spoke, "has the new key", SOON, has("2"))
        .await?;
    ensure!(
        !keeps_local || keys["data"]["LOCAL"] == "L",
        "ours keeps what is local: {keys:#}"
    );
    pair.hub.delete(&hub).await?;
    let gone = |keys: &Value| keys["data"]["A"].is_null();
    let keys = pair
        .spoke
        .until(&spoke, "has the key no more", SOON, gone)
        .await?;
    ensure!(!keeps_local || keys["data"]["LOCAL"] == "L", "{keys:#}");
    Ok(())
}
