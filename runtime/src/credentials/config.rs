//! Builds the configurations of the TLS library from material.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ClientConfig, ServerConfig};

use super::material::{Error, Material, provider};

/// Whether a server asks clients for certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAuth {
    /// Every client needs a certificate that the roots signed.
    Required,
    /// A client's certificate is optional, and checked if present.
    Optional,
    /// Clients are not asked.
    None,
}

/// A server's configuration: TLS 1.3, HTTP/2 and HTTP/1.1, no session tickets.
///
/// # Errors
/// The material is incomplete.
pub fn server_config(material: &Material, auth: ClientAuth) -> Result<Arc<ServerConfig>, Error> {
    let identity = material.identity.as_ref().ok_or(Error::IdentityMissing)?;
    let builder = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(Error::Build)?;
    let builder = match auth {
        ClientAuth::None => builder.with_no_client_auth(),
        ClientAuth::Required | ClientAuth::Optional => {
            let roots = material.roots.as_ref().ok_or(Error::RootsMissing)?;
            let mut verifier =
                WebPkiClientVerifier::builder_with_provider(roots.store(), provider());
            if auth == ClientAuth::Optional {
                verifier = verifier.allow_unauthenticated();
            }
            builder.with_client_cert_verifier(verifier.build().map_err(Error::BuildVerifier)?)
        }
    };
    let mut config = builder.with_cert_resolver(identity.resolver());
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // Our streams are long: resumption saves nothing, and would outlive a change of trust.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// A client's configuration: TLS 1.3, HTTP/2, no resumption, our certificate if there is one.
///
/// # Errors
/// The material lacks trusted roots.
pub fn client_config(material: &Material) -> Result<Arc<ClientConfig>, Error> {
    let roots = material.roots.as_ref().ok_or(Error::RootsMissing)?;
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(Error::Build)?
        .with_root_certificates(roots.store());
    let mut config = match &material.identity {
        Some(identity) => builder.with_client_cert_resolver(identity.resolver()),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}
