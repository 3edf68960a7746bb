//! The command line. Flags and variables of the Go principal keep their names and defaults. We accept flags that we do
//! not support yet if it is harmless to ignore them, and refuse the others.

mod principal;
mod redis;
mod unsupported;

use std::{
    ffi::OsString,
    net::{IpAddr, SocketAddr},
    str::FromStr,
    time::Duration,
};

use argocd::name::is_label_value;
use clap::{
    Args, Command, CommandFactory as _, FromArgMatches as _, Parser, Subcommand,
    builder::RangedU64ValueParser,
};
use ocm::name::is_dns_label;
use runtime::{
    args::{AdminArgs, KubeArgs, LogArgs, OtlpArgs, boolean, duration, port, with_env},
    net,
};

use crate::address::Address;

pub use self::{
    principal::{PrincipalArgs, ResourceProxyArgs},
    redis::{RedisAloneArgs, RedisArgs, RedisValuesArgs},
};

/// Steers the Argo CD of managed clusters from the hub: an OCM add-on manager with the principal.
#[derive(Debug, Parser)]
#[command(
    name = "addon-manager",
    version,
    args_conflicts_with_subcommands = true
)]
pub struct Cli {
    /// Without a subcommand: the whole hub program.
    #[command(subcommand)]
    pub command: Option<Only>,
    /// In common with the principal alone.
    #[command(flatten)]
    pub shared: SharedArgs,
    /// Flags of the whole hub program.
    #[command(flatten)]
    pub manager: ManagerArgs,
}

/// A part of the hub program on its own.
#[derive(Debug, Subcommand)]
pub enum Only {
    /// Runs the principal alone, with the flags of the Go principal and without OCM: the cluster
    /// Secrets in its namespace enrol agents.
    Principal(Box<PrincipalArgs>),
    /// Removes the add-on from all clusters and waits until it is gone; the chart runs this before it is
    /// uninstalled.
    Uninstall(UninstallArgs),
    /// Waits until a hub program reports that it is ready; the chart's test runs this.
    Ready(ReadyArgs),
    /// Requests a new certificate authority from the manager and returns at once. Agents switch
    /// without an interruption; the old one is removed when no agent needs it.
    RotateCa(Box<RotateArgs>),
}

/// A value that counts as not set if it is empty: a variable may be.
#[derive(Clone, Debug)]
pub struct Optional<T>(pub Option<T>);

impl<T: FromStr> FromStr for Optional<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        let given = Some(text).filter(|text| !text.is_empty());
        given.map(str::parse).transpose().map(Self)
    }
}

/// Flags of `rotate-ca`.
#[derive(Clone, Debug, Args)]
pub struct RotateArgs {
    /// How to reach the hub.
    #[command(flatten)]
    pub kube: KubeArgs,
    /// Namespace of the manager's Secrets.
    #[arg(long, env = "POD_NAMESPACE", default_value = "argocd-agent-addon")]
    pub own_namespace: String,
}

/// Flags of both the whole hub program and the principal alone.
#[derive(Clone, Debug, Args)]
pub struct SharedArgs {
    /// How to log.
    #[command(flatten)]
    pub log: LogArgs,
    /// How to reach the hub.
    #[command(flatten)]
    pub kube: KubeArgs,
    /// Where health and metrics are served.
    #[command(flatten)]
    pub admin: AdminArgs,
    /// Where traces go.
    #[command(flatten)]
    pub otlp: OtlpArgs,
    /// IP address that the principal listens on; empty or `::` for all, IPv4 and IPv6.
    #[arg(long, value_parser = host, default_value = "")]
    pub listen_host: IpAddr,
    /// Port that the principal listens on.
    #[arg(long, value_parser = port, default_value = "8443")]
    pub listen_port: u16,
    /// Namespace of the hub's Argo CD.
    #[arg(long, short = 'n', value_parser = namespace, default_value = "argocd")]
    pub namespace: String,
    /// Namespaces, besides those of the clusters and Argo CD's, whose Applications are delivered to
    /// the cluster that their destination names; patterns.
    #[arg(long, value_delimiter = ',')]
    pub allowed_namespaces: Vec<String>,
    /// host:port by which Argo CD reaches the resource proxy, the server of the cluster Secrets;
    /// without it port 9090 of the Service argocd-agent-resource-proxy.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub resource_proxy_address: Optional<Address>,
    /// Port of the resource proxy, by which Argo CD on the hub sees the clusters; 0 turns it off.
    #[arg(long, value_parser = port, default_value = "9090")]
    pub resource_proxy_port: u16,
    /// Send repository Secrets without a project to clusters, too.
    #[arg(long, value_parser = boolean, num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true")]
    pub share_unscoped_repositories: bool,
    /// Largest message accepted, in bytes.
    #[arg(long, value_parser = RangedU64ValueParser::<usize>::new().range(LEAST_MESSAGE..),
          default_value_t = 16 << 20)]
    pub grpc_max_message_size: usize,
    /// Status writes a second for one Application, at most. While the hub's API is busy there are two.
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..=1000), default_value_t = 20)]
    pub status_writes_per_second: u32,
    /// Memory limit of this container, in bytes; 0 for none. At 85% of it, the sessions that use the most memory end, and the
    /// add-on of their cluster says so.
    #[arg(long, env = "HUB_MEMORY_LIMIT", default_value = "0")]
    pub memory_limit: u64,
    /// Serve `WebSocket`s over HTTP/1.1 on the same port, for agents whose network path does not support HTTP/2.
    #[arg(long, value_parser = boolean, num_args = 0..=1, require_equals = true,
          default_value = "true", default_missing_value = "true")]
    pub enable_websocket: bool,
    /// Common names of the client certificates of proxies that terminate TLS: an agent behind one proves its own
    /// certificate inside the session.
    #[arg(long, value_delimiter = ',', value_parser = proxy_name)]
    pub trusted_proxy: Vec<String>,
}

/// Flags of the whole hub program.
#[derive(Clone, Debug, Args)]
pub struct ManagerArgs {
    /// Namespace of our Secrets, lease and pods.
    #[arg(long, env = "POD_NAMESPACE", value_parser = namespace, default_value = "argocd-agent-addon")]
    pub own_namespace: String,
    /// Our pod, which gets the label that the Service selects; without it no label is set.
    #[arg(long, env = "POD_NAME", default_value = "", hide_default_value = true)]
    pub pod_name: Optional<String>,
    /// UID of our pod, which owns the Lease of this replica; without it this replica has none.
    #[arg(long, env = "POD_UID", default_value = "", hide_default_value = true)]
    pub pod_uid: Optional<String>,
    /// Image of the agent.
    #[arg(
        long,
        env = "AGENT_IMAGE",
        default_value = "quay.io/open-cluster-management/argocd-addon-agent:v0.1.0"
    )]
    pub agent_image: String,
    /// host or host:port that agents dial, unless their configuration sets another; without it, the address of
    /// the Service argocd-agent-principal: a load balancer, a Route, `TLSRoute` or Ingress, a node port, or an
    /// external name.
    #[arg(
        long,
        env = "PRINCIPAL_ADDRESS",
        default_value = "",
        hide_default_value = true
    )]
    pub principal_address: Optional<Address>,
    /// The redis proxy, which Argo CD on the hub uses as its redis.
    #[command(flatten)]
    pub redis: RedisArgs,
    /// Port of the API behind the pages in Argo CD's UI, for argocd-server alone; 0 turns it off.
    #[arg(long, value_parser = port, default_value = "0")]
    pub ui_api_port: u16,
    /// Sign certificates for clusters that joined with OCM's registration driver awsirsa: the hub is in EKS, and a cluster is
    /// the user of its name in the group open-cluster-management:NAME.
    #[arg(long, env = "ACCEPT_AWSIRSA", value_parser = boolean, num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true")]
    pub accept_awsirsa: bool,
    /// Value of the label cluster.open-cluster-management.io/backup on the objects that a restored hub needs, by which ACM's
    /// cluster backup saves them; without it they have no such label.
    #[arg(long, env = "BACKUP_LABEL", value_parser = label_value, default_value = "", hide_default_value = true)]
    pub backup_label: Optional<String>,
    /// Maximum lifetime of an agent's certificate.
    #[arg(long, value_parser = certificate_life, default_value = "720h")]
    pub certificate_life: Duration,
    /// Make an AppProject cluster-NAME for each managed cluster, which lets Applications of its namespace have
    /// namespaced objects on that cluster only.
    #[arg(long, action = clap::ArgAction::Set, value_parser = runtime::args::boolean, default_value = "false")]
    pub cluster_projects: bool,
    /// Lead only while holding the lease; `false` is for a single process outside of the cluster.
    #[arg(long, action = clap::ArgAction::Set, value_parser = boolean, default_value = "true")]
    pub leader_election: bool,
}

impl ManagerArgs {
    /// Name and UID of our Pod, if we run in one. A name alone may belong to any process.
    pub fn pod(&self) -> Option<(&str, &str)> {
        Some((self.pod_name.0.as_deref()?, self.pod_uid.0.as_deref()?))
    }
}

/// Flags of `uninstall`.
#[derive(Clone, Debug, Args)]
pub struct UninstallArgs {
    /// How to log.
    #[command(flatten)]
    pub log: LogArgs,
    /// How to reach the hub.
    #[command(flatten)]
    pub kube: KubeArgs,
    /// Namespace of the hub's Argo CD.
    #[arg(long, short = 'n', value_parser = namespace, default_value = "argocd")]
    pub namespace: String,
    /// How long to wait for the clusters.
    #[arg(long, value_parser = duration, default_value = "4m")]
    pub timeout: Duration,
}

/// Flags of `ready`.
#[derive(Clone, Debug, Args)]
pub struct ReadyArgs {
    /// How to log.
    #[command(flatten)]
    pub log: LogArgs,
    /// host:port of the health endpoints to ask.
    #[arg(long)]
    pub address: String,
    /// How long to wait.
    #[arg(long, value_parser = duration, default_value = "1m")]
    pub timeout: Duration,
}

/// Ordinary Applications do not fit into smaller messages.
const LEAST_MESSAGE: u64 = 64 << 10;
/// A shorter life would cause constant renewals: OCM's agent checks every few minutes.
const LEAST_LIFE: Duration = Duration::from_mins(10);

/// Variables of the Go principal for the flags in common; the small subcommands have the first ones.
const SHARED_ENV: [(&str, &str); 18] = [
    ("log_level", "ARGOCD_PRINCIPAL_LOG_LEVEL"),
    ("log_format", "ARGOCD_PRINCIPAL_LOG_FORMAT"),
    // Both Go programs use this name.
    ("kube_api_qps", "ARGOCD_AGENT_KUBE_QPS"),
    ("kube_api_burst", "ARGOCD_AGENT_KUBE_BURST"),
    ("namespace", "ARGOCD_PRINCIPAL_NAMESPACE"),
    ("healthz_port", "ARGOCD_PRINCIPAL_HEALTH_CHECK_PORT"),
    ("metrics_port", "ARGOCD_PRINCIPAL_METRICS_PORT"),
    ("listen_host", "ARGOCD_PRINCIPAL_LISTEN_HOST"),
    ("listen_port", "ARGOCD_PRINCIPAL_LISTEN_PORT"),
    ("allowed_namespaces", "ARGOCD_PRINCIPAL_ALLOWED_NAMESPACES"),
    (
        "resource_proxy_address",
        "ARGOCD_PRINCIPAL_RESOURCE_PROXY_ADDRESS",
    ),
    ("share_unscoped_repositories", "SHARE_UNSCOPED_REPOSITORIES"),
    ("enable_websocket", "ARGOCD_PRINCIPAL_ENABLE_WEBSOCKET"),
    ("trusted_proxy", "ARGOCD_PRINCIPAL_TRUSTED_PROXIES"),
    ("otlp_address", "ARGOCD_PRINCIPAL_OTLP_ADDRESS"),
    ("otlp_insecure", "ARGOCD_PRINCIPAL_OTLP_INSECURE"),
    ("otlp_ca_path", "ARGOCD_PRINCIPAL_OTLP_CA_PATH"),
    ("otlp_sample_ratio", "ARGOCD_PRINCIPAL_OTLP_SAMPLE_RATIO"),
];

/// The command line with its variables and the flags that are not supported yet.
pub fn command() -> Command {
    let [level, format, qps, burst, namespace, ..] = SHARED_ENV;
    let uninstall = [level, format, qps, burst, namespace];
    let command = with_env(Cli::command(), &SHARED_ENV)
        .mut_subcommand("uninstall", |it| with_env(it, &uninstall))
        .mut_subcommand("ready", |it| with_env(it, &[level, format]));
    command.mut_subcommand("principal", |principal| {
        unsupported::add(with_env(with_env(principal, &SHARED_ENV), &principal::ENV))
    })
}

/// The parsed command line, and its flags without an effect.
#[derive(Debug)]
pub struct Parsed {
    /// The arguments.
    pub cli: Cli,
    /// Flags that were given and have no effect yet, for the log.
    pub without_effect: Vec<&'static str>,
}

/// Parses a command line.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Parsed, clap::Error> {
    let mut command = command();
    let matches = command.try_get_matches_from_mut(arguments)?;
    let without_effect = match matches.subcommand_matches("principal") {
        Some(matches) => unsupported::check(matches)
            .map_err(|message| command.error(clap::error::ErrorKind::ValueValidation, message))?,
        None => Vec::new(),
    };
    Ok(Parsed {
        cli: Cli::from_arg_matches(&matches)?,
        without_effect,
    })
}

impl SharedArgs {
    /// The address of a port of the principal.
    pub const fn listen(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.listen_host, port)
    }
}

fn host(text: &str) -> Result<IpAddr, String> {
    let host = Some(text).filter(|text| !text.is_empty());
    let parsed = host.map_or(Ok(net::ALL), str::parse);
    parsed.map_err(|error| error.to_string())
}

fn namespace(text: &str) -> Result<String, String> {
    let name = is_dns_label(text).then(|| text.to_owned());
    name.ok_or_else(|| format!("{text:?} is not the name of a namespace"))
}

/// The value of a label; none if it is empty.
fn label_value(text: &str) -> Result<Optional<String>, String> {
    if !is_label_value(text) {
        return Err(format!("{text:?} is not the value of a label"));
    }
    Ok(Optional(
        Some(text.to_owned()).filter(|text| !text.is_empty()),
    ))
}

/// Refuses names that agents' certificates could have: such an agent could impersonate others.
fn proxy_name(text: &str) -> Result<String, String> {
    let name = text.trim();
    if name.starts_with("system:") || name.len() > 64 {
        return Err(format!("{name:?} cannot be a common name"));
    }
    Ok(name.to_owned())
}

fn certificate_life(text: &str) -> Result<Duration, String> {
    let life = Some(duration(text)?).filter(|life| *life >= LEAST_LIFE);
    life.ok_or_else(|| "must be 10m or more".to_owned())
}

#[cfg(test)]
mod tests;
