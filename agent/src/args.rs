//! The flags and environment variables of the Go agent.
//!
//! A flag overrides its variable, which overrides the default, as in Go. This agent accepts unsupported settings
//! where ignoring them is harmless; [`crate::config`] logs or rejects them.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as Group, CommandFactory as _, FromArgMatches as _, Parser};
use runtime::args::{AdminArgs, KubeArgs, LogArgs, OtlpArgs, boolean, duration, port, with_env};

pub use redis::RedisArgs;
pub use unsupported::LaterArgs;

/// Keeps the Argo CD of this cluster as the hub wants it.
#[derive(Debug, Clone, Parser)]
#[command(name = "agent", version)]
pub struct Args {
    /// The principal's address, and the settings of connections to it.
    #[command(flatten)]
    pub hub: HubArgs,
    /// Certificates.
    #[command(flatten)]
    pub tls: TlsArgs,
    /// The objects that the agent handles.
    #[command(flatten)]
    pub scope: ScopeArgs,
    /// How the agent resolves conflicts.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// The rights of users of the hub.
    #[command(flatten)]
    pub ui: UiArgs,
    /// The redis of Argo CD.
    #[command(flatten)]
    pub redis: RedisArgs,
    /// Accepted, but not supported yet.
    #[command(flatten)]
    pub later: LaterArgs,
    /// Logs.
    #[command(flatten)]
    pub log: LogArgs,
    /// Health and metrics.
    #[command(flatten)]
    pub admin: AdminArgs,
    /// Traces.
    #[command(flatten)]
    pub otlp: OtlpArgs,
    /// The spoke's API.
    #[command(flatten)]
    pub kube: KubeArgs,
}

/// The principal's address, and the settings of connections to it.
#[derive(Debug, Clone, Group)]
pub struct HubArgs {
    /// Host name or address of the principal.
    #[arg(long, env = "ARGOCD_AGENT_REMOTE_SERVER", default_value = "")]
    pub server_address: String,
    /// Port of the principal.
    #[arg(long, env = "ARGOCD_AGENT_REMOTE_PORT", value_parser = port, default_value = "443")]
    pub server_port: u16,
    /// Who owns the specs: managed (the hub) or autonomous (this cluster).
    #[arg(long, env = "ARGOCD_AGENT_MODE", default_value = "autonomous")]
    pub agent_mode: String,
    /// How to authenticate: `mtls:any`, `userpass:<file>`, or `header:` behind a mesh.
    #[arg(long, env = "ARGOCD_AGENT_CREDS", default_value = "mtls:any")]
    pub creds: String,
    /// Pause between heartbeats; 0 sends none.
    #[arg(long, env = "ARGOCD_AGENT_HEARTBEAT_INTERVAL", value_parser = duration, default_value = "10s")]
    pub heartbeat_interval: Duration,
    /// Pause between HTTP/2 pings; 0 sends none.
    #[arg(long, env = "ARGOCD_AGENT_KEEP_ALIVE_PING_INTERVAL", value_parser = duration, default_value = "0")]
    pub keep_alive_ping_interval: Duration,
    /// Largest message in bytes.
    #[arg(
        long,
        env = "ARGOCD_AGENT_GRPC_MAX_MESSAGE_SIZE",
        default_value_t = 209_715_200
    )]
    pub grpc_max_message_size: usize,
    /// Compress messages with gzip, in both directions.
    #[arg(long, env = "ARGOCD_AGENT_ENABLE_COMPRESSION", value_parser = boolean, num_args = 0..=1,
          require_equals = true, default_value = "false", default_missing_value = "true")]
    pub enable_compression: bool,
    /// Use `WebSocket`s over HTTP/1.1 only; otherwise they are the fallback if HTTP/2 is blocked.
    #[arg(long, env = "ARGOCD_AGENT_ENABLE_WEBSOCKET", value_parser = boolean, num_args = 0..=1,
          require_equals = true, default_value = "false", default_missing_value = "true")]
    pub enable_websocket: bool,
    /// Connect without TLS, where a mesh does it. Needs `--creds=header:` or `userpass:<file>`.
    #[arg(long, env = "ARGOCD_AGENT_INSECURE_PLAINTEXT", value_parser = boolean, num_args = 0..=1,
          require_equals = true, default_value = "false", default_missing_value = "true")]
    pub insecure_plaintext: bool,
    /// The forward proxy.
    #[command(flatten)]
    pub proxy: ProxyArgs,
}

/// The forward proxy to the principal.
#[derive(Debug, Clone, Group)]
pub struct ProxyArgs {
    /// URL of the proxy, `http://` or `https://`, with user and password if it needs them.
    #[arg(long, env = "HTTPS_PROXY", default_value = "", hide_env_values = true)]
    pub https_proxy: ProxyUrl,
    /// Hosts to connect to without the proxy: names with their subdomains, addresses, networks; `*` for all.
    #[arg(long, env = "NO_PROXY", default_value = "")]
    pub no_proxy: String,
    /// File with the certificates to trust for an `https://` proxy.
    #[arg(long, env = "CA_BUNDLE_FILE_PATH")]
    pub proxy_ca_path: Option<PathBuf>,
}

/// A URL that may have a password in it. Cannot be printed.
#[derive(Clone, Default, derive_more::Debug)]
#[debug("***")]
pub struct ProxyUrl(pub(crate) String);

impl From<&str> for ProxyUrl {
    fn from(url: &str) -> Self {
        Self(url.to_owned())
    }
}

/// Certificates: from files where a path is given, else from Secrets.
#[derive(Debug, Clone, Group)]
pub struct TlsArgs {
    /// Secret with the certificates to trust; all its fields count.
    #[arg(
        long,
        env = "ARGOCD_AGENT_TLS_ROOT_CA_SECRET_NAME",
        default_value = "argocd-agent-ca"
    )]
    pub root_ca_secret_name: String,
    /// File with the certificates to trust.
    #[arg(long, env = "ARGOCD_AGENT_TLS_ROOT_CA_PATH")]
    pub root_ca_path: Option<PathBuf>,
    /// Secret with the client certificate.
    #[arg(
        long,
        env = "ARGOCD_AGENT_TLS_SECRET_NAME",
        default_value = "argocd-agent-client-tls"
    )]
    pub tls_secret_name: String,
    /// File with the client certificate.
    #[arg(long, env = "ARGOCD_AGENT_TLS_CLIENT_CERT_PATH")]
    pub tls_client_cert: Option<PathBuf>,
    /// File with the key of the client certificate.
    #[arg(long, env = "ARGOCD_AGENT_TLS_CLIENT_KEY_PATH")]
    pub tls_client_key: Option<PathBuf>,
}

/// The objects that the agent handles.
#[derive(Debug, Clone, Group)]
pub struct ScopeArgs {
    /// Namespace of Argo CD on this cluster.
    #[arg(long, short, env = "ARGOCD_AGENT_NAMESPACE", default_value = "argocd")]
    pub namespace: String,
    /// Keep the namespace that an Application has on the hub.
    #[arg(long, env = "ARGOCD_AGENT_DESTINATION_BASED_MAPPING", value_parser = boolean, num_args = 0..=1,
          require_equals = true, default_value = "false", default_missing_value = "true")]
    pub destination_based_mapping: bool,
    /// Further namespaces that may hold Applications: names, globs, or `/regular expressions/`.
    #[arg(long, env = "ARGOCD_AGENT_ALLOWED_NAMESPACES", value_delimiter = ',')]
    pub allowed_namespaces: Vec<String>,
    /// Create missing namespaces of Applications.
    #[arg(long, env = "ARGOCD_AGENT_CREATE_NAMESPACE", value_parser = boolean, num_args = 0..=1,
          require_equals = true, default_value = "false", default_missing_value = "true")]
    pub create_namespace: bool,
    /// Only objects with these labels.
    #[arg(long, env = "ARGOCD_AGENT_LABEL_SELECTOR", default_value = "")]
    pub label_selector: String,
}

/// How the agent resolves conflicts.
#[derive(Debug, Clone, Group)]
pub struct PolicyArgs {
    /// When an object here came from another object of the hub: upsert (take it over) or recreate.
    #[arg(
        long,
        env = "ARGOCD_AGENT_SOURCE_UID_MISMATCH_POLICY",
        default_value = "upsert"
    )]
    pub source_uid_mismatch_policy: String,
    /// When an object here did not come from the hub: always (take it over) or never.
    #[arg(long, env = "ARGOCD_AGENT_ADOPTION_POLICY", default_value = "always")]
    pub adoption_policy: String,
    /// When an Application was deleted here: ignore, clear-status or resync.
    #[arg(
        long,
        env = "ARGOCD_AGENT_ON_APPLICATION_RECREATE",
        default_value = "ignore"
    )]
    pub on_application_recreate: String,
}

/// The rights of users of the hub on this cluster.
#[derive(Debug, Clone, Group)]
pub struct UiArgs {
    /// Answer live requests; false is the same as `--ui-access=none`.
    #[arg(long, env = "ARGOCD_AGENT_ENABLE_RESOURCE_PROXY", value_parser = boolean, num_args = 0..=1,
          require_equals = true, default_value = "true", default_missing_value = "true")]
    pub enable_resource_proxy: bool,
    /// The rights of users of the hub's Argo CD on this cluster: none, applications, read, operate or terminal.
    #[arg(long, env = "ARGOCD_AGENT_UI_ACCESS", default_value = "read")]
    pub ui_access: String,
    /// User that live requests impersonate; without it they use the agent's own identity.
    #[arg(long, env = "ARGOCD_AGENT_UI_USER", default_value = "")]
    pub ui_user: String,
    /// Report to the hub whether an Argo CD runs in its namespace or another one, whether the add-on installed it, and why
    /// it is unhealthy. Needs `list` and `watch` on Deployments and `StatefulSets` there.
    #[arg(long, env = "ARGOCD_AGENT_REPORT_ARGOCD", value_parser = boolean, num_args = 0..=1,
          require_equals = true, default_value = "false", default_missing_value = "true")]
    pub report_argocd: bool,
}

/// Environment variables of the flags that the agent shares with the hub program.
const SHARED_ENV: &[(&str, &str)] = &[
    ("kube_api_qps", "ARGOCD_AGENT_KUBE_QPS"),
    ("kube_api_burst", "ARGOCD_AGENT_KUBE_BURST"),
    ("log_level", "ARGOCD_AGENT_LOG_LEVEL"),
    ("log_format", "ARGOCD_AGENT_LOG_FORMAT"),
    ("healthz_port", "ARGOCD_AGENT_HEALTH_CHECK_PORT"),
    ("metrics_port", "ARGOCD_AGENT_METRICS_PORT"),
    ("otlp_address", "ARGOCD_AGENT_OTLP_ADDRESS"),
    ("otlp_insecure", "ARGOCD_AGENT_OTLP_INSECURE"),
    ("otlp_ca_path", "ARGOCD_AGENT_OTLP_CA_PATH"),
    ("otlp_sample_ratio", "ARGOCD_AGENT_OTLP_SAMPLE_RATIO"),
];

/// Reads the command line and the environment; ends the process with a message if they are invalid.
pub fn parse() -> Args {
    let matches = command().get_matches();
    Args::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

fn command() -> clap::Command {
    let command = with_env(Args::command(), SHARED_ENV);
    // The admin flags are shared with the hub's program, whose ports differ.
    command
        .mut_arg("healthz_port", |arg| arg.default_value("8002"))
        .mut_arg("metrics_port", |arg| arg.default_value("8181"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The arguments of a test, after the program's name.
    pub(crate) fn parsed(args: &[&str]) -> Args {
        let line = std::iter::once("agent").chain(args.iter().copied());
        let matches = command().try_get_matches_from(line).unwrap();
        Args::from_arg_matches(&matches).unwrap()
    }

    #[test]
    fn every_variable_belongs_to_a_flag_and_every_flag_is_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn the_flags_of_the_go_agent_are_understood() {
        let args = parsed(&[
            "--server-address=hub.example",
            "--server-port=8443",
            "--agent-mode=managed",
            "--creds=mtls:any",
            "-n",
            "argo",
            "--destination-based-mapping",
            "--allowed-namespaces=a,b-*",
            "--keep-alive-ping-interval=50s",
            "--enable-resource-proxy=false",
            "--redis-addr=redis:6379",
            "--healthz-port=8001",
        ]);
        assert_eq!(args.hub.server_port, 8443);
        assert_eq!(args.scope.namespace, "argo");
        assert!(args.scope.destination_based_mapping);
        assert_eq!(args.scope.allowed_namespaces, ["a", "b-*"]);
        assert_eq!(args.hub.keep_alive_ping_interval, Duration::from_secs(50));
        assert!(!args.ui.enable_resource_proxy);
        assert_eq!(args.admin.healthz_port, 8001);
    }

    #[test]
    fn the_ports_are_those_of_a_spoke() {
        let args = parsed(&[]);
        assert_eq!(
            (args.admin.healthz_port, args.admin.metrics_port),
            (8002, 8181)
        );
    }
}
mod redis;
mod unsupported;
