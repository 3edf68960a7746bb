//! The external programs that the lab runs: their paths, and how they are built or installed.
//!
//! Each is taken from `KUBEBUILDER_ASSETS` or `PATH` if it is there (Argo CD from `ARGOCD_BIN` or [`ARGOCD_UI`], Helm from `HELM_BIN`), else from
//! `target/tools`, where [`Tools::ensure`] builds it from the Go modules in `lab/tools`; Kubernetes is of the version in
//! `KUBERNETES_VERSION` if that is set. The lab itself only calls [`Tools::find`]: inside its namespaces there is no
//! network to build from.

pub mod browser;
mod build;
pub(crate) mod cargo;
mod kubernetes;
mod packages;

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// Directories that a sparse `PATH` may lack.
const USUAL: [&str; 5] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
];

/// Paths of the programs that the lab runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tools {
    /// `kube-apiserver`.
    pub kube_apiserver: PathBuf,
    /// `kube-controller-manager`.
    pub kube_controller_manager: PathBuf,
    /// `kubectl`.
    pub kubectl: PathBuf,
    /// `helm`.
    pub helm: PathBuf,
    /// `kustomize`, which Argo CD's repo server calls, as it does `helm`.
    pub kustomize: PathBuf,
    /// `etcd`.
    pub etcd: PathBuf,
    /// Argo CD: one program that acts as another one by `ARGOCD_BINARY_NAME`.
    pub argocd: PathBuf,
    /// The directory of Argo CD's Go module: its CRDs and manifests in `manifests/`, its wrapper scripts in `hack/`.
    pub argocd_module: PathBuf,
    /// `redis-server`.
    pub redis_server: PathBuf,
    /// `ip`, of iproute2.
    pub ip: PathBuf,
    /// `git`, with its `daemon`.
    pub git: PathBuf,
}

impl Tools {
    /// Finds all programs, or names the missing ones and how to install them.
    pub fn find() -> Result<Self> {
        let mut missing = Vec::new();
        let mut program = |name: &'static str, found: Option<PathBuf>| {
            found.unwrap_or_else(|| {
                missing.push(name);
                PathBuf::new()
            })
        };
        let tools = Self {
            kube_apiserver: program("kube-apiserver", control_plane_program("kube-apiserver")),
            kube_controller_manager: program(
                "kube-controller-manager",
                control_plane_program("kube-controller-manager"),
            ),
            kubectl: program("kubectl", kubectl()),
            helm: program("helm", helm()),
            kustomize: program("kustomize", executable(directory().join("kustomize"))),
            etcd: program("etcd", control_plane_program("etcd")),
            argocd: program("argocd", argocd()),
            argocd_module: program("the sources of argocd", argocd_sources()),
            redis_server: program("redis-server", on_path("redis-server")),
            ip: program("ip", on_path("ip")),
            git: program("git", on_path("git")),
        };
        if missing.is_empty() {
            return Ok(tools);
        }
        bail!(
            "{} not found; `make tools` builds or installs what the lab needs",
            missing.join(", ")
        )
    }

    /// Finds `helm`, after building it if it is missing: for tests of the chart that have no lab.
    pub fn ensure_helm() -> Result<PathBuf> {
        build::ensure_helm()?;
        helm().context("helm is missing after it was built")
    }

    /// Finds the program that checks dashboards with Grafana's linter, after building it if it is missing.
    pub fn ensure_dashboard_linter() -> Result<PathBuf> {
        build::ensure_dashboard_linter()?;
        let linter = executable(directory().join("lint-dashboards"));
        linter.context("lint-dashboards is missing after it was built")
    }

    /// Finds all programs, after building and installing missing ones. Prints its progress: the first time takes
    /// minutes.
    pub fn ensure() -> Result<Self> {
        packages::ensure()?;
        build::ensure()?;
        browser::ensure();
        Self::find()
    }
}

/// A program from a package of the machine, which only some tests need.
pub fn package(program: &str) -> Result<PathBuf> {
    on_path(program).with_context(|| format!("{program} not found; `make tools` installs it"))
}

/// The directory with the definitions of the Prometheus operator's kinds, as it publishes them.
pub fn prometheus_operator() -> Result<PathBuf> {
    build::prometheus_operator().context("no Prometheus operator; `make tools` brings it")
}

/// The program with Prometheus' service discovery.
pub fn prometheus_targets() -> Result<PathBuf> {
    let found = executable(directory().join("prometheus-targets"));
    found.context("prometheus-targets not found; `make tools` builds it")
}

/// cargo-mutants, installed if it is missing.
pub fn cargo_mutants() -> Result<PathBuf> {
    cargo::install("cargo-mutants", "27.0.0")
}

/// cargo-llvm-cov, installed if it is missing.
pub fn cargo_llvm_cov() -> Result<PathBuf> {
    cargo::install("cargo-llvm-cov", "0.9.1")
}

/// The directory of our builds.
pub fn directory() -> PathBuf {
    workspace().join("target/tools")
}

/// Locks that directory against other builds and installations, until the file is dropped.
fn locked() -> Result<File> {
    fs::create_dir_all(directory()).context("make target/tools")?;
    let lock = File::create(directory().join(".lock")).context("open the lock of target/tools")?;
    lock.lock().context("lock target/tools")?;
    Ok(lock)
}

/// The root of our own source tree.
pub fn workspace() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap_or(tests).to_owned()
}

/// A program of the control plane: of the version in `KUBERNETES_VERSION`, of `KUBEBUILDER_ASSETS`, of the `PATH`, or built
/// by us.
fn control_plane_program(name: &str) -> Option<PathBuf> {
    match kubernetes::requested() {
        Some(dir) if name != "etcd" => executable(dir.join(name)),
        Some(_) | None => elsewhere(name).or_else(|| executable(directory().join(name))),
    }
}

/// A program of the control plane that is installed on this machine.
fn elsewhere(name: &str) -> Option<PathBuf> {
    let assets = std::env::var_os("KUBEBUILDER_ASSETS").filter(|dir| !dir.is_empty());
    assets
        .and_then(|dir| executable(Path::new(&dir).join(name)))
        .or_else(|| on_path(name))
}

/// Many machines have some kubectl; prefer the one that was built with our API server.
fn kubectl() -> Option<PathBuf> {
    match kubernetes::requested() {
        Some(dir) => executable(dir.join("kubectl")),
        None => executable(directory().join("kubectl")).or_else(|| elsewhere("kubectl")),
    }
}

/// Many machines have some helm, perhaps of another major version; use only one that `HELM_BIN` names.
fn helm() -> Option<PathBuf> {
    match std::env::var_os("HELM_BIN").filter(|path| !path.is_empty()) {
        Some(named) => executable(named.into()),
        None => executable(directory().join("helm")),
    }
}

/// The variable with an Argo CD whose server has the UI: the one that the lab builds lacks it, since the Go module does.
pub const ARGOCD_UI: &str = "ARGOCD_UI_BIN";

/// The Argo CD that the caller names.
fn named_argocd() -> Option<std::ffi::OsString> {
    let variables = ["ARGOCD_BIN", ARGOCD_UI].into_iter();
    let mut named = variables.filter_map(std::env::var_os);
    named.find(|path| !path.is_empty())
}

fn argocd() -> Option<PathBuf> {
    match named_argocd() {
        Some(named) => executable(named.into()),
        None => executable(directory().join("argocd")),
    }
}

/// The sources of Argo CD with its manifests: those of `ARGOCD_SOURCE`, which match another `ARGOCD_BIN`.
fn argocd_sources() -> Option<PathBuf> {
    match std::env::var_os("ARGOCD_SOURCE").filter(|path| !path.is_empty()) {
        Some(named) => Some(PathBuf::from(named)).filter(|dir| dir.join("manifests").is_dir()),
        None => build::argocd_module(),
    }
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = USUAL.iter().map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(usual)
        .find_map(|dir| executable(dir.join(name)))
}

fn executable(path: PathBuf) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let found = fs::metadata(&path).ok()?;
    (found.is_file() && found.permissions().mode() & 0o111 != 0).then_some(path)
}

/// Runs a short command to its end and returns its output; the error contains its standard error.
pub(crate) fn output(command: &mut std::process::Command) -> Result<String> {
    let shown = format!("{command:?}");
    let done = command.output().with_context(|| format!("start {shown}"))?;
    if !done.status.success() {
        bail!(
            "{shown}: {}\n{}",
            done.status,
            String::from_utf8_lossy(&done.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
}
