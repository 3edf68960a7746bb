//! Dials the principal as an agent does, up to the TLS handshake, without a client certificate, and returns the
//! result. It sends nothing over the connection, so it may inspect an untrusted certificate. No decisions.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use runtime::{
    connection,
    credentials::{Material, Pem, provider},
};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as Tls, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{verify_tls12_signature, verify_tls13_signature},
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;
use x509_parser::{extensions::GeneralName, prelude::parse_x509_certificate};

use crate::{
    check::spoke::{Handshake, Met, Verdict},
    hub::chain,
};

/// The timeout of each of both steps: longer than that of TCP to a silent address, whose error has more detail.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Dials, and shakes hands; `roots` are those that an agent trusts, as PEM, or why they are not known.
pub async fn reach(host: &str, port: u16, roots: &Result<String, String>, now: Timestamp) -> Met {
    let dialled = timeout(TIMEOUT, connection::tcp(host, port)).await;
    let late = |_elapsed| format!("connection timed out after {TIMEOUT:?}");
    let tcp = dialled.map_err(late)?.map_err(|error| error.to_string())?;
    let shaken = timeout(TIMEOUT, shake(host, tcp, roots, now)).await;
    let late = |_elapsed| Err(format!("handshake timed out after {TIMEOUT:?}"));
    Ok(shaken.unwrap_or_else(late))
}

async fn shake(
    host: &str,
    tcp: TcpStream,
    roots: &Result<String, String>,
    now: Timestamp,
) -> Result<Handshake, String> {
    let name = ServerName::try_from(host.to_owned()).map_err(chain)?;
    let witness = Arc::new(Witness {
        inner: roots.clone().and_then(|pem| trusting(&pem, now)),
        seen: Mutex::new(None),
    });
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(chain)?;
    let verifier: Arc<dyn ServerCertVerifier> = Arc::<Witness>::clone(&witness);
    let mut config = builder
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let connector = TlsConnector::from(Arc::new(config));
    let tls = connector.connect(name, tcp).await.map_err(chain)?;
    let http2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
    let seen = witness
        .seen
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    let (leaf, verdict) = seen.ok_or_else(|| "the server presented no certificate".to_owned())?;
    let (names, expires) = names_and_end(&leaf);
    Ok(Handshake {
        verdict,
        names,
        expires,
        http2,
    })
}

fn trusting(pem: &str, now: Timestamp) -> Result<Arc<WebPkiServerVerifier>, String> {
    let pem = Pem {
        roots: Some(pem.as_bytes().to_vec()),
        ..Pem::default()
    };
    let material = Material::parse(&pem, now).map_err(chain)?;
    let roots = material.roots.ok_or("no trusted certificate found")?;
    let verifier = WebPkiServerVerifier::builder_with_provider(roots.store(), provider());
    verifier.build().map_err(chain)
}

/// Has the certificate judged as an agent would, and lets the handshake go on to see the rest.
#[derive(Debug)]
struct Witness {
    inner: Result<Arc<WebPkiServerVerifier>, String>,
    seen: Mutex<Option<(Vec<u8>, Verdict)>>,
}

impl ServerCertVerifier for Witness {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Tls> {
        let verdict = match &self.inner {
            Err(reason) => Verdict::NotJudged(reason.clone()),
            Ok(inner) => verdict(inner.verify_server_cert(leaf, intermediates, name, ocsp, now)),
        };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        *seen = Some((leaf.to_vec(), verdict));
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Tls> {
        let algorithms = provider().signature_verification_algorithms;
        verify_tls12_signature(message, leaf, signature, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Tls> {
        let algorithms = provider().signature_verification_algorithms;
        verify_tls13_signature(message, leaf, signature, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "of the library's many causes few have a next step of their own"
)]
fn verdict(judged: Result<ServerCertVerified, Tls>) -> Verdict {
    match judged {
        Ok(_) => Verdict::Trusted,
        Err(Tls::InvalidCertificate(cause)) => match cause {
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Verdict::WrongName
            }
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                Verdict::UnknownAuthority
            }
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => Verdict::WrongTime,
            other => Verdict::Bad(other.to_string()),
        },
        Err(other) => Verdict::Bad(other.to_string()),
    }
}

fn names_and_end(leaf: &[u8]) -> (Vec<String>, Option<Timestamp>) {
    let Ok((_, certificate)) = parse_x509_certificate(leaf) else {
        return (Vec::new(), None);
    };
    let ends = certificate.validity().not_after.timestamp();
    let names = certificate.subject_alternative_name().ok().flatten();
    let names = names.map(|names| names.value.general_names.iter().filter_map(name).collect());
    (names.unwrap_or_default(), Timestamp::from_second(ends).ok())
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "other kinds of names are not dialled"
)]
fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let v4 = <[u8; 4]>::try_from(*bytes).map(std::net::IpAddr::from);
            let v6 = <[u8; 16]>::try_from(*bytes).map(std::net::IpAddr::from);
            v4.or(v6).ok().map(|it| it.to_string())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
