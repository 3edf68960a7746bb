//! `clusteradm addon enable`, `addon disable` and `get addon`, the commands that users run.

use std::{ffi::OsString, path::Path, time::Duration};

use anyhow::{Context as _, Result};
use kube::api::PostParams;
use serde_json::json;
use tokio::process::Command;

use super::{
    at::{ADDON, At},
    enrol::{self, AGENT_NAMESPACE},
    objects::Objects,
};
use crate::call::call;

/// The real program. Without it the lab repeats its writes.
pub const PROGRAM: &str = "CLUSTERADM_BIN";
/// How long a command may take.
const COMMAND: Duration = Duration::from_mins(1);
/// Attempts on a conflict with another writer.
const ATTEMPTS: usize = 10;

/// The path of the real program, if there is one.
fn program() -> Option<OsString> {
    std::env::var_os(PROGRAM).filter(|path| !path.is_empty())
}

/// Runs the program with cluster admin's access to the hub, and returns what it printed.
async fn run(program: OsString, kubeconfig: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(program);
    command.args(arguments).env("KUBECONFIG", kubeconfig);
    call(command, COMMAND).await?.printed()
}

/// Enables the add-on on a cluster, whether it is enabled or not.
///
/// On an existing `ManagedClusterAddOn`, clusteradm replaces all annotations and labels (`ApplyAddon` in its package
/// `pkg/cmd/addon/enable`).
pub async fn enable(hub: &Objects, kubeconfig: &Path, cluster: &str) -> Result<()> {
    if let Some(program) = program() {
        let arguments = ["addon", "enable", "--names", ADDON, "--clusters", cluster];
        return run(program, kubeconfig, &arguments).await.map(drop);
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

/// Disables the add-on on a cluster: clusteradm deletes its `ManagedClusterAddOn`, and does not wait.
pub async fn disable(hub: &Objects, kubeconfig: &Path, cluster: &str) -> Result<()> {
    let Some(program) = program() else {
        return hub.delete(&At::addon(cluster)).await;
    };
    let arguments = ["addon", "disable", "--names", ADDON, "--clusters", cluster];
    run(program, kubeconfig, &arguments).await.map(drop)
}

/// The conditions of the add-on and its works on a cluster, as `clusteradm get addon -o tree` prints them. Fails without
/// the program.
pub async fn tree(kubeconfig: &Path, cluster: &str) -> Result<String> {
    let program = program().with_context(|| format!("{PROGRAM} names no program"))?;
    let arguments = ["get", "addon", ADDON, "--clusters", cluster, "-o", "tree"];
    run(program, kubeconfig, &arguments).await
}
