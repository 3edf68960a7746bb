//! Holds the namespaces that the containers of one Pod share, as the `pause` container does
//! elsewhere.
//!
//! The namespaces live as long as this process or a container in them, so there is nothing to clean
//! up that could be forgotten: no name under `/run/netns`, no mount.

use std::{
    io::{BufRead, Write},
    process::{Command, Stdio},
};

use anyhow::{Context, ensure};
use nix::sched::{CloneFlags, unshare};

use super::{SandboxSaid, SandboxSpec, say, take_in};

pub(super) fn play() -> i32 {
    match prepare() {
        Ok(()) => {
            // Until the kubelet lets go, in whichever way.
            let mut nothing = String::new();
            while std::io::stdin()
                .lock()
                .read_line(&mut nothing)
                .is_ok_and(|read| read > 0)
            {}
            0
        }
        Err(error) => {
            let reply = say(&SandboxSaid::Failed(format!("{error:#}")));
            i32::from(reply.is_err()) + 1
        }
    }
}

fn prepare() -> anyhow::Result<()> {
    let spec: SandboxSpec = take_in()?;
    unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWUTS)
        .context("make the namespaces of a Pod (this needs root, or a user namespace)")?;
    nix::unistd::sethostname(&spec.hostname).context("set the host name")?;
    // As containerd 2 does: a program that is not root may listen on port 80. Not having it is no
    // harm.
    let _may_be_missing = std::fs::write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
    say(&SandboxSaid::Made)?;
    configure(&take_in::<String>()?)?;
    say(&SandboxSaid::Up)
}

/// Gives `ip` its commands, from within.
fn configure(commands: &str) -> anyhow::Result<()> {
    let mut ip = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("run ip (package iproute2)")?;
    if let Some(mut stdin) = ip.stdin.take() {
        stdin.write_all(commands.as_bytes())?;
    }
    let output = ip.wait_with_output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "ip: {}", complaint.trim());
    Ok(())
}
