//! Flags of the Go agent that this agent does not support yet.

use std::time::Duration;

use clap::Args as Group;
use runtime::args::{boolean, duration, port};

/// Accepted so that manifests of the Go agent work. [`crate::config`] rejects some of them.
#[derive(Debug, Clone, Group)]
#[command(next_help_heading = "Not supported yet")]
pub struct LaterArgs {
    /// Do not check the principal's certificate.
    #[arg(long, env = "ARGOCD_AGENT_TLS_INSECURE", value_parser = boolean, num_args = 0..=1,
          require_equals = true, default_value = "false", default_missing_value = "true")]
    pub insecure_tls: bool,
    /// Lowest TLS version; always 1.3.
    #[arg(long, env = "ARGOCD_AGENT_TLS_MIN_VERSION", default_value = "")]
    pub tls_min_version: String,
    /// Highest TLS version; always 1.3.
    #[arg(long, env = "ARGOCD_AGENT_TLS_MAX_VERSION", default_value = "")]
    pub tls_max_version: String,
    /// Cipher suites; TLS 1.3 has its own.
    #[arg(long, env = "ARGOCD_AGENT_TLS_CIPHERSUITES", value_delimiter = ',')]
    pub tls_ciphersuites: Vec<String>,
    /// Leave Applications alone that are not from the hub.
    #[arg(long, env = "ARGOCD_AGENT_IGNORE_UNMANAGED_APPS", value_parser = boolean, num_args = 0..=1,
          require_equals = true, default_value = "false", default_missing_value = "true")]
    pub ignore_unmanaged_apps: bool,
    /// Do not check the certificate of redis; this agent always checks it.
    #[arg(long, env = "ARGOCD_AGENT_REDIS_TLS_INSECURE", value_parser = boolean, num_args = 0..=1,
          require_equals = true, default_value = "false", default_missing_value = "true")]
    pub redis_tls_insecure: bool,
    /// Longest wait for the first list; this agent waits as long as it takes.
    #[arg(long, env = "ARGOCD_AGENT_INFORMER_SYNC_TIMEOUT", value_parser = duration, default_value = "10s")]
    pub informer_sync_timeout: Duration,
    /// Pause between reports of one object; this agent coalesces reports while one is in flight.
    #[arg(long, env = "ARGOCD_AGENT_BUFFER_INFORMER_EVENT_INTERVAL", value_parser = duration, default_value = "0")]
    pub buffer_informer_event_interval: Duration,
    /// Received events that may wait, in Go; this agent keeps the newest state of each object.
    #[arg(long, env = "ARGOCD_AGENT_RECV_QUEUE_SIZE", default_value = "")]
    pub recv_queue_size: String,
    /// Events to send that may wait, in Go; as above.
    #[arg(long, env = "ARGOCD_AGENT_SEND_QUEUE_SIZE", default_value = "")]
    pub send_queue_size: String,
    /// Socket of SPIRE's agent, for certificates from its Workload API.
    #[arg(long, env = "ARGOCD_AGENT_SPIRE_AGENT_SOCKET", default_value = "")]
    pub spire_agent_socket: String,
    /// Credentials from SPIRE that authenticate the agent.
    #[arg(long, env = "ARGOCD_AGENT_SPIRE_AUTH_METHOD", default_value = "")]
    pub spire_auth_method: String,
    /// Port of Go's profiler.
    #[arg(long, env = "ARGOCD_AGENT_PPROF_PORT", value_parser = port, default_value = "0")]
    pub pprof_port: u16,
    /// Log whole objects.
    #[arg(long, env = "ARGOCD_AGENT_FULL_DETAIL", value_delimiter = ',')]
    pub full_detail: Vec<String>,
}
