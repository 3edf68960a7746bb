//! Our two programs standalone, without OCM and without Secrets.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use lab::{
    Lab, namespaces,
    peers::{Make, Mapping, Pair, Pairing, Setting, get, healthy, ours, prepare},
    process::{Process, Program},
    redis::{self, Client},
    steps::{At, Objects},
    wait,
};
use serde_json::json;

use super::{Replicated, finish};

const START: Duration = Duration::from_secs(30);
/// Gate, health and metrics of the principal, then health and metrics of the agent; none is the default.
const PORTS: [u16; 5] = [18443, 18003, 18000, 18001, 18181];
/// The redis of the hub, that of the spoke, and the proxy before the first.
const REDIS_PORTS: [u16; 3] = [16380, 16381, 16379];
/// The passwords of the hub's and the spoke's redis.
const PASSWORDS: [&str; 2] = ["of-the-hub", "of-the-spoke"];

pub(crate) async fn standalone_programs_run_with_files_ports_and_variables(
    lab: Arc<Lab>,
) -> Result<()> {
    let setting = prepare(&lab, "alone", Mapping::Namespace).await?;
    let hub = Objects::new(lab.hub().client());
    let spoke = Objects::new(lab.spoke(1).client());
    for (side, namespace, name) in [
        (&hub, &setting.names.hub, "argocd-agent-ca"),
        (&hub, &setting.names.hub, "argocd-agent-principal-tls"),
        (&hub, &setting.names.hub, "argocd-agent-jwt"),
        (&spoke, &setting.names.spoke, "argocd-agent-ca"),
        (&spoke, &setting.names.spoke, "argocd-agent-client-tls"),
    ] {
        side.delete(&At::secret(namespace, name)).await?;
    }
    let mut redises = vec![];
    for (port, password) in REDIS_PORTS.into_iter().zip(PASSWORDS) {
        redises.push(redis::server(lab.tools(), &setting.directory, port, password).await?);
    }
    let login = json!({"stringData": {"auth": PASSWORDS[1]}});
    let at = At::secret(&setting.names.spoke, "argocd-redis");
    spoke.apply(&at, login).await?;
    let mut pair = Pair {
        hub,
        spoke,
        principal: principal(&setting)?,
        agent: agent(&setting)?,
        names: setting.names,
        pairing: Pairing {
            principal: Make::Ours,
            agent: Make::Ours,
        },
    };
    let result = works(&mut pair).await;
    let result = finish(pair, result).await;
    for mut redis in redises {
        redis.stop().await;
    }
    result
}

async fn works(pair: &mut Pair) -> Result<()> {
    let [
        _,
        principal_health,
        principal_metrics,
        agent_health,
        agent_metrics,
    ] = PORTS;
    healthy(principal_health, START).await?;
    healthy(agent_health, START).await?;
    for port in [principal_health, agent_health] {
        for path in ["/livez", "/readyz"] {
            let answer = get(port, path).await?;
            ensure!(answer.starts_with("HTTP/1.1 200"), "{port}{path}: {answer}");
        }
    }
    for port in [principal_metrics, agent_metrics] {
        let answer = get(port, "/metrics").await?;
        ensure!(answer.contains("build_info"), "{port}: {answer}");
    }
    let app = Replicated::new(pair, "app");
    app.deliver(pair, &[]).await?;
    app.set_status(pair, "Synced", "Healthy").await?;
    app.until_status(pair, "Synced", "Healthy").await?;
    the_hub_reads_the_spokes_redis_and_its_own(pair).await?;
    for process in [&mut pair.agent, &mut pair.principal] {
        let end = process.stop().await.context("it ended")?;
        ensure!(end.success(), "{}: {end}", process.name());
        process.restart()?;
    }
    healthy(agent_health, START).await
}

/// The redis proxy serves keys of an Application from the spoke's redis under its name on the hub, to clients with the
/// password of the hub's redis; all other keys come from the hub's redis.
async fn the_hub_reads_the_spokes_redis_and_its_own(pair: &Pair) -> Result<()> {
    const LOCAL: &str = "app|resources-tree|local|1.8.3";
    let [_, of_spoke, proxy] = REDIS_PORTS;
    let [hub, spoke] = PASSWORDS;
    let at = |port| ("127.0.0.1", port);
    let key = "app|resources-tree|app|1.8.3";
    let mut controller = Client::at(at(of_spoke), spoke).await?;
    controller.ask(&["SET", key, "a tree"]).await?;
    let error = Client::at(at(proxy), spoke).await.err();
    let error = error.context("another password opens it")?.to_string();
    ensure!(error.contains("WRONGPASS"), "{error}");

    let mut server = Client::at(at(proxy), hub).await?;
    server.ask(&["SET", LOCAL, "of the hub"]).await?;
    ensure!(server.value(LOCAL).await?.as_deref() == Some(&b"of the hub"[..]));
    let key = format!("app|resources-tree|{}_app|1.8.3", pair.names.agent);
    let look = async || Client::at(at(proxy), hub).await?.value(&key).await;
    // The tunnel opens a moment after the session.
    let is = |tree: &Option<Vec<u8>>| tree.as_deref() == Some(&b"a tree"[..]);
    wait::until("the tree is read", look, is).await.map(drop)
}

fn principal(setting: &Setting) -> Result<Process> {
    let credentials = namespaces::scratch().join("state/alone");
    setting.credentials.write(&credentials)?;
    std::fs::write(credentials.join("auth"), PASSWORDS[0])?;
    let [redis, _, redis_proxy] = REDIS_PORTS;
    let [gate, health, metrics, ..] = PORTS;
    Program::new("principal", ours("addon-manager")?, &setting.directory)
        .arg("principal")
        .flag("kubeconfig", setting.hub.kubeconfig())
        .flag("kubecontext", setting.hub.name())
        .flag("namespace", &setting.names.hub)
        .flag("auth", "mtls:subject:CN=([^,]+)")
        .flag("listen-host", "127.0.0.1")
        .flag("listen-port", gate.to_string())
        .flag("healthz-port", health.to_string())
        .flag("metrics-port", metrics.to_string())
        .flag("tls-cert", credentials.join("server.crt"))
        .flag("tls-key", credentials.join("server.key"))
        .flag("root-ca-path", credentials.join("ca.crt"))
        .flag("jwt-key", credentials.join("jwt.key"))
        .flag("redis-server-address", format!("127.0.0.1:{redis}"))
        .flag("redis-proxy-port", redis_proxy.to_string())
        .flag("redis-creds-dir-path", &credentials)
        .flag("log-format", "text")
        .flag("log-level", "debug,resource-proxy=trace")
        .start()
}

fn agent(setting: &Setting) -> Result<Process> {
    let credentials = namespaces::scratch().join("state/alone");
    let [gate, _, _, health, metrics] = PORTS;
    Program::new("agent", ours("agent")?, &setting.directory)
        .flag("kubecontext", setting.spoke.name())
        .env("KUBECONFIG", setting.spoke.kubeconfig())
        .env("ARGOCD_AGENT_NAMESPACE", &setting.names.spoke)
        .env("ARGOCD_AGENT_MODE", "managed")
        .env("ARGOCD_AGENT_CREDS", "mtls:any")
        .env("ARGOCD_AGENT_REMOTE_SERVER", "localhost")
        .env("ARGOCD_AGENT_REMOTE_PORT", gate.to_string())
        .env("ARGOCD_AGENT_HEALTH_CHECK_PORT", health.to_string())
        .env("REDIS_ADDR", format!("127.0.0.1:{}", REDIS_PORTS[1]))
        .env("ARGOCD_AGENT_METRICS_PORT", metrics.to_string())
        .env("ARGOCD_AGENT_TLS_ROOT_CA_PATH", credentials.join("ca.crt"))
        .env(
            "ARGOCD_AGENT_TLS_CLIENT_CERT_PATH",
            credentials.join("client.crt"),
        )
        .env(
            "ARGOCD_AGENT_TLS_CLIENT_KEY_PATH",
            credentials.join("client.key"),
        )
        .env("ARGOCD_AGENT_LOG_FORMAT", "text")
        .env("ARGOCD_AGENT_LOG_LEVEL", "debug")
        .start()
}
