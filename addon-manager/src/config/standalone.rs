//! Settings of the principal alone.

use std::path::PathBuf;

use principal::admission::identity::{self, visitor::Visitors};

use super::{Error, RedisTlsEndpoint, Shared, Source, given, redis};
use crate::args::{PrincipalArgs, ResourceProxyArgs};

/// The principal alone.
#[derive(Clone, Debug)]
pub struct Standalone {
    /// The settings of both long-running programs.
    pub shared: Shared,
    /// The TLS settings for agents.
    pub agents: TlsEndpoint,
    /// The TLS settings for Argo CD at the resource proxy, if that is enabled.
    pub visitors: Option<TlsEndpoint>,
    /// The settings for the hub's redis and for Argo CD at the redis proxy, if that is enabled.
    pub redis: Option<RedisTlsEndpoint>,
    /// The key that signs tokens.
    pub token_key: Source<PathBuf>,
    /// Self-registration of agents, if enabled.
    pub registration: Option<Registration>,
}

/// The TLS settings of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsEndpoint {
    /// The serving certificate, and its key.
    pub serving: Source<(PathBuf, PathBuf)>,
    /// The CA of the clients.
    pub ca: Source<PathBuf>,
}

/// The settings of self-registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Secret with the certificate that goes into the cluster Secrets.
    pub certificate: Option<String>,
}

/// Checks the settings of the principal alone.
pub(super) fn checked(args: PrincipalArgs) -> Result<Standalone, Error> {
    let PrincipalArgs {
        shared: common,
        tls_secret_name,
        tls_cert,
        tls_key,
        tls_ca_secret_name,
        root_ca_path,
        jwt_secret_name,
        jwt_key,
        auth,
        insecure_plaintext,
        require_client_certs,
        resource_proxy,
        redis: redis_proxy,
        enable_self_cluster_registration,
        self_registration_client_cert_secret,
    } = args;
    let identity = checked_method(&auth, insecure_plaintext)?;
    let proxy = "argocd-agent-resource-proxy:9090".to_owned();
    let mut shared = super::shared(common, identity, proxy)?;
    shared.principal.plaintext = insecure_plaintext;
    shared.principal.require_certificates = require_client_certs;
    shared.principal.visitors = Visitors::Upstream;
    let (is_wanted, visitors) = checked_proxy(resource_proxy)?;
    if !is_wanted {
        shared.principal.resource_proxy = None;
    }
    let host = shared.principal.listen.ip();
    let (redis_proxy, redis) = redis::checked_alone(redis_proxy, host)?.unzip();
    shared.principal.redis_proxy = redis_proxy;
    let agents = endpoint(
        [("--tls-cert", tls_cert), ("--tls-key", tls_key)],
        tls_secret_name,
        or_secret(root_ca_path, tls_ca_secret_name),
    )?;
    let certificate = Some(self_registration_client_cert_secret).filter(|name| !name.is_empty());
    Ok(Standalone {
        visitors: shared.principal.resource_proxy.map(|_| visitors),
        redis,
        shared,
        agents,
        token_key: or_secret(jwt_key, jwt_secret_name),
        registration: enable_self_cluster_registration.then_some(Registration { certificate }),
    })
}

/// Whether the resource proxy is enabled, and its TLS settings.
fn checked_proxy(args: ResourceProxyArgs) -> Result<(bool, TlsEndpoint), Error> {
    let ResourceProxyArgs {
        enable_resource_proxy,
        resource_proxy_secret_name,
        resource_proxy_cert_path,
        resource_proxy_key_path,
        resource_proxy_ca_secret_name,
        resource_proxy_ca_path,
    } = args;
    let files = [
        ("--resource-proxy-cert-path", resource_proxy_cert_path),
        ("--resource-proxy-key-path", resource_proxy_key_path),
    ];
    let ca = or_secret(resource_proxy_ca_path, resource_proxy_ca_secret_name);
    let endpoint = endpoint(files, resource_proxy_secret_name, ca)?;
    Ok((enable_resource_proxy, endpoint))
}

fn checked_method(auth: &str, plaintext: bool) -> Result<identity::Method, Error> {
    let method = if auth.is_empty() {
        identity::Method::ocm()
    } else {
        identity::Method::from_flag(auth)?
    };
    match (method.word(), plaintext) {
        ("mtls", true) | ("header", false) => Err(Error::Plaintext),
        _ => Ok(method),
    }
}

/// The TLS settings of a port, whose certificate and key are in files or a Secret.
pub(super) fn endpoint(
    files: [(&'static str, Option<PathBuf>); 2],
    secret: String,
    ca: Source<PathBuf>,
) -> Result<TlsEndpoint, Error> {
    let [(certificate_flag, certificate), (key_flag, key)] = files;
    let serving = match (given(certificate), given(key)) {
        (Some(certificate), Some(key)) => Source::Files((certificate, key)),
        (None, None) => Source::Secret(secret),
        (Some(_), None) | (None, Some(_)) => {
            return Err(Error::HalfPair(certificate_flag, key_flag));
        }
    };
    Ok(TlsEndpoint { serving, ca })
}

pub(super) fn or_secret(path: Option<PathBuf>, secret: String) -> Source<PathBuf> {
    given(path).map_or(Source::Secret(secret), Source::Files)
}
