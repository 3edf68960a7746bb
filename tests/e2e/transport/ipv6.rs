//! An agent that reaches its principal by IPv6 or in spite of it, and the probes of both programs, which listen on their
//! default addresses.

use std::{fs, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use lab::{
    Lab, network,
    peers::{AGENT_HEALTH, Mapping, PRINCIPAL_HEALTH, Pair, get_at, prepare},
    wait,
};
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpStream, lookup_host},
    time::Instant,
};

use super::{AGENT_METRICS, OURS, works};
use crate::interop::{SOON, finish};

/// The loopback of IPv6.
const LOOPBACK: &str = "::1";
/// The principal's port for agents.
const AGENTS: u16 = 8443;
/// The port of its resource proxy.
const RESOURCES: u16 = 9090;
/// The port of its metrics.
const METRICS: u16 = 8000;
/// How long an agent may take from its start to its session: less than its limit for one attempt to connect.
const WITHOUT_DELAY: Duration = Duration::from_secs(14);

/// The name of what the test needs and this machine has not.
pub(crate) fn missing() -> Option<&'static str> {
    let disabled = fs::read_to_string("/proc/sys/net/ipv6/conf/lo/disable_ipv6");
    let has_ipv6 = disabled.is_ok_and(|disabled| disabled.trim() == "0");
    (!has_ipv6).then_some("IPV6")
}

pub(crate) async fn session_and_probes_work_over_the_ipv6_loopback(lab: Arc<Lab>) -> Result<()> {
    let mut setting = prepare(&lab, "ipv6", Mapping::Namespace).await?;
    setting.way.host = LOOPBACK;
    let mut pair = Pair::start_in(&lab, setting, OURS).await?;
    let result = async {
        works(&mut pair).await?;
        probes_are_answered().await?;
        an_ipv4_peer_is_logged_as_such(&pair).await
    };
    let result = result.await;
    finish(pair, result).await
}

pub(crate) async fn a_dead_ipv6_route_does_not_delay_the_agent(lab: Arc<Lab>) -> Result<()> {
    network::add_dual_stack_host(&lab.tools().ip)?;
    let found = lookup_host((network::DUAL_STACK, AGENTS)).await?;
    let found: Vec<_> = found.collect();
    ensure!(
        found.first().is_some_and(SocketAddr::is_ipv6) && found.iter().any(SocketAddr::is_ipv4),
        "the resolver does not prefer IPv6: {found:?}"
    );
    let mut setting = prepare(&lab, "dead-ipv6", Mapping::Namespace).await?;
    setting.way.host = network::DUAL_STACK;
    let mut pair = Pair::start_in(&lab, setting, OURS).await?;
    let result = async {
        works(&mut pair).await?;
        pair.agent.stop().await;
        let began = Instant::now();
        pair.start_agent().await?;
        let took = began.elapsed();
        ensure!(took < WITHOUT_DELAY, "the agent connected after {took:?}");
        anyhow::Ok(())
    };
    let result = result.await;
    finish(pair, result).await
}

async fn probes_are_answered() -> Result<()> {
    for (port, path) in [
        (PRINCIPAL_HEALTH, "/livez"),
        (PRINCIPAL_HEALTH, "/readyz"),
        (METRICS, "/metrics"),
        (AGENT_HEALTH, "/livez"),
        (AGENT_HEALTH, "/readyz"),
        (AGENT_METRICS, "/metrics"),
    ] {
        let answer = get_at(LOOPBACK, port, path).await?;
        ensure!(answer.starts_with("HTTP/1.1 200"), "{port}{path}: {answer}");
    }
    let resources = TcpStream::connect((LOOPBACK, RESOURCES)).await;
    resources.map(drop).context("the resource proxy")
}

/// The same port serves IPv4, and the principal knows the peer by its IPv4 address, not by a mapped one.
async fn an_ipv4_peer_is_logged_as_such(pair: &Pair) -> Result<()> {
    let mut socket = TcpStream::connect(("127.0.0.1", AGENTS)).await?;
    let peer = socket.local_addr()?.to_string();
    socket.write_all(b"this is no handshake").await?;
    drop(socket);
    let look = || async { fs::read_to_string(pair.principal.log()).context("read the log") };
    let is_logged = |log: &String| log.contains(&peer);
    wait::until_within(SOON, "the peer is logged", look, is_logged)
        .await
        .map(drop)
}
