//! `clusteradm addon enable`, the command that users run.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result, ensure};
use kube::api::PostParams;
use serde_json::json;
use tokio::process::Command;

use super::{
    at::{ADDON, At},
    enrol::{self, AGENT_NAMESPACE},
    objects::Objects,
};
use crate::call::call;

/// The real program. Without it the lab repeats its write.
const PROGRAM: &str = "CLUSTERADM_BIN";
/// How long a command may take.
const COMMAND: Duration = Duration::from_mins(1);
/// Attempts on a conflict with another writer.
const ATTEMPTS: usize = 10;

/// Enables the add-on on a cluster, whether it is enabled or not.
///
/// On an existing `ManagedClusterAddOn`, clusteradm replaces all annotations and labels (`ApplyAddon` in its package
/// `pkg/cmd/addon/enable`).
pub async fn enable(hub: &Objects, kubeconfig: &Path, cluster: &str) -> Result<()> {
    if let Some(program) = std::env::var_os(PROGRAM) {
        let mut command = Command::new(program);
        command
            .args(["addon", "enable", "--names", ADDON, "--clusters", cluster])
            .env("KUBECONFIG", kubeconfig);
        let output = call(command, COMMAND).await?;
        ensure!(output.succeeded(), "{output:?}");
        return Ok(());
    }
    let at = At::addon(cluster);
    for _ in 0..ATTEMPTS {
        let Some(mut addon) = hub.api(&at).get_opt(ADDON).await? else {
            return enrol::by_addon(hub, cluster).await;
        };
        addon.metadata.annotations = None;
        addon.metadata.labels = None;
        addon.data["spec"]["installNamespace"] = json!(AGENT_NAMESPACE);
        let params = PostParams::default();
        match hub.api(&at).replace(ADDON, &params, &addon).await {
            Err(kube::Error::Api(status)) if status.is_conflict() => {}
            replaced => return replaced.map(drop).context("enable as clusteradm does"),
        }
    }
    anyhow::bail!("the ManagedClusterAddOn of {cluster} changes all the time")
}
