//! The lab's own network: a loopback device, packets between the bridges, and a host behind a broken route.

use std::{fs, net::Ipv6Addr, path::Path, process::Command};

use anyhow::{Context, Result};
use nix::mount::{MsFlags, mount};

use crate::{namespaces::scratch, tools::output};

/// The name of a host with an address of each family, after [`add_dual_stack_host`]: the loopback, and an IPv6 address that
/// does not answer.
pub const DUAL_STACK: &str = "dual-stack.lab.test";

/// Packets to this address are dropped.
const SILENT: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xdead, 0, 0, 0, 0, 2);

const HOSTS: &str = "/etc/hosts";

/// Brings up the loopback and forwarding. The kubelets create bridges and addresses of Pods and Services.
pub(crate) fn prepare(ip: &Path) -> Result<()> {
    output(Command::new(ip).args(["link", "set", "lo", "up"])).context("bring up the loopback")?;
    // Pods of different clusters meet here, as they would over the internet.
    fs::write("/proc/sys/net/ipv4/ip_forward", "1").context("let packets pass between bridges")?;
    for setting in ["conf/all/forwarding", "ip_nonlocal_bind"] {
        // The kubelets listen on addresses that are only routed here; with IPv4 they may by default.
        let written = fs::write(Path::new("/proc/sys/net/ipv6").join(setting), "1");
        if let Err(error) = written {
            tracing::debug!(setting, %error, "no clusters with IPv6 here");
        }
    }
    Ok(())
}

/// Makes [`DUAL_STACK`] known to this process and to the programs that it starts. Resolvers prefer its IPv6 address, because
/// there is a route to it, but all packets to it disappear.
pub fn add_dual_stack_host(ip: &Path) -> Result<()> {
    const NOTHING: Option<&str> = None;
    let known = fs::read_to_string(HOSTS).unwrap_or_default();
    if known.contains(DUAL_STACK) {
        return Ok(());
    }
    for line in [
        "link add silent0 type veth peer name silent1".to_owned(),
        "link set silent0 up".to_owned(),
        "link set silent1 up".to_owned(),
        "-6 addr add 2001:db8:dead::1/64 dev silent0 nodad".to_owned(),
        // Without it the kernel finds no neighbour, and reports after seconds that the host is unreachable.
        format!("-6 neigh replace {SILENT} lladdr 02:00:00:00:de:ad dev silent0 nud permanent"),
    ] {
        output(Command::new(ip).args(line.split(' '))).context("make a silent network")?;
    }
    let hosts = format!("{known}\n{SILENT} {DUAL_STACK}\n127.0.0.1 {DUAL_STACK}\n");
    let file = scratch().join("hosts");
    fs::write(&file, hosts).context("write the names of hosts")?;
    mount(Some(&file), HOSTS, NOTHING, MsFlags::MS_BIND, NOTHING)
        .with_context(|| format!("mount on {HOSTS}"))
}
