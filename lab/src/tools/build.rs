//! Builds Go programs from the modules in `lab/tools`, once, into `target/tools`.
//!
//! A stamp beside the programs records their inputs: a changed `go.mod`, `go.sum` or flag triggers a new build.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use tokio::time::Instant;

use super::{
    directory, elsewhere, executable, kubernetes, locked, named_argocd, output, workspace,
};
use crate::progress::{Counter, print};

/// The linker variables with the version that `kubectl version` and `/version` report.
const KUBERNETES_VERSION: &str = "k8s.io/component-base/version";

/// One Go module of `lab/tools`.
struct Module {
    /// Its directory in `lab/tools`, and its name in messages.
    name: &'static str,
    /// The module that determines the version.
    path: &'static str,
    /// The programs: package and name.
    programs: &'static [(&'static str, &'static str)],
    /// The linker's flags that set the version, from `v1.2.3`.
    version_flags: fn(&str) -> String,
    /// A directory of its sources that the lab needs too.
    sources: Option<&'static str>,
}

const KUBERNETES: Module = Module {
    name: "kubernetes",
    path: "k8s.io/kubernetes",
    programs: &[
        ("k8s.io/kubernetes/cmd/kube-apiserver", "kube-apiserver"),
        (
            "k8s.io/kubernetes/cmd/kube-controller-manager",
            "kube-controller-manager",
        ),
        ("k8s.io/kubernetes/cmd/kubectl", "kubectl"),
    ],
    version_flags: |version| {
        let mut numbers = version.trim_start_matches('v').split('.');
        let (major, minor) = (numbers.next().unwrap_or("1"), numbers.next().unwrap_or("0"));
        let v = KUBERNETES_VERSION;
        format!(
            "-X {v}.gitVersion={version} -X {v}.gitMajor={major} -X {v}.gitMinor={minor} -X {v}.gitTreeState=clean"
        )
    },
    sources: None,
};

const ETCD: Module = Module {
    name: "etcd",
    path: "go.etcd.io/etcd/server/v3",
    programs: &[("go.etcd.io/etcd/server/v3", "etcd")],
    version_flags: |_| String::new(),
    sources: None,
};

const ARGOCD: Module = Module {
    name: "argocd",
    path: "github.com/argoproj/argo-cd/v3",
    programs: &[("github.com/argoproj/argo-cd/v3/cmd", "argocd")],
    version_flags: |version| {
        let plain = version.trim_start_matches('v');
        format!("-X github.com/argoproj/argo-cd/v3/common.version={plain}")
    },
    sources: Some("manifests"),
};

const HELM: Module = Module {
    name: "helm",
    path: "helm.sh/helm/v3",
    programs: &[("helm.sh/helm/v3/cmd/helm", "helm")],
    // Its own Makefile sets these, too: the Kubernetes version that `helm template` and `helm lint` assume, as in
    // its go.mod.
    version_flags: |version| {
        let (helm, major, minor) = ("helm.sh/helm/v3", "k8sVersionMajor=1", "k8sVersionMinor=36");
        format!(
            "-X {helm}/internal/version.version={version} -X {helm}/pkg/chartutil.{major} \
             -X {helm}/pkg/chartutil.{minor} -X {helm}/pkg/lint/rules.{major} -X {helm}/pkg/lint/rules.{minor}"
        )
    },
    sources: None,
};

const KUSTOMIZE: Module = Module {
    name: "kustomize",
    path: "sigs.k8s.io/kustomize/kustomize/v5",
    programs: &[("sigs.k8s.io/kustomize/kustomize/v5", "kustomize")],
    version_flags: |_| String::new(),
    sources: None,
};

const DASHBOARD_LINTER: Module = Module {
    name: "dashboard-linter",
    path: "github.com/grafana/dashboard-linter",
    // A few lines of our own around the linter's rules.
    programs: &[("lab.local/tools/dashboard-linter", "lint-dashboards")],
    version_flags: |_| String::new(),
    sources: None,
};

const PROMETHEUS_TARGETS: Module = Module {
    name: "prometheus-targets",
    path: "github.com/prometheus/prometheus",
    programs: &[("lab.local/tools/prometheus-targets", "prometheus-targets")],
    version_flags: |_| String::new(),
    sources: None,
};

const PROMETHEUS_OPERATOR: Module = Module {
    name: "prometheus-operator",
    path: "github.com/prometheus-operator/prometheus-operator",
    programs: &[],
    version_flags: |_| String::new(),
    sources: Some("example/prometheus-operator-crd"),
};

/// All of them, in the order in which they are built.
const MODULES: [Module; 8] = [
    ETCD,
    KUBERNETES,
    HELM,
    KUSTOMIZE,
    ARGOCD,
    DASHBOARD_LINTER,
    PROMETHEUS_TARGETS,
    PROMETHEUS_OPERATOR,
];

/// Builds the programs that neither the machine nor `target/tools` has. Concurrent calls build once.
pub(super) fn ensure() -> Result<()> {
    ensure_these(&MODULES)
}

/// Like [`ensure`], for Helm alone.
pub(super) fn ensure_helm() -> Result<()> {
    ensure_these(&[HELM])
}

/// Like [`ensure`], for Grafana's linter alone.
pub(super) fn ensure_dashboard_linter() -> Result<()> {
    ensure_these(&[DASHBOARD_LINTER])
}

fn ensure_these(modules: &[Module]) -> Result<()> {
    // If everything is built, no directory has to be writable, and Go need not be installed.
    if modules
        .iter()
        .all(|module| module.is_ready().unwrap_or(false))
    {
        return Ok(());
    }
    let _lock = locked()?;
    kubernetes::prepare()?;
    for module in modules {
        if !module.is_ready()? {
            module.ensure()?;
        }
    }
    Ok(())
}

/// The directory of Argo CD's module in Go's module cache, with its manifests.
pub(super) fn argocd_module() -> Option<PathBuf> {
    ARGOCD.module()
}

/// The directory with the definitions of the Prometheus operator's kinds.
pub(super) fn prometheus_operator() -> Option<PathBuf> {
    let module = PROMETHEUS_OPERATOR.module()?;
    PROMETHEUS_OPERATOR.sources.map(|dir| module.join(dir))
}

impl Module {
    /// Whether there is nothing to do.
    fn is_ready(&self) -> Result<bool> {
        let has_sources = self.sources.is_none() || self.module().is_some();
        Ok(has_sources && (self.is_elsewhere() || self.is_built()?))
    }

    /// Its directory in Go's module cache, with its sources.
    fn module(&self) -> Option<PathBuf> {
        let noted = fs::read_to_string(self.module_path()).ok()?;
        let dir = PathBuf::from(noted.trim());
        dir.join(self.sources?).is_dir().then_some(dir)
    }

    /// The file that records that directory.
    fn module_path(&self) -> PathBuf {
        directory().join(format!("{}.module", self.name))
    }

    /// Whether the machine provides all of its programs.
    fn is_elsewhere(&self) -> bool {
        let mut programs = self.programs.iter();
        self.requested().is_none() && programs.all(|(_, program)| has_elsewhere(program))
    }

    /// Whether our build is current.
    fn is_built(&self) -> Result<bool> {
        let complete = self
            .programs
            .iter()
            .all(|(_, name)| executable(self.output_dir().join(name)).is_some());
        let stamp = self.stamp()?;
        Ok(complete && fs::read_to_string(self.stamp_path()).is_ok_and(|built| built == stamp))
    }

    fn ensure(&self) -> Result<()> {
        if !self.is_elsewhere() && !self.is_built()? {
            self.build_all()?;
        }
        // Its sources are needed even if the machine provides the program.
        if self.sources.is_some() && self.module().is_none() {
            self.go(&["mod", "download", self.path])?;
            let dir = self.go(&["list", "-m", "-f", "{{.Dir}}", self.path])?;
            fs::write(self.module_path(), dir)
                .with_context(|| format!("note the directory of {}", self.name))?;
        }
        Ok(())
    }

    fn build_all(&self) -> Result<()> {
        let (version, flags) = (self.version()?, self.flags()?);
        print(format_args!(
            "building {} {version} into target/tools, once",
            self.name
        ));
        let began = Instant::now();
        for (package, program) in self.programs {
            self.build(package, program, &flags)?;
        }
        let path = self.stamp_path();
        fs::write(&path, self.stamp()?).with_context(|| format!("write {}", path.display()))?;
        print(format_args!(
            "built {} in {:.0?}",
            self.name,
            began.elapsed()
        ));
        Ok(())
    }

    fn build(&self, package: &str, program: &str, flags: &str) -> Result<()> {
        let mut child = self
            .command()
            .args([
                "build",
                "-v",
                "-trimpath",
                "-buildvcs=false",
                "-ldflags",
                flags,
                "-o",
            ])
            .arg(self.output_dir().join(program))
            .arg(package)
            .stderr(Stdio::piped())
            .spawn()
            .context("start go; Go 1.26 or newer is needed")?;
        let mut stated = Vec::new();
        let mut counter = Counter::new(format!("{program}: packages compiled"));
        let stderr = child.stderr.take().context("read the output of go")?;
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            counter.add();
            stated.push(line);
        }
        drop(counter);
        let status = child.wait().context("wait for go")?;
        if !status.success() {
            let tail = stated.split_off(stated.len().saturating_sub(30)).join("\n");
            bail!("go build {package}: {status}\n{tail}");
        }
        Ok(())
    }

    fn stamp_path(&self) -> PathBuf {
        self.output_dir().join(format!("{}.stamp", self.name))
    }

    /// The inputs that determine the programs.
    fn stamp(&self) -> Result<String> {
        // Most modules have no code of ours.
        let own = self.read("main.go").unwrap_or_default();
        Ok(format!(
            "{}\n{}\n{}{own}",
            self.flags()?,
            self.read("go.mod")?,
            self.read("go.sum")?
        ))
    }

    fn flags(&self) -> Result<String> {
        let version_flags = (self.version_flags)(&self.version()?);
        Ok(format!("-s -w {version_flags}").trim_end().to_owned())
    }

    /// The version that `go.mod` requires.
    fn version(&self) -> Result<String> {
        let text = self.read("go.mod")?;
        let requires = |line: &str| {
            let mut words = line
                .trim_start()
                .trim_start_matches("require ")
                .split_whitespace();
            (words.next() == Some(self.path))
                .then(|| words.next().map(str::to_owned))
                .flatten()
        };
        let found = text.lines().find_map(requires);
        found.with_context(|| format!("go.mod of {} requires no {}", self.name, self.path))
    }

    fn read(&self, name: &str) -> Result<String> {
        let path = self.dir().join(name);
        fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
    }

    fn go(&self, arguments: &[&str]) -> Result<String> {
        output(self.command().args(arguments)).context("run go; Go 1.26 or newer is needed")
    }

    fn command(&self) -> Command {
        let mut command = Command::new("go");
        // Without cgo the programs do not depend on the machine's libraries.
        command.current_dir(self.dir()).env("CGO_ENABLED", "0");
        if self.requested().is_some() {
            command.env("GOFLAGS", "-mod=mod");
        }
        command
    }

    /// The directory of its Go module.
    fn dir(&self) -> PathBuf {
        let pinned = || workspace().join("lab/tools").join(self.name);
        self.requested().unwrap_or_else(pinned)
    }

    /// The directory of its programs.
    fn output_dir(&self) -> PathBuf {
        self.requested().unwrap_or_else(directory)
    }

    /// The directory of another version than the pinned one, if the caller wants that.
    fn requested(&self) -> Option<PathBuf> {
        (self.name == "kubernetes")
            .then(kubernetes::requested)
            .flatten()
    }
}

/// Whether the machine provides the program. A kubectl of the machine does not count: see `Tools::find`.
fn has_elsewhere(program: &str) -> bool {
    match program {
        "argocd" => named_argocd().is_some(),
        "helm" => std::env::var_os("HELM_BIN").is_some_and(|path| !path.is_empty()),
        // Argo CD must use the version that it was made for, not one of this machine; and the others are ours.
        "kustomize" | "lint-dashboards" | "prometheus-targets" => false,
        "kubectl" => has_elsewhere("kube-apiserver") && elsewhere(program).is_some(),
        other => elsewhere(other).is_some(),
    }
}
