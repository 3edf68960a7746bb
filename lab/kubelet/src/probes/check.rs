//! One check of a container: a request, a connection, a command. Lifecycle hooks use them too.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, anyhow, bail, ensure};
use http_body_util::Empty;
use hyper::{Request, body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use k8s_openapi::{
    api::core::v1::{Container, ExecAction, HTTPGetAction, LifecycleHandler, Probe},
    apimachinery::pkg::util::intstr::IntOrString,
};
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

use super::Patient;
use crate::{command, net::url_host};

/// The kind of a check.
#[derive(Debug, Clone)]
pub(crate) enum Check {
    Http(HTTPGetAction),
    Tcp(Target),
    Exec(ExecAction),
    Sleep(Duration),
    Unknown,
}

/// An address to connect to.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    host: Option<String>,
    port: IntOrString,
}

impl From<&Probe> for Check {
    fn from(probe: &Probe) -> Self {
        match (&probe.http_get, &probe.tcp_socket, &probe.exec) {
            (Some(get), _, _) => Self::Http(get.clone()),
            (_, Some(tcp), _) => Self::Tcp(Target {
                host: tcp.host.clone(),
                port: tcp.port.clone(),
            }),
            (_, _, Some(exec)) => Self::Exec(exec.clone()),
            (None, None, None) => Self::Unknown,
        }
    }
}

impl From<&LifecycleHandler> for Check {
    fn from(handler: &LifecycleHandler) -> Self {
        match (&handler.http_get, &handler.exec, &handler.sleep) {
            (Some(get), _, _) => Self::Http(get.clone()),
            (_, Some(exec), _) => Self::Exec(exec.clone()),
            (_, _, Some(sleep)) => Self::Sleep(Duration::from_secs(
                u64::try_from(sleep.seconds).unwrap_or(0),
            )),
            (None, None, None) => Self::Unknown,
        }
    }
}

/// Runs a probe once; an error describes the failure for users.
pub(super) async fn ask(probe: &Probe, limit: Duration, patient: &Patient) -> Result<(), String> {
    Check::from(probe)
        .ask(limit, patient)
        .await
        .map_err(|error| format!("{error:#}"))
}

impl Check {
    /// Runs the check once, and waits no longer than `limit`.
    pub(crate) async fn ask(&self, limit: Duration, patient: &Patient) -> anyhow::Result<()> {
        let asking = async {
            match self {
                Self::Http(get) => request(get, patient).await,
                Self::Tcp(to) => to.connect(patient).await.map(drop),
                Self::Exec(exec) => execute(exec, limit, patient).await,
                Self::Sleep(time) => {
                    tokio::time::sleep(*time).await;
                    Ok(())
                }
                Self::Unknown => bail!("the lab's kubelet does not know this kind of probe"),
            }
        };
        tokio::time::timeout(limit, Box::pin(asking))
            .await
            .with_context(|| format!("no answer within {limit:?}"))?
    }
}

impl Target {
    async fn connect(&self, patient: &Patient) -> anyhow::Result<TcpStream> {
        let port = number(&self.port, &patient.container)?;
        let host = self
            .host
            .as_deref()
            .map_or_else(|| Ok(patient.ip), str::parse::<IpAddr>)?;
        let to = SocketAddr::new(host, port);
        TcpStream::connect(to)
            .await
            .with_context(|| format!("connect to {to}"))
    }
}

/// The number of a port, which may be given by its name.
fn number(port: &IntOrString, container: &Container) -> anyhow::Result<u16> {
    let number = match port {
        IntOrString::Int(number) => *number,
        IntOrString::String(name) => {
            let mut ports = container.ports.iter().flatten();
            let named = ports.find(|port| port.name.as_deref() == Some(name));
            named
                .map(|port| port.container_port)
                .ok_or_else(|| anyhow!("no port is named {name:?}"))?
        }
    };
    u16::try_from(number).context("a port beyond all ports")
}

async fn request(get: &HTTPGetAction, patient: &Patient) -> anyhow::Result<()> {
    let to = Target {
        host: get.host.clone(),
        port: get.port.clone(),
    };
    let stream = to.connect(patient).await?;
    let status = if get.scheme.as_deref() == Some("HTTPS") {
        let name = ServerName::IpAddress(patient.ip.into());
        let tls = TlsConnector::from(Arc::new(trusting()?))
            .connect(name, stream)
            .await;
        exchange(get, patient, tls.context("TLS handshake")?).await?
    } else {
        exchange(get, patient, stream).await?
    };
    ensure!(
        status.is_success() || status.is_redirection(),
        "HTTP probe failed with statuscode: {}",
        status.as_u16()
    );
    Ok(())
}

async fn exchange<S>(
    get: &HTTPGetAction,
    patient: &Patient,
    stream: S,
) -> anyhow::Result<http::StatusCode>
where
    S: AsyncRead + AsyncWrite + Send + Unpin,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let path = get
        .path
        .as_deref()
        .filter(|path| path.starts_with('/'))
        .unwrap_or("/");
    let mut request = Request::get(path).header(http::header::USER_AGENT, "kube-probe/lab");
    let mut host = Some(url_host(patient.ip));
    for header in get.http_headers.iter().flatten() {
        if header.name.eq_ignore_ascii_case("host") {
            host = None;
        }
        request = request.header(&header.name, &header.value);
    }
    if let Some(host) = host {
        request = request.header(http::header::HOST, host);
    }
    let answer = sender.send_request(request.body(Empty::<Bytes>::new())?);
    // The connection progresses only while it is polled; it may end after the answer has arrived.
    let (status, _ended) = tokio::join!(
        async {
            // Not the answer itself: the connection stays open while its body could still be read.
            let status = answer.await.map(|answer| answer.status());
            drop(sender);
            status
        },
        connection
    );
    Ok(status?)
}

async fn execute(exec: &ExecAction, limit: Duration, patient: &Patient) -> anyhow::Result<()> {
    let mut process = patient.process.clone();
    process.argv = exec.command.clone().unwrap_or_default();
    let output = command::output(patient.target, process, limit).await?;
    ensure!(
        output.code == 0,
        "command ended with {}: {}",
        output.code,
        output.text.trim()
    );
    Ok(())
}

/// Trusts every server, like the real kubelet: a probe checks that a server answers, not its identity.
fn trusting() -> anyhow::Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let schemes = provider
        .signature_verification_algorithms
        .supported_schemes();
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyServer(schemes)))
        .with_no_client_auth())
}

#[derive(Debug)]
struct AnyServer(Vec<SignatureScheme>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.clone()
    }
}
