//! `ApplicationSets` that select clusters by a Placement, by labels, and by both, with the commands of their page.

use anyhow::{Result, ensure};
use lab::{
    steps::{
        At, deliver,
        enrol::{self, ARGOCD},
    },
    wait,
};
use serde_json::{Value, json};

use super::prepare;
use crate::{
    hubside::labelled,
    quickstart,
    reader::Reader,
    stage::{SOON, Stage},
};

const PAGE: &str = "docs/applicationsets.md";
/// The sets of the page. The name of each begins its Applications' names, and is that of the namespace they deploy into.
const SETS: [&str; 3] = ["guestbook", "guestbook-by-label", "guestbook-by-zone"];
/// The cluster's claim `zone`, as an annotation of its cluster Secret.
const ZONE: &str = "claim.argocd-agent.open-cluster-management.io/zone";

/// Each set of the page has one Application for each cluster with the label, and none for a cluster that loses it; a
/// claim of the cluster reaches the workload. OCM decides the Placement.
pub(crate) async fn application_sets_on_the_page_follow_their_clusters(
    stage: &Stage,
) -> Result<()> {
    prepare(stage, "sets").await?;
    for number in [1, 2] {
        claim_zone(stage, number).await?;
    }
    let test = "application_sets_on_the_page_follow_their_clusters";
    Reader::of(stage)?
        .with("CLUSTER", "spoke1")
        .with("REPOSITORY", quickstart::guestbook(stage)?)
        .follow(PAGE, test, 4)
        .await?;
    until_deployed(stage, 1).await?;
    for set in SETS {
        let early = stage.hub.get(&application(set, 2)).await?;
        ensure!(early.is_none(), "spoke2 does not have the label: {early:?}");
    }

    place(stage, 2, &json!("eu")).await?;
    until_deployed(stage, 2).await?;
    place(stage, 1, &Value::Null).await?;
    for set in SETS {
        let gone = application(set, 1);
        stage.hub.until_gone(&gone, wait::BOUND).await?;
        stage.spoke(1).until_gone(&workload(set), SOON).await?;
    }
    for set in SETS {
        let other = stage.hub.read(&application(set, 2)).await?;
        let deleting = &other["metadata"]["deletionTimestamp"];
        ensure!(deleting.is_null(), "that of spoke2 goes, too: {other}");
    }
    clear(stage).await
}

fn application(set: &str, number: usize) -> At {
    At::application(ARGOCD, &format!("{set}-spoke{number}"))
}

fn workload(set: &str) -> At {
    At::deployment(set, "guestbook-ui")
}

/// Sets the label by which the page selects clusters.
async fn place(stage: &Stage, number: usize, region: &Value) -> Result<()> {
    let cluster = At::cluster(&format!("spoke{number}"));
    let label = labelled("region", region);
    stage.hub.merge(&cluster, label).await.map(drop)
}

/// Creates a claim on a spoke, and waits until its cluster Secret on the hub has it.
async fn claim_zone(stage: &Stage, number: usize) -> Result<()> {
    let zone = format!("eu-{number}");
    let claim = json!({"spec": {"value": zone}});
    let at = At::cluster_claim("zone");
    stage.spoke(number).apply(&at, claim).await?;
    let secret = enrol::cluster_secret(&format!("spoke{number}"));
    let has_it = |secret: &Value| secret["metadata"]["annotations"][ZONE] == zone;
    stage
        .hub
        .until(&secret, "has the claim", SOON, has_it)
        .await
        .map(drop)
}

/// Waits until all sets are deployed on a cluster, the last one with the claim of that cluster.
async fn until_deployed(stage: &Stage, number: usize) -> Result<()> {
    let spoke = stage.spoke(number);
    for set in SETS {
        deliver::until_healthy(&stage.hub, &application(set, number), "").await?;
        spoke.until_there(&workload(set), SOON).await?;
    }
    let zone = format!("eu-{number}");
    let has_it = |deployment: &Value| deployment["metadata"]["annotations"]["zone"] == zone;
    let last = workload("guestbook-by-zone");
    spoke
        .until(&last, "has the claim", SOON, has_it)
        .await
        .map(drop)
}

/// Removes what the page creates.
async fn clear(stage: &Stage) -> Result<()> {
    let hub = &stage.hub;
    for set in SETS {
        hub.delete(&At::application_set(ARGOCD, set)).await?;
    }
    for set in SETS {
        hub.until_gone(&application(set, 2), wait::BOUND).await?;
    }
    let sets = "cluster.open-cluster-management.io/v1beta2";
    let kind = ("ManagedClusterSetBinding", "managedclustersetbindings");
    hub.delete(&At::of(sets, kind, Some(ARGOCD), "global"))
        .await?;
    hub.delete(&At::placement(ARGOCD, "europe")).await?;
    hub.delete(&At::project(ARGOCD, "guestbook")).await?;
    for number in [1, 2] {
        let claim = At::cluster_claim("zone");
        stage.spoke(number).delete(&claim).await?;
    }
    place(stage, 2, &Value::Null).await
}
