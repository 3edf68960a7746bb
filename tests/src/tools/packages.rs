//! Programs that come as packages of the machine: named when they are missing, installed where that is possible.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use nix::unistd::Uid;

use super::{executable, on_path};
use crate::progress::say;

/// A program or a file, and the Debian package that brings it.
const NEEDED: [(&str, &str); 7] = [
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
];

/// Installs the packages that are missing, as root on Debian and its kin; elsewhere says which they are.
pub(super) fn ensure() -> Result<()> {
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    if !Uid::effective().is_root() || on_path("apt-get").is_none() {
        bail!("the lab needs these packages (names as in Debian): {list}; please install them");
    }
    say(format_args!("installing {list}"));
    // Package lists may be absent on a fresh machine, and stale on an old one.
    if !apt_get(&["install", "-y", "--no-install-recommends"], &missing)? {
        apt_get(&["update"], &[])?;
        if !apt_get(&["install", "-y", "--no-install-recommends"], &missing)? {
            bail!("apt-get cannot install {list}; please install them by hand");
        }
    }
    Ok(())
}

fn missing() -> Vec<&'static str> {
    let absent = |program: &str| match program {
        // The daemon is a program of git's own directory, which some distributions package apart.
        "git" => on_path("git").is_none() || git_daemon_is_missing(),
        file if file.starts_with('/') => !std::path::Path::new(file).exists(),
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
    dir.and_then(|dir| executable(std::path::Path::new(&dir).join("git-daemon")))
        .is_none()
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
