//! Somebody at the principal's door who is not an agent of ours: with no certificate, a wrong one, or bad manners.

use std::time::Duration;

use anyhow::{Context as _, Result};
use protocol::wire::{
    authapi::{AuthRequest, AuthResponse, authentication_client::AuthenticationClient},
    cloudevents::CloudEvent,
    eventstreamapi::{Event, event_stream_client::EventStreamClient},
    versionapi::{VersionRequest, version_client::VersionClient},
};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use time::OffsetDateTime;
use tokio::{io::AsyncWriteExt as _, net::TcpStream, sync::mpsc};
use tonic::{
    Request, Status, Streaming,
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity},
};

/// A principal that does not answer within this is broken.
const PATIENCE: Duration = Duration::from_secs(20);

/// The principal's door: where it is and whom it trusts.
#[derive(Clone, Debug)]
pub struct Door {
    /// `address:port` of the principal.
    pub address: String,
    /// The CA's certificate, PEM.
    pub authority: String,
}

/// A certificate and its key, PEM.
#[derive(Clone)]
pub struct Papers {
    /// The chain.
    pub certificate: String,
    /// The key.
    pub key: String,
}

impl std::fmt::Debug for Papers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Papers").finish_non_exhaustive()
    }
}

/// A certificate authority, ours or somebody else's, that signs whatever a story wants.
pub struct Forger {
    issuer: Issuer<'static, KeyPair>,
}

impl std::fmt::Debug for Forger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Forger").finish_non_exhaustive()
    }
}

impl Forger {
    /// Signs with an authority that exists.
    pub fn with(certificate: &str, key: &str) -> Result<Self> {
        let key = KeyPair::from_pem(key).context("read the authority's key")?;
        let issuer = Issuer::from_ca_cert_pem(certificate, key).context("read the authority")?;
        Ok(Self { issuer })
    }

    /// Signs with an authority that nobody knows.
    pub fn unknown() -> Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = name("argocd-agent-ca", &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let certificate = params.self_signed(&key)?.pem();
        Self::with(&certificate, &key.serialize_pem())
    }

    /// A client certificate with this CN and these organisations, good from now on for so long
    /// (negative: it ended so long ago).
    pub fn papers(
        &self,
        common_name: &str,
        groups: &[&str],
        life: time::Duration,
    ) -> Result<Papers> {
        let now = OffsetDateTime::now_utc();
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = name(common_name, groups);
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.not_before = now - time::Duration::days(2);
        params.not_after = now + life;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Papers {
            certificate,
            key: key.serialize_pem(),
        })
    }
}

fn name(common_name: &str, groups: &[&str]) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    for group in groups {
        name.push(DnType::OrganizationName, *group);
    }
    name
}

/// The CN that OCM asks for on behalf of a cluster's agent.
pub fn agent_name(cluster: &str) -> String {
    let addon = crate::steps::objects::ADDON;
    format!("system:open-cluster-management:cluster:{cluster}:addon:{addon}:agent:{addon}")
}

impl Door {
    /// Bytes as they come, without TLS.
    pub async fn knock_with(&self, bytes: &[u8]) -> Result<()> {
        let mut socket = TcpStream::connect(&self.address).await.context("knock")?;
        // The principal may hang up on us in the middle, which is what we deserve.
        let _gone = socket.write_all(bytes).await.is_err();
        Ok(())
    }

    /// A channel that shows these papers, if any.
    pub fn channel(&self, papers: Option<&Papers>) -> Result<Channel> {
        let host = self
            .address
            .rsplit_once(':')
            .map_or(self.address.as_str(), |(host, _)| host);
        let mut tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(&self.authority))
            .domain_name(host);
        if let Some(papers) = papers {
            tls = tls.identity(Identity::from_pem(&papers.certificate, &papers.key));
        }
        let endpoint = Endpoint::from_shared(format!("https://{}", self.address))?;
        Ok(endpoint
            .tls_config(tls)?
            .connect_timeout(PATIENCE)
            .timeout(PATIENCE)
            .connect_lazy())
    }

    /// The version that the principal says it has, without the product's name in front.
    pub async fn version(&self, papers: &Papers) -> Result<String> {
        let mut client = VersionClient::new(self.channel(Some(papers))?);
        let version = client
            .version(VersionRequest {})
            .await?
            .into_inner()
            .version;
        Ok(version.trim_start_matches("argocd-agent-").to_owned())
    }

    /// Authenticates as an agent would; the outer error is a door that cannot be reached at all.
    pub async fn authenticate(
        &self,
        papers: Option<&Papers>,
        mode: &str,
        version: &str,
    ) -> Result<Result<AuthResponse, Status>> {
        let mut client = AuthenticationClient::new(self.channel(papers)?);
        let request = AuthRequest {
            method: "mtls".to_owned(),
            mode: mode.to_owned(),
            version: version.to_owned(),
            agent_namespace: "argocd".to_owned(),
            ..AuthRequest::default()
        };
        Ok(client
            .authenticate(request)
            .await
            .map(tonic::Response::into_inner))
    }

    /// Opens a stream of events with this token.
    pub async fn subscribe(&self, papers: &Papers, token: &str) -> Result<Result<Stream, Status>> {
        let mut client = EventStreamClient::new(self.channel(Some(papers))?)
            .max_encoding_message_size(usize::MAX);
        let (say, outgoing) = mpsc::channel::<Event>(16);
        let outgoing = tokio_stream::wrappers::ReceiverStream::new(outgoing);
        let mut request = Request::new(outgoing);
        let token = token.parse().context("a token is plain text")?;
        request.metadata_mut().insert("authorization", token);
        let stream = client
            .subscribe(request)
            .await
            .map(tonic::Response::into_inner);
        Ok(stream.map(|heard| Stream { say, heard }))
    }
}

/// A subscribed stream in a stranger's hands.
pub struct Stream {
    say: mpsc::Sender<Event>,
    heard: Streaming<Event>,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}

impl Stream {
    /// Says something; whether the principal still listens.
    pub async fn say(&self, event: Option<CloudEvent>) -> bool {
        self.say.send(Event { event }).await.is_ok()
    }

    /// The next event, or how the stream ended.
    pub async fn hear(&mut self) -> Result<Result<Option<CloudEvent>, Status>> {
        let heard = tokio::time::timeout(PATIENCE, self.heard.message()).await;
        let heard = heard.context("the principal says nothing")?;
        Ok(heard.map(|event| event.and_then(|event| event.event)))
    }
}
