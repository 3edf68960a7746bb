//! How often our manager writes: little for an install, nothing when nothing changes.

use anyhow::{Result, ensure};
use lab::{
    audit::Mark,
    product,
    steps::{At, enrol},
    wait,
};
use serde_json::{Value, json};

use crate::stage::Stage;

/// The resources whose writes count. Events, certificates and the cluster Secret do not count.
const COUNTED: [&str; 2] = ["managedclusteraddons", "manifestworks"];

fn manager() -> String {
    format!(
        "system:serviceaccount:{}:{}",
        product::NAMESPACE,
        product::MANAGER
    )
}

/// Writes of the manager to add-ons and works of a cluster since a mark.
fn writes(stage: &Stage, cluster: &str, mark: Mark) -> Result<Vec<String>> {
    let entries = stage.lab.hub().audit().by(&manager(), mark)?;
    let counted = entries
        .iter()
        // A write that failed with a conflict changes nothing.
        .filter(|entry| entry.is_write() && entry.code < 300)
        .filter_map(|entry| {
            let object = entry.object.as_ref()?;
            let counts = COUNTED.contains(&object.resource.as_str()) && object.namespace == cluster;
            counts.then(|| format!("{} {} {}", entry.verb, object.kind(), object.name))
        });
    Ok(counted.collect())
}

/// From `clusteradm addon enable` to Available the manager writes at most four times.
pub(crate) async fn an_install_takes_at_most_four_writes(stage: &Stage) -> Result<()> {
    stage.not_enrolled(2).await?;
    let mark = stage.lab.hub().audit().mark()?;
    enrol::by_addon(&stage.hub, "spoke2").await?;
    enrol::until_available(&stage.hub, "spoke2").await?;
    let written = writes(stage, "spoke2", mark)?;
    ensure!(!written.is_empty() && written.len() <= 4, "{written:#?}");
    Ok(())
}

/// A manager that starts again looks at every cluster, and has nothing to write.
pub(crate) async fn a_restarted_manager_writes_nothing(stage: &Stage) -> Result<()> {
    for number in [1, 2] {
        stage.enrolled(number).await?;
    }
    let labels = format!("app.kubernetes.io/name={}", product::MANAGER);
    let pods = stage
        .hub
        .list(&At::pod(product::NAMESPACE, ""), &labels)
        .await?;
    let mark = stage.lab.hub().audit().mark()?;
    for pod in &pods {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        stage.hub.kill(&At::pod(product::NAMESPACE, name)).await?;
    }
    // The label of a cluster reaches its Secret once the new manager has looked at the cluster.
    let colour = |colour: Option<&str>| json!({"metadata": {"labels": {"colour": colour}}});
    for number in [1, 2] {
        let cluster = format!("spoke{number}");
        stage
            .hub
            .merge(&At::cluster(&cluster), colour(Some("green")))
            .await?;
        let green = |secret: &Value| secret["metadata"]["labels"]["colour"] == "green";
        let secret = enrol::cluster_secret(&cluster);
        let what = "follows its cluster again";
        stage.hub.until(&secret, what, wait::BOUND, green).await?;
        stage
            .hub
            .merge(&At::cluster(&cluster), colour(None))
            .await?;
        enrol::until_available(&stage.hub, &cluster).await?;
        let written = writes(stage, &cluster, mark)?;
        ensure!(written.is_empty(), "{cluster}: {written:#?}");
    }
    Ok(())
}

/// In all earlier tests the klusterlet's roles sufficed for the work agents to apply our works.
pub(crate) async fn the_work_agents_were_refused_nothing(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let account = "system:serviceaccount:open-cluster-management-agent:klusterlet-work-sa";
    for spoke in stage.lab.spokes() {
        let audit = spoke.audit();
        let used = audit.used_rules(account)?;
        ensure!(
            used.iter().any(|it| it.ends_with("deployments.apps")),
            "the work agent of {} did nothing: {used:?}",
            spoke.name()
        );
        let refused = audit.forbidden(account)?;
        ensure!(refused.is_empty(), "{}: {refused:#?}", spoke.name());
    }
    Ok(())
}
