//! Another Kubernetes than that of `lab/tools/kubernetes`, in a directory of its own: `KUBERNETES_VERSION=v1.35.4`.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::{directory, workspace};

/// The variable with the version.
const VARIABLE: &str = "KUBERNETES_VERSION";

/// The directory of the requested version, with its Go module and its programs.
pub(super) fn requested() -> Option<PathBuf> {
    version().map(|version| directory().join(format!("kubernetes-{version}")))
}

fn version() -> Option<String> {
    let given = std::env::var(VARIABLE).ok()?;
    let plain = given.trim_start_matches('v');
    (!plain.is_empty()).then(|| format!("v{plain}"))
}

/// Writes the Go module of the requested version, once: Go adds requirements and sums while it builds.
pub(super) fn prepare() -> Result<()> {
    let (Some(version), Some(dir)) = (version(), requested()) else {
        return Ok(());
    };
    let pinned = workspace().join("lab/tools/kubernetes/go.mod");
    let pinned = fs::read_to_string(pinned).context("read the Go module of Kubernetes")?;
    let module = module(&pinned, &version)?;
    fs::create_dir_all(&dir).with_context(|| format!("make {}", dir.display()))?;
    for (name, text) in [("go.mod", module.as_str()), ("go.sum", "")] {
        let path = dir.join(name);
        if !path.exists() {
            fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        }
    }
    Ok(())
}

/// The pinned module with another version of Kubernetes and its staging modules, and without the other requirements.
fn module(pinned: &str, version: &str) -> Result<String> {
    let minor = version.strip_prefix("v1.").unwrap_or_default();
    let numbers: Vec<&str> = minor.split('.').collect();
    let is_number = |it: &&str| !it.is_empty() && it.chars().all(|c| c.is_ascii_digit());
    ensure!(
        numbers.len() == 2 && numbers.iter().all(is_number),
        "{VARIABLE} is a release such as v1.35.4, not {version}"
    );
    let required = pinned
        .lines()
        .find_map(|line| line.strip_prefix("require k8s.io/kubernetes v1."));
    let present = required.context("the Go module requires no Kubernetes")?;
    let direct = pinned.lines().filter(|line| !line.ends_with("// indirect"));
    let text: String = direct.flat_map(|line| [line, "\n"]).collect();
    Ok(text
        .replace(&format!(" v1.{present}"), &format!(" v1.{minor}"))
        .replace(&format!(" v0.{present}"), &format!(" v0.{minor}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PINNED: &str = "// Comment.\nmodule x\n\ngo 1.26.0\n\ntool (\n\tk8s.io/kubernetes/cmd/kubectl\n)\n\n\
        require k8s.io/kubernetes v1.36.3\n\nrequire (\n\tcel.dev/expr v0.25.1 // indirect\n\
        \tk8s.io/api v0.36.3 // indirect\n)\n\nreplace (\n\tk8s.io/api => k8s.io/api v0.36.3\n)\n";

    #[test]
    fn another_version_replaces_kubernetes_and_its_staging_modules() {
        let expected = "// Comment.\nmodule x\n\ngo 1.26.0\n\ntool (\n\tk8s.io/kubernetes/cmd/kubectl\n)\n\n\
            require k8s.io/kubernetes v1.35.4\n\nrequire (\n)\n\nreplace (\n\tk8s.io/api => k8s.io/api v0.35.4\n)\n";
        assert_eq!(module(PINNED, "v1.35.4").expect("a module"), expected);
    }

    #[test]
    fn only_releases_of_kubernetes_are_accepted() {
        for version in ["v1.35", "v2.35.4", "v1.35.x", "v1.35.4.1", "v1..4", "v"] {
            let error = module(PINNED, version).expect_err(version);
            assert!(error.to_string().contains(VARIABLE), "{error}");
        }
    }
}
