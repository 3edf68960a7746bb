//! The kinds of all operators of a cluster, by Kubernetes' `ClusterRole` `view`.

use anyhow::{Result, ensure};
use lab::{call::Output, steps::enrol, wait};
use serde_json::json;

use crate::{kubectl::Kubectl, stage::Stage};

/// With `UI_READ_GROUPS` `all` users see the kinds that an operator of the cluster adds to `view`, and no others. Secrets
/// stay closed, even if a role of the cluster adds them, too.
pub(crate) async fn all_groups_are_those_of_the_view_role(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {
            "name": "claims-view",
            "labels": { "rbac.authorization.k8s.io/aggregate-to-view": "true" },
        },
        "rules": [
            {
                "apiGroups": ["cluster.open-cluster-management.io"],
                "resources": ["clusterclaims"],
                "verbs": ["get", "list"],
            },
            { "apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"] },
        ],
    });
    let role = role.to_string();
    stage.lab.spoke(1).apply(&role).await?;
    let kubectl = Kubectl::with_secret_of(stage, "spoke1").await?;
    let claims = "clusterclaims.cluster.open-cluster-management.io";
    // The agent may only now restart with the level that it has without a configuration.
    let looking = async || kubectl.run(&["get", claims]).await;
    let is_forbidden = |ended: &Output| ended.err.contains("is forbidden");
    wait::until("other kinds are forbidden", looking, is_forbidden).await?;

    enrol::with_variable(&stage.hub, "spoke1", "UI_READ_GROUPS", "all").await?;
    kubectl.until_it_sees(&["get", claims]).await?;
    let works = "appliedmanifestworks.work.open-cluster-management.io";
    let error = kubectl.fails(&["get", works]).await?;
    ensure!(error.contains("is forbidden"), "{error}");
    let error = kubectl.fails(&["get", "secrets", "-A"]).await?;
    let reason = "does not allow access to Secrets";
    ensure!(error.contains(reason), "{error}");

    stage.lab.spoke(1).delete(&role).await?;
    enrol::without_variables(&stage.hub, "spoke1").await?;
    enrol::until_available(&stage.hub, "spoke1").await.map(drop)
}
