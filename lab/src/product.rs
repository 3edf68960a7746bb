//! Our own programs on the hub: installed from the chart in `manifests/hub` with Helm, exactly as a user would.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result};
use lab_kubelet::{Image, Images, Source};
use tokio::process::Command;

use crate::{
    call::{Output, call},
    helm::{self, Helm},
    steps::{At, Objects, workload},
    wait,
};

/// The crates of its programs.
pub const CRATES: [&str; 10] = [
    "addon-manager",
    "agent",
    "agentctl",
    "argocd",
    "diagnosis",
    "live",
    "ocm",
    "principal",
    "protocol",
    "runtime",
];

/// The namespace of the product's own objects on the hub.
pub const NAMESPACE: &str = "argocd-agent-addon";
/// The name of its Helm release.
pub const RELEASE: &str = "argocd-agent-addon";
/// Its Deployment.
pub const MANAGER: &str = "argocd-agent-addon-manager";
/// The redis proxy, as argocd-server dials it.
pub const REDIS_PROXY: &str = "argocd-agent-redis-proxy.argocd-agent-addon.svc:6379";
/// The Service that agents dial.
pub const SERVICE: &str = "argocd-agent-principal";

/// The command line; the hub program's image has it, too.
const AGENTCTL: &str = "argocd-agentctl";

/// The tag of the product's images, unless set otherwise.
pub const TAG: &str = concat!("v", env!("CARGO_PKG_VERSION"));
/// The variable with the directory of the previous release.
pub const PREVIOUS: &str = "PREVIOUS_DIR";
/// The tag of its images here.
pub const PREVIOUS_TAG: &str = "previous";

/// The registry that [`MIRROR`] mirrors.
pub const MIRRORED: &str = "quay.io/open-cluster-management";
/// A private registry.
pub const MIRROR: &str = "registry.example.com/mirror";

/// The agent's image in it.
pub fn mirrored_agent() -> String {
    format!("{MIRROR}/argocd-addon-agent:{TAG}")
}

/// How clusters opt in, a value of the chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptIn {
    /// By the label and `clusteradm addon enable`.
    Manual,
    /// By the chart's Placement.
    Placements,
}

/// Registers the programs for the product's images with the kubelets, and that of the tests' workload.
pub fn provide_images(images: &Images) -> Result<()> {
    let programs = programs()?;
    let image = |registry: &str, name: &str, folder: &Path, tag: &str| {
        let program = if name == "agent" {
            name
        } else {
            "addon-manager"
        };
        let path = |program: &str| format!("/usr/local/bin/{program}");
        let mut image = Image::of_program(path(program), folder.join(program)).user(65532);
        let beside = folder.join(AGENTCTL);
        // An earlier release may have been without it.
        if program != name && beside.is_file() {
            image = image.file(path(AGENTCTL), Source::Machine(beside));
        }
        images.insert(format!("{registry}/argocd-addon-{name}:{tag}"), image);
    };
    image(MIRRORED, "manager", &programs, TAG);
    image(MIRRORED, "agent", &programs, TAG);
    image(MIRROR, "agent", &programs, TAG);
    if let Some(previous) = std::env::var_os(PREVIOUS) {
        image(MIRRORED, "manager", previous.as_ref(), PREVIOUS_TAG);
        image(MIRRORED, "agent", previous.as_ref(), PREVIOUS_TAG);
    }
    let mut greeter = Image::default().user(65534);
    greeter.entrypoint = ["/bin/sleep", "infinity"].map(str::to_owned).into();
    images.insert(workload::IMAGE, greeter);
    Ok(())
}

/// The output directory of `cargo build`: `LAB_BIN_DIR`, or the directory of this program.
pub fn programs() -> Result<PathBuf> {
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

/// How long a command of `argocd-agentctl` may take.
const COMMAND: Duration = Duration::from_mins(1);

/// Runs `argocd-agentctl` with a kubeconfig, like a user, and returns the result.
pub async fn agentctl(kubeconfig: &Path, arguments: &[&str]) -> Result<Output> {
    agentctl_within(COMMAND, kubeconfig, arguments).await
}

/// Like [`agentctl`], for a command that waits.
pub async fn agentctl_within(
    within: Duration,
    kubeconfig: &Path,
    arguments: &[&str],
) -> Result<Output> {
    let mut command = Command::new(programs()?.join(AGENTCTL));
    command
        .args(arguments)
        .env_clear()
        .env("KUBECONFIG", kubeconfig);
    call(command, within).await
}

/// Installs or upgrades the chart, so that clusters opt in this way.
pub async fn install(helm: &Helm, opt_in: OptIn) -> Result<()> {
    let placements = match opt_in {
        OptIn::Manual => "placement.enabled=false",
        OptIn::Placements => "placement.enabled=true",
    };
    upgrade(helm, &["--set", placements]).await.map(drop)
}

/// Runs `helm upgrade --install` with the chart of the source tree and further arguments.
pub async fn upgrade(helm: &Helm, arguments: &[&str]) -> Result<String> {
    let chart = helm::chart();
    let chart = helm::text(&chart)?;
    let mut all = vec!["upgrade", "--install", RELEASE, chart];
    all.extend(["--namespace", NAMESPACE, "--create-namespace"]);
    all.extend(arguments);
    helm.run(&all).await.context("install the product")
}

/// All objects of the chart with its default values, hooks included.
pub async fn rendered(helm: &Helm) -> Result<String> {
    rendered_with(helm, &[]).await
}

/// The same with further arguments, such as values.
pub async fn rendered_with(helm: &Helm, arguments: &[&str]) -> Result<String> {
    let chart = helm::chart();
    let template = ["template", RELEASE, helm::text(&chart)?];
    let namespace = ["--namespace", NAMESPACE];
    let all = [&template[..], &namespace, arguments].concat();
    helm.run(&all).await
}

/// Waits until the manager serves.
pub async fn until_ready(hub: &Objects) -> Result<()> {
    let ready = |manager: &serde_json::Value| manager["status"]["availableReplicas"] == 1;
    let at = At::deployment(NAMESPACE, MANAGER);
    hub.until(&at, "is available", wait::BOUND, ready)
        .await
        .map(drop)
}
