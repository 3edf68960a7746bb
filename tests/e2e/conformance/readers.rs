//! The views of OCM users: tables, condition trees, and both versions of the API.

use anyhow::{Context as _, Result, ensure};
use http::Request;
use lab::{
    steps::{ADDON, At, clusteradm, enrol, objects::has_condition},
    wait,
};
use lab_ocm_stand_in::newest_add_on_api;
use serde_json::{Value, json};

use crate::stage::Stage;

fn newer(cluster: &str) -> At {
    At::of(
        "addon.open-cluster-management.io/v1beta1",
        ("ManagedClusterAddOn", "managedclusteraddons"),
        Some(cluster),
        ADDON,
    )
}

/// The columns of `kubectl get managedclusteraddons`, and the conditions that `clusteradm get addon -o tree` prints.
pub(crate) async fn tables_and_trees_show_that_all_is_well(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let addon = enrol::until_available(&stage.hub, "spoke1").await?;
    for kind in ["Available", "ManifestApplied", "RegistrationApplied"] {
        ensure!(
            has_condition(&addon, kind, "True", ""),
            "{kind}: {}",
            addon["status"]
        );
    }
    let mut versions = vec!["v1alpha1", newest_add_on_api()];
    versions.dedup();
    for version in versions {
        let path = format!(
            "/apis/addon.open-cluster-management.io/{version}/namespaces/spoke1/managedclusteraddons/{ADDON}"
        );
        let request = Request::get(path)
            .header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
            .body(Vec::new())?;
        let table: Value = stage.lab.hub().client().request(request).await?;
        let columns = table["columnDefinitions"].as_array().context("columns")?;
        for (name, wanted) in [
            ("Available", "True"),
            ("Degraded", "False"),
            ("Progressing", "False"),
        ] {
            let column = columns.iter().position(|it| it["name"] == name);
            let column = column.with_context(|| format!("a column {name} in {version}"))?;
            let cell = &table["rows"][0]["cells"][column];
            ensure!(cell == wanted, "{version} {name}: {cell}");
        }
    }
    Ok(())
}

/// `clusteradm get addon -o tree` shows the add-on as available, and its works as applied.
pub(crate) async fn clusteradm_shows_the_add_on_as_available(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let tree = clusteradm::tree(&stage.lab.hub().kubeconfig(), "spoke1").await?;
    for condition in ["Available", "ManifestApplied", "RegistrationApplied"] {
        let shown = format!("{condition} -> true");
        ensure!(tree.contains(&shown), "no {shown}:\n{tree}");
    }
    let agent = "argocd-agent-addon-agent";
    let is_applied = |line: &str| line.contains(agent) && line.contains("applied");
    ensure!(tree.lines().any(is_applied), "no {agent}:\n{tree}");
    let is_well = !tree.contains("false") && !tree.contains("unknown") && !tree.contains("not-");
    ensure!(is_well, "{tree}");
    Ok(())
}

/// v1alpha1 and v1beta1 return the same state, and a write through either version loses no field of the other.
pub(crate) async fn both_add_on_api_versions_agree(stage: &Stage) -> Result<()> {
    let newest = newest_add_on_api();
    ensure!(newest == "v1beta1", "this OCM serves {newest} only");
    stage.enrolled(1).await?;
    let agree = async || -> Result<()> {
        let look = || async {
            let old = stage.hub.read(&At::addon("spoke1")).await?;
            let new = stage.hub.read(&newer("spoke1")).await?;
            Ok((old, new))
        };
        // Another client may write in between: compare one version of the object.
        let same = |(old, new): &(Value, Value)| {
            old["metadata"]["resourceVersion"] == new["metadata"]["resourceVersion"]
        };
        let (old, new) = wait::until("both versions of one state", look, same).await?;
        let (of_old, of_new) = (&old["status"], &new["status"]);
        for field in ["conditions", "namespace", "healthCheck", "supportedConfigs"] {
            ensure!(
                of_old[field] == of_new[field],
                "{field}: {} and {}",
                of_old[field],
                of_new[field]
            );
        }
        let custom = &of_new["registrations"][0]["customSigner"];
        let flat = &of_old["registrations"][0];
        ensure!(
            flat["signerName"] == custom["signerName"],
            "{flat} and {custom}"
        );
        for field in ["user", "groups"] {
            ensure!(
                flat["subject"][field] == custom["subject"][field],
                "{flat} and {custom}"
            );
        }
        let (before, after) = (&of_old["configReferences"], &of_new["configReferences"]);
        ensure!(
            before[0]["desiredConfig"] == after[0]["desiredConfig"],
            "{before} and {after}"
        );
        ensure!(
            before[0]["desiredConfig"]["specHash"].is_string(),
            "a hash: {before}"
        );
        Ok(())
    };
    agree().await?;
    for at in [At::addon("spoke1"), newer("spoke1")] {
        let written = json!({ "metadata": { "annotations": { "example.com/note": "written" } } });
        stage.hub.merge(&at, written).await?;
        agree().await?;
        let absent = json!({ "metadata": { "annotations": { "example.com/note": null } } });
        stage.hub.merge(&at, absent).await?;
    }
    enrol::until_available(&stage.hub, "spoke1").await.map(drop)
}
