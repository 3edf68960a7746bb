//! The addresses of the cluster on this machine, made by the `ip` tool.

use std::{
    collections::BTreeSet,
    net::IpAddr,
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Context, ensure};
use tokio::{io::AsyncWriteExt, process::Command};

use crate::{Family, Network};

/// Creates the bridge, and makes the machine answer on every `ClusterIP` and every load balancer
/// address.
///
/// A `local` route for a whole prefix lets listeners bind any address in it, so that Services need
/// no work here.
pub(crate) async fn raise(network: &Network, balancers: [u8; 3]) -> anyhow::Result<()> {
    let Network {
        family,
        bridge,
        pods: [a, b, c],
        services,
    } = network;
    if Command::new("ip")
        .args(["link", "show", bridge])
        .output()
        .await
        .context(NO_IP)?
        .status
        .success()
    {
        tracing::debug!(bridge, "is there already");
    } else {
        // An address of its own. Otherwise a bridge takes the lowest of its ports', and a new Pod can
        // change it: then the others, which still know the old one, are cut off until they ask again.
        let address = format!("02:00:{a:02x}:{b:02x}:{c:02x}:01");
        ip(&format!(
            "link add {bridge} address {address} type bridge\n"
        ))
        .await?;
    }
    ip(&format!(
        "link set {bridge} up\nlink set lo up\naddr replace {}\n\
         route replace local {} dev lo\nroute replace local {} dev lo\n",
        on_device(*family, network.gateway(), bridge),
        family.prefix(*services),
        family.prefix(balancers),
    ))
    .await
}

/// Removes the bridge; the range of load balancers is shared and stays.
pub(crate) async fn lower(network: &Network) -> anyhow::Result<()> {
    let Network {
        family,
        bridge,
        pods: _,
        services,
    } = network;
    ip(&format!(
        "link del {bridge}\nroute del local {} dev lo\n",
        family.prefix(*services)
    ))
    .await
}

/// An address of a device for `ip addr`, usable at once.
fn on_device(family: Family, address: IpAddr, device: &str) -> String {
    // The kernel would look for another owner of the address first.
    let at_once = match family {
        Family::V4 => "",
        Family::V6 => " nodad",
    };
    format!("{address}/{} dev {device}{at_once}", family.prefix_length())
}

/// The host of a URL: an IPv6 address has brackets there.
pub(crate) fn url_host(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

/// Connects a Pod's network namespace to the bridge; [`inside_commands`] configures the inner end.
pub(crate) async fn plug(network: &Network, device: &str, sandbox: u32) -> anyhow::Result<()> {
    ip(&format!(
        "link add {device} type veth peer name eth0 netns {sandbox}\n\
         link set {device} master {} up\n",
        network.bridge
    ))
    .await
}

/// Disconnects a Pod from the bridge at once. The kernel would do that too, but later.
pub(crate) async fn unplug(device: &str) {
    if let Err(error) = ip(&format!("link del {device}\n")).await {
        tracing::debug!(device, %error, "is gone already");
    }
}

/// The commands for `ip` in the network namespace of a Pod.
pub(crate) fn inside_commands(network: &Network, address: IpAddr) -> String {
    format!(
        "link set lo up\nlink set eth0 up\naddr add {}\nroute add default via {}\n",
        on_device(network.family, address, "eth0"),
        network.gateway()
    )
}

/// The name of a Pod's device on this machine, at most 15 bytes: derived from its UID, so that
/// clusters do not collide.
pub(crate) fn device(uid: &str) -> String {
    let digits = uid.chars().filter(char::is_ascii_hexdigit).take(11);
    "veth".chars().chain(digits).collect()
}

const NO_IP: &str = "run ip (package iproute2)";

async fn ip(commands: &str) -> anyhow::Result<()> {
    let mut child = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context(NO_IP)?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(commands.as_bytes()).await?;
    }
    let output = child.wait_with_output().await?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "ip: {} (of: {})",
        complaint.trim(),
        commands.trim()
    );
    Ok(())
}

/// The addresses for Pods. An address is reused as late as possible, so that a client which
/// keeps the address of a deleted Pod does not meet another one by chance.
#[derive(Clone, Debug)]
pub(crate) struct Addresses {
    family: Family,
    prefix: [u8; 3],
    // Locked only for one lookup.
    pool: Arc<Mutex<Pool>>,
}

#[derive(Debug)]
struct Pool {
    next: u8,
    taken: BTreeSet<u8>,
}

impl Addresses {
    pub(crate) fn new(network: &Network) -> Self {
        let pool = Pool {
            next: Self::FIRST,
            taken: BTreeSet::new(),
        };
        Self {
            family: network.family,
            prefix: network.pods,
            pool: Arc::new(Mutex::new(pool)),
        }
    }

    const FIRST: u8 = 2; // .1 is the bridge
    const LAST: u8 = 254;

    /// Takes an address, which is returned when it is dropped. None when all are taken.
    pub(crate) fn take(&self) -> Option<Address> {
        let [a, b, c] = self.prefix;
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        let from = pool.next;
        let byte = (from..=Self::LAST)
            .chain(Self::FIRST..from)
            .find(|byte| !pool.taken.contains(byte))?;
        pool.taken.insert(byte);
        pool.next = if byte == Self::LAST {
            Self::FIRST
        } else {
            byte + 1
        };
        Some(Address {
            ip: self.family.address([a, b, c, byte]),
            byte,
            pool: Arc::clone(&self.pool),
        })
    }
}

/// An address in use.
#[derive(Debug)]
pub(crate) struct Address {
    pub(crate) ip: IpAddr,
    byte: u8,
    pool: Arc<Mutex<Pool>>,
}

impl Drop for Address {
    fn drop(&mut self) {
        self.pool
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .taken
            .remove(&self.byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_not_used_again_while_there_are_others() {
        let addresses = Addresses::new(&Network::numbered(3));
        let first = addresses.take().unwrap();
        assert_eq!(first.ip, IpAddr::from([10, 244, 3, 2]));
        drop(first);
        let second = addresses.take().unwrap();
        assert_eq!(second.ip, IpAddr::from([10, 244, 3, 3]));
    }

    #[test]
    fn when_all_addresses_are_taken_there_is_none() {
        let addresses = Addresses::new(&Network::numbered(3));
        let mut all: Vec<Address> = std::iter::from_fn(|| addresses.take()).collect();
        assert_eq!(all.len(), 253);
        let freed = all.remove(7).ip;
        assert_eq!(addresses.take().map(|address| address.ip), Some(freed));
    }

    #[test]
    fn pod_of_an_ipv6_network_has_only_an_ipv6_address() {
        let network = Network {
            family: Family::V6,
            ..Network::numbered(3)
        };
        let address = Addresses::new(&network).take().unwrap();
        assert_eq!(
            inside_commands(&network, address.ip),
            "link set lo up\nlink set eth0 up\naddr add fd00::af4:302/120 dev eth0 nodad\n\
             route add default via fd00::af4:301\n"
        );
    }

    #[test]
    fn a_device_name_fits_the_kernel() {
        assert_eq!(
            device("0f3c9a7e-1d2b-4c5d-8e9f-0a1b2c3d4e5f"),
            "veth0f3c9a7e1d2"
        );
    }
}
