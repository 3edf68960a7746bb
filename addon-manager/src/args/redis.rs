//! Flags of the redis proxy.

use std::path::PathBuf;

use clap::Args;
use runtime::{
    args::{boolean, port},
    credentials::login::Password,
};

use super::Optional;
use crate::{
    addon::settings::redis::{self, RedisTls},
    address::Address,
};

/// Flags of the redis proxy, which Argo CD on the hub uses as its redis.
#[derive(Clone, Debug, Args)]
pub struct RedisArgs {
    /// Port of the redis proxy, by which Argo CD on the hub sees the resource trees of the clusters' Applications; 0
    /// turns it off.
    #[arg(long, value_parser = port, default_value = "0")]
    pub redis_proxy_port: u16,
    /// Use TLS there, with the certificate of the resource proxy.
    #[arg(long, value_parser = boolean, num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true")]
    pub redis_proxy_tls: bool,
    /// Limits of its values.
    #[command(flatten)]
    pub values: RedisValuesArgs,
    /// host:port of the hub's own redis; without it the hub program looks for the Service beside Argo CD.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub redis_address: Optional<Address>,
    /// Secret beside Argo CD with the password of the hub's redis; without it that of the installation of Argo CD.
    #[arg(long, value_parser = secret, default_value = "", hide_default_value = true)]
    pub redis_secret: Optional<String>,
    /// Key of the password in that Secret; without it `auth`.
    #[arg(long, value_parser = key, default_value = "", hide_default_value = true)]
    pub redis_secret_key: Optional<String>,
    /// User of the hub's redis; without it that in the Secret, if there is one.
    #[arg(long, value_parser = user, default_value = "", hide_default_value = true)]
    pub redis_username: Optional<String>,
    /// TLS to the hub's redis: `Secret/NAME` or `ConfigMap/NAME` beside Argo CD has the certificates to trust.
    #[arg(long, value_parser = tls, default_value = "none")]
    pub redis_tls: RedisTls,
}

fn secret(text: &str) -> Result<Optional<String>, &'static str> {
    optional(text, redis::object, "the name of a Secret")
}

fn key(text: &str) -> Result<Optional<String>, &'static str> {
    optional(text, redis::key, "a key of a Secret")
}

fn user(text: &str) -> Result<Optional<String>, &'static str> {
    optional(text, redis::user, "a user name without spaces")
}

fn tls(text: &str) -> Result<RedisTls, &'static str> {
    let wanted = "set none, Secret/NAME or ConfigMap/NAME";
    Some(text)
        .filter(|it| !it.is_empty())
        .map_or(Ok(RedisTls::Off), |it| redis::tls(it).ok_or(wanted))
}

/// Nothing, or what `parse` accepts.
fn optional(
    text: &str,
    parse: fn(&str) -> Option<String>,
    wanted: &'static str,
) -> Result<Optional<String>, &'static str> {
    let given = Some(text).filter(|text| !text.is_empty());
    let parsed = given.map(|it| parse(it).ok_or(wanted)).transpose();
    parsed.map(Optional)
}

/// Limits of the values that the redis proxy transfers and caches.
#[derive(Clone, Debug, Args)]
pub struct RedisValuesArgs {
    /// Largest value from a cluster, in bytes.
    #[arg(long, default_value_t = 64 << 20)]
    pub redis_proxy_max_value: u64,
    /// Bytes of last known values to cache for disconnected clusters; 0 caches none.
    #[arg(long, default_value_t = 64 << 20)]
    pub redis_proxy_remember: usize,
}

/// Flags of the redis proxy of a principal alone, which are those of the Go principal.
#[derive(Clone, Debug, Args)]
pub struct RedisAloneArgs {
    /// Serve no redis proxy.
    #[arg(long, env = "ARGOCD_PRINCIPAL_DISABLE_REDIS_PROXY", value_parser = boolean,
          num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub disable_redis_proxy: bool,
    /// Port of the redis proxy; 0 turns it off.
    #[arg(long, value_parser = port, default_value = "6379")]
    pub redis_proxy_port: u16,
    /// Limits of its values.
    #[command(flatten)]
    pub values: RedisValuesArgs,
    /// host:port of the hub's own redis.
    #[arg(
        long,
        env = "ARGOCD_PRINCIPAL_REDIS_SERVER_ADDRESS",
        default_value = "argocd-redis:6379"
    )]
    pub redis_server_address: Address,
    /// Password of the hub's redis; without it that in the Secret argocd-redis.
    #[arg(long, env = "REDIS_PASSWORD", hide_env_values = true)]
    pub redis_password: Option<Password>,
    /// Folder with the password in the file auth, and the user in `auth_username` if there is one; goes before the
    /// password.
    #[arg(long, env = "REDIS_CREDS_DIR_PATH")]
    pub redis_creds_dir_path: Option<PathBuf>,
    /// Use TLS to the hub's redis and with clients of the redis proxy.
    #[arg(long, env = "ARGOCD_PRINCIPAL_REDIS_TLS_ENABLED", value_parser = boolean,
          num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub redis_tls_enabled: bool,
    /// Secret with the CA of the hub's redis, in ca.crt.
    #[arg(
        long,
        env = "ARGOCD_PRINCIPAL_REDIS_CA_SECRET_NAME",
        default_value = "argocd-redis-tls"
    )]
    pub redis_ca_secret_name: String,
    /// File with that CA, instead of the Secret.
    #[arg(long, env = "ARGOCD_PRINCIPAL_REDIS_CA_PATH")]
    pub redis_ca_path: Option<PathBuf>,
    /// Secret with the serving certificate of the redis proxy.
    #[arg(
        long,
        env = "ARGOCD_PRINCIPAL_REDIS_PROXY_SERVER_TLS_SECRET_NAME",
        default_value = "argocd-redis-proxy-tls"
    )]
    pub redis_proxy_server_tls_secret_name: String,
    /// File with the serving certificate of the redis proxy, instead of the Secret.
    #[arg(long, env = "ARGOCD_PRINCIPAL_REDIS_PROXY_SERVER_TLS_CERT_PATH")]
    pub redis_proxy_server_tls_cert: Option<PathBuf>,
    /// File with its key.
    #[arg(long, env = "ARGOCD_PRINCIPAL_REDIS_PROXY_SERVER_TLS_KEY_PATH")]
    pub redis_proxy_server_tls_key: Option<PathBuf>,
}
