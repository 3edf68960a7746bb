//! A tenant whose Application has the hub as its destination, where its namespace routes it to a cluster.

use anyhow::{Result, ensure};
use lab::{
    steps::{At, deliver::until_healthy, enrol::ARGOCD},
    wait,
};
use serde_json::json;

use super::{ANN, Accounts, body, clear, greeter, no_user, patch, project, user};
use crate::stage::Stage;

/// An object that hub and cluster both have, by name.
const BOTH: &str = "of-hub-and-cluster";

/// An Application in the namespace of a cluster is delivered there although its destination is `in-cluster`, but Argo CD's
/// server would look for its resources on the hub, with its own rights. It gets no tree, so an account reads and changes no
/// objects of the hub through it, unless the project admits the hub. If Argo CD's setting disables that destination, not even then.
pub(crate) async fn in_cluster_destination_opens_no_object_of_the_hub(stage: &Stage) -> Result<()> {
    let accounts = Accounts::open(stage).await?;
    project(stage, ANN, &["spoke1"], ("spoke1", "*")).await?;
    let ann = user(stage, ANN, &["spoke1"]).await?;
    let map = At::config_map(ARGOCD, BOTH);
    let hubs = json!({"data": {"greeting": "of-the-hub"}});
    stage.hub.apply(&map, hubs).await?;
    let mut anns = greeter(stage, ANN, At::application("spoke1", "ann-tries"), 1).await?;
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": BOTH, "namespace": ARGOCD},
        "data": {"greeting": "of-the-cluster"},
    });
    let repository = stage.lab.git().repository("ann-tries")?;
    repository.commit("both", &[("both/map.yaml", &object.to_string())])?;
    "both".clone_into(&mut anns.path);
    "main".clone_into(&mut anns.revision);
    "in-cluster".clone_into(&mut anns.cluster);
    ann.apply(&anns.at, body(&anns)).await?;
    until_healthy(&stage.hub, &anns.at, "").await?;

    let target = format!(
        "/api/v1/applications/ann-tries/resource?appNamespace=spoke1&namespace={ARGOCD}&resourceName={BOTH}\
         &version=v1&group=&kind=ConfigMap"
    );
    let merge = "patchType=application/merge-patch%2Bjson";
    for (method, target, body) in [
        ("GET", target.clone(), String::new()),
        ("POST", format!("{target}&{merge}"), patch()),
        ("DELETE", target.clone(), String::new()),
    ] {
        let (status, text) = accounts.ann.asks(stage, method, &target, &body).await?;
        let is_refused = status >= 400 && !text.contains("of-the-hub");
        ensure!(is_refused, "{method}: {status} {text}");
    }
    let kept = stage.hub.read(&map).await?;
    ensure!(kept["data"]["greeting"] == "of-the-hub", "{kept}");

    let (spoke, hub) = (
        json!({"name": "spoke1", "namespace": "*"}),
        json!({"name": "in-cluster", "namespace": "*"}),
    );
    let admitting = json!({"spec": {"destinations": [spoke, hub]}});
    let project = At::project(ARGOCD, ANN);
    stage.hub.merge(&project, admitting).await?;
    let look = || accounts.ann.asks(stage, "GET", &target, "");
    let is_seen = |(_, text): &(u16, String)| text.contains("of-the-hub");
    wait::until("a project admits the hub", look, is_seen).await?;
    let disabled = json!({"cluster.inClusterEnabled": "false"});
    super::set(stage, "argocd-cm", disabled).await?;
    let is_refused = |(status, text): &(u16, String)| *status >= 400 && text.contains("in-cluster");
    wait::until("in-cluster is disabled", look, is_refused).await?;
    let enabled = json!({"cluster.inClusterEnabled": null});
    super::set(stage, "argocd-cm", enabled).await?;

    stage.hub.delete(&map).await?;
    accounts.close(stage).await?;
    clear(stage, &[(&anns, 1)]).await?;
    no_user(stage, ANN, &["spoke1"]).await
}
