//! The addresses of the cluster on this machine, made by the `ip` tool.

use std::{
    collections::BTreeSet,
    net::Ipv4Addr,
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Context, ensure};
use tokio::{io::AsyncWriteExt, process::Command};

use crate::Network;

/// Creates the bridge, and makes the machine answer on every `ClusterIP` and every load balancer
/// address.
///
/// A `local` route for a whole prefix lets listeners bind any address in it, so that Services need
/// no work here.
pub(crate) async fn raise(network: &Network, balancers: [u8; 3]) -> anyhow::Result<()> {
    let Network {
        bridge,
        pods: _,
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
        let [a, b, c, d] = network.gateway().octets();
        let address = format!("02:00:{a:02x}:{b:02x}:{c:02x}:{d:02x}");
        ip(&format!(
            "link add {bridge} address {address} type bridge\n"
        ))
        .await?;
    }
    ip(&format!(
        "addr replace {}/24 dev {bridge}\nlink set {bridge} up\nlink set lo up\n\
         route replace local {} dev lo\nroute replace local {} dev lo\n",
        network.gateway(),
        prefix(*services),
        prefix(balancers),
    ))
    .await
}

/// Removes the bridge; the range of load balancers is shared and stays.
pub(crate) async fn lower(network: &Network) -> anyhow::Result<()> {
    let Network {
        bridge,
        pods: _,
        services,
    } = network;
    ip(&format!(
        "link del {bridge}\nroute del local {} dev lo\n",
        prefix(*services)
    ))
    .await
}

fn prefix([a, b, c]: [u8; 3]) -> String {
    format!("{a}.{b}.{c}.0/24")
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
pub(crate) fn inside_commands(network: &Network, address: Ipv4Addr) -> String {
    format!(
        "link set lo up\naddr add {address}/24 dev eth0\nlink set eth0 up\nroute add default via {}\n",
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
            ip: Ipv4Addr::new(a, b, c, byte),
            byte,
            pool: Arc::clone(&self.pool),
        })
    }
}

/// An address in use.
#[derive(Debug)]
pub(crate) struct Address {
    pub(crate) ip: Ipv4Addr,
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
        assert_eq!(first.ip, Ipv4Addr::new(10, 244, 3, 2));
        drop(first);
        assert_eq!(addresses.take().unwrap().ip, Ipv4Addr::new(10, 244, 3, 3));
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
    fn a_device_name_fits_the_kernel() {
        assert_eq!(
            device("0f3c9a7e-1d2b-4c5d-8e9f-0a1b2c3d4e5f"),
            "veth0f3c9a7e1d2"
        );
    }
}
