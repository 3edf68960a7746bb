//! Flags of the redis proxy.

use clap::Args;
use runtime::args::{boolean, port};

/// What Argo CD on the hub takes for its redis.
#[derive(Clone, Debug, Args)]
pub struct RedisArgs {
    /// Port of the redis proxy, by which Argo CD on the hub sees the resource trees of the clusters' Applications; 0
    /// turns it off.
    #[arg(long, value_parser = port, default_value = "0")]
    pub redis_proxy_port: u16,
    /// Speak TLS there, with the certificate of the resource proxy.
    #[arg(long, value_parser = boolean, num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true")]
    pub redis_proxy_tls: bool,
    /// Largest value that is carried from a cluster, in bytes.
    #[arg(long, default_value_t = 64 << 20)]
    pub redis_proxy_max_value: u64,
    /// Bytes of last known values that are kept for when their clusters are away; 0 keeps none.
    #[arg(long, default_value_t = 64 << 20)]
    pub redis_proxy_remember: usize,
    /// host:port of the hub's own redis; without it port 6379 of the Service argocd-redis beside Argo CD.
    #[arg(long)]
    pub redis_address: Option<String>,
}
