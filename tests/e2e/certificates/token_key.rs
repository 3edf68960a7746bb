//! The key that signs the tokens of agents becomes unusable and is deleted; the hub program restarts with the new one.

use super::{
    At, Result, SOON, Stage, Traffic, Value, agent_name, ensure, has_condition, json, processes,
    product, text, until_available,
};
use crate::{kubectl::Kubectl, live::inside::local, programs::Program};

const KEY: &str = "jwt.key";

/// An unusable key changes nothing, and a deleted one is replaced while agents and a followed log stay connected. After a
/// restart agents authenticate again by themselves, and tokens of the deleted key are refused.
pub(crate) async fn a_deleted_token_key_disconnects_no_agent(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    stage.enrolled(2).await?;
    let mut one = Traffic::begin(stage, "token-key-one", 1).await?;
    let mut two = Traffic::begin(stage, "token-key-two", 2).await?;
    let shared = tempfile::tempdir()?;
    let pod = gated(shared.path()).to_string();
    let spoke = &stage.lab.spokes()[0];
    spoke.apply(&pod).await?;
    let kubectl = Kubectl::with_secret_of(stage, "spoke1").await?;
    kubectl.until_it_sees(&["logs", "gated"]).await?;
    let mut following = kubectl.follows(&["logs", "-f", "gated"])?;
    ensure!(following.line(SOON).await?.as_deref() == Some("begun\n"));
    let before = processes(stage).await?;
    let (door, forger) = stage.door().await?;
    let peer = forger.issue(&agent_name("spoke1"), &[], time::Duration::days(1))?;
    let version = door.version(&peer).await?;
    let session = door.authenticate(Some(&peer), "managed", &version);
    let session = session.await??;

    until_replaced(stage, &mut one, &mut two).await?;
    std::fs::write(shared.path().join("more"), "")?;
    ensure!(following.line(SOON).await?.as_deref() == Some("more\n"));
    let after = processes(stage).await?;
    ensure!(before == after, "restarted: {before:?} {after:?}");

    // The next process knows the new key only.
    Program::Manager.kill(stage).await?;
    one.change().await?;
    two.change().await?;
    let answer = door.subscribe(&peer, &session.access_token).await?;
    let code = answer.err().map(|status| status.code());
    ensure!(code == Some(tonic::Code::Unauthenticated), "{code:?}");
    kubectl
        .until_it_sees(&["logs", "gated", "--tail=1"])
        .await?;
    let is_well = |addon: &Value| has_condition(addon, "Degraded", "False", "");
    for cluster in ["spoke1", "spoke2"] {
        until_available(&stage.hub, cluster).await?;
        let addon = At::addon(cluster);
        stage
            .hub
            .until(&addon, "is not Degraded", SOON, is_well)
            .await?;
    }
    spoke.delete(&pod).await?;
    one.end().await?;
    two.end().await
}

/// Makes the key unusable and deletes it, with changes after each step, and waits until there is another one.
async fn until_replaced(stage: &Stage, one: &mut Traffic<'_>, two: &mut Traffic<'_>) -> Result<()> {
    let at = At::secret(product::NAMESPACE, "argocd-agent-jwt");
    let old = stage.hub.read(&at).await?;
    let unusable = json!({"stringData": {KEY: "not a key"}});
    stage.hub.merge(&at, unusable).await?;
    let addon = At::addon("spoke1");
    let is_reported =
        |addon: &Value| has_condition(addon, "Degraded", "True", "CertificateNotInOrder");
    let what = "reports the key";
    stage.hub.until(&addon, what, SOON, is_reported).await?;
    one.change().await?;
    two.change().await?;
    stage.hub.delete(&at).await?;
    let is_new = |secret: &Value| {
        text(secret, KEY).is_ok_and(|key| key.contains("PRIVATE KEY"))
            && secret["data"][KEY] != old["data"][KEY]
    };
    let what = "has another key";
    stage.hub.until(&at, what, SOON, is_new).await?;
    one.change().await?;
    two.change().await
}

/// A Pod whose log goes on when `more` is in this folder.
fn gated(folder: &std::path::Path) -> Value {
    let script = "echo begun; until test -e /data/more; do sleep 0.05; done; echo more; \
                  exec sleep infinity";
    let mut pod = local("default", "gated", script);
    pod["spec"]["volumes"] = json!([{ "name": "data", "hostPath": { "path": folder } }]);
    pod["spec"]["containers"][0]["volumeMounts"] =
        json!([{ "name": "data", "mountPath": "/data" }]);
    pod
}
