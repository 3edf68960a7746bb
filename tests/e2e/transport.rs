//! Transports between an agent and its principal: `WebSocket`s, proxies, and credentials other than a certificate.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use lab::{
    Lab, Options,
    connect::ConnectProxy,
    e2e_test::{E2eTest, TestGroup},
    edge::{self, Kind, Passing},
    peers::{
        AGENT_HEALTH, GO, HUB, Make, Mapping, PRINCIPAL_HEALTH, Pair, Pairing, Setting, Way, get,
        healthy, prepare,
    },
    steps::At,
    wait,
};
use serde_json::json;

use crate::interop::{Replicated, SOON, delivery, finish};

pub(crate) mod ipv6;
mod newcomer;

use ipv6::{
    a_dead_ipv6_route_does_not_delay_the_agent, session_and_probes_work_over_the_ipv6_loopback,
};
use newcomer::an_agent_without_a_cluster_secret_registers_itself;

const OURS: Pairing = Pairing {
    principal: Make::Ours,
    agent: Make::Ours,
};
const GO_AGENT: Pairing = Pairing {
    principal: Make::Ours,
    agent: Make::Go,
};
/// Of our agent; the Go program has its own.
const AGENT_METRICS: u16 = 8181;

macro_rules! each_pairing {
    ($name:ident, $needs:expr) => {
        E2eTest {
            name: concat!("transport::", stringify!($name)),
            needs: $needs,
            run: |lab| Box::pin($name(lab)),
        }
    };
}

pub(crate) fn chapter() -> TestGroup {
    let e2e_tests = vec![
        each_pairing!(
            nginx_that_passes_tls_through_keeps_the_agents_certificate,
            None
        ),
        each_pairing!(
            an_agent_authenticates_behind_nginx_that_terminates_tls,
            None
        ),
        each_pairing!(
            an_agent_falls_back_to_websocket_behind_nginx_with_http_1_1,
            None
        ),
        each_pairing!(
            haproxy_that_passes_tls_through_keeps_the_agents_certificate,
            None
        ),
        each_pairing!(
            an_agent_authenticates_behind_haproxy_that_terminates_tls,
            None
        ),
        each_pairing!(
            an_agent_falls_back_to_websocket_behind_haproxy_with_http_1_1,
            None
        ),
        each_pairing!(untrusted_tls_proxy_is_rejected, None),
        each_pairing!(an_agent_dials_through_a_forward_proxy_with_a_password, None),
        each_pairing!(a_password_replaces_the_client_certificate, None),
        each_pairing!(
            a_password_replaces_the_client_certificate_of_a_go_agent,
            Some(GO)
        ),
        each_pairing!(mesh_header_identifies_the_agent, None),
        each_pairing!(mesh_header_identifies_a_go_agent, Some(GO)),
        each_pairing!(an_agent_without_a_cluster_secret_registers_itself, None),
        each_pairing!(
            session_and_probes_work_over_the_ipv6_loopback,
            ipv6::missing()
        ),
        each_pairing!(a_dead_ipv6_route_does_not_delay_the_agent, ipv6::missing()),
        each_pairing!(
            a_revoked_cluster_disconnects_and_reconnects_when_allowed,
            None
        ),
    ];
    TestGroup::shared(Options::control_planes(1), e2e_tests)
}

/// An Application is delivered and its status is reported.
async fn works(pair: &mut Pair) -> Result<()> {
    delivery::an_application_arrives_and_its_status_comes_back(pair).await
}

/// The transports of our agent's sessions so far.
async fn transports() -> Result<Vec<String>> {
    let metrics = get(AGENT_METRICS, "/metrics").await?;
    let lines = metrics
        .lines()
        .filter(|line| line.starts_with("argocd_agent_sessions_total") && !line.ends_with(" 0"));
    Ok(lines.map(ToOwned::to_owned).collect())
}

async fn went_over(transport: &str) -> Result<()> {
    let sessions = transports().await?;
    let only = format!("{{transport=\"{transport}\"}}");
    ensure!(!sessions.is_empty(), "no sessions are counted");
    ensure!(
        sessions.iter().all(|line| line.contains(&only)),
        "{sessions:?}"
    );
    Ok(())
}

/// Runs a test of our pair behind a proxy.
async fn behind(
    kind: Kind,
    lab: &Lab,
    name: &str,
    passing: Passing,
    transport: &str,
) -> Result<()> {
    let mut setting = prepare(lab, name, Mapping::Namespace).await?;
    setting.way.port = edge::PORT;
    if passing != Passing::Through {
        setting
            .way
            .principal
            .push(("trusted-proxy", edge::NAME.to_owned()));
    }
    let credentials = setting.credentials.of_proxy()?;
    let mut proxy = edge::start(kind, &setting.directory, passing, &credentials, name).await?;
    let result = async {
        let mut pair = Pair::start_in(lab, setting, OURS).await?;
        let result = async {
            works(&mut pair).await?;
            went_over(transport).await
        };
        let result = result.await;
        finish(pair, result).await
    };
    let result = result.await.with_context(|| proxy.log_tail());
    proxy.stop().await;
    result
}

async fn nginx_that_passes_tls_through_keeps_the_agents_certificate(lab: Arc<Lab>) -> Result<()> {
    behind(Kind::Nginx, &lab, "through", Passing::Through, "http2").await
}

async fn an_agent_authenticates_behind_nginx_that_terminates_tls(lab: Arc<Lab>) -> Result<()> {
    behind(Kind::Nginx, &lab, "ended", Passing::Http2, "http2").await
}

async fn an_agent_falls_back_to_websocket_behind_nginx_with_http_1_1(lab: Arc<Lab>) -> Result<()> {
    behind(Kind::Nginx, &lab, "downgraded", Passing::Http1, "websocket").await
}

async fn haproxy_that_passes_tls_through_keeps_the_agents_certificate(lab: Arc<Lab>) -> Result<()> {
    behind(Kind::Haproxy, &lab, "passed", Passing::Through, "http2").await
}

async fn an_agent_authenticates_behind_haproxy_that_terminates_tls(lab: Arc<Lab>) -> Result<()> {
    behind(Kind::Haproxy, &lab, "opened", Passing::Http2, "http2").await
}

async fn an_agent_falls_back_to_websocket_behind_haproxy_with_http_1_1(
    lab: Arc<Lab>,
) -> Result<()> {
    behind(Kind::Haproxy, &lab, "older", Passing::Http1, "websocket").await
}

/// Waits until the principal has counted this, as it is in its metrics.
async fn counted(what: &str) -> Result<()> {
    let look = || async { get(8000, "/metrics").await };
    let is_it = |line: &str| line.starts_with(what) && !line.ends_with(" 0");
    let counted = |metrics: &String| metrics.lines().any(is_it);
    wait::until_within(SOON, what, look, counted)
        .await
        .map(drop)
}

async fn untrusted_tls_proxy_is_rejected(lab: Arc<Lab>) -> Result<()> {
    let mut setting = prepare(&lab, "untrusted", Mapping::Namespace).await?;
    setting.way.port = edge::PORT;
    let credentials = setting.credentials.of_proxy()?;
    let mut proxy = edge::start(
        Kind::Nginx,
        &setting.directory,
        Passing::Http2,
        &credentials,
        "untrusted",
    )
    .await?;
    let mut pair = Pair::launch(&lab, setting, OURS)?;
    let result = async {
        healthy(PRINCIPAL_HEALTH, SOON).await?;
        // The principal identifies the proxy by its own certificate, and no cluster of that name is enrolled.
        counted("argocd_principal_refusals_total{reason=\"NotEnrolled\"}").await?;
        let health = get(AGENT_HEALTH, "/healthz").await?;
        ensure!(
            !health.starts_with("HTTP/1.1 200"),
            "the agent is connected"
        );
        pair.check()
    };
    let result = result.await;
    let result = finish(pair, result).await.with_context(|| proxy.log_tail());
    proxy.stop().await;
    result
}

async fn an_agent_dials_through_a_forward_proxy_with_a_password(lab: Arc<Lab>) -> Result<()> {
    let mut setting = prepare(&lab, "forwarded", Mapping::Namespace).await?;
    let proxy = ConnectProxy::start(([127, 0, 0, 1], 8443).into(), Some("me:p@ss")).await?;
    setting.way.host = HUB;
    let url = format!("http://me:p%40ss@127.0.0.1:{}", proxy.port());
    setting.way.variables = vec![
        ("HTTPS_PROXY", url),
        ("NO_PROXY", "10.0.0.0/8,.svc".to_owned()),
    ];
    let mut pair = Pair::start_in(&lab, setting, OURS).await?;
    let result = async {
        works(&mut pair).await?;
        let asked = proxy.asked();
        let to = format!("{HUB}:8443");
        ensure!(!asked.is_empty(), "the agent did not use the proxy");
        ensure!(
            asked.iter().all(|(host, granted)| *host == to && *granted),
            "{asked:?}"
        );
        ensure!(
            !pair.agent.log_tail().contains("p%40ss"),
            "the password is in the log"
        );
        Ok(())
    };
    let result = result.await;
    finish(pair, result).await
}

/// Both ends with a password, and without a certificate that identifies the agent.
async fn with_password(lab: &Lab, name: &str, pairing: Pairing) -> Result<()> {
    let mut setting = prepare(lab, name, Mapping::Namespace).await?;
    std::fs::create_dir_all(&setting.directory)?;
    let (users, credentials) = (
        setting.directory.join("users"),
        setting.directory.join("credentials"),
    );
    let hash = bcrypt::hash("secret", 5)?;
    std::fs::write(&users, format!("# users\n{name}:{hash}\n"))?;
    std::fs::write(&credentials, format!("{name}:secret\n"))?;
    setting.way.auth = format!("userpass:{}", users.display());
    setting.way.creds = format!("userpass:{}", credentials.display());
    let mut pair = Pair::start_in(lab, setting, pairing).await?;
    let result = async {
        works(&mut pair).await?;
        std::fs::write(&users, "# no user\n")?;
        disconnected().await?;
        std::fs::write(&users, format!("{name}:{hash}\n"))?;
        pair.connected().await
    };
    let result = result.await;
    finish(pair, result).await
}

async fn a_password_replaces_the_client_certificate(lab: Arc<Lab>) -> Result<()> {
    with_password(&lab, "password", OURS).await
}

async fn a_password_replaces_the_client_certificate_of_a_go_agent(lab: Arc<Lab>) -> Result<()> {
    with_password(&lab, "gopassword", GO_AGENT).await
}

/// nginx replaces the mesh: it sets the header, and all connections are plaintext.
async fn meshed(lab: &Lab, name: &str, pairing: Pairing) -> Result<()> {
    let mut setting = prepare(lab, name, Mapping::Namespace).await?;
    let plaintext = || vec![("insecure-plaintext", "true".to_owned())];
    setting.way = Way {
        port: edge::PORT,
        auth: "header:x-client-id:^(.+)$".to_owned(),
        creds: "header:".to_owned(),
        principal: plaintext(),
        agent: plaintext(),
        ..Way::default()
    };
    let credentials = setting.credentials.of_proxy()?;
    let mut proxy = edge::start(
        Kind::Nginx,
        &setting.directory,
        Passing::Mesh,
        &credentials,
        name,
    )
    .await?;
    let result = async {
        let mut pair = Pair::start_in(lab, setting, pairing).await?;
        let result = works(&mut pair).await;
        finish(pair, result).await
    };
    let result = result.await.with_context(|| proxy.log_tail());
    proxy.stop().await;
    result
}

async fn mesh_header_identifies_the_agent(lab: Arc<Lab>) -> Result<()> {
    meshed(&lab, "meshed", OURS).await
}

async fn mesh_header_identifies_a_go_agent(lab: Arc<Lab>) -> Result<()> {
    meshed(&lab, "gomeshed", GO_AGENT).await
}

/// Waits until the agent reports that it is not connected.
async fn disconnected() -> Result<()> {
    let look = || async { get(AGENT_HEALTH, "/healthz").await };
    let down = |answer: &String| !answer.starts_with("HTTP/1.1 200");
    wait::until_within(SOON, "the agent is disconnected", look, down)
        .await
        .map(drop)
}

async fn revoke(pair: &Pair, entry: Option<&str>) -> Result<()> {
    let at = At::config_map(&pair.names.hub, "argocd-agent-tls-blocklist");
    match entry {
        Some(entry) => pair
            .hub
            .apply(&at, json!({"data": {entry: "stolen"}}))
            .await
            .map(drop),
        None => pair.hub.delete(&at).await,
    }
}

async fn a_revoked_cluster_disconnects_and_reconnects_when_allowed(lab: Arc<Lab>) -> Result<()> {
    let setting: Setting = prepare(&lab, "revoked", Mapping::Namespace).await?;
    let pair = Pair::start_in(&lab, setting, OURS).await?;
    let result = async {
        let app = Replicated::new(&pair, "app");
        app.deliver(&pair, &[]).await?;
        revoke(&pair, Some("cluster.revoked")).await?;
        disconnected().await?;
        counted("argocd_principal_session_ends_total{reason=\"revoked\"}").await?;
        counted("argocd_principal_refusals_total{reason=\"Revoked\"}").await?;
        revoke(&pair, None).await?;
        healthy(AGENT_HEALTH, Duration::from_mins(1)).await?;
        if pair.spoke.get(&app.spoke).await?.is_none() {
            bail!("the replica went with the revocation");
        }
        app.set_revision(&pair, "v2").await?;
        app.until_revision(&pair, "v2").await.map(drop)
    };
    let result = result.await;
    finish(pair, result).await
}
