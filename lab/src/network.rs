//! The lab's own network: a loopback device, and packets between the bridges.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result};

use crate::tools::output;

/// Brings up the loopback and forwarding. The kubelets create bridges and addresses of Pods and Services.
pub(crate) fn prepare(ip: &Path) -> Result<()> {
    output(Command::new(ip).args(["link", "set", "lo", "up"])).context("bring up the loopback")?;
    // Pods of different clusters meet here, as they would over the internet.
    fs::write("/proc/sys/net/ipv4/ip_forward", "1").context("let packets pass between bridges")
}
