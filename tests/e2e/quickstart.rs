//! The documentation, as a new user follows it.

use std::{fs, time::Duration};

use anyhow::{Context as _, Result, ensure};
use lab::{
    argocd,
    pages::{self, Block},
    product,
    steps::workload,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::{
    chart::{self, leftovers},
    console,
    reader::{self, Reader},
    stage::Stage,
};

/// The registry in the image names of the lab.
const REGISTRY: &str = "quay.io/open-cluster-management";

const PAGE: &str = "docs/quickstart.md";
/// This test, in the marks of the page.
const MARK: &str = "the_quickstart_is_followed_word_by_word";
/// The section that ends in the UI, the number of commands that it may have, and the time that these may take.
const WAY_TO_THE_UI: &str = "From an empty hub to the UI";
const MOST_COMMANDS: usize = 8;
const LONGEST: Duration = Duration::from_mins(3);

/// From a hub that has only Open Cluster Management to the tree of an Application in Argo CD and back, with only the commands of the
/// page.
pub(crate) async fn the_quickstart_is_followed_word_by_word(stage: &Stage) -> Result<()> {
    let page = reader::text_of(PAGE)?;
    let section = pages::blocks_below(&page, WAY_TO_THE_UI);
    let commands = section.iter().flat_map(|it| pages::commands(&it.text));
    let commands: Vec<_> = commands.collect();
    ensure!(
        (5..=MOST_COMMANDS).contains(&commands.len()),
        "{} commands: {commands:#?}",
        commands.len()
    );
    chart::uninstall(stage).await?;
    stage.not_enrolled(1).await?;
    stage.not_enrolled(2).await?;
    argocd::purge(stage.lab.hub(), stage.lab.tools()).await?;

    let folder = TempDir::new().context("make a folder")?;
    let manifest = folder.path().join("install.yaml");
    fs::write(&manifest, argocd::hub_manifests(stage.lab.tools())?)?;
    let reader = Reader::of(stage)?
        .with("CLUSTER", "spoke1")
        .with("REGISTRY", REGISTRY)
        .with("REPOSITORY", guestbook(stage)?)
        .with("ARGOCD", manifest.to_string_lossy())
        .with_cluster("SPOKE_KUBECONFIG", stage.lab.spoke(1));
    let is_first = |block: &Block| section.iter().any(|it| it.line == block.line);
    let begun = Instant::now();
    reader.follow_some(PAGE, MARK, 5, is_first).await?;
    let took = begun.elapsed();
    console::tree_shows(stage, "guestbook", &["Service", "ReplicaSet", "Pod"]).await?;
    ensure!(took < LONGEST, "the commands up to the tree took {took:?}");

    let is_later = |block: &Block| !is_first(block);
    let output = reader.follow_some(PAGE, MARK, 8, is_later).await?;
    for part in ["AgentConnected", "Synced", "Healthy"] {
        ensure!(output.contains(part), "{part} is missing: {output}");
    }
    leftovers::are_none(stage).await?;
    let parameters: Value = stage.hub.read(&argocd::parameters()).await?;
    ensure!(
        parameters["data"]["redis.server"].is_null(),
        "argocd-server uses the redis proxy, which is gone: {parameters:#}"
    );

    product::install(&stage.lab.helm(), product::OptIn::Manual).await?;
    product::until_ready(&stage.hub).await
}

/// A repository with the guestbook of Argo CD's examples, with the greeter's image; returns its URL. As there, a second
/// folder is rendered by Kustomize.
pub(crate) fn guestbook(stage: &Stage) -> Result<String> {
    let labels = json!({"app": "guestbook-ui"});
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "guestbook-ui"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{"name": "guestbook-ui", "image": workload::IMAGE}],
                },
            },
        },
    });
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "guestbook-ui"},
        "spec": {"selector": labels, "ports": [{"port": 80, "targetPort": 80}]},
    });
    let repository = stage.lab.git().repository("example-apps")?;
    let files = [
        (
            "guestbook/guestbook-ui-deployment.yaml",
            deployment.to_string(),
        ),
        ("guestbook/guestbook-ui-svc.yaml", service.to_string()),
        (
            "kustomize-guestbook/guestbook-ui-deployment.yaml",
            deployment.to_string(),
        ),
        (
            "kustomize-guestbook/kustomization.yaml",
            json!({"resources": ["guestbook-ui-deployment.yaml"]}).to_string(),
        ),
    ];
    let files = files.each_ref().map(|(path, text)| (*path, text.as_str()));
    repository.commit("the guestbook", &files)?;
    Ok(repository.url())
}
