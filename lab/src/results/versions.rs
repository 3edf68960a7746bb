//! The version of a program: as it prints it, as the caller names it, or as Go noted it in the program.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

use super::Peer;
use crate::{Tools, peers::GO, tools::output};

/// Versions that builds from a source tree print.
const PLACEHOLDERS: [&str; 2] = ["0.0.0", "99.9.9"];

/// The variable with the program of a peer.
pub(super) const fn needed(peer: Peer) -> &'static str {
    match peer {
        Peer::Kubernetes => "KUBEBUILDER_ASSETS",
        Peer::Ocm => "OCM_BIN_DIR",
        Peer::Argocd => "ARGOCD_BIN",
        Peer::ArgocdAgent => GO,
        Peer::Clusteradm => "CLUSTERADM_BIN",
    }
}

/// The variable with its version, for programs that do not print one.
const fn variable(peer: Peer) -> &'static str {
    match peer {
        Peer::Kubernetes => "KUBERNETES_VERSION",
        Peer::Ocm => "OCM_VERSION",
        Peer::Argocd => "ARGOCD_VERSION",
        Peer::ArgocdAgent => "ARGOCD_AGENT_VERSION",
        Peer::Clusteradm => "CLUSTERADM_VERSION",
    }
}

const fn arguments(peer: Peer) -> &'static [&'static str] {
    match peer {
        Peer::Kubernetes | Peer::Ocm => &["--version"],
        Peer::Argocd => &["version", "--client", "--short"],
        Peer::ArgocdAgent => &["version", "--short"],
        Peer::Clusteradm => &["version"],
    }
}

fn program(peer: Peer, tools: &Tools) -> Option<PathBuf> {
    let named = || {
        let path = std::env::var_os(needed(peer)).filter(|path| !path.is_empty());
        path.map(PathBuf::from)
    };
    match peer {
        Peer::Kubernetes => Some(tools.kube_apiserver.clone()),
        Peer::Argocd => Some(tools.argocd.clone()),
        Peer::Ocm => named().map(|directory| directory.join("registration")),
        Peer::ArgocdAgent | Peer::Clusteradm => named(),
    }
}

/// The version of a peer; none if this run has no program of it.
pub(super) fn of(peer: Peer, tools: &Tools) -> Result<Option<String>> {
    let Some(program) = program(peer, tools) else {
        return Ok(None);
    };
    let (shown, variable) = (program.display(), variable(peer));
    ensure!(program.is_file(), "{}: no file {shown}", needed(peer));
    let given = || std::env::var(variable).ok().filter(|it| !it.is_empty());
    let found = printed(peer, &program)
        .or_else(given)
        .or_else(|| noted(&program));
    let version = found.with_context(|| format!("set {variable}: {shown} does not print it"))?;
    let is_plain = version.chars().all(is_plain);
    ensure!(
        is_plain,
        "{variable}: {version:?} has other characters than letters, digits, `.`, `+` and `-`"
    );
    Ok(Some(version))
}

fn printed(peer: Peer, program: &Path) -> Option<String> {
    let mut command = Command::new(program);
    // One program acts as several: this one prints its version.
    command
        .args(arguments(peer))
        .env("ARGOCD_BINARY_NAME", "argocd");
    stated(&output(&mut command).ok()?)
}

/// The version in the first line of an output.
fn stated(printed: &str) -> Option<String> {
    let mut words = printed.lines().next()?.split([' ', '\t', ':']);
    let version = words.find(|word| is_version(word))?;
    let plain = version.strip_prefix('v').unwrap_or(version);
    // Argo CD names its commit so if its build did not.
    Some(format!(
        "v{}",
        plain.strip_suffix("+unknown").unwrap_or(plain)
    ))
}

fn is_version(word: &str) -> bool {
    let plain = word.strip_prefix('v').unwrap_or(word);
    let mut parts = plain.splitn(3, '.');
    let mut is_number = || parts.next().is_some_and(|it| it.parse::<u32>().is_ok());
    let begins_with_numbers = is_number() && is_number();
    let is_placeholder = PLACEHOLDERS.iter().any(|it| plain.starts_with(it));
    begins_with_numbers && !is_placeholder && plain.chars().all(is_plain)
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || ".+-".contains(c)
}

/// What Go wrote into the program when it was built.
fn noted(program: &Path) -> Option<String> {
    let mut command = Command::new("go");
    command.args(["version", "-m"]).arg(program);
    built(&output(&mut command).ok()?)
}

/// The version of the main module, or the commit that it was built from.
fn built(printed: &str) -> Option<String> {
    let lines = || printed.lines().map(str::trim);
    let module = lines().find_map(|line| line.strip_prefix("mod\t")?.split('\t').nth(1));
    let revision = || lines().find_map(|line| line.strip_prefix("build\tvcs.revision="));
    match module.filter(|version| is_version(version)) {
        Some(version) => Some(version.to_owned()),
        None => Some(revision()?.chars().take(12).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_versions_are_found_and_placeholders_are_not() {
        for (printed, expected) in [
            ("Kubernetes v1.36.3", Some("v1.36.3")),
            ("registration version v1.3.1", Some("v1.3.1")),
            ("registration version <unknown>", None),
            ("argocd: v3.2.11+unknown", Some("v3.2.11")),
            ("argocd: v3.4.0+1a2b3c4.dirty", Some("v3.4.0+1a2b3c4.dirty")),
            ("0.9.0", Some("v0.9.0")),
            ("99.9.9-unreleased", None),
            ("v0.0.0-master+$Format:%H$", None),
            // The second line is the version of something else.
            (
                "clusteradm\tversion\t:\ndefault bundle\tversion\t:1.3.1",
                None,
            ),
            ("clusteradm\tversion\t:v1.3.1\nx", Some("v1.3.1")),
            ("v1.2/../x", None),
            ("", None),
        ] {
            assert_eq!(stated(printed).as_deref(), expected, "{printed:?}");
        }
    }

    #[test]
    fn notes_of_go_name_a_version_or_a_commit() {
        let of = |module: &str, revision: &str| {
            built(&format!(
                "/x/program: go1.26.0\n\tpath\tx.io/a/cmd\n\tmod\tx.io/a\t{module}\th1:x\n\
                 \tdep\tx.io/b\tv9.9.9\n\tbuild\tvcs.revision={revision}\n"
            ))
        };
        let revision = "acb60cd1f00dacb60cd1f00dacb60cd1f00dacb6";
        assert_eq!(of("v0.9.0", revision).as_deref(), Some("v0.9.0"));
        assert_eq!(of("(devel)", revision).as_deref(), Some("acb60cd1f00d"));
        assert_eq!(built("/x/program: go1.26.0\n"), None);
    }
}
