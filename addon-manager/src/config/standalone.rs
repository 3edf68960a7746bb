//! Settings of the principal alone.

use std::path::PathBuf;

use principal::admission::identity::visitor::Visitors;
use redis_discovery::{Ca, LoginSource};
use runtime::credentials::login::Login;

use super::{Error, Shared, redis_proxy};
use crate::args::{PrincipalArgs, RedisAloneArgs, ResourceProxyArgs};

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
    pub redis: Option<StandaloneRedis>,
    /// The key that signs tokens.
    pub token_key: Source<PathBuf>,
    /// Self-registration of agents, if enabled.
    pub registration: Option<Registration>,
}

/// The source of a secret value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source<Files> {
    /// A Secret in the principal's namespace.
    Secret(String),
    /// Files.
    Files(Files),
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

/// The hub's redis, and the credentials for clients of the redis proxy.
#[derive(Clone, Debug)]
pub struct StandaloneRedis {
    /// The hub's redis.
    pub server: redis_discovery::Settings,
    /// The serving certificate of the redis proxy, if TLS is enabled.
    pub serving: Option<Source<(PathBuf, PathBuf)>>,
}

/// Checks the settings of the principal alone.
pub(super) fn checked(args: PrincipalArgs) -> Result<Standalone, Error> {
    let proxy = "argocd-agent-resource-proxy:9090".to_owned();
    let is_plain = args.insecure_plaintext;
    if matches!(
        (args.auth.word(), is_plain),
        ("mtls", true) | ("header", false)
    ) {
        return Err(Error::Plaintext);
    }
    let mut shared = super::shared(args.shared, args.auth, proxy)?;
    shared.principal.plaintext = is_plain;
    shared.principal.require_certificates = args.require_client_certs;
    shared.principal.visitors = Visitors::Upstream;
    let visitors = visitors(args.resource_proxy, &mut shared)?;
    let redis = redis(args.redis, &mut shared)?;
    let agents = TlsEndpoint {
        serving: pair(
            [("--tls-cert", args.tls_cert), ("--tls-key", args.tls_key)],
            args.tls_secret_name,
        )?,
        ca: or_secret(args.root_ca_path, args.tls_ca_secret_name),
    };
    let certificate = args.self_registration_client_cert_secret.0;
    let registers = args.enable_self_cluster_registration;
    Ok(Standalone {
        visitors,
        redis,
        shared,
        agents,
        token_key: or_secret(args.jwt_key, args.jwt_secret_name),
        registration: registers.then_some(Registration { certificate }),
    })
}

/// Enables the resource proxy, and returns its TLS settings.
fn visitors(args: ResourceProxyArgs, shared: &mut Shared) -> Result<Option<TlsEndpoint>, Error> {
    let files = [
        ("--resource-proxy-cert-path", args.resource_proxy_cert_path),
        ("--resource-proxy-key-path", args.resource_proxy_key_path),
    ];
    let endpoint = TlsEndpoint {
        serving: pair(files, args.resource_proxy_secret_name)?,
        ca: or_secret(
            args.resource_proxy_ca_path,
            args.resource_proxy_ca_secret_name,
        ),
    };
    let address = &mut shared.principal.resource_proxy;
    *address = address.filter(|_| args.enable_resource_proxy);
    Ok(address.map(|_| endpoint))
}

/// Enables the redis proxy, and returns its credentials.
fn redis(args: RedisAloneArgs, shared: &mut Shared) -> Result<Option<StandaloneRedis>, Error> {
    let has_tls = args.redis_tls_enabled;
    let files = [
        (
            "--redis-proxy-server-tls-cert",
            args.redis_proxy_server_tls_cert,
        ),
        (
            "--redis-proxy-server-tls-key",
            args.redis_proxy_server_tls_key,
        ),
    ];
    let serving = pair(files, args.redis_proxy_server_tls_secret_name)?;
    let ca = match or_secret(args.redis_ca_path, args.redis_ca_secret_name) {
        Source::Secret(name) => Ca::Secret(name),
        Source::Files(path) => Ca::File(path),
    };
    let given = args.redis_password.and_then(Login::of);
    let login = args.redis_creds_dir_path.map_or_else(
        || given.map_or_else(LoginSource::of_manifests, LoginSource::Given),
        LoginSource::Folder,
    );
    let server = redis_discovery::Settings {
        address: Some(args.redis_server_address.to_string()),
        user: None,
        login,
        tls: has_tls.then_some(ca),
    };
    let listen = shared.args.listen(args.redis_proxy_port);
    let proxy = redis_proxy(listen, has_tls, &args.values);
    shared.principal.redis_proxy = proxy.filter(|_| !args.disable_redis_proxy);
    let is_on = shared.principal.redis_proxy.is_some();
    Ok(is_on.then(|| StandaloneRedis {
        server,
        serving: has_tls.then_some(serving),
    }))
}

/// A certificate and its key, in files or a Secret.
fn pair(
    files: [(&'static str, Option<PathBuf>); 2],
    secret: String,
) -> Result<Source<(PathBuf, PathBuf)>, Error> {
    match files {
        [(_, Some(certificate)), (_, Some(key))] => Ok(Source::Files((certificate, key))),
        [(_, None), (_, None)] => Ok(Source::Secret(secret)),
        [(certificate, _), (key, _)] => Err(Error::HalfPair(certificate, key)),
    }
}

fn or_secret(path: Option<PathBuf>, secret: String) -> Source<PathBuf> {
    path.map_or(Source::Secret(secret), Source::Files)
}
