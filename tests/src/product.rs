//! Our own programs on the hub: installed from `manifests/`, exactly as a user would.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use lab_kubelet::{Image, Images};

use crate::{
    Cluster,
    steps::{At, Objects, workload},
    wait,
};

/// Where the product's own objects are on the hub.
pub const NAMESPACE: &str = "argocd-agent-addon";
/// Its Deployment.
pub const MANAGER: &str = "argocd-agent-addon-manager";
/// The Service that agents dial.
pub const SERVICE: &str = "argocd-agent-principal";

const MANAGER_IMAGE: &str = "quay.io/open-cluster-management/argocd-addon-manager:v0.1.0";
const AGENT_IMAGE: &str = "quay.io/open-cluster-management/argocd-addon-agent:v0.1.0";

/// How clusters opt in: which of the two sets of manifests is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptIn {
    /// `manifests/hub`: the label and `clusteradm addon enable`.
    Manual,
    /// `manifests/hub` with what `manifests/hub-placements` says instead.
    Placements,
}

/// Tells the kubelets which programs the product's images stand for, and the one of the stories' workload.
pub fn provide_images(images: &Images) -> Result<()> {
    let programs = programs()?;
    let program = |name: &str| {
        Image::of_program(format!("/usr/local/bin/{name}"), programs.join(name)).user(65532)
    };
    images.insert(MANAGER_IMAGE, program("addon-manager"));
    images.insert(AGENT_IMAGE, program("agent"));
    let mut greeter = Image::default().user(65534);
    greeter.entrypoint = ["/bin/sleep", "infinity"].map(str::to_owned).into();
    images.insert(workload::IMAGE, greeter);
    Ok(())
}

/// The folder that `cargo build` put our programs in: `LAB_BIN_DIR`, or the one this program is from.
pub(crate) fn programs() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("LAB_BIN_DIR") {
        return Ok(folder.into());
    }
    let this = std::env::current_exe().context("find this program")?;
    this.ancestors()
        .skip(1)
        .take(2)
        .find(|folder| {
            ["addon-manager", "agent"]
                .iter()
                .all(|name| folder.join(name).is_file())
        })
        .map(Path::to_owned)
        .with_context(|| {
            format!(
                "no addon-manager and agent beside {}: run `make build`",
                this.display()
            )
        })
}

/// Applies the manifests of one way to opt in, over those of the other if they are there.
pub async fn apply(hub: &Cluster, opt_in: OptIn) -> Result<()> {
    let folders: &[&str] = match opt_in {
        OptIn::Manual => &["hub"],
        OptIn::Placements => &["hub", "hub-placements"],
    };
    let mut files = BTreeMap::new();
    for folder in folders {
        files.extend(manifests(folder)?);
    }
    for file in files.values() {
        hub.apply_file(file)
            .await
            .with_context(|| format!("apply {}", file.display()))?;
    }
    Ok(())
}

/// The files of a folder below `manifests/` by their names, which are in the order of application.
///
/// A file of `hub-placements` replaces the one of the same name in `hub`.
fn manifests(folder: &str) -> Result<BTreeMap<OsString, PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../manifests")
        .join(folder);
    let entries =
        std::fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))?;
    let files = entries
        .flatten()
        .map(|entry| (entry.file_name(), entry.path()));
    Ok(files
        .filter(|(_, path)| path.extension().is_some_and(|ending| ending == "yaml"))
        .collect())
}

/// Waits until the manager serves.
pub async fn until_ready(hub: &Objects) -> Result<()> {
    let ready = |manager: &serde_json::Value| manager["status"]["availableReplicas"] == 1;
    let at = At::deployment(NAMESPACE, MANAGER);
    hub.until(&at, "is available", wait::BOUND, ready)
        .await
        .map(drop)
}
