//! Somebody at the principal's door who is not an agent of ours: with no certificate, a wrong one, or bad manners.

use std::{net::IpAddr, sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use protocol::{
    Target,
    version::Capabilities,
    wire::{
        authapi::{AuthRequest, AuthResponse, authentication_client::AuthenticationClient},
        cloudevents::CloudEvent,
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
use tokio_rustls::TlsConnector;
use tonic::{
    Code, Request, Status, Streaming,
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity},
};

/// A principal that does not answer within this is broken.
const TIME_LIMIT: Duration = Duration::from_secs(20);
/// A client's preface and its empty settings (RFC 9113, section 3.4); a server may wait for them before it says a word.
const HTTP2_BEGINS: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

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

/// A certificate authority, ours or somebody else's, that signs whatever a test wants.
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

    /// Signs with an authority of this name that nobody knows.
    pub fn unknown(authority: &str) -> Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = name(authority, &[]);
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
        self.papers_from(common_name, groups, -time::Duration::days(2), life)
    }

    /// The same with a begin of its own, both counted from now.
    pub fn papers_from(
        &self,
        common_name: &str,
        groups: &[&str],
        begin: time::Duration,
        end: time::Duration,
    ) -> Result<Papers> {
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
        Ok(Papers {
            certificate,
            key: key.serialize_pem(),
        })
    }
}

fn name(common_name: &str, groups: &[&str]) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    // rcgen keeps one value an attribute type: a second one goes under a custom type of the same OID.
    let kinds = [
        DnType::OrganizationName,
        DnType::CustomDnType(vec![2, 5, 4, 10]),
    ];
    for (kind, group) in kinds.into_iter().zip(groups) {
        name.push(kind, *group);
    }
    name
}

/// The CN that OCM asks for on behalf of a cluster's agent.
pub fn agent_name(cluster: &str) -> String {
    let addon = crate::steps::ADDON;
    format!("system:open-cluster-management:cluster:{cluster}:addon:{addon}:agent:{addon}")
}

impl Door {
    /// Bytes as they come, without TLS; returns when the principal has hung up.
    pub async fn knock_with(&self, bytes: &[u8]) -> Result<()> {
        let mut socket = TcpStream::connect(&self.address).await.context("knock")?;
        // It may hang up on us in the middle, which is what we deserve.
        let _gone = socket.write_all(bytes).await.is_err();
        let mut stated = Vec::new();
        let hung_up = tokio::time::timeout(TIME_LIMIT, socket.read_to_end(&mut stated)).await;
        hung_up.map(drop).context("the principal does not hang up")
    }

    /// Shakes hands with these papers, if any; the alert with which the principal ends that, if it does.
    ///
    /// In TLS 1.3 a client is through before the server has looked at its certificate, so this listens what comes
    /// then, for as long as somebody who was let in may be silent.
    pub async fn alert(&self, papers: Option<&Papers>) -> Result<Option<AlertDescription>> {
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(self.authority.as_bytes()) {
            roots.add(root?)?;
        }
        let config = ClientConfig::builder().with_root_certificates(roots);
        let mut config = match papers {
            None => config.with_no_client_auth(),
            Some(papers) => {
                let chain = CertificateDer::pem_slice_iter(papers.certificate.as_bytes())
                    .collect::<Result<Vec<_>, _>>()?;
                let key = PrivateKeyDer::from_pem_slice(papers.key.as_bytes())?;
                config.with_client_auth_cert(chain, key)?
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        let host: IpAddr = self.host().parse()?;
        let socket = TcpStream::connect(&self.address).await?;
        let shake = async {
            let connector = TlsConnector::from(Arc::new(config));
            let mut stream = connector.connect(ServerName::from(host), socket).await?;
            // Where we are not let in this may fail before the alert is read, or not; the alert is what counts.
            let _said = stream.write_all(HTTP2_BEGINS).await;
            // Settings of HTTP/2, if we are let in.
            stream.read_u8().await
        };
        let shaken = tokio::time::timeout(TIME_LIMIT, shake).await;
        let Err(error) = shaken.context("the principal says nothing")? else {
            return Ok(None);
        };
        let reason = error
            .get_ref()
            .and_then(|e| e.downcast_ref::<rustls::Error>());
        match reason {
            Some(rustls::Error::AlertReceived(alert)) => Ok(Some(*alert)),
            Some(_) | None => Err(error).context("shake hands"),
        }
    }

    fn host(&self) -> &str {
        self.address
            .rsplit_once(':')
            .map_or(self.address.as_str(), |(host, _)| host)
    }

    /// A channel that shows these papers, if any.
    pub fn channel(&self, papers: Option<&Papers>) -> Result<Channel> {
        let mut tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(&self.authority))
            .domain_name(self.host());
        if let Some(papers) = papers {
            tls = tls.identity(Identity::from_pem(&papers.certificate, &papers.key));
        }
        let endpoint = Endpoint::from_shared(format!("https://{}", self.address))?;
        Ok(endpoint
            .tls_config(tls)?
            .connect_timeout(TIME_LIMIT)
            .timeout(TIME_LIMIT)
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
            // So that it is told why something was refused.
            // Before receipts: what becomes of a message is said in its acknowledgement.
            capabilities: Capabilities::of_level(2).to_words(),
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

/// What became of something said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was read, and nobody had anything to say about it.
    None,
    /// It was acknowledged.
    Taken,
    /// It was acknowledged as refused, with this reason.
    Refused(String),
    /// It ended the stream, with this status.
    Ended(Code, String),
}

impl Stream {
    /// Says something, and listens until it is known what became of it: until the event of this id is acknowledged,
    /// or, if it has none, until a heartbeat after it is answered, since what stood in line before was read then.
    pub async fn send_event(
        &mut self,
        event: Option<CloudEvent>,
        id: Option<&str>,
    ) -> Result<Answer> {
        let beat = protocol::Event::ping();
        let awaited = id.unwrap_or(&beat.event_id).to_owned();
        let beat = beat.into_cloud_event("agent://stranger");
        for event in [event, Some(beat)] {
            // A stream that has ended says so where it is heard.
            let _ended = self.say.send(Event { event }).await.is_err();
        }
        loop {
            let heard = tokio::time::timeout(TIME_LIMIT, self.heard.message()).await;
            let event = match heard.context("the principal says nothing")? {
                Ok(Some(event)) => event.event.context("an empty event")?,
                Ok(None) => return Ok(Answer::Ended(Code::Ok, String::new())),
                Err(status) => {
                    let text = status.message().to_owned();
                    return Ok(Answer::Ended(status.code(), text));
                }
            };
            // It also says what a principal says to an agent that connects.
            let event = protocol::Event::try_from(event)?;
            if event.target == Target::Ack && event.event_id == awaited {
                return Ok(match (event.extensions.get("refused"), id) {
                    (Some(why), _) => Answer::Refused(why.clone()),
                    (None, Some(_)) => Answer::Taken,
                    (None, None) => Answer::None,
                });
            }
        }
    }
}
