//! The real Argo CD on a spoke, without anything of ours.

use std::sync::Arc;

use anyhow::Result;
use lab::{
    Lab, argocd,
    steps::{At, Objects},
    wait,
};
use serde_json::{Value, json};

use crate::traces::Traces;

/// The spoke's own API, as Argo CD names it.
const HERE: &str = "https://kubernetes.default.svc";

pub(crate) async fn an_application_from_git_is_synced_and_removal_leaves_nothing(
    lab: Arc<Lab>,
) -> Result<()> {
    let before = Traces::now()?;
    let spoke = lab.spoke(1);
    argocd::provide_images(lab.images(), lab.tools())?;
    argocd::install(std::slice::from_ref(spoke), lab.tools()).await?;

    let repository = lab.git().repository("plain")?;
    let map = "{apiVersion: v1, kind: ConfigMap, metadata: {name: hello}, data: {word: first}}";
    let first = repository.commit("first", &[("app/map.yaml", map)])?;
    let objects = Objects::new(spoke.client());
    let project = At::project(argocd::NAMESPACE, "plain");
    objects
        .apply(
            &project,
            json!({ "spec": {
                "sourceRepos": ["*"],
                "destinations": [{ "server": HERE, "namespace": "*" }],
            }}),
        )
        .await?;
    let app = At::application(argocd::NAMESPACE, "plain");
    let body = json!({
        "metadata": { "finalizers": ["resources-finalizer.argocd.argoproj.io"] },
        "spec": {
            "project": "plain",
            "source": { "repoURL": repository.url(), "path": "app", "targetRevision": "main" },
            "destination": { "server": HERE, "namespace": "default" },
            "syncPolicy": { "automated": { "prune": true, "selfHeal": true } },
        },
    });
    objects.apply(&app, body).await?;
    let well = |app: &Value| {
        let status = &app["status"];
        status["sync"]["status"] == "Synced"
            && status["health"]["status"] == "Healthy"
            && status["sync"]["revision"] == first.as_str()
    };
    objects
        .until(&app, "is synced and healthy", wait::BOUND, well)
        .await?;
    let workload = At::config_map("default", "hello");
    objects
        .until(&workload, "is there", wait::BOUND, |map| {
            map["data"]["word"] == "first"
        })
        .await?;

    objects.delete(&app).await?;
    objects.until_gone(&app, wait::BOUND).await?;
    objects.until_gone(&workload, wait::BOUND).await?;
    objects.delete(&project).await?;
    argocd::purge(spoke, lab.tools()).await?;
    before.are_all_there_is().await
}
