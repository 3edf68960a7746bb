//! Checked settings, from the command line. No clap and no environment beyond here.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use ocm::name::is_dns_label;
use principal::admission::identity;
use runtime::{
    args::{AdminArgs, KubeArgs, LogArgs},
    trace,
};

use crate::{
    address::{Address, InvalidAddress},
    args::{Cli, ManagerArgs, Only, ReadyArgs, SharedArgs, UninstallArgs},
};

mod redis;

pub use redis::{LoginSource, RedisTlsEndpoint};
pub use standalone::{Registration, Standalone, TlsEndpoint};

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
    /// How to log.
    pub log: LogArgs,
    /// How to reach the hub.
    pub kube: KubeArgs,
    /// Where health and metrics are served.
    pub admin: AdminArgs,
    /// The export of traces, if enabled.
    pub otlp: Option<trace::Settings>,
    /// The settings of the principal.
    pub principal: principal::Settings,
    /// host:port by which Argo CD reaches the resource proxy.
    pub resource_proxy: String,
    /// Whether clusters get the repositories without a project, unless their configuration overrides that.
    pub shares_unscoped: bool,
}

/// The whole hub program.
#[derive(Clone, Debug)]
pub struct Manager {
    /// In common.
    pub shared: Shared,
    /// Namespace of our Secrets, lease and pods.
    pub own_namespace: String,
    /// Our pod, if we run in one.
    pub pod_name: Option<String>,
    /// Image of the agent.
    pub agent_image: String,
    /// The address that agents dial, if it is configured.
    pub principal_address: Option<Address>,
    /// The maximum lifetime of an agent's certificate.
    pub certificate_life: Duration,
    /// Whether each managed cluster gets an AppProject.
    pub cluster_projects: bool,
    /// Whether to lead only while holding the lease.
    pub leader_election: bool,
}

/// The source of a secret value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source<Files> {
    /// A Secret in the principal's namespace.
    Secret(String),
    /// Files.
    Files(Files),
}

/// Why the settings are invalid.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address to listen on is invalid.
    #[error("{0}")]
    Listen(String),
    /// An address is invalid.
    #[error("{flag}")]
    Address {
        /// The flag.
        flag: &'static str,
        /// The cause.
        source: InvalidAddress,
    },
    /// The name of a namespace is invalid.
    #[error("{flag} {value:?} is not the name of a namespace")]
    Namespace {
        /// The flag.
        flag: &'static str,
        /// Its value.
        value: String,
    },
    /// A value is too small.
    #[error("{flag} must be {least} or more")]
    TooSmall {
        /// The flag.
        flag: &'static str,
        /// The minimum.
        least: &'static str,
    },
    /// The method of authentication is invalid.
    #[error("--auth")]
    Auth(#[from] identity::InvalidMethod),
    /// Certificates without TLS, or a header that any client could set.
    #[error(
        "--insecure-plaintext needs --auth=header:… or --auth=userpass:…, and --auth=header:… needs --insecure-plaintext"
    )]
    Plaintext,
    /// The settings of traces are invalid.
    #[error(transparent)]
    Traces(#[from] trace::Invalid),
    /// No certificate can have this common name.
    #[error("--trusted-proxy {0:?} cannot be a common name")]
    TrustedProxy(String),
    /// The command needs no settings.
    #[error("rotate-ca has no settings")]
    NotAProgram,
    /// A certificate without its key, or a key without its certificate.
    #[error("{0} and {1} must be set together")]
    HalfPair(&'static str, &'static str),
}

/// A shorter life would cause constant renewals: OCM's agent checks every few minutes.
const LEAST_LIFE: Duration = Duration::from_mins(10);
/// Ordinary Applications do not fit into smaller messages.
const LEAST_MESSAGE: usize = 64 << 10;

impl Config {
    /// Checks the arguments.
    pub fn from_args(cli: Cli) -> Result<Self, Error> {
        match cli.command {
            None => manager(cli.manager).map(|manager| Self::Manager(Box::new(manager))),
            Some(Only::Principal(args)) => {
                standalone::checked(*args).map(|alone| Self::Principal(Box::new(alone)))
            }
            Some(Only::Uninstall(args)) => {
                let namespace = checked_namespace("--namespace", args.namespace)?;
                Ok(Self::Uninstall(UninstallArgs { namespace, ..args }))
            }
            Some(Only::Ready(args)) => Ok(Self::Ready(args)),
            Some(Only::RotateCa(_)) => Err(Error::NotAProgram),
        }
    }

    /// How to log.
    pub const fn log(&self) -> &LogArgs {
        match self {
            Self::Manager(manager) => &manager.shared.log,
            Self::Principal(alone) => &alone.shared.log,
            Self::Uninstall(uninstall) => &uninstall.log,
            Self::Ready(ready) => &ready.log,
        }
    }
}

fn shared(
    args: SharedArgs,
    identity: identity::Method,
    resource_proxy: String,
) -> Result<Shared, Error> {
    let listen: SocketAddr = args.listen().map_err(Error::Listen)?;
    // Every field, no `..`: an unused new flag does not compile.
    let SharedArgs {
        log,
        kube,
        admin,
        otlp,
        listen_host: _,
        listen_port: _,
        namespace,
        allowed_namespaces,
        resource_proxy_address,
        resource_proxy_port,
        share_unscoped_repositories,
        grpc_max_message_size,
        enable_websocket,
        trusted_proxy,
    } = args;
    if grpc_max_message_size < LEAST_MESSAGE {
        return Err(Error::TooSmall {
            flag: "--grpc-max-message-size",
            least: "65536",
        });
    }
    let mut principal = principal::Settings::usual(listen);
    principal.argocd_namespace = checked_namespace("--namespace", namespace)?;
    principal.other_namespaces = allowed_namespaces
        .into_iter()
        .map(|it| it.trim().to_owned())
        .filter(|it| !it.is_empty())
        .collect();
    principal.identity = identity;
    principal.limits.message_bytes = grpc_max_message_size;
    principal.websockets = enable_websocket;
    principal.trusted_proxies = trusted_proxies(trusted_proxy)?;
    principal.resource_proxy =
        (resource_proxy_port != 0).then(|| SocketAddr::new(listen.ip(), resource_proxy_port));
    let resource_proxy = match resource_proxy_address.filter(|text| !text.is_empty()) {
        Some(given) => checked_address("--resource-proxy-address", &given)?.to_string(),
        None => resource_proxy,
    };
    Ok(Shared {
        log,
        kube,
        admin,
        otlp: trace::Settings::checked(&otlp)?,
        principal,
        resource_proxy,
        shares_unscoped: share_unscoped_repositories,
    })
}

/// Refuses names that agents' certificates could have: such an agent could impersonate others.
fn trusted_proxies(names: Vec<String>) -> Result<Vec<String>, Error> {
    let names = names.into_iter().map(|name| name.trim().to_owned());
    let names: Vec<String> = names.filter(|name| !name.is_empty()).collect();
    let is_agent = |name: &&String| name.starts_with("system:") || name.len() > 64;
    match names.iter().find(is_agent) {
        Some(name) => Err(Error::TrustedProxy(name.clone())),
        None => Ok(names),
    }
}

fn manager(args: ManagerArgs) -> Result<Manager, Error> {
    let ManagerArgs {
        shared: common,
        own_namespace,
        pod_name,
        agent_image,
        principal_address,
        redis,
        certificate_life,
        cluster_projects,
        leader_election,
    } = args;
    if certificate_life < LEAST_LIFE {
        return Err(Error::TooSmall {
            flag: "--certificate-life",
            least: "10m",
        });
    }
    let own_namespace = checked_namespace("--own-namespace", own_namespace)?;
    let principal_address = principal_address.filter(|text| !text.is_empty());
    let dialled = |text: String| checked_address("--principal-address", &text);
    let resource_proxy = format!("argocd-agent-resource-proxy.{own_namespace}.svc:9090");
    let mut shared = shared(common, identity::Method::ocm(), resource_proxy)?;
    let host = shared.principal.listen.ip();
    shared.principal.redis_proxy = redis::checked(redis, host, &shared.principal.argocd_namespace)?;
    Ok(Manager {
        shared,
        own_namespace,
        pod_name: pod_name.filter(|name| !name.is_empty()),
        agent_image,
        principal_address: principal_address.map(dialled).transpose()?,
        certificate_life,
        cluster_projects,
        leader_election,
    })
}

fn checked_namespace(flag: &'static str, value: String) -> Result<String, Error> {
    if is_dns_label(&value) {
        Ok(value)
    } else {
        Err(Error::Namespace { flag, value })
    }
}

fn checked_address(flag: &'static str, text: &str) -> Result<Address, Error> {
    let address = text.parse();
    address.map_err(|source| Error::Address { flag, source })
}

/// An empty variable becomes an empty path: not set.
fn given(path: Option<PathBuf>) -> Option<PathBuf> {
    path.filter(|path| !path.as_os_str().is_empty())
}

mod standalone;
#[cfg(test)]
mod tests;
