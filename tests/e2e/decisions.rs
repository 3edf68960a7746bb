//! Decisions of administrators outlive the annotations that ask for them.

use anyhow::{Result, ensure};
use lab::{
    raw_client::agent_name,
    steps::{At, clusteradm, enrol, objects::has_condition},
};
use serde_json::{Value, json};

use crate::stage::{SOON, Stage};

/// The annotation that revokes an agent.
const REVOKED: &str = "argocd-agent.open-cluster-management.io/revoked";
/// The annotation that names another key.
const REKEY: &str = "argocd-agent.open-cluster-management.io/rekey";

/// A revoked agent stays rejected after `clusteradm addon enable`, which removes all annotations, and after the deletion of
/// its `ManagedClusterAddOn`. A restore with another key admits it again.
pub(crate) async fn revocation_survives_clusteradm_and_recreation(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let (hub, addon) = (&stage.hub, At::addon("spoke1"));
    let (door, forger) = stage.door().await?;
    let credentials = forger.issue(&agent_name("spoke1"), &[], time::Duration::days(1))?;
    let version = door.version(&credentials).await?;
    let annotate = async |annotations: Value| {
        let patch = json!({"metadata": {"annotations": annotations}});
        hub.merge(&addon, patch).await
    };
    let is_rejected = || async {
        let answer = door
            .authenticate(Some(&credentials), "managed", &version)
            .await?;
        let code = answer.err().map(|status| status.code());
        ensure!(code == Some(tonic::Code::Unauthenticated), "{code:?}");
        anyhow::Ok(())
    };
    annotate(json!({REVOKED: "stolen"})).await?;
    let revoked = |addon: &Value| has_condition(addon, "Degraded", "True", "Revoked");
    hub.until(&addon, "is revoked", SOON, revoked).await?;
    is_rejected().await?;

    clusteradm::enable(hub, &stage.lab.hub().kubeconfig(), "spoke1").await?;
    is_rejected().await?;
    let complete = |addon: &Value| {
        let annotations = &addon["metadata"]["annotations"];
        annotations[REVOKED] == "stolen" && annotations[enrol::MODE] == "managed"
    };
    let what = "has its annotations again";
    let restored = hub.until(&addon, what, SOON, complete).await?;
    until_event(stage).await?;
    is_rejected().await?;

    hub.delete(&addon).await?;
    let uid = restored["metadata"]["uid"].clone();
    let recreated = |addon: &Value| complete(addon) && addon["metadata"]["uid"] != uid;
    let what = "was created again and is still revoked";
    hub.until(&addon, what, SOON * 2, recreated).await?;
    hub.until(&addon, "is revoked", SOON, revoked).await?;
    is_rejected().await?;

    annotate(json!({REKEY: "after the theft", REVOKED: null})).await?;
    enrol::until_available(hub, "spoke1").await?;
    is_rejected().await
}

async fn until_event(stage: &Stage) -> Result<()> {
    let events = At::event("spoke1");
    let look = || stage.hub.list(&events, "");
    let explained = |events: &Vec<Value>| {
        events.iter().any(|event| {
            let message = event["message"].as_str().unwrap_or_default();
            event["reason"] == "AnnotationsRestored" && message.contains("agent restore spoke1")
        })
    };
    lab::wait::until("an Event with the next step", look, explained)
        .await
        .map(drop)
}
