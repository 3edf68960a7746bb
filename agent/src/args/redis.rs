//! Flags of Argo CD's redis on this cluster.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args as Group;
use runtime::args::{boolean, duration};
use runtime::credentials::login::Password;

/// The redis of Argo CD, from which users of the hub see resource trees.
#[derive(Debug, Clone, Group)]
pub struct RedisArgs {
    /// host:port of redis; without it the agent looks for its Service beside Argo CD, which needs `list` on Services
    /// there, and uses argocd-redis:6379 if it finds none.
    #[arg(long, env = "REDIS_ADDR", default_value = "")]
    pub redis_addr: String,
    /// User of redis; without it that in the Secret or folder, if there is one.
    #[arg(long, env = "REDIS_USERNAME", default_value = "")]
    pub redis_username: String,
    /// Password of redis; without it that in a Secret.
    #[arg(long, env = "REDIS_PASSWORD", hide_env_values = true)]
    pub redis_password: Option<Password>,
    /// Folder with the password in the file auth, and the user in `auth_username` if there is one; goes before the
    /// password.
    #[arg(long, env = "REDIS_CREDS_DIR_PATH")]
    pub redis_creds_dir_path: Option<PathBuf>,
    /// Secret beside Argo CD with the password; without it that of the installation: argocd-redis, or that of an operator.
    #[arg(long, env = "ARGOCD_AGENT_REDIS_SECRET_NAME", default_value = "")]
    pub redis_secret_name: String,
    /// Key of the password in that Secret.
    #[arg(long, env = "ARGOCD_AGENT_REDIS_SECRET_KEY", default_value = "auth")]
    pub redis_secret_key: String,
    /// Connect to redis with TLS.
    #[arg(long, env = "ARGOCD_AGENT_REDIS_TLS_ENABLED", value_parser = boolean, num_args = 0..=1,
          require_equals = true, default_value = "false", default_missing_value = "true")]
    pub redis_tls_enabled: bool,
    /// File with the certificates to trust for redis; goes before `ConfigMap` and Secret.
    #[arg(long, env = "ARGOCD_AGENT_REDIS_TLS_CA_PATH")]
    pub redis_tls_ca_path: Option<PathBuf>,
    /// `ConfigMap` beside Argo CD with the certificates to trust for redis, in any keys; goes before the Secret.
    #[arg(
        long,
        env = "ARGOCD_AGENT_REDIS_TLS_CA_CONFIGMAP_NAME",
        default_value = ""
    )]
    pub redis_tls_ca_configmap_name: String,
    /// Secret beside Argo CD with the certificates to trust for redis, in ca.crt or tls.crt.
    #[arg(
        long,
        env = "ARGOCD_AGENT_REDIS_TLS_CA_SECRET_NAME",
        default_value = "argocd-redis-tls"
    )]
    pub redis_tls_ca_secret_name: String,
    /// Pause between reads of Argo CD's statistics of this cluster, for the hub's page of clusters.
    #[arg(long, env = "ARGOCD_AGENT_CACHE_REFRESH_INTERVAL", value_parser = duration, default_value = "10s")]
    pub cache_refresh_interval: Duration,
}
