//! Holds the namespaces that the containers of one Pod share, as the `pause` container does
//! elsewhere.
//!
//! The namespaces live as long as this process or a container in them, so there is no name under
//! `/run/netns` and no mount to clean up.

use std::{
    io::{BufRead, Write},
    process::{Command, Stdio},
};

use anyhow::{Context, ensure};
use nix::sched::{CloneFlags, unshare};

use super::{SandboxMessage, SandboxSpec, read_value, reply};

pub(super) fn play() -> i32 {
    match prepare() {
        Ok(()) => {
            // Until the kubelet closes the input, for any reason.
            let mut nothing = String::new();
            while std::io::stdin()
                .lock()
                .read_line(&mut nothing)
                .is_ok_and(|read| read > 0)
            {}
            0
        }
        Err(error) => {
            let sent = reply(&SandboxMessage::Failed(format!("{error:#}")));
            i32::from(sent.is_err()) + 1
        }
    }
}

fn prepare() -> anyhow::Result<()> {
    let spec: SandboxSpec = read_value()?;
    unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWUTS)
        .context("make the namespaces of a Pod (this needs root, or a user namespace)")?;
    nix::unistd::sethostname(&spec.hostname).context("set the host name")?;
    // As containerd 2 does: a program that is not root may listen on port 80. Optional.
    let _may_be_missing = std::fs::write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
    reply(&SandboxMessage::Made)?;
    configure(&read_value::<String>()?)?;
    reply(&SandboxMessage::Up)
}

/// Runs the commands for `ip`, from inside.
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
