//! Checked settings of the redis proxy.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

use principal::RedisProxy;
use runtime::credentials::login::Login;

use super::{Error, TlsEndpoint, checked_address, given, standalone};
use crate::args::{RedisAloneArgs, RedisArgs, RedisValuesArgs};

/// The credentials for the hub's redis and for clients of the redis proxy, of a principal alone.
#[derive(Clone, Debug)]
pub struct RedisTlsEndpoint {
    /// The login of the hub's redis and of the redis proxy.
    pub login: LoginSource,
    /// The serving certificate of the redis proxy and the CA of the hub's redis, if TLS is enabled.
    pub tls: Option<TlsEndpoint>,
}

/// The source of a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginSource {
    /// Argo CD's own Secret.
    ArgoCd,
    /// Files in a folder.
    Folder(PathBuf),
    /// The command line, or a variable.
    Given(Login),
}

/// Checks the redis proxy on this address, if it is enabled, in front of the redis of the Argo CD in this namespace.
pub(super) fn checked(
    args: RedisArgs,
    host: IpAddr,
    argocd_namespace: &str,
) -> Result<Option<RedisProxy>, Error> {
    let RedisArgs {
        redis_proxy_port,
        redis_proxy_tls,
        values,
        redis_address,
    } = args;
    let server = match redis_address.filter(|text| !text.is_empty()) {
        Some(given) => checked_address("--redis-address", &given)?.to_string(),
        None => format!("argocd-redis.{argocd_namespace}.svc:6379"),
    };
    let listen = SocketAddr::new(host, redis_proxy_port);
    Ok((redis_proxy_port != 0).then(|| proxy(listen, redis_proxy_tls, server, &values)))
}

/// Checks the redis proxy of a principal alone.
pub(super) fn checked_alone(
    args: RedisAloneArgs,
    host: IpAddr,
) -> Result<Option<(RedisProxy, RedisTlsEndpoint)>, Error> {
    let RedisAloneArgs {
        disable_redis_proxy,
        redis_proxy_port,
        values,
        redis_server_address,
        redis_password,
        redis_creds_dir_path,
        redis_tls_enabled,
        redis_ca_secret_name,
        redis_ca_path,
        redis_proxy_server_tls_secret_name,
        redis_proxy_server_tls_cert,
        redis_proxy_server_tls_key,
    } = args;
    let server = checked_address("--redis-server-address", &redis_server_address)?.to_string();
    let files = [
        ("--redis-proxy-server-tls-cert", redis_proxy_server_tls_cert),
        ("--redis-proxy-server-tls-key", redis_proxy_server_tls_key),
    ];
    let ca = standalone::or_secret(redis_ca_path, redis_ca_secret_name);
    let tls = standalone::endpoint(files, redis_proxy_server_tls_secret_name, ca)?;
    let login = match (
        given(redis_creds_dir_path),
        redis_password.and_then(Login::of),
    ) {
        (Some(folder), _) => LoginSource::Folder(folder),
        (None, Some(login)) => LoginSource::Given(login),
        (None, None) => LoginSource::ArgoCd,
    };
    if disable_redis_proxy || redis_proxy_port == 0 {
        return Ok(None);
    }
    let listen = SocketAddr::new(host, redis_proxy_port);
    let endpoint = RedisTlsEndpoint {
        login,
        tls: redis_tls_enabled.then_some(tls),
    };
    Ok(Some((
        proxy(listen, redis_tls_enabled, server, &values),
        endpoint,
    )))
}

const fn proxy(
    listen: SocketAddr,
    tls: bool,
    server: String,
    values: &RedisValuesArgs,
) -> RedisProxy {
    RedisProxy {
        listen,
        tls,
        server,
        largest_value: values.redis_proxy_max_value,
        remembered: values.redis_proxy_remember,
    }
}
