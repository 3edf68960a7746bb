//! Switches the pages of the add-on on in the UI of the hub's Argo CD, as a user does: the chart, then `argocd-agentctl hub setup`.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{
    at::At,
    enrol::ARGOCD,
    objects::{Objects, is_rolled_out},
};
use crate::{Lab, argocd, call::Output, product, wait};

/// The Secret with the password that Argo CD's server generates for its admin.
const ADMIN: &str = "argocd-initial-admin-secret";
/// The Secret with the certificate that it signs for itself, among other things.
const CERTIFICATE: &str = "argocd-secret";
/// Both values of the chart: the redis proxy shows trees, the other one has the pages.
const VALUES: [&str; 2] = ["redisProxy.enabled=true", "ui.enabled=true"];

/// Installs Argo CD's server on the hub, switches the pages on in the chart, and sets the server up. Returns when it runs with that.
pub async fn switch_on(lab: &Lab, values: &[&str]) -> Result<()> {
    let (hub, tools) = (lab.hub(), lab.tools());
    let objects = Objects::new(hub.client());
    let controller = At::deployment(ARGOCD, argocd::APPLICATION_SETS);
    if objects.get(&controller).await?.is_none() {
        argocd::install_application_sets(hub, tools).await?;
    }
    argocd::install_server(hub, tools).await?;
    let values = VALUES.iter().chain(values).flat_map(|it| ["--set", *it]);
    let arguments: Vec<_> = values.chain(["--wait"]).collect();
    product::upgrade(&lab.helm(), &arguments).await?;
    let kubeconfig = hub.kubeconfig();
    // The new leader makes the shared secret of argocd-server and the hub program a moment after its start.
    let set_up = || product::agentctl(&kubeconfig, &["hub", "setup"]);
    wait::until("hub setup succeeds", set_up, Output::succeeded).await?;
    let server = At::deployment(ARGOCD, argocd::SERVER);
    let rolled_out = objects.until(&server, "is rolled out", wait::BOUND, is_rolled_out);
    rolled_out.await.map(drop)
}

/// Argo CD's server of the hub, as a browser reaches it inside the lab.
#[derive(Clone, Debug)]
pub struct Server {
    /// Its address among the Services.
    pub ip: String,
    /// The certificate that it has signed for itself, in PEM; it is good for `localhost`.
    pub certificate: String,
    /// The password of its user `admin`.
    pub password: String,
}

impl Server {
    /// Reads where it is and how to log in.
    pub async fn of(hub: &Objects) -> Result<Self> {
        let service = hub.read(&At::service(ARGOCD, argocd::SERVER)).await?;
        let ip = service["spec"]["clusterIP"].as_str().context("an IP")?;
        let read = async |name: &str, key: &str| {
            let there = |secret: &Value| secret["data"][key].is_string();
            let at = At::secret(ARGOCD, name);
            let secret = hub.until(&at, "has its data", wait::BOUND, there).await?;
            let encoded = secret["data"][key].as_str().unwrap_or_default();
            String::from_utf8(BASE64_STANDARD.decode(encoded)?).context("not text")
        };
        Ok(Self {
            ip: ip.to_owned(),
            certificate: read(CERTIFICATE, "tls.crt").await?,
            password: read(ADMIN, "password").await?,
        })
    }

    /// Whether it serves Argo CD's UI: a program that was built from the Go module alone has none.
    pub async fn has_ui(&self) -> Result<bool> {
        let asking = self.front_page();
        let page = timeout(wait::BOUND, asking).await.context("no answer")??;
        Ok(page.contains("<html") || page.contains("<!DOCTYPE html"))
    }

    /// A connection that trusts its certificate alone.
    pub async fn connect(&self) -> Result<TlsStream<TcpStream>> {
        let certificate = CertificateDer::from_pem_slice(self.certificate.as_bytes());
        let mut roots = RootCertStore::empty();
        roots.add(certificate.context("the server's certificate")?)?;
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let tcp = TcpStream::connect((self.ip.as_str(), 443)).await?;
        let connector = TlsConnector::from(Arc::new(config));
        let connecting = connector.connect("localhost".try_into()?, tcp);
        connecting.await.context("TLS with Argo CD's server")
    }

    async fn front_page(&self) -> Result<String> {
        let mut tls = self.connect().await?;
        // HTTP/1.0, so that the answer ends with the connection.
        tls.write_all(b"GET / HTTP/1.0\r\nHost: localhost\r\nAccept: text/html\r\n\r\n")
            .await?;
        let mut answer = Vec::new();
        tls.read_to_end(&mut answer).await?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}
