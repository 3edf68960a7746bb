//! The level that shows only what belongs to Applications.

use anyhow::{Context as _, Result, ensure};
use lab::{
    call::Output,
    steps::{deliver, enrol, workload},
    wait,
};
use serde_json::json;

use super::{greeting, inside};
use crate::{kubectl::Kubectl, stage::Stage};

/// The namespace of the Application, and its name.
const PLACE: &str = "shown";

/// With `UI_ACCESS` `applications` users see objects of an Application with their logs and Events, and nothing else: on a
/// real API server, with the rights of the add-on.
pub(crate) async fn applications_level_shows_application_objects(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let app = stage.greeter(PLACE, 1).await?;
    app.apply(&stage.hub).await?;
    deliver::until_healthy(&stage.hub, &app.at, "").await?;
    let (spoke, local) = (stage.spoke(1), greeting("hidden"));
    spoke
        .apply(&local, json!({"data": {"greeting": "hello"}}))
        .await?;
    let alone = inside::local(PLACE, "alone", "exec sleep infinity").to_string();
    stage.lab.spoke(1).apply(&alone).await?;
    let kubectl = Kubectl::with_secret_of(stage, "spoke1").await?;
    let pods = ["-n", PLACE, "get", "pods", "-l", "app=greeter"];
    let pods = [&pods[..], &["-o", "name"]].concat();
    kubectl.until_it_sees(&pods).await?;
    let pods = kubectl.prints(&pods).await?;
    let pod = pods.trim().strip_prefix("pod/").context("one Pod")?;

    enrol::with_variable(&stage.hub, "spoke1", "UI_ACCESS", "applications").await?;
    // The agent restarts with the new level.
    let list = async || kubectl.run(&["get", "configmaps", "-A"]).await;
    wait::until("lists are refused", list, |ended: &Output| {
        ended.err.contains("does not allow to list configmaps")
    })
    .await?;
    objects_of_applications_are_shown(&kubectl, pod).await?;
    other_objects_are_hidden(&kubectl).await?;

    stage.lab.spoke(1).delete(&alone).await?;
    spoke.delete(&local).await?;
    stage.clear(&app).await?;
    enrol::without_variables(&stage.hub, "spoke1").await?;
    enrol::until_available(&stage.hub, "spoke1").await.map(drop)
}

async fn objects_of_applications_are_shown(kubectl: &Kubectl, pod: &str) -> Result<()> {
    let arguments = ["-n", PLACE, "get", "deployment", workload::NAME];
    kubectl.prints(&arguments).await?;
    kubectl.prints(&["-n", PLACE, "get", "pod", pod]).await?;
    kubectl.prints(&["-n", PLACE, "logs", pod]).await?;
    let events = events_about(kubectl, workload::NAME).await?;
    ensure!(events.contains("event/"), "no Event of the Deployment");
    Ok(())
}

async fn events_about(kubectl: &Kubectl, name: &str) -> Result<String> {
    let selector = format!("--field-selector=involvedObject.name={name}");
    let arguments = ["-n", PLACE, "get", "events", &selector, "-o", "name"];
    kubectl.prints(&arguments).await
}

async fn other_objects_are_hidden(kubectl: &Kubectl) -> Result<()> {
    let foreign = "belongs to no Application";
    for (arguments, reason) in [
        (&["get", "configmap", "hidden"][..], foreign),
        (&["-n", PLACE, "get", "pod", "alone"], foreign),
        (&["-n", PLACE, "logs", "alone"], foreign),
        (
            &["-n", PLACE, "get", "events"],
            "does not allow to list events",
        ),
        (
            &["get", "secrets", "-A"],
            "does not allow access to Secrets",
        ),
        (
            &["delete", "configmap", "hidden", "--wait=false"],
            "does not allow to delete",
        ),
    ] {
        let error = kubectl.fails(arguments).await?;
        ensure!(
            error.contains(reason),
            "kubectl {arguments:?} says: {error}"
        );
    }
    let events = events_about(kubectl, "alone").await?;
    ensure!(events.trim().is_empty(), "{events}");
    Ok(())
}
