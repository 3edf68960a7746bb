//! What each identity was allowed to do, read from the audit logs of all stories before.

use anyhow::{Result, ensure};

use crate::stage::Stage;

/// Our programs did everything within the roles that we ship: the API servers refused them nothing.
pub(crate) async fn nothing_of_ours_was_forbidden(stage: &Stage) -> Result<()> {
    stage.enrolled(1).await?;
    let manager = format!(
        "system:serviceaccount:{}:{}",
        lab::product::NAMESPACE,
        lab::product::MANAGER
    );
    let agent =
        "system:serviceaccount:open-cluster-management-agent-addon:argocd-agent-addon-agent";
    let mut refused = Vec::new();
    let mut requests = 0;
    for cluster in stage.lab.clusters() {
        for entry in cluster.audit().entries()? {
            if entry.user == manager || entry.user == agent {
                requests += 1;
                if entry.is_forbidden() {
                    refused.push(format!("{}: {entry:?}", cluster.name()));
                }
            }
        }
    }
    ensure!(requests > 20, "only {requests} requests of ours were seen");
    ensure!(refused.is_empty(), "refused:\n{}", refused.join("\n"));
    Ok(())
}
