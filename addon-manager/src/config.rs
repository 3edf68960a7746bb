//! Checked settings, from the command line. No clap and no environment beyond here.

mod standalone;

use std::net::SocketAddr;

use live::redis_service::PASSWORD;
use principal::{RedisProxy, admission::identity};
use redis_discovery::{Ca, LoginSource};
use runtime::{args::LogArgs, trace};

use crate::{
    addon::settings::redis::RedisTls,
    args::{
        Cli, ManagerArgs, Only, Optional, ReadyArgs, RedisArgs, RedisValuesArgs, SharedArgs,
        UninstallArgs,
    },
};

pub use standalone::{Registration, Source, Standalone, StandaloneRedis, TlsEndpoint};

/// The program to run, with its settings.
#[derive(Clone, Debug)]
pub enum Config {
    /// The whole hub program.
    Manager(Box<Manager>),
    /// The principal alone.
    Principal(Box<Standalone>),
    /// The removal of the add-on.
    Uninstall(UninstallArgs),
    /// A readiness check of a running program.
    Ready(ReadyArgs),
}

impl Config {
    /// The start message of a command that Helm runs once and shows to users; none for servers, which log their settings.
    pub fn start_message(&self) -> Option<String> {
        match self {
            Self::Manager(_) | Self::Principal(_) => None,
            Self::Uninstall(uninstall) => Some(format!(
                "removes the add-on from all clusters; timeout {:?}",
                uninstall.timeout
            )),
            Self::Ready(ready) => Some(format!(
                "waits until the hub program at {} is ready; timeout {:?}",
                ready.address, ready.timeout
            )),
        }
    }
}

/// The settings of both long-running programs.
#[derive(Clone, Debug)]
pub struct Shared {
    /// The flags of both.
    pub args: SharedArgs,
    /// The export of traces, if enabled.
    pub otlp: Option<trace::Settings>,
    /// The settings of the principal.
    pub principal: principal::Settings,
    /// host:port by which Argo CD reaches the resource proxy.
    pub resource_proxy: String,
}

/// The whole hub program.
#[derive(Clone, Debug)]
pub struct Manager {
    /// In common.
    pub shared: Shared,
    /// Its own flags.
    pub args: ManagerArgs,
    /// How it reaches the hub's redis.
    pub redis: redis_discovery::Settings,
    /// The address of the API of the UI, if it is enabled.
    pub ui_api: Option<SocketAddr>,
}

/// Why the settings are invalid.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Certificates without TLS, or a header that any client could set.
    #[error(
        "--insecure-plaintext needs --auth=header:… or --auth=userpass:…, and --auth=header:… needs --insecure-plaintext"
    )]
    Plaintext,
    /// The settings of traces are invalid.
    #[error(transparent)]
    Traces(#[from] trace::Invalid),
    /// The command needs no settings.
    #[error("rotate-ca has no settings")]
    NotAProgram,
    /// A certificate without its key, or a key without its certificate.
    #[error("{0} and {1} must be set together")]
    HalfPair(&'static str, &'static str),
    /// The key of a Secret without a name.
    #[error("--redis-secret-key needs --redis-secret")]
    KeyWithoutSecret,
}

impl Config {
    /// Checks the arguments together; each value was checked when it was parsed.
    pub fn from_args(cli: Cli) -> Result<Self, Error> {
        match cli.command {
            None => Ok(Self::Manager(Box::new(manager(cli.shared, cli.manager)?))),
            Some(Only::Principal(args)) => {
                standalone::checked(*args).map(|alone| Self::Principal(Box::new(alone)))
            }
            Some(Only::Uninstall(args)) => Ok(Self::Uninstall(args)),
            Some(Only::Ready(args)) => Ok(Self::Ready(args)),
            Some(Only::RotateCa(_)) => Err(Error::NotAProgram),
        }
    }

    /// How to log.
    pub const fn log(&self) -> &LogArgs {
        match self {
            Self::Manager(manager) => &manager.shared.args.log,
            Self::Principal(alone) => &alone.shared.args.log,
            Self::Uninstall(uninstall) => &uninstall.log,
            Self::Ready(ready) => &ready.log,
        }
    }
}

/// The share of the memory limit at which costly sessions end: what the kernel and the allocator count differs, and a look
/// at the memory takes place once a second.
const MEMORY_PERCENT: u64 = 85;

/// `resource_proxy` is the default address of the resource proxy.
fn shared(
    args: SharedArgs,
    identity: identity::Method,
    resource_proxy: String,
) -> Result<Shared, Error> {
    let mut principal = principal::Settings::usual(args.listen(args.listen_port));
    principal.argocd_namespace.clone_from(&args.namespace);
    principal.other_namespaces = listed(&args.allowed_namespaces);
    principal.identity = identity;
    principal.limits.message_bytes = args.grpc_max_message_size;
    principal.limits.object_writes = args.status_writes_per_second;
    let soft_limit = args.memory_limit / 100 * MEMORY_PERCENT;
    principal.limits.memory = (soft_limit > 0).then_some(soft_limit);
    principal.websockets = args.enable_websocket;
    principal.trusted_proxies = listed(&args.trusted_proxy);
    let proxy_port = args.resource_proxy_port;
    principal.resource_proxy = (proxy_port != 0).then(|| args.listen(proxy_port));
    let Optional(address) = &args.resource_proxy_address;
    Ok(Shared {
        otlp: trace::Settings::checked(&args.otlp)?,
        principal,
        resource_proxy: address.as_ref().map_or(resource_proxy, ToString::to_string),
        args,
    })
}

/// The names of a list, without empty ones.
fn listed(names: &[String]) -> Vec<String> {
    let names = names.iter().map(|name| name.trim().to_owned());
    names.filter(|name| !name.is_empty()).collect()
}

fn manager(common: SharedArgs, args: ManagerArgs) -> Result<Manager, Error> {
    let proxy = format!(
        "argocd-agent-resource-proxy.{}.svc:9090",
        args.own_namespace
    );
    let mut shared = shared(common, identity::Method::ocm(), proxy)?;
    let flags = &args.redis;
    let listen = shared.args.listen(flags.redis_proxy_port);
    shared.principal.redis_proxy = redis_proxy(listen, flags.redis_proxy_tls, &flags.values);
    let redis = redis(flags)?;
    let ui_port = args.ui_api_port;
    let ui_api = (ui_port != 0).then(|| shared.args.listen(ui_port));
    Ok(Manager {
        shared,
        args,
        redis,
        ui_api,
    })
}

/// How the hub program reaches the hub's redis.
fn redis(flags: &RedisArgs) -> Result<redis_discovery::Settings, Error> {
    let Optional(address) = &flags.redis_address;
    let (Optional(secret), Optional(key)) = (&flags.redis_secret, &flags.redis_secret_key);
    let login = match (secret, key) {
        (Some(name), key) => LoginSource::Secret {
            name: name.clone(),
            key: key.clone().unwrap_or_else(|| PASSWORD.key.to_owned()),
        },
        (None, Some(_)) => return Err(Error::KeyWithoutSecret),
        (None, None) if address.is_some() => LoginSource::of_manifests(),
        (None, None) => LoginSource::ArgoCd,
    };
    Ok(redis_discovery::Settings {
        address: address.as_ref().map(ToString::to_string),
        user: flags.redis_username.0.clone(),
        login,
        tls: match flags.redis_tls.clone() {
            RedisTls::Off => None,
            RedisTls::Secret(name) => Some(Ca::Secret(name)),
            RedisTls::ConfigMap(name) => Some(Ca::ConfigMap(name)),
        },
    })
}

/// The redis proxy on this address, if its port is not 0.
fn redis_proxy(listen: SocketAddr, tls: bool, values: &RedisValuesArgs) -> Option<RedisProxy> {
    (listen.port() != 0).then_some(RedisProxy {
        listen,
        tls,
        largest_value: values.redis_proxy_max_value,
        remembered: values.redis_proxy_remember,
    })
}

#[cfg(test)]
mod tests;
