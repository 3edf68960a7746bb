//! Programs from packages of the machine: named when they are missing, installed where that is possible.

use std::{
    fs,
    io::{ErrorKind, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use nix::unistd::Uid;

use super::{executable, on_path};
use crate::progress::print;

/// A program or a file, and its Debian package.
const NEEDED: [(&str, &str); 9] = [
    ("redis-server", "redis-server"),
    ("ip", "iproute2"),
    ("git", "git"),
    ("gpg", "gnupg"),
    ("nginx", "nginx"),
    (
        "/usr/lib/nginx/modules/ngx_stream_module.so",
        "libnginx-mod-stream",
    ),
    ("haproxy", "haproxy"),
    // With promtool.
    ("prometheus", "prometheus"),
    // Commands of the runbooks run it.
    ("jq", "jq"),
];

/// Debian's packages run this script before they start a service: exit code 101 denies it.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Installs the missing packages that every lab needs.
pub(super) fn ensure() -> Result<()> {
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    install(&missing)
}

/// Installs packages, as root on Debian and its derivatives; elsewhere returns an error with their names.
pub(super) fn install(missing: &[&'static str]) -> Result<()> {
    let list = missing.join(" ");
    if !Uid::effective().is_root() || on_path("apt-get").is_none() {
        bail!("the lab needs these packages (names as in Debian): {list}; please install them");
    }
    print(format_args!("installing {list}"));
    let _quiet = NoServices::begin()?;
    // Package lists may be absent on a fresh machine, and stale on an old one.
    if !apt_get(&["install", "-y", "--no-install-recommends"], missing)? {
        apt_get(&["update"], &[])?;
        if !apt_get(&["install", "-y", "--no-install-recommends"], missing)? {
            bail!("apt-get cannot install {list}; please install them by hand");
        }
    }
    Ok(())
}

fn missing() -> Vec<&'static str> {
    let absent = |program: &str| match program {
        // The daemon is a program of git's own directory, which some distributions package separately.
        "git" => on_path("git").is_none() || git_daemon_is_missing(),
        file if file.starts_with('/') => !Path::new(file).exists(),
        other => on_path(other).is_none(),
    };
    NEEDED
        .iter()
        .filter(|(program, _)| absent(program))
        .map(|(_, package)| *package)
        .collect()
}

fn git_daemon_is_missing() -> bool {
    let path = Command::new("git").arg("--exec-path").output();
    let dir = path
        .ok()
        .map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned());
    dir.and_then(|dir| executable(Path::new(&dir).join("git-daemon")))
        .is_none()
}

/// While it exists, newly installed packages do not start their services: the lab needs only the programs, and this
/// machine shall not open ports because of it.
struct NoServices {
    /// Whether the policy is ours, and is removed with this.
    is_ours: bool,
}

impl NoServices {
    fn begin() -> Result<Self> {
        let mut options = fs::OpenOptions::new();
        match options
            .write(true)
            .create_new(true)
            .mode(0o755)
            .open(POLICY)
        {
            Ok(mut file) => {
                let this = Self { is_ours: true };
                let text = "#!/bin/sh\n# Of the lab of argocd-agent, while it installs packages.\nexit 101\n";
                file.write_all(text.as_bytes())
                    .with_context(|| format!("write {POLICY}"))?;
                Ok(this)
            }
            // The machine has a policy already, which applies.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(Self { is_ours: false }),
            Err(error) => Err(error).with_context(|| format!("make {POLICY}")),
        }
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if self.is_ours
            && let Err(error) = fs::remove_file(Path::new(POLICY))
        {
            print(format_args!(
                "{POLICY} stays, as it cannot be removed: {error}"
            ));
        }
    }
}

fn apt_get(arguments: &[&str], packages: &[&str]) -> Result<bool> {
    let status = Command::new("apt-get")
        .args(arguments)
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .context("start apt-get")?;
    Ok(status.success())
}
