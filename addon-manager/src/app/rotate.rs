//! `addon-manager rotate-ca`: requests a new CA with the annotation.

use anyhow::Context as _;
use runtime::clock::Clock;

use crate::{args::RotateArgs, issuer::Secrets};

/// Writes the request, which the leader carries out, and returns where to follow the progress.
pub async fn ask(args: RotateArgs) -> anyhow::Result<String> {
    let (kube, own_namespace) = (args.kube, args.own_namespace);
    let client = runtime::kube::client(&kube, "argocd-agent-addon-manager").await?;
    let name = Clock::system().now().to_string();
    Secrets::new(client, &own_namespace)
        .ask_for_rotation(name.clone())
        .await
        .context("request a new CA")?;
    Ok(format!(
        "requested a new certificate authority ({name}). While agents are still moving, the Secret \
        {own_namespace}/argocd-agent-ca has the annotation argocd-agent.open-cluster-management.io/rotating-since, and the metric argocd_agent_addon_manager_ca_rotation_waits_for counts them"
    ))
}
