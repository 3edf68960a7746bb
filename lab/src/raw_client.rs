//! A raw client of the principal for tests: without a certificate, with a wrong one, or with invalid messages.

mod stream;

use std::{net::IpAddr, sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use protocol::{
    version::Capabilities,
    wire::{
        authapi::{AuthRequest, AuthResponse, authentication_client::AuthenticationClient},
        eventstreamapi::{Event, event_stream_client::EventStreamClient},
        versionapi::{VersionRequest, version_client::VersionClient},
    },
};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::{
    AlertDescription, ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use time::OffsetDateTime;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::mpsc,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tonic::{
    Request, Status,
    codec::CompressionEncoding,
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity},
};

pub use stream::{Answer, Flood, Stream};

/// A principal that does not answer within this is broken.
const TIME_LIMIT: Duration = Duration::from_secs(20);
/// A client's preface and its empty settings (RFC 9113, section 3.4); a server may wait for them before it sends bytes.
const HTTP2_BEGINS: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// A client of one principal, with the address and the CA.
#[derive(Clone, Debug)]
pub struct RawClient {
    /// `address:port` of the principal.
    pub address: String,
    /// The CA's certificate, PEM.
    pub authority: String,
}

/// A certificate and its key, PEM.
#[derive(Clone)]
pub struct Credentials {
    /// The chain.
    pub certificate: String,
    /// The key.
    pub key: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// A certificate authority, ours or an unknown one, that signs any client certificate.
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

    /// Signs with a new authority of this name, which no principal trusts.
    pub fn unknown(authority: &str) -> Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = name(authority, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let certificate = params.self_signed(&key)?.pem();
        Self::with(&certificate, &key.serialize_pem())
    }

    /// A client certificate with this CN and these organisations, valid from now on for this long
    /// (negative: it expired this long ago).
    pub fn issue(
        &self,
        common_name: &str,
        groups: &[&str],
        life: time::Duration,
    ) -> Result<Credentials> {
        self.issue_from(common_name, groups, -time::Duration::days(2), life)
    }

    /// Like [`Self::issue`], with the given begin of validity; both are relative to now.
    pub fn issue_from(
        &self,
        common_name: &str,
        groups: &[&str],
        begin: time::Duration,
        end: time::Duration,
    ) -> Result<Credentials> {
        let now = OffsetDateTime::now_utc();
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = name(common_name, groups);
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        params.not_before = now + begin;
        params.not_after = now + end;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Credentials {
            certificate,
            key: key.serialize_pem(),
        })
    }
}

fn name(common_name: &str, groups: &[&str]) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    // rcgen keeps one value per attribute type: a second one needs a custom type of the same OID.
    let kinds = [
        DnType::OrganizationName,
        DnType::CustomDnType(vec![2, 5, 4, 10]),
    ];
    for (kind, group) in kinds.into_iter().zip(groups) {
        name.push(kind, *group);
    }
    name
}

/// The CN that OCM requests for a cluster's agent.
pub fn agent_name(cluster: &str) -> String {
    let addon = crate::steps::ADDON;
    format!("system:open-cluster-management:cluster:{cluster}:addon:{addon}:agent:{addon}")
}

impl RawClient {
    /// Sends bytes without TLS; returns when the principal has closed the connection.
    pub async fn send_bytes(&self, bytes: &[u8]) -> Result<()> {
        let mut socket = TcpStream::connect(&self.address).await.context("connect")?;
        // The principal may close the connection before all bytes are written.
        let _gone = socket.write_all(bytes).await.is_err();
        let mut reply = Vec::new();
        let closed = tokio::time::timeout(TIME_LIMIT, socket.read_to_end(&mut reply)).await;
        closed
            .map(drop)
            .context("the principal does not close the connection")
    }

    /// Performs a TLS handshake with these credentials, if any; returns the alert with which the principal rejects it.
    ///
    /// In TLS 1.3 the client's handshake ends before the server has checked its certificate, so this also reads the
    /// first byte after it, for as long as an admitted client may be silent.
    pub async fn alert(
        &self,
        credentials: Option<&Credentials>,
    ) -> Result<Option<AlertDescription>> {
        let connecting = self.connector(credentials)?;
        let host: IpAddr = self.host().parse()?;
        let socket = TcpStream::connect(&self.address).await?;
        let shake = async {
            let mut stream = connecting.connect(ServerName::from(host), socket).await?;
            // After a rejection this may fail or not; only the alert matters.
            let _written = stream.write_all(HTTP2_BEGINS).await;
            // The settings of HTTP/2, if the client is admitted.
            stream.read_u8().await
        };
        let shaken = tokio::time::timeout(TIME_LIMIT, shake).await;
        let Err(error) = shaken.context("the principal does not answer")? else {
            return Ok(None);
        };
        let reason = error
            .get_ref()
            .and_then(|e| e.downcast_ref::<rustls::Error>());
        match reason {
            Some(rustls::Error::AlertReceived(alert)) => Ok(Some(*alert)),
            Some(_) | None => Err(error).context("TLS handshake"),
        }
    }

    /// A TLS connection with these credentials, for frames that no HTTP/2 client sends.
    pub async fn tls(&self, credentials: &Credentials) -> Result<TlsStream<TcpStream>> {
        let connector = self.connector(Some(credentials))?;
        let host: IpAddr = self.host().parse()?;
        let socket = TcpStream::connect(&self.address).await?;
        let shake = connector.connect(ServerName::from(host), socket);
        let shaken = tokio::time::timeout(TIME_LIMIT, shake).await;
        shaken
            .context("the principal does not answer")?
            .context("TLS handshake")
    }

    fn connector(&self, credentials: Option<&Credentials>) -> Result<TlsConnector> {
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(self.authority.as_bytes()) {
            roots.add(root?)?;
        }
        let config = ClientConfig::builder().with_root_certificates(roots);
        let mut config = match credentials {
            None => config.with_no_client_auth(),
            Some(credentials) => {
                let chain = CertificateDer::pem_slice_iter(credentials.certificate.as_bytes())
                    .collect::<Result<Vec<_>, _>>()?;
                let key = PrivateKeyDer::from_pem_slice(credentials.key.as_bytes())?;
                config.with_client_auth_cert(chain, key)?
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(TlsConnector::from(Arc::new(config)))
    }

    fn host(&self) -> &str {
        self.address
            .rsplit_once(':')
            .map_or(self.address.as_str(), |(host, _)| host)
    }

    /// A channel with these credentials, if any.
    pub fn channel(&self, credentials: Option<&Credentials>) -> Result<Channel> {
        let mut tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(&self.authority))
            .domain_name(self.host());
        if let Some(credentials) = credentials {
            tls = tls.identity(Identity::from_pem(
                &credentials.certificate,
                &credentials.key,
            ));
        }
        let endpoint = Endpoint::from_shared(format!("https://{}", self.address))?;
        Ok(endpoint
            .tls_config(tls)?
            .connect_timeout(TIME_LIMIT)
            .timeout(TIME_LIMIT)
            .connect_lazy())
    }

    /// The version that the principal reports, without the prefix of the product's name.
    pub async fn version(&self, credentials: &Credentials) -> Result<String> {
        let mut client = VersionClient::new(self.channel(Some(credentials))?);
        let version = client
            .version(VersionRequest {})
            .await?
            .into_inner()
            .version;
        Ok(version.trim_start_matches("argocd-agent-").to_owned())
    }

    /// Authenticates like an agent; the outer error is a failed connection.
    pub async fn authenticate(
        &self,
        credentials: Option<&Credentials>,
        mode: &str,
        version: &str,
    ) -> Result<Result<AuthResponse, Status>> {
        let mut client = AuthenticationClient::new(self.channel(credentials)?);
        let request = AuthRequest {
            method: "mtls".to_owned(),
            mode: mode.to_owned(),
            version: version.to_owned(),
            agent_namespace: "argocd".to_owned(),
            // Without receipts, so that an acknowledgement carries the reason of a refusal.
            capabilities: Capabilities::of_level(2).to_words(),
            ..AuthRequest::default()
        };
        Ok(client
            .authenticate(request)
            .await
            .map(tonic::Response::into_inner))
    }

    /// Opens a stream of events with this token.
    pub async fn subscribe(
        &self,
        credentials: &Credentials,
        token: &str,
    ) -> Result<Result<Stream, Status>> {
        let client = EventStreamClient::new(self.channel(Some(credentials))?);
        subscribe_on(client, token).await
    }

    /// Like [`Self::subscribe`]; the stream compresses what it sends.
    pub async fn subscribe_compressed(
        &self,
        credentials: &Credentials,
        token: &str,
    ) -> Result<Result<Stream, Status>> {
        let client = EventStreamClient::new(self.channel(Some(credentials))?);
        subscribe_on(client.send_compressed(CompressionEncoding::Gzip), token).await
    }
}

/// Opens a stream of events on a connection that exists.
pub async fn subscribe_on(
    client: EventStreamClient<Channel>,
    token: &str,
) -> Result<Result<Stream, Status>> {
    let mut client = client.max_encoding_message_size(usize::MAX);
    let (outgoing, queued) = mpsc::channel::<Event>(16);
    let mut request = Request::new(tokio_stream::wrappers::ReceiverStream::new(queued));
    let token = token.parse().context("a token is plain text")?;
    request.metadata_mut().insert("authorization", token);
    let subscribed = client.subscribe(request).await;
    Ok(subscribed.map(|answer| Stream::new(outgoing, answer.into_inner())))
}
