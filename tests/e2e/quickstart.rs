//! The documentation, as a new user follows it.

use anyhow::{Result, ensure};
use lab::{product, steps::workload};
use serde_json::json;

use crate::{
    chart::{self, leftovers},
    reader::Reader,
    stage::Stage,
};

/// The registry in the image names of the lab.
const REGISTRY: &str = "quay.io/open-cluster-management";

/// From a hub without the add-on to a synced Application and back, with only the commands of the page.
pub(crate) async fn the_quickstart_is_followed_word_by_word(stage: &Stage) -> Result<()> {
    const PAGE: &str = "docs/quickstart.md";
    chart::uninstall(stage).await?;
    stage.not_enrolled(1).await?;
    stage.not_enrolled(2).await?;

    let reader = Reader::of(stage)?
        .with("CLUSTER", "spoke1")
        .with("REGISTRY", REGISTRY)
        .with("REPOSITORY", guestbook(stage)?)
        .with_cluster("SPOKE_KUBECONFIG", stage.lab.spoke(1));
    let output = reader
        .follow(PAGE, "the_quickstart_is_followed_word_by_word", 10)
        .await?;
    for part in ["AgentConnected", "Synced", "Healthy"] {
        ensure!(output.contains(part), "{part} is missing: {output}");
    }
    leftovers::are_none(stage).await?;

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
